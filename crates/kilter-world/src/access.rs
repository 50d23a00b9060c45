//! Access to etcd servers: addresses, certificates and login.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use ureq::config::Config;
use ureq::tls::{PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};
use ureq::{Agent, Body};

/// Timeout of a request to all servers together.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Minimum timeout of a request per server.
const MIN_SERVER_TIMEOUT: Duration = Duration::from_millis(1500);

/// Time without data after which a watch restarts, because the connection may be dead.
const SILENCE: Duration = Duration::from_secs(60);

/// User name and password.
#[derive(Clone)]
pub struct Credentials {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl Credentials {
    /// Parses `user:password`, split at the first colon.
    pub fn parse(text: &str) -> Option<Credentials> {
        let (user, password) = text.trim_end_matches(['\r', '\n']).split_once(':')?;
        (!user.is_empty()).then(|| Credentials { user: user.to_owned(), password: password.to_owned() })
    }
}

/// A server, or the servers of a cluster.
pub struct Endpoint {
    /// `https://one:2379`, in the order in which they are tried.
    servers: Vec<String>,
    login: Option<Credentials>,
    agent: Agent,
}

/// Reason why an address is rejected.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The address is invalid.
    #[error("`{0}` is not an address of etcd, such as https://etcd1:2379,etcd2:2379/kilter")]
    Address(String),
    /// Others could read and modify unencrypted traffic.
    #[error("{0} is another machine, and http:// is not encrypted: use https://")]
    Plain(String),
    /// The file contains no certificate.
    #[error("there is no certificate in {0}")]
    Roots(String),
}

