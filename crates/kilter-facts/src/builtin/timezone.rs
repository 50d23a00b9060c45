//! `timezone`: the current abbreviation of the time zone in `/etc/localtime`.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use kilter_model::Value;

use crate::system::FactSource;

pub(super) fn timezone(system: &FactSource) -> Option<Value> {
    // Without the file, the system's time is UTC (tzset(3)).
    let Some(bytes) = system.bytes("/etc/localtime") else { return Some(Value::from("UTC")) };
    abbreviation(&bytes, system.kernel().now()).map(Value::from)
}

/// Returns the abbreviation of the zone in a TZif file (RFC 9636) at `now`, in seconds since 1970.
///
/// Returns `None` if the file is invalid.
fn abbreviation(tzif: &[u8], now: i64) -> Option<String> {
    let zone = TimeZone::tzif("localtime", tzif).ok()?;
    let now = Timestamp::from_second(now).ok()?;
    Some(zone.to_offset_info(now).abbreviation().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a version 2 file with one type, no transitions and a rule.
    fn zone(rule: &str) -> Vec<u8> {
        let mut header = b"TZif2".to_vec();
        header.resize(20, 0);
        for count in [0_u32, 0, 0, 0, 1, 4] {
            header.extend(count.to_be_bytes());
        }
        let block = [header.as_slice(), &[0; 6], b"LMT\0"].concat();
        [block.as_slice(), &block, b"\n", rule.as_bytes(), b"\n"].concat()
    }

    #[test]
    fn rule_decides_after_last_transition() {
        let berlin = zone("CET-1CEST,M3.5.0,M10.5.0/3");
        assert_eq!(abbreviation(&berlin, 1_768_000_000).as_deref(), Some("CET"));
        assert_eq!(abbreviation(&berlin, 1_783_000_000).as_deref(), Some("CEST"));
    }

    #[test]
    fn file_without_rule_gives_first_type() {
        assert_eq!(abbreviation(&zone(""), 0).as_deref(), Some("LMT"));
    }

    #[test]
    fn truncated_file_never_panics() {
        let whole = zone("UTC0");
        for end in 0..whole.len() {
            let _ = abbreviation(&whole[..end], 0);
        }
        assert_eq!(abbreviation(&whole, 0).as_deref(), Some("UTC"));
        assert_eq!(abbreviation(b"garbage", 0), None);
    }
}
