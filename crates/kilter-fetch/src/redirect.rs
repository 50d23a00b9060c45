//! Addresses and redirects.

use ureq::http::Uri;

use crate::FetchError;

/// Returns true if a text is an address of HTTP rather than a path.
pub fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// Returns true if nobody between the machine and the server can change the content: by https, or because the server is
/// on this machine.
pub fn is_protected(url: &str) -> bool {
    let host = url.parse::<Uri>().ok().and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_default();
    let is_loopback = |host: &str| host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    url.starts_with("https://") || host == "localhost" || is_loopback(host.trim_matches(['[', ']']))
}

/// Checks an address.
///
/// # Errors
/// Contains the address and the remedy.
pub fn check_url(url: &str) -> Result<(), String> {
    let uri: Uri = url.parse().map_err(|_| format!("`{url}` is no address: write https://HOST/PATH"))?;
    let host = uri.host().unwrap_or_default();
    match uri.authority() {
        Some(authority) if authority.as_str().contains('@') => {
            Err(format!("an address with a user name is not supported: write https://{host}/PATH"))
        }
        Some(_) if is_url(url) && !host.is_empty() => Ok(()),
        _ => Err(format!("`{url}` is no address: write https://HOST/PATH")),
    }
}

/// Returns the address that a redirect leads to.
///
/// # Errors
/// If it is invalid, or leads from https to http.
pub(crate) fn target(from: &str, location: &str) -> Result<String, FetchError> {
    let (scheme, rest) = from.split_once("://").unwrap_or(("https", from));
    let (host, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let to = match location {
        _ if location.contains("://") => location.to_owned(),
        _ if location.starts_with("//") => format!("{scheme}:{location}"),
        _ if location.starts_with('/') => format!("{scheme}://{host}{location}"),
        _ if location.starts_with('?') => format!("{scheme}://{host}{path}{location}"),
        _ => format!("{scheme}://{host}{}/{location}", path.rsplit_once('/').map_or("", |(above, _)| above)),
    };
    let to = to.split('#').next().unwrap_or_default().to_owned();
    check_url(&to).map_err(FetchError::Url)?;
    match scheme == "https" && to.starts_with("http://") {
        true => Err(FetchError::Insecure(to)),
        false => Ok(to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_absolute_or_relative() {
        let from = "http://a.example:8080/x/y?z";
        for (location, to) in [
            ("https://b.example/file", "https://b.example/file"),
            ("//b.example/file", "http://b.example/file"),
            ("/file?v=1#part", "http://a.example:8080/file?v=1"),
            ("file", "http://a.example:8080/x/file"),
            ("?v=2", "http://a.example:8080/x/y?v=2"),
        ] {
            assert_eq!(target(from, location).unwrap(), to);
        }
        assert_eq!(target("http://a.example", "file").unwrap(), "http://a.example/file");
    }

    #[test]
    fn redirect_to_an_unencrypted_or_foreign_address_is_refused() {
        let refused = |from, location| target(from, location).unwrap_err().to_string();
        assert!(refused("https://a.example/x", "http://a.example/x").contains("is not encrypted"));
        assert!(refused("https://a.example/x", "file:///etc/shadow").contains("is no address"));
        assert!(refused("http://a.example/x", "ftp://a.example/x").contains("is no address"));
        assert!(refused("http://a.example/x", "http://root:pw@a.example/").contains("user name"));
        assert!(refused("http://a.example/x", "http:///x").contains("is no address"));
    }

    #[test]
    fn addresses_of_this_machine_and_of_https_are_protected() {
        for url in ["https://example.org/x", "http://localhost:80/x", "http://127.0.0.1/x", "http://[::1]:8080/"] {
            assert!(is_protected(url), "{url}");
        }
        for url in ["http://example.org/x", "http://127.0.0.1.example.org/", "http://localhost.example.org/x"] {
            assert!(!is_protected(url), "{url}");
        }
    }

    #[test]
    fn addresses_have_a_scheme_and_a_host() {
        for good in ["http://localhost:8080/x", "https://example.org", "https://[::1]/x"] {
            assert_eq!(check_url(good), Ok(()), "{good}");
        }
        for bad in ["", "https://", "https:///x", "example.org/x", "https://a b/", "https://ann@example.org/"] {
            assert!(check_url(bad).is_err(), "{bad}");
        }
    }
}
