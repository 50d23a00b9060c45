//! Detects expressions that the library would take too long to compile.

/// Maximum number of group calls (`\\g<name>`) in an expression.
const MOST_CALLS: usize = 32;

/// Returns the first group number in the expression that cannot exist. The library would allocate memory for
/// all groups up to that number.
pub(super) fn group_beyond(text: &str) -> Option<&str> {
    let groups = text.matches('(').count();
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '(']) {
        let (mark, after) = rest[at..].split_at(1);
        let named = match mark {
            "\\" => after.strip_prefix(['g', 'k']).unwrap_or(after),
            _ => after.strip_prefix("?(").or_else(|| after.strip_prefix("?P")).unwrap_or(""),
        };
        let number = named.trim_start_matches(['<', '\'', '{', '=', '>', '+', '-', ' ']);
        let digits = &number[..number.bytes().take_while(u8::is_ascii_digit).count()];
        if !digits.is_empty() && digits.parse::<usize>().map_or(true, |number| number > groups) {
            return Some(digits);
        }
        // An escaped character starts nothing.
        let escaped = if mark == "\\" { after.chars().next().map_or(0, char::len_utf8) } else { 0 };
        rest = &after[escaped..];
    }
    None
}

/// Returns true if compiling the expression could take too long. The library replaces each call with the group,
/// and a group may call itself. One nested call is bounded, but two double the size repeatedly.
pub(super) fn calls_too_often(text: &str) -> bool {
    let (mut calls, mut within) = (0, false);
    // For each open group, true if it can be called.
    let mut open: Vec<bool> = Vec::new();
    let mut class = 0_u32;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let mut taken = c.len_utf8();
        let after = &rest[taken..];
        let mut is_call = false;
        match c {
            '\\' => {
                is_call = class == 0 && after.starts_with('g');
                within |= is_call && after[1..].trim_start_matches(['<', '\'', '{']).starts_with('0');
                taken += after.chars().next().map_or(0, char::len_utf8);
            }
            '[' => class += 1,
            ']' => class = class.saturating_sub(1),
            '(' if class == 0 => {
                let inside = after.strip_prefix('?');
                is_call = inside.is_some_and(|inside| {
                    let digit = inside.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit());
                    digit || inside.starts_with(['&', 'R']) || inside.starts_with("P>")
                });
                let is_look_behind = after.starts_with("?<=") || after.starts_with("?<!");
                let is_named = ["?<", "?'", "?P<"].iter().any(|mark| after.starts_with(mark));
                open.push(inside.is_none() || is_named && !is_look_behind);
            }
            ')' if class == 0 => drop(open.pop()),
            _ => {}
        }
        calls += usize::from(is_call);
        within |= is_call && open.contains(&true);
        rest = &rest[taken..];
    }
    calls > MOST_CALLS || calls > 1 && within
}
