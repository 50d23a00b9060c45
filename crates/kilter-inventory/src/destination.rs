//! Destinations written as one text: `web1`, `ops@web1`, `ssh://ops@10.0.0.7:2222`, `podman://web`.

use std::net::Ipv6Addr;
use std::path::PathBuf;

use ecow::{EcoString, eco_format};

use crate::target::{ConnectionKind, Target};

/// Returns the target of a destination.
///
/// # Errors
/// The value, and what is expected instead.
pub(crate) fn parse(text: &str) -> Result<Target, EcoString> {
    let mut target = Target::named(text);
    let Some((scheme, rest)) = text.split_once("://") else {
        authority(&mut target, text)?;
        return Ok(target);
    };
    let name = || word("container", rest.trim_end_matches('/'));
    match scheme {
        "ssh" => {
            authority(&mut target, rest.trim_end_matches('/'))?;
            target.name = target.address.clone().unwrap_or_default();
        }
        "local" => target.connection = ConnectionKind::Local,
        "podman" => target.connection = ConnectionKind::Podman { container: name()? },
        "nspawn" => target.connection = ConnectionKind::Nspawn { machine: name()? },
        "chroot" => {
            if !rest.starts_with('/') {
                return Err(eco_format!("`{text}`: an absolute path is expected, chroot:///srv/root"));
            }
            target.connection = ConnectionKind::Chroot { directory: PathBuf::from(rest) };
        }
        other => {
            return Err(eco_format!(
                "`{other}` is no way to reach a host: ssh, local, podman, nspawn or chroot is expected"
            ));
        }
    }
    Ok(target)
}

/// Reads `[USER@]HOST[:PORT]`.
fn authority(target: &mut Target, text: &str) -> Result<(), EcoString> {
    let (user, host) = match text.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, text),
    };
    if let Some(user) = user {
        if user.contains(':') {
            return Err("a password in a destination is visible to other users: use a key, or an inventory".into());
        }
        target.user = Some(checked_user(user)?);
    }
    let (host, port) = host_and_port(host)?;
    target.address = Some(checked_host(host)?);
    target.port = port;
    Ok(())
}

/// Divides `HOST:PORT`, also with an IPv6 address, which needs brackets before a port.
pub(crate) fn host_and_port(text: &str) -> Result<(&str, Option<u16>), EcoString> {
    if text.parse::<Ipv6Addr>().is_ok() {
        return Ok((text, None));
    }
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => return Ok((host, None)),
        Some((host, after)) => match after.strip_prefix(':') {
            Some(port) => (host, port),
            None => return Ok((text, None)),
        },
        None => match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') => (host, port),
            _ => return Ok((text, None)),
        },
    };
    let number = port.parse().ok().filter(|port| *port > 0);
    number.map(|port| (host, Some(port))).ok_or_else(|| eco_format!("`{port}` is not a port: 1 to 65535 is expected"))
}

/// Returns a host that ssh takes as a host, and not as an option or as a text for a shell.
pub(crate) fn checked_host(host: &str) -> Result<EcoString, EcoString> {
    word("host", host)
}

/// Returns a user for the same use.
pub(crate) fn checked_user(user: &str) -> Result<EcoString, EcoString> {
    word("user", user)
}

/// Returns a text that is safe as an argument, and in the commands of ssh's configuration (`ProxyCommand`).
pub(crate) fn word(role: &str, text: &str) -> Result<EcoString, EcoString> {
    let is_strange = |c: char| c.is_control() || c.is_whitespace() || "'\"`$\\;&<>|(){}!*?#".contains(c);
    if text.is_empty() {
        return Err(eco_format!("the {role} is empty"));
    }
    if text.starts_with('-') {
        return Err(eco_format!("`{text}` is not a {role}: programs would read it as an option"));
    }
    match text.chars().find(|c| is_strange(*c)) {
        Some(c) => Err(eco_format!("`{}` is not a {role}: it contains {c:?}", text.escape_debug())),
        None => Ok(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match parse(text) {
            Ok(found) => format!(
                "{} {} {} {} {:?}",
                found.name,
                found.address.as_deref().unwrap_or("-"),
                found.user.as_deref().unwrap_or("-"),
                found.port.unwrap_or(0),
                found.connection
            ),
            Err(fault) => format!("! {fault}"),
        }
    }

    #[test]
    fn destinations_are_divided() {
        assert_eq!(shown("web1"), "web1 web1 - 0 Ssh");
        assert_eq!(shown("ops@web1"), "ops@web1 web1 ops 0 Ssh");
        assert_eq!(shown("ssh://ops@10.0.0.7:2222"), "10.0.0.7 10.0.0.7 ops 2222 Ssh");
        assert_eq!(shown("ssh://[fe80::1]:22"), "fe80::1 fe80::1 - 22 Ssh");
        assert_eq!(shown("2001:db8::7"), "2001:db8::7 2001:db8::7 - 0 Ssh");
        assert_eq!(shown("podman://web"), "podman://web - - 0 Podman { container: \"web\" }");
        assert_eq!(shown("chroot:///srv/a"), "chroot:///srv/a - - 0 Chroot { directory: \"/srv/a\" }");
    }

    #[test]
    fn destinations_that_ssh_or_a_shell_would_misread_are_refused() {
        for text in [
            "-oProxyCommand=x",
            "ops@-x",
            "-x@web1",
            "a b",
            "a;b",
            "$(id)",
            "a\nb",
            "",
            "ssh://",
            "u:p@web1",
            "winrm://x",
            "web1:99999",
            "web1:x",
            "chroot://srv",
            "podman://-x",
            "podman://",
        ] {
            assert!(shown(text).starts_with("! "), "{text}: {}", shown(text));
        }
    }
}
