//! Downloads files over HTTP and HTTPS, and sends texts.
//!
//! [`get`] passes the content to the caller in chunks, while it arrives. It bounds size and time, follows at most
//! [`MAX_REDIRECTS`] redirects and none from https to http, and ends when the caller cancels. A request with
//! [`Validators`] is conditional: an unchanged file is not transferred again.
//!
//! [`post`] sends a text in a single request, within the same bounds. It follows no redirects.
//!
//! Servers are verified by the certificates that the system trusts. Proxies are not used, and addresses with a user
//! name are refused.
//!
//! This crate writes no file and knows no checksums. The caller decides what to do with the content.
//!
//! *Start from* [`get`] and [`Request`].

mod redirect;
mod upload;

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ureq::http::Response;
use ureq::tls::{PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};
use ureq::{Agent, Body};

pub use redirect::{check_url, is_protected, is_url};
pub use upload::{Upload, post};

/// Maximum number of redirects of a download.
pub const MAX_REDIRECTS: usize = 5;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time without data.
const SILENCE: Duration = Duration::from_secs(60);
/// Interval of the checks for a cancel.
const CANCEL_INTERVAL: Duration = Duration::from_millis(50);
const CHUNK_BYTES: usize = 64 * 1024;
/// Number of chunks that wait for the caller.
const QUEUE_LEN: usize = 4;

/// Files with the certificates that the system trusts: Debian, Fedora, SUSE, Alpine.
const ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Headers of a server that identify the version of a file (RFC 9110, section 8.8).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validators {
    /// Value of `ETag`.
    pub etag: Option<String>,
    /// Value of `Last-Modified`.
    pub last_modified: Option<String>,
}

impl Validators {
    /// Returns true if the server sent no validator.
    pub fn is_empty(&self) -> bool {
        self.etag.is_none() && self.last_modified.is_none()
    }
}

/// A file to download.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Address: `https://…` or `http://…`.
    pub url: &'a str,
    /// Validators of the version that the caller has.
    pub known: Option<&'a Validators>,
    /// Maximum size of the content in bytes.
    pub max_bytes: u64,
    /// Maximum duration of the download.
    pub timeout: Duration,
}

/// Result of a download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The file is the known version.
    Unchanged,
    /// The content has been passed to the caller. Validators of this version.
    Content(Validators),
}

/// Reason why a download failed.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The address is invalid.
    #[error("{0}")]
    Url(String),
    /// A redirect leads from https to an unencrypted address.
    #[error("the server redirects to {0}, which is not encrypted")]
    Insecure(String),
    /// There are more redirects than [`MAX_REDIRECTS`].
    #[error("the server redirects more than {MAX_REDIRECTS} times")]
    Redirects,
    /// The server answered with an error.
    #[error("the server replied with status {0}")]
    Status(u16),
    /// The content is larger than the limit.
    #[error("the content is larger than {0} bytes")]
    TooLarge(u64),
    /// The server is unreachable, did not answer in time, or broke the connection.
    #[error("{0}")]
    Transport(String),
    /// The system has no certificates.
    #[error("there is no list of trusted certificates ({}): install ca-certificates", ROOTS[0])]
    Roots,
    /// The caller cancelled the download.
    #[error("interrupted")]
    Cancelled,
    /// The caller could not take the content.
    #[error("{0}")]
    Write(#[source] io::Error),
}

enum TransferMessage {
    Chunk(Vec<u8>),
    End(Result<Answer, FetchError>),
}

