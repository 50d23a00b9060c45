//! Address of a source of manifests.

use std::path::{Path, PathBuf};

/// Schemes of git repositories, each with the protocol that git may use.
const SCHEMES: [(&str, &str); 3] = [("git+https://", "https"), ("git+ssh://", "ssh"), ("git+file://", "file")];

/// Source of manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PullSource {
    /// A git repository.
    Git {
        /// Address for git.
        url: String,
        /// The only protocol that git may use.
        protocol: &'static str,
    },
    /// A directory with a file of digests.
    Directory(PathBuf),
}

impl PullSource {
    /// Parses a source.
    ///
    /// # Errors
    /// One line with the problem, and a remedy.
    pub(super) fn parse(text: &str) -> Result<PullSource, (String, &'static str)> {
        let forms = "a source is git+https://HOST/PATH, git+ssh://HOST/PATH, git+file:///PATH or a directory";
        if text.is_empty() || text.contains(char::is_control) {
            return Err((format!("{text:?} is no source of manifests"), forms));
        }
        for (prefix, protocol) in SCHEMES {
            if let Some(rest) = text.strip_prefix(prefix) {
                git(text, protocol, rest)?;
                return Ok(PullSource::Git { url: format!("{protocol}://{rest}"), protocol });
            }
        }
        let is_word = |scheme: &str| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        let is_url = text.contains("::") || text.split_once("://").is_some_and(|(scheme, _)| is_word(scheme));
        let is_scp = text.split_once(':').is_some_and(|(host, _)| host.contains('@') && !host.contains('/'));
        if is_url || is_scp || text.starts_with('-') {
            return Err((format!("`{text}` is no source of manifests"), forms));
        }
        let path = Path::new(text);
        if path.join(".git").exists() {
            let shown = path.display();
            return Err((format!("{shown} is a git repository"), "write git+file:// and its absolute path"));
        }
        std::path::absolute(path)
            .map(PullSource::Directory)
            .map_err(|error| (format!("cannot use the source `{text}`: {error}"), forms))
    }
}

/// Checks the address of a git repository, after its scheme.
fn git(text: &str, protocol: &str, rest: &str) -> Result<(), (String, &'static str)> {
    if rest.contains(char::is_whitespace) {
        return Err((format!("`{text}` contains a space"), "write it as %20"));
    }
    let Some(slash) = rest.find('/') else {
        return Err((format!("`{text}` has no path"), "write the path of the repository after the host"));
    };
    let (authority, path) = rest.split_at(slash);
    if path.len() < 2 {
        return Err((format!("`{text}` has no path"), "write the path of the repository after the host"));
    }
    if protocol == "file" {
        return match authority.is_empty() {
            true => Ok(()),
            false => {
                Err((format!("`{text}` has a host"), "write git+file:/// with three slashes, and an absolute path"))
            }
        };
    }
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    // The text of a secret must not be repeated.
    match (protocol, user) {
        ("https", Some(_)) => {
            return Err((
                format!("the URL of {host} contains a user or a password, which other users could read"),
                "remove it, and store it with git's credential helper: git help credentials",
            ));
        }
        (_, Some(user)) if user.contains(':') => {
            return Err((
                format!("the URL of {host} contains a password, which other users could read"),
                "remove it, and install a key of ssh (~/.ssh/config)",
            ));
        }
        _ => {}
    }
    let is_plain = |word: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:[]".contains(&byte);
        !word.is_empty() && !word.starts_with('-') && word.bytes().all(is_plain)
    };
    if !is_plain(host) || user.is_some_and(|user| !is_plain(user)) {
        return Err((format!("`{text}` has no valid host"), "a host is a name or an address, with an optional port"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_have_four_forms() {
        for (text, url, protocol) in [
            ("git+https://git.example.com/site.git", "https://git.example.com/site.git", "https"),
            ("git+ssh://git@h:2222/srv/site", "ssh://git@h:2222/srv/site", "ssh"),
            ("git+ssh://[::1]/site", "ssh://[::1]/site", "ssh"),
            ("git+file:///srv/site", "file:///srv/site", "file"),
        ] {
            assert_eq!(PullSource::parse(text), Ok(PullSource::Git { url: url.into(), protocol }), "{text}");
        }
        assert_eq!(PullSource::parse("/srv/site"), Ok(PullSource::Directory("/srv/site".into())));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "a\nb",
            "--upload-pack=x",
            "-c",
            "ext::sh -c id",
            "git+ext::sh",
            "git+http://h/p",
            "http://h/p",
            "https://h/p",
            "git@h:site.git",
            "git+https://h",
            "git+https://h/",
            "git+https:///p",
            "git+file://h/p",
            "git+file://p",
            "git+ssh://-oProxyCommand=x/p",
            "git+ssh://-l@h/p",
            "git+ssh://%2doProxyCommand/p",
            "git+ssh://h/a b",
            "fd::3",
            "git+ssh://a b@h/p",
        ] {
            assert!(PullSource::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn password_is_refused_and_not_repeated() {
        for text in ["git+https://u:s3cret@h/p", "git+https://s3cret@h/p", "git+ssh://u:s3cret@h/p"] {
            let (why, remedy) = PullSource::parse(text).unwrap_err();
            assert!(why.contains("password") && !why.contains("s3cret") && remedy.starts_with("remove it"), "{why}");
        }
    }
}
