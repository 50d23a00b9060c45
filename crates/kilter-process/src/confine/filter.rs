//! Compiles a list of system calls to the seccomp program that the kernel runs for each call (seccomp(2)).
//!
//! The program is a tree, because the kernel runs it for every possible call number when it is installed. Each start
//! of a confined child installs it. A linear chain of comparisons would dominate the cost of the start.

use seccompiler::{BpfProgram, SeccompRule, sock_filter};

/// A system call to refuse, by number.
pub(super) struct Refused {
    pub(super) call: i64,
    pub(super) when: When,
}

/// Condition for a refusal.
pub(super) enum When {
    Always,
    /// The listener decides.
    Supervised,
    /// If one of these rules matches.
    Rules(Vec<SeccompRule>),
    /// As this block decides. It ends with [`refusal`], [`question`] or [`permission`].
    Block(BpfProgram),
}

/// Consecutive call numbers with the same unconditional treatment.
struct Range {
    first: u32,
    last: u32,
    when: When,
}

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IS_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IS_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const GO_ON: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const MASK: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Offsets of the call number and the architecture in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;

/// First number of the x32 calls of x86-64, which duplicate the 64-bit calls. No other architecture uses numbers
/// this high.
const X32: u32 = 0x4000_0000;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;

/// Compiles a program that refuses some calls with EPERM and allows the others.
///
/// System calls of another architecture (32-bit programs) have different numbers. The program kills a process that
/// makes such a call.
pub(super) fn compile(architecture: u32, mut refused: Vec<Refused>) -> BpfProgram {
    refused.sort_unstable_by_key(|refused| refused.call);
    let mut ranges: Vec<Range> = Vec::with_capacity(refused.len());
    for one in refused {
        let number = number(&one);
        match (ranges.last_mut(), &one.when) {
            (Some(Range { last, when, .. }), of) if *last + 1 == number && is_same(when, of) => *last = number,
            _ => ranges.push(Range { first: number, last: number, when: one.when }),
        }
    }
    let mut program = vec![
        instruction(LOAD, 0, 0, ARCHITECTURE),
        instruction(IS_EQUAL, 1, 0, architecture),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        instruction(LOAD, 0, 0, NUMBER),
        instruction(IS_AT_LEAST, 0, 1, X32),
        refusal(),
    ];
    program.extend(tree(&ranges));
    program
}

/// Results of a call, in the order of their return instructions at the end of a block.
const ENDS: [u32; 3] = [ALLOW, REFUSE, libc::SECCOMP_RET_USER_NOTIF];

/// Target of a comparison.
#[derive(Clone, Copy)]
enum To {
    /// Distance, counted from the next instruction.
    Over(usize),
    /// A return instruction of the block.
    End(u32),
}

const NEXT: To = To::Over(0);

/// An instruction of a block. It may jump to the block's return instructions.
#[derive(Clone)]
enum FilterStep {
    Itself(sock_filter),
    Compare { code: u16, with: u32, yes: To, no: To },
}

/// Compiles the decision among calls that are sorted by number.
///
/// The leaves are blocks whose comparisons share return instructions. A comparison can jump over at most 255
/// instructions, which limits the length of a block.
fn tree(ranges: &[Range]) -> BpfProgram {
    let steps = steps(ranges);
    // The code for a single call must fit into one block.
    if ranges.len() < 2 || steps.len() + ENDS.len() <= usize::from(u8::MAX) {
        return block(&steps);
    }
    let (low, high) = ranges.split_at(ranges.len() / 2);
    let (below, above) = (tree(low), tree(high));
    let over = u32::try_from(below.len()).expect("a program has less than 4096 instructions");
    let mut program = vec![instruction(IS_AT_LEAST, 0, 1, high[0].first), instruction(GO_ON, 0, 0, over)];
    program.extend(below);
    program.extend(above);
    program
}

/// Returns the instructions, followed by the return instructions.
fn block(steps: &[FilterStep]) -> BpfProgram {
    let instructions = steps.iter().enumerate().map(|(at, step)| match step {
        FilterStep::Itself(itself) => itself.clone(),
        FilterStep::Compare { code, with, yes, no } => {
            let jump = |to: &To| {
                let over = match to {
                    To::Over(over) => *over,
                    To::End(end) => {
                        let end = ENDS.iter().position(|known| known == end).expect("there are no other ends");
                        steps.len() + end - at - 1
                    }
                };
                u8::try_from(over).expect("a block is shorter than a jump")
            };
            instruction(*code, jump(yes), jump(no), *with)
        }
    });
    instructions.chain(ENDS.map(|end| instruction(RETURN, 0, 0, end))).collect()
}

