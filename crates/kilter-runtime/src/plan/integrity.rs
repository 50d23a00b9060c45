//! Integrity of a plan file: a keyed digest covers every byte, and a signature if there is one.
//!
//! A plan file is a JSON object. Its last member, `integrity`, covers all bytes before it. [`verify`] accepts the
//! member only in the exact form that [`protect`] writes, so that it detects a change of any byte.

use kilter_model::base64;
use serde_json::Value as Json;

use super::keys::{PrivateKey, PublicKey};
use crate::sealing::SealingKey;

/// Bytes before the last member. JSON strings contain no line breaks, so that these bytes cannot occur inside of a
/// plan.
const MARK: &str = ",\n  \"integrity\": {";
/// Domain of the digest.
const DIGEST: &[u8] = b"kilter plan 4";
/// Domain of the identifier of a key.
const KEY: &[u8] = b"kilter plan 4 key";
/// Domain of the signature.
const SIGNATURE: &str = "kilter plan 4 signature\n";
/// Number of hexadecimal digits in the identifier of a key.
const KEY_DIGITS: usize = 16;

/// Reason why the integrity of a plan could not be established.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntegrityError {
    /// The member `integrity` is missing, or does not have the exact form.
    #[error("is cut off or was changed: it does not end with its digest")]
    Missing,
    /// The digest was made with the key of this state directory, and does not match.
    #[error("was changed after it was made: its digest does not match")]
    Digest,
    /// The signature does not match.
    #[error("was changed after it was signed: its signature is not right")]
    Signature,
}

/// Place where a plan was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// With this state directory, and so on this machine by this user.
    Here,
    /// With another key: the digest cannot be verified.
    Elsewhere,
}

/// Established integrity of a plan.
#[derive(Debug)]
pub struct Integrity {
    /// Place where the plan was made.
    pub maker: Maker,
    /// Key of a valid signature, if the plan is signed. The caller decides if the key is trusted.
    pub signed_by: Option<PublicKey>,
}

/// Returns the text of a JSON object, pretty-printed without its last `\n}`, with its integrity.
///
/// # Panics
/// Never for an object with a member.
pub fn protect(object: &Json, key: &SealingKey, signer: Option<&PrivateKey>) -> String {
    let text = format!("{object:#}");
    let body = text.strip_suffix("\n}").unwrap_or(&text);
    let digest = key.digest([DIGEST, body.as_bytes()]);
    let mut tail = Tail { key: key_id(key), digest, signed: None };
    if let Some(signer) = signer {
        let signature = signer.sign(tail.signed_text(body).as_bytes());
        tail.signed = Some((signer.public().text(), base64(&signature)));
    }
    format!("{body}{}", tail.text())
}

/// Verifies the integrity of a plan file.
///
/// # Errors
/// If any byte has changed, as far as the key of this state directory or the signature can detect it.
pub fn verify(file: &str, key: Option<&SealingKey>) -> Result<Integrity, IntegrityError> {
    let (body, rest) = file.rsplit_once(MARK).ok_or(IntegrityError::Missing)?;
    let tail = Tail::parse(rest).ok_or(IntegrityError::Missing)?;
    let signed_by = match &tail.signed {
        None => None,
        Some((by, signature)) => {
            let key = PublicKey::from_text(by).ok_or(IntegrityError::Signature)?;
            let signature = kilter_model::from_base64(signature).ok_or(IntegrityError::Signature)?;
            let is_right = key.verifies(tail.signed_text(body).as_bytes(), &signature);
            Some(key).filter(|_| is_right).ok_or(IntegrityError::Signature)?.into()
        }
    };
    let maker = match key.filter(|key| key_id(key) == tail.key) {
        None => Maker::Elsewhere,
        Some(key) if is_equal(&key.digest([DIGEST, body.as_bytes()]), &tail.digest) => Maker::Here,
        Some(_) => return Err(IntegrityError::Digest),
    };
    Ok(Integrity { maker, signed_by })
}

/// Compares two digests in constant time.
fn is_equal(one: &str, other: &str) -> bool {
    let differs = one.bytes().zip(other.bytes()).fold(0, |all, (one, other)| all | (one ^ other));
    one.len() == other.len() && differs == 0
}

fn key_id(key: &SealingKey) -> String {
    let mut id = key.digest([KEY]);
    id.truncate(KEY_DIGITS);
    id
}

/// Content of the member `integrity`.
#[derive(PartialEq, Eq)]
struct Tail {
    /// Identifier of the key of the digest.
    key: String,
    digest: String,
    /// Public key and signature, both in base 64.
    signed: Option<(String, String)>,
}

impl Tail {
    /// Reads the text after [`MARK`]. It accepts only the exact bytes that [`Tail::text`] returns.
    fn parse(rest: &str) -> Option<Tail> {
        let json: Json = serde_json::from_str(&format!("{{{}", rest.strip_suffix("\n}\n")?)).ok()?;
        let text = |key: &str| Some(json.get(key)?.as_str()?.to_owned());
        let signed = text("signed_by").zip(text("signature"));
        let tail = Tail { key: text("key")?, digest: text("hmac_sha256")?, signed };
        let is_canonical = tail.text().strip_prefix(MARK) == Some(rest);
        let is_digest = |text: &str, digits| text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_sound = is_digest(&tail.key, KEY_DIGITS) && is_digest(&tail.digest, 64);
        let is_exact = |text: &str| kilter_model::from_base64(text).is_some_and(|bytes| base64(&bytes) == text);
        let is_signed = tail.signed.as_ref().is_none_or(|(by, signature)| is_exact(by) && is_exact(signature));
        (is_canonical && is_sound && is_signed).then_some(tail)
    }

    fn text(&self) -> String {
        let Tail { key, digest, signed } = self;
        let signed = signed
            .as_ref()
            .map(|(by, signature)| format!(",\n    \"signed_by\": \"{by}\",\n    \"signature\": \"{signature}\""));
        let signed = signed.unwrap_or_default();
        format!("{MARK}\n    \"key\": \"{key}\",\n    \"hmac_sha256\": \"{digest}\"{signed}\n  }}\n}}\n")
    }

    /// Returns the text that is signed: all bytes before the signature.
    fn signed_text(&self, body: &str) -> String {
        let Tail { key, digest, .. } = self;
        format!("{SIGNATURE}{key}\n{digest}\n{body}")
    }
}
