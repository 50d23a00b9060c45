//! Modes of files: numbers, and the symbolic modes of chmod(1).

use ecow::EcoString;

use super::kind::Kind;

/// All bits of a mode.
pub(super) const ALL: u32 = 0o7777;
/// setuid and setgid.
pub(super) const SET_ID: u32 = 0o6000;

/// A declared mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeclaredMode {
    /// Absolute bits.
    Exact(u32),
    /// Changes relative to the present bits.
    Symbolic(Vec<ModeOperation>),
}

/// An operation of a symbolic mode, such as `u+x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ModeOperation {
    /// Bits of the affected classes; 0 if no class is named.
    affected: u32,
    op: u8,
    value: Bits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bits {
    /// Fixed bits, and `x` if the file is a directory or already has an `x`.
    Fixed { bits: u32, x_if_any: bool },
    /// The bits of another class.
    Copied(u32),
}

impl DeclaredMode {
    /// Parses a mode: one to four octal digits, or the symbolic form.
    pub(super) fn parse(text: &str) -> Option<DeclaredMode> {
        if let Some(bits) = octal(text) {
            return Some(DeclaredMode::Exact(bits));
        }
        let mut steps = Vec::new();
        for clause in text.split(',') {
            parse_clause(clause.as_bytes(), &mut steps)?;
        }
        Some(DeclaredMode::Symbolic(steps))
    }

    /// Applies this mode to the bits `current`.
    pub(super) fn apply(&self, current: u32, directory: bool) -> u32 {
        match self {
            DeclaredMode::Exact(bits) => *bits,
            DeclaredMode::Symbolic(steps) => steps.iter().fold(current & ALL, |mode, step| step.apply(mode, directory)),
        }
    }
}

/// Returns the bits of a file that gets another owner or group, without setuid and setgid, which were meant for the
/// old owner. A directory keeps them, because they grant no rights there.
pub(super) fn disarmed(bits: u32, kind: Kind) -> u32 {
    if kind == Kind::Directory { bits } else { bits & !SET_ID }
}

/// Parses one to four octal digits.
pub(super) fn octal(text: &str) -> Option<u32> {
    let digits = text.as_bytes();
    if !(1..=4).contains(&digits.len()) {
        return None;
    }
    digits.iter().try_fold(0, |bits, digit| match digit {
        b'0'..=b'7' => Some(bits << 3 | u32::from(digit - b'0')),
        _ => None,
    })
}

/// Returns the canonical text of `bits`: four digits.
pub(super) fn text(bits: u32) -> EcoString {
    let digit = |shift: u32| b'0' + (bits >> shift & 7) as u8;
    let digits = [digit(9), digit(6), digit(3), digit(0)];
    EcoString::from(std::str::from_utf8(&digits).expect("digits are ASCII"))
}

/// Adds an `x` for each `r`, as directories need.
pub(super) fn searchable(bits: u32) -> u32 {
    bits | (bits & 0o444) >> 2
}

fn parse_clause(clause: &[u8], steps: &mut Vec<ModeOperation>) -> Option<()> {
    let mut at = 0;
    let mut affected = 0;
    while let Some(who) = clause.get(at) {
        affected |= match who {
            b'u' => 0o4700,
            b'g' => 0o2070,
            b'o' => 0o1007,
            b'a' => ALL,
            _ => break,
        };
        at += 1;
    }
    let first = steps.len();
    while let Some(&op @ (b'+' | b'-' | b'=')) = clause.get(at) {
        at += 1;
        let value = parse_bits(clause, &mut at);
        steps.push(ModeOperation { affected, op, value });
    }
    (at == clause.len() && steps.len() > first).then_some(())
}

fn parse_bits(clause: &[u8], at: &mut usize) -> Bits {
    let copied = match clause.get(*at) {
        Some(b'u') => 0o700,
        Some(b'g') => 0o070,
        Some(b'o') => 0o007,
        _ => 0,
    };
    if copied != 0 {
        *at += 1;
        return Bits::Copied(copied);
    }
    let (mut bits, mut x_if_any) = (0, false);
    while let Some(letter) = clause.get(*at) {
        match letter {
            b'r' => bits |= 0o444,
            b'w' => bits |= 0o222,
            b'x' => bits |= 0o111,
            b'X' => x_if_any = true,
            b's' => bits |= SET_ID,
            b't' => bits |= 0o1000,
            _ => break,
        }
        *at += 1;
    }
    Bits::Fixed { bits, x_if_any }
}

impl ModeOperation {
    /// Applies an operation in the same way as GNU chmod with a umask of 0. A directory keeps its setuid and setgid
    /// bits unless they are named.
    fn apply(self, mode: u32, directory: bool) -> u32 {
        let affected = if self.affected == 0 { ALL } else { self.affected };
        let (value, mentioned) = match self.value {
            Bits::Fixed { bits, x_if_any } => {
                let x = if x_if_any && (directory || mode & 0o111 != 0) { 0o111 } else { 0 };
                (bits | x, bits & affected)
            }
            Bits::Copied(from) => (spread(mode & from), 0),
        };
        let kept = if directory { SET_ID & !mentioned } else { 0 };
        let value = value & affected & !kept;
        match self.op {
            b'+' => mode | value,
            b'-' => mode & !value,
            _ => mode & (!affected | kept) & ALL | value,
        }
    }
}

/// Copies the permissions of one class to all classes.
fn spread(bits: u32) -> u32 {
    [0o444, 0o222, 0o111].into_iter().filter(|permission| bits & permission != 0).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_to_four_octal_digits() {
        assert_eq!(DeclaredMode::parse("644"), Some(DeclaredMode::Exact(0o644)));
        assert_eq!(DeclaredMode::parse("02755"), None);
        assert_eq!(DeclaredMode::parse("4755"), Some(DeclaredMode::Exact(0o4755)));
        for bad in ["", "8", "rwx", "u", "u+rwz", "u=rw,", "0o644", "u+rg", "-", "x+u"] {
            let parsed = DeclaredMode::parse(bad);
            assert!(parsed.is_none() || bad == "-", "{bad}: {parsed:?}");
        }
    }

    #[test]
    fn the_text_of_a_mode_has_four_digits() {
        assert_eq!(text(0o644), "0644");
        assert_eq!(text(0o4755), "4755");
        assert_eq!(text(0), "0000");
    }

    #[test]
    fn recursive_mode_adds_x_to_r() {
        assert_eq!(searchable(0o640), 0o750);
        assert_eq!(searchable(0o2604), 0o2705);
    }
}