/// Reason why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    /// The server is unreachable or does not answer.
    #[error("{0}")]
    Unreached(#[from] ureq::Error),
    /// The server returned an error.
    #[error("it replied {0}: {1}")]
    Answer(u16, String),
    /// The answer is not valid JSON.
    #[error("its reply is not that of etcd: {0}")]
    Odd(#[from] serde_json::Error),
    /// The answer was truncated.
    #[error("its reply cannot be parsed: {0}")]
    Broken(#[from] std::io::Error),
}

impl Refused {
    /// Returns true if a new token may help.
    pub(crate) fn is_unauthorized(&self) -> bool {
        matches!(self, Refused::Answer(401 | 403, _))
            || matches!(self, Refused::Answer(_, said) if said.contains("auth token"))
    }
}

/// A response with an unread body.
pub(crate) struct Answer(Body);

impl Answer {
    /// Reads the whole body.
    pub(crate) fn json(mut self, largest: u64) -> Result<Json, Refused> {
        let text = self.0.with_config().limit(largest).read_to_string()?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Returns a reader for a streamed body.
    pub(crate) fn lines(self) -> impl Read {
        self.0.into_with_config().limit(u64::MAX).reader()
    }
}

impl Endpoint {
    /// Parses an address such as `https://one:2379,two:2379/kilter`. Returns the servers and the part after the
    /// slash. `roots` are trusted certificates in PEM, with their origin.
    ///
    /// # Errors
    /// If the address is invalid or must not be used.
    pub fn parse(
        address: &str,
        login: Option<Credentials>,
        roots: (&str, &[u8]),
    ) -> Result<(Endpoint, String), AccessError> {
        let odd = || AccessError::Address(address.to_owned());
        let (scheme, rest) = address.split_once("://").ok_or_else(odd)?;
        let (hosts, prefix) = rest.split_once('/').unwrap_or((rest, "kilter"));
        let prefix = prefix.trim_matches('/');
        let is_harmless = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/');
        if prefix.is_empty() || !prefix.chars().all(is_harmless) {
            return Err(odd());
        }
        let mut servers = Vec::new();
        for host in hosts.split(',') {
            let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
            if host.is_empty() || !host.chars().all(is_host) {
                return Err(odd());
            }
            if scheme == "http" && !is_this_machine(host) {
                return Err(AccessError::Plain(host.to_owned()));
            }
            servers.push(format!("{scheme}://{host}"));
        }
        let tls = match scheme {
            "http" => TlsConfig::default(),
            "https" => trusting(roots)?,
            _ => return Err(odd()),
        };
        let config: Config = Config::builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .user_agent("kilter")
            .tls_config(tls)
            .timeout_connect(Some(Duration::from_secs(3)))
            .build();
        Ok((Endpoint { servers, login, agent: config.into() }, prefix.to_owned()))
    }

    /// Returns the servers for messages.
    pub(crate) fn shown(&self) -> String {
        self.servers.join(",")
    }

    pub(crate) fn login(&self) -> Option<&Credentials> {
        self.login.as_ref()
    }

    /// Sends a request to the first reachable server.
    pub(crate) fn post(&self, path: &str, question: &Json, token: Option<&str>) -> Result<Answer, Refused> {
        let each = (REQUEST_TIMEOUT / u32::try_from(self.servers.len()).unwrap_or(u32::MAX)).max(MIN_SERVER_TIMEOUT);
        self.send(path, question, token, (Some(each), None))
    }

    /// Like [`Endpoint::post`], for a streamed response. The timeout applies to the time between data.
    pub(crate) fn listen(&self, path: &str, question: &Json, token: Option<&str>) -> Result<Answer, Refused> {
        self.send(path, question, token, (None, Some(SILENCE)))
    }

    fn send(
        &self,
        path: &str,
        question: &Json,
        token: Option<&str>,
        (in_all, each): (Option<Duration>, Option<Duration>),
    ) -> Result<Answer, Refused> {
        let mut last = None;
        for server in &self.servers {
            let mut request = self
                .agent
                .post(format!("{server}{path}"))
                .config()
                .timeout_global(in_all)
                .timeout_per_read(each)
                .build();
            request = request.header("Content-Type", "application/json");
            if let Some(token) = token {
                request = request.header("Authorization", token);
            }
            if each.is_some() {
                // etcd ends the watch at a member without a leader, which would send no events.
                request = request.header("Grpc-Metadata-hasleader", "true");
            }
            match request.send(question.to_string()) {
                Ok(answer) if answer.status().is_success() => return Ok(Answer(answer.into_body())),
                Ok(answer) => {
                    let status = answer.status().as_u16();
                    let said = answer.into_body().with_config().limit(4096).read_to_string().unwrap_or_default();
                    let told: Option<Json> = serde_json::from_str(&said).ok();
                    let message = told.as_ref().and_then(|told| told.get("message").or(told.get("error")));
                    let message = message.and_then(Json::as_str).unwrap_or(said.trim()).to_owned();
                    // A server without a leader may be cut off from the rest of the cluster.
                    if status != 503 {
                        return Err(Refused::Answer(status, message));
                    }
                    last = Some(Refused::Answer(status, message));
                }
                Err(error) => last = Some(error.into()),
            }
        }
        Err(last.expect("there is a server"))
    }
}

/// Returns true if the address of a host is local.
fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(name, _)| name),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn trusting((place, pem): (&str, &[u8])) -> Result<TlsConfig, AccessError> {
    let roots = || AccessError::Roots(place.to_owned());
    let certificates = parse_pem(pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let certificates: Vec<_> = certificates.collect();
    if certificates.is_empty() {
        return Err(roots());
    }
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::new_with_certs(&certificates))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_servers_of_one_cluster() {
        let parsed = |address: &str| {
            let access = Endpoint::parse(address, None, ("nowhere", b""));
            access.map(|(access, prefix)| (access.shown(), prefix)).map_err(|error| error.to_string())
        };
        let of = |servers: &str, prefix: &str| Ok((servers.to_owned(), prefix.to_owned()));
        assert_eq!(parsed("http://127.0.0.1:2379"), of("http://127.0.0.1:2379", "kilter"));
        assert_eq!(parsed("http://[::1]:1,localhost:2/a/b/"), of("http://[::1]:1,http://localhost:2", "a/b"));
        for (address, said) in [
            ("etcd:2379", "not an address of etcd"),
            ("ftp://localhost/x", "not an address of etcd"),
            ("http://localhost/a b", "not an address of etcd"),
            ("http:///x", "not an address of etcd"),
            ("http://user@localhost/x", "not an address of etcd"),
            ("http://10.0.0.1:2379/x", "use https://"),
            ("https://10.0.0.1:2379/x", "no certificate in nowhere"),
        ] {
            assert!(parsed(address).is_err_and(|error| error.contains(said)), "{address}");
        }
    }
}
