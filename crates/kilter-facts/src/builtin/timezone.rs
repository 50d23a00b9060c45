//! `timezone`: the current abbreviation, from `/etc/localtime` (RFC 9636).

use kilter_model::Value;

use crate::system::System;

mod footer;

pub(super) fn timezone(system: &System) -> Option<Value> {
    // Without the file, the system's time is UTC (tzset(3)).
    let Some(bytes) = system.bytes("/etc/localtime") else { return Some(Value::from("UTC")) };
    abbreviation(&bytes, system.kernel().now()).map(Value::from)
}

/// Counts in a TZif header.
struct Header {
    version: u8,
    transitions: usize,
    types: usize,
    characters: usize,
    /// Length of the following data in bytes, for times of `width` bytes.
    length: fn(&Header, usize) -> usize,
    leaps: usize,
    indicators: usize,
}

const HEADER: usize = 44;

impl Header {
    fn read(bytes: &[u8]) -> Option<Header> {
        if bytes.get(..4)? != b"TZif" {
            return None;
        }
        let count = |at: usize| {
            let word = u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?);
            // A larger count is not a time zone and could cause an overflow below.
            usize::try_from(word).ok().filter(|count| *count < 1 << 20)
        };
        Some(Header {
            version: *bytes.get(4)?,
            indicators: count(20)? + count(24)?,
            leaps: count(28)?,
            transitions: count(32)?,
            types: count(36)?,
            characters: count(40)?,
            length: |header, width| {
                header.transitions * (width + 1)
                    + header.types * 6
                    + header.characters
                    + header.leaps * (width + 4)
                    + header.indicators
            },
        })
    }
}

/// Returns the abbreviation at `now`.
fn abbreviation(bytes: &[u8], now: i64) -> Option<String> {
    let header = Header::read(bytes)?;
    let data = bytes.get(HEADER..)?;
    if header.version < b'2' {
        return in_table(&header, data, 4, now);
    }
    // Since version 2, the data is repeated with times of 64 bits, followed by a rule for the future.
    let second = data.get((header.length)(&header, 4)..)?;
    let header = Header::read(second)?;
    let data = second.get(HEADER..)?;
    let last = header.transitions.checked_sub(1).and_then(|last| time(data, 8, last));
    if last.is_none_or(|last| now >= last) {
        let rule = data.get((header.length)(&header, 8)..)?;
        let rule = std::str::from_utf8(rule).ok()?.trim_matches('\n');
        if let Some(abbreviation) = footer::abbreviation(rule, now) {
            return Some(abbreviation);
        }
    }
    in_table(&header, data, 8, now)
}

/// Returns the abbreviation from the transition table.
fn in_table(header: &Header, data: &[u8], width: usize, now: i64) -> Option<String> {
    let past = (0..header.transitions).take_while(|at| time(data, width, *at).is_some_and(|time| time <= now)).count();
    let kinds = header.transitions * width;
    let kind = match past.checked_sub(1) {
        Some(at) => usize::from(*data.get(kinds + at)?),
        None => 0,
    };
    let types = kinds + header.transitions;
    let index = usize::from(*data.get(types + kind * 6 + 5)?);
    let text = data.get(types + header.types * 6 + index..)?;
    let text = text.split(|byte| *byte == 0).next()?;
    std::str::from_utf8(text).ok().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn time(data: &[u8], width: usize, at: usize) -> Option<i64> {
    let bytes = data.get(at * width..)?;
    Some(match width {
        4 => i64::from(i32::from_be_bytes(*bytes.first_chunk()?)),
        _ => i64::from_be_bytes(*bytes.first_chunk()?),
    })
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
    fn the_rule_decides_where_the_table_ends() {
        let berlin = zone("CET-1CEST,M3.5.0,M10.5.0/3");
        assert_eq!(abbreviation(&berlin, 1_768_000_000).as_deref(), Some("CET"));
        assert_eq!(abbreviation(&berlin, 1_783_000_000).as_deref(), Some("CEST"));
    }

    #[test]
    fn without_a_rule_the_first_type_is_taken() {
        assert_eq!(abbreviation(&zone(""), 0).as_deref(), Some("LMT"));
    }

    #[test]
    fn a_cut_file_never_panics() {
        let whole = zone("UTC0");
        for end in 0..whole.len() {
            let _ = abbreviation(&whole[..end], 0);
        }
        assert_eq!(abbreviation(&whole, 0).as_deref(), Some("UTC"));
        assert_eq!(abbreviation(b"garbage", 0), None);
    }
}