/// Downloads a file. `take` receives its content in order.
///
/// # Errors
/// If the content did not arrive completely. `take` may have received a part of it.
pub fn get(
    request: &Request<'_>,
    cancel: &AtomicBool,
    take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Result<Answer, FetchError> {
    check_url(request.url).map_err(FetchError::Url)?;
    let (sender, receiver) = sync_channel(QUEUE_LEN);
    let transfer = Transfer {
        url: request.url.to_owned(),
        known: request.known.cloned(),
        max_bytes: request.max_bytes,
        timeout: request.timeout,
    };
    // A call of the network cannot be interrupted. The thread ends by its timeouts.
    let started = std::thread::Builder::new().name("download".into()).spawn(move || {
        let end = transfer.run(&sender);
        let _ = sender.send(TransferMessage::End(end));
    });
    started.map_err(|error| FetchError::Transport(format!("cannot start a thread: {error}")))?;
    receive(&receiver, cancel, take)
}

fn receive(
    receiver: &Receiver<TransferMessage>,
    cancel: &AtomicBool,
    take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Result<Answer, FetchError> {
    loop {
        if cancel.load(Ordering::Acquire) {
            return Err(FetchError::Cancelled);
        }
        match receiver.recv_timeout(CANCEL_INTERVAL) {
            Ok(TransferMessage::Chunk(chunk)) => take(&chunk).map_err(FetchError::Write)?,
            Ok(TransferMessage::End(end)) => return end,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(FetchError::Transport("the download ended".into())),
        }
    }
}

struct Transfer {
    url: String,
    known: Option<Validators>,
    max_bytes: u64,
    timeout: Duration,
}

impl Transfer {
    fn run(&self, sender: &SyncSender<TransferMessage>) -> Result<Answer, FetchError> {
        let mut url = self.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let response = self.request(&url)?;
            let status = response.status().as_u16();
            match status {
                200 => return self.content(response, sender),
                304 if self.known.is_some() => return Ok(Answer::Unchanged),
                301 | 302 | 303 | 307 | 308 => {
                    let location = header(&response, "Location").ok_or(FetchError::Status(status))?;
                    url = redirect::target(&url, &location)?;
                }
                _ => return Err(FetchError::Status(status)),
            }
        }
        Err(FetchError::Redirects)
    }

    fn request(&self, url: &str) -> Result<Response<Body>, FetchError> {
        let mut request = agent(url, self.timeout)?.get(url);
        if let Some(etag) = self.known.as_ref().and_then(|known| known.etag.as_deref()) {
            request = request.header("If-None-Match", etag);
        }
        if let Some(time) = self.known.as_ref().and_then(|known| known.last_modified.as_deref()) {
            request = request.header("If-Modified-Since", time);
        }
        let response = request.call().map_err(|error| FetchError::Transport(error.to_string()))?;
        // The rest of the address may contain a secret.
        let server = url.split('/').nth(2).unwrap_or_default();
        tracing::debug!(server, status = response.status().as_u16(), "response");
        Ok(response)
    }

    fn content(&self, response: Response<Body>, sender: &SyncSender<TransferMessage>) -> Result<Answer, FetchError> {
        let validators =
            Validators { etag: header(&response, "ETag"), last_modified: header(&response, "Last-Modified") };
        let too_large = || FetchError::TooLarge(self.max_bytes);
        let length = header(&response, "Content-Length").and_then(|length| length.parse().ok());
        if length.is_some_and(|length: u64| length > self.max_bytes) {
            return Err(too_large());
        }
        let mut reader = response.into_body().into_with_config().limit(u64::MAX).reader();
        let mut left = self.max_bytes;
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let count = reader.read(&mut chunk).map_err(|error| FetchError::Transport(error.to_string()))?;
            if count == 0 {
                return Ok(Answer::Content(validators));
            }
            left = left.checked_sub(count as u64).ok_or_else(too_large)?;
            if sender.send(TransferMessage::Chunk(chunk[..count].to_vec())).is_err() {
                // The caller has ended.
                return Err(FetchError::Cancelled);
            }
        }
    }
}

/// Returns a client for one server, without redirects.
fn agent(url: &str, timeout: Duration) -> Result<Agent, FetchError> {
    let tls = if url.starts_with("https://") { trusting()? } else { TlsConfig::default() };
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .user_agent("kilter")
        .tls_config(tls)
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_recv_response(Some(SILENCE))
        .timeout_per_read(Some(SILENCE))
        .timeout_global(Some(timeout))
        .build();
    Ok(config.into())
}

fn header(response: &Response<Body>, name: &str) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

/// Returns the settings with the certificates of the system.
fn trusting() -> Result<TlsConfig, FetchError> {
    static TRUSTED: LazyLock<Option<TlsConfig>> = LazyLock::new(|| {
        let pem = ROOTS.iter().find_map(|path| std::fs::read(path).ok())?;
        let certificates = parse_pem(&pem).filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        });
        let certificates: Vec<_> = certificates.collect();
        let config = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .root_certs(RootCerts::new_with_certs(&certificates))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        (!certificates.is_empty()).then_some(config)
    });
    TRUSTED.clone().ok_or(FetchError::Roots)
}

#[cfg(test)]
mod tests;