fn steps(ranges: &[Range]) -> Vec<FilterStep> {
    match ranges {
        [] => vec![FilterStep::Itself(permission())],
        [one] => leaf(one),
        many => {
            let (low, high) = many.split_at(many.len() / 2);
            let (below, above) = (steps(low), steps(high));
            let yes = To::Over(below.len());
            let mut steps = vec![FilterStep::Compare { code: IS_AT_LEAST, with: high[0].first, yes, no: NEXT }];
            steps.extend(below);
            steps.extend(above);
            steps
        }
    }
}

fn leaf(range: &Range) -> Vec<FilterStep> {
    let allowed = To::End(ALLOW);
    let is_first = |yes| FilterStep::Compare { code: IS_EQUAL, with: range.first, yes, no: allowed };
    let itself = |program: &[sock_filter]| program.iter().cloned().map(FilterStep::Itself).collect::<Vec<_>>();
    match &range.when {
        When::Always | When::Supervised if range.first == range.last => vec![is_first(end(&range.when))],
        When::Always | When::Supervised => vec![
            FilterStep::Compare { code: IS_AT_LEAST, with: range.last + 1, yes: allowed, no: NEXT },
            FilterStep::Compare { code: IS_AT_LEAST, with: range.first, yes: end(&range.when), no: allowed },
        ],
        When::Rules(rules) => {
            let mut steps = vec![is_first(NEXT)];
            for rule in rules {
                steps.extend(itself(&BpfProgram::from(rule.clone())));
                steps.push(FilterStep::Itself(refusal()));
            }
            steps.push(FilterStep::Itself(permission()));
            steps
        }
        When::Block(asked) => [vec![is_first(NEXT)], itself(asked)].concat(),
    }
}

/// Returns true if both calls can be part of one range.
fn is_same(one: &When, other: &When) -> bool {
    matches!((one, other), (When::Always, When::Always) | (When::Supervised, When::Supervised))
}

/// Returns the result of a call whose arguments are irrelevant.
fn end(when: &When) -> To {
    To::End(if let When::Supervised = when { libc::SECCOMP_RET_USER_NOTIF } else { REFUSE })
}

/// Asks the listener. The call fails with ENOSYS if the listener is closed.
pub(super) fn question() -> sock_filter {
    instruction(RETURN, 0, 0, libc::SECCOMP_RET_USER_NOTIF)
}

pub(super) fn refusal() -> sock_filter {
    instruction(RETURN, 0, 0, REFUSE)
}

pub(super) fn permission() -> sock_filter {
    instruction(RETURN, 0, 0, ALLOW)
}

/// Makes the call fail as if the kernel did not support it.
pub(super) fn absence() -> sock_filter {
    instruction(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32)
}

/// Loads the lower half of an argument.
pub(super) fn load_argument(index: u32) -> sock_filter {
    // The arguments follow the number, the architecture and the instruction pointer. All supported architectures are
    // little-endian, so the lower half comes first.
    instruction(LOAD, 0, 0, 16 + 8 * index)
}

/// Clears all bits of the loaded value except these.
pub(super) fn mask(bits: u32) -> sock_filter {
    instruction(MASK, 0, 0, bits)
}

/// Skips `yes` instructions if the loaded value equals `value`, otherwise `no` instructions.
pub(super) fn if_equal(value: u32, yes: u8, no: u8) -> sock_filter {
    instruction(IS_EQUAL, yes, no, value)
}

fn number(refused: &Refused) -> u32 {
    u32::try_from(refused.call).expect("system calls have small numbers")
}

fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition};

    use super::*;

    /// Runs the program for one call as the kernel does. Supports only the instructions that this module uses.
    fn outcome(program: &BpfProgram, architecture: u32, call: u32, argument: u64) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at].clone();
            at += 1;
            let jump = |is_so: bool| usize::from(if is_so { jt } else { jf });
            match u32::from(code) {
                code if code == u32::from(LOAD) => {
                    value = match k {
                        NUMBER => call,
                        ARCHITECTURE => architecture,
                        16 => argument as u32,
                        20 => (argument >> 32) as u32,
                        // All arguments have the same value here.
                        24 => argument as u32,
                        _ => panic!("no other fields are loaded: {k}"),
                    }
                }
                code if code == u32::from(IS_EQUAL) => at += jump(value == k),
                code if code == u32::from(IS_AT_LEAST) => at += jump(value >= k),
                code if code == u32::from(MASK) => value &= k,
                code if code == u32::from(GO_ON) => at += k as usize,
                code if code == u32::from(RETURN) => return k,
                code => panic!("no other instructions are used: {code}"),
            }
        }
    }

    #[test]
    fn filter_refuses_listed_calls_only() {
        let seven = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, 7).unwrap();
        let with_seven = || vec![SeccompRule::new(vec![seven.clone()]).unwrap()];
        let calls = [450, 3, 17, 5, 90, 91, 92, 300];
        let refused: Vec<Refused> = calls.iter().map(|&call| Refused { call, when: When::Always }).collect();
        let refused = refused.into_iter().chain([Refused { call: 200, when: When::Rules(with_seven()) }]).collect();
        let program = compile(1, refused);
        for call in 0..1000 {
            let expected = if calls.contains(&i64::from(call)) { REFUSE } else { ALLOW };
            assert_eq!(outcome(&program, 1, call, 0), expected, "{call}");
            assert_eq!(outcome(&program, 2, call, 0), libc::SECCOMP_RET_KILL_PROCESS);
            assert_eq!(outcome(&program, 1, call + X32, 0), REFUSE);
        }
        assert_eq!(outcome(&program, 1, 200, 7), REFUSE);
        assert_eq!(outcome(&program, 1, 200, (1 << 32) + 7), REFUSE);
    }

    #[test]
    fn a_long_program_has_several_blocks() {
        for count in [1, 60, 100, 126, 127, 128, 200, 500] {
            // Every third call, some with adjacent numbers, some conditional on an argument.
            let asked = || vec![load_argument(1), mask(0xff), if_equal(7, 0, 1), refusal(), permission()];
            let refused = |at: i64| {
                let when = |call: i64| match at % 5 {
                    0 | 1 => Refused { call, when: When::Always },
                    2 => Refused { call, when: When::Block(asked()) },
                    _ => Refused { call, when: When::Supervised },
                };
                let neighbour = (at % 5 == 1 || at % 5 == 4).then(|| when(3 * at + 1));
                [Some(when(3 * at)), neighbour].into_iter().flatten()
            };
            let program = compile(1, (0..count).flat_map(refused).collect());
            for (call, argument) in (0..1600).flat_map(|call| [(call, 7), (call, 8)]) {
                let expected = match (i64::from(call) / 3, call % 3) {
                    (at, _) if at >= count => ALLOW,
                    (at, 0) if at % 5 < 2 => REFUSE,
                    (at, 1) if at % 5 == 1 => REFUSE,
                    (at, 0) if at % 5 == 2 => [ALLOW, REFUSE][usize::from(argument == 7)],
                    (_, 0) => libc::SECCOMP_RET_USER_NOTIF,
                    (at, 1) if at % 5 == 4 => libc::SECCOMP_RET_USER_NOTIF,
                    _ => ALLOW,
                };
                assert_eq!(outcome(&program, 1, call, argument), expected, "{count}: {call} {argument}");
            }
        }
    }

    #[test]
    fn adjacent_calls_form_one_range() {
        let told = [3, 4, 6, 7, 8].map(|call| Refused { call, when: When::Supervised });
        let program = compile(1, told.into_iter().chain([Refused { call: 5, when: When::Always }]).collect());
        for call in 0..20 {
            let expected = match call {
                5 => REFUSE,
                3..9 => libc::SECCOMP_RET_USER_NOTIF,
                _ => ALLOW,
            };
            assert_eq!(outcome(&program, 1, call, 0), expected, "{call}");
        }
        for calls in [&[5, 6, 7][..], &[0, 1], &[3, 4, 9, 10, 11, 40]] {
            let refused = calls.iter().map(|&call| Refused { call, when: When::Always }).collect();
            let program = compile(1, refused);
            for call in 0..60 {
                let expected = if calls.contains(&i64::from(call)) { REFUSE } else { ALLOW };
                assert_eq!(outcome(&program, 1, call, 0), expected, "{calls:?}: {call}");
            }
        }
    }

    #[test]
    fn filter_may_check_an_argument() {
        let asked = vec![load_argument(1), mask(0xff), if_equal(7, 0, 1), refusal(), permission()];
        let program = compile(1, vec![Refused { call: 16, when: When::Block(asked) }]);
        assert_eq!(outcome(&program, 1, 16, 0x107), REFUSE);
        assert_eq!(outcome(&program, 1, 16, 0x108), ALLOW);
        assert_eq!(outcome(&program, 1, 17, 0x107), ALLOW);
    }
}
