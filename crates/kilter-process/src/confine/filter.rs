//! From a list of system calls to the program that the kernel runs at each of them (seccomp(2)).
//!
//! The program is a tree: the kernel tries it on every number there is when it is installed, and each
//! start of a confined child installs it, so that a chain of comparisons would cost more than all else.

use seccompiler::{BpfProgram, SeccompRule, sock_filter};

/// A system call that is refused, by number.
pub(super) struct Refused {
    pub(super) call: i64,
    pub(super) when: When,
}

/// When a system call is refused.
pub(super) enum When {
    /// Whatever is asked.
    Always,
    /// Whoever listens is asked first, and answers.
    Told,
    /// If one of these fits.
    Rules(Vec<SeccompRule>),
    /// If this says so, which ends with [`refusal`], [`question`] or [`permission`].
    Asked(BpfProgram),
}

/// Neighbours that are refused whatever they are asked are looked at as one.
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

/// Where `struct seccomp_data` has the number of the call and the architecture.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;

/// The numbers of the x32 calls of x86-64 begin here: the same calls once more. Other architectures have none so high.
const X32: u32 = 0x4000_0000;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;

/// The program that refuses some calls with EPERM and allows the others. Calls of another architecture
/// (32-bit programs) have other numbers: who makes one is killed.
pub(super) fn compile(architecture: u32, mut refused: Vec<Refused>) -> BpfProgram {
    refused.sort_by_key(|refused| refused.call);
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

/// How a call ends, in the order of the instructions behind a block.
const ENDS: [u32; 3] = [ALLOW, REFUSE, libc::SECCOMP_RET_USER_NOTIF];

/// Where a comparison leads.
#[derive(Clone, Copy)]
enum To {
    /// To what comes so far behind the next instruction.
    Over(usize),
    /// To one of the ends of the block.
    End(u32),
}

const NEXT: To = To::Over(0);

/// An instruction of a block, which may lead to its ends.
#[derive(Clone)]
enum Step {
    Itself(sock_filter),
    Compare { code: u16, with: u32, yes: To, no: To },
}

/// The decision among some calls, in order of their numbers: blocks whose comparisons lead to ends that they share. A
/// comparison can jump over 255 instructions only, so that a block is no longer.
fn tree(ranges: &[Range]) -> BpfProgram {
    let steps = steps(ranges);
    // What is asked of a single call has to fit.
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

/// The instructions, and behind them the ends.
fn block(steps: &[Step]) -> BpfProgram {
    let instructions = steps.iter().enumerate().map(|(at, step)| match step {
        Step::Itself(itself) => itself.clone(),
        Step::Compare { code, with, yes, no } => {
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

fn steps(ranges: &[Range]) -> Vec<Step> {
    match ranges {
        [] => vec![Step::Itself(permission())],
        [one] => leaf(one),
        many => {
            let (low, high) = many.split_at(many.len() / 2);
            let (below, above) = (steps(low), steps(high));
            let yes = To::Over(below.len());
            let mut steps = vec![Step::Compare { code: IS_AT_LEAST, with: high[0].first, yes, no: NEXT }];
            steps.extend(below);
            steps.extend(above);
            steps
        }
    }
}

fn leaf(range: &Range) -> Vec<Step> {
    let allowed = To::End(ALLOW);
    let is_first = |yes| Step::Compare { code: IS_EQUAL, with: range.first, yes, no: allowed };
    let itself = |program: &[sock_filter]| program.iter().cloned().map(Step::Itself).collect::<Vec<_>>();
    match &range.when {
        When::Always | When::Told if range.first == range.last => vec![is_first(end(&range.when))],
        When::Always | When::Told => vec![
            Step::Compare { code: IS_AT_LEAST, with: range.last + 1, yes: allowed, no: NEXT },
            Step::Compare { code: IS_AT_LEAST, with: range.first, yes: end(&range.when), no: allowed },
        ],
        When::Rules(rules) => {
            let mut steps = vec![is_first(NEXT)];
            for rule in rules {
                steps.extend(itself(&BpfProgram::from(rule.clone())));
                steps.push(Step::Itself(refusal()));
            }
            steps.push(Step::Itself(permission()));
            steps
        }
        When::Asked(asked) => [vec![is_first(NEXT)], itself(asked)].concat(),
    }
}

/// Whether two calls may be looked at as one.
fn is_same(one: &When, other: &When) -> bool {
    matches!((one, other), (When::Always, When::Always) | (When::Told, When::Told))
}

/// What becomes of a call that nothing is looked at of.
fn end(when: &When) -> To {
    To::End(if let When::Told = when { libc::SECCOMP_RET_USER_NOTIF } else { REFUSE })
}

/// Asks whoever listens. Where nobody does any more, the answer is ENOSYS.
pub(super) fn question() -> sock_filter {
    instruction(RETURN, 0, 0, libc::SECCOMP_RET_USER_NOTIF)
}

pub(super) fn refusal() -> sock_filter {
    instruction(RETURN, 0, 0, REFUSE)
}

pub(super) fn permission() -> sock_filter {
    instruction(RETURN, 0, 0, ALLOW)
}

/// As if the kernel had no such call.
pub(super) fn absence() -> sock_filter {
    instruction(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32)
}

/// Loads the lower half of an argument.
pub(super) fn load_argument(index: u32) -> sock_filter {
    // Behind the number, the architecture and the place of the call; the lower half comes first on all that is built for.
    instruction(LOAD, 0, 0, 16 + 8 * index)
}

/// Keeps these bits of what was loaded.
pub(super) fn mask(bits: u32) -> sock_filter {
    instruction(MASK, 0, 0, bits)
}

/// Goes on behind so many instructions if what was loaded is that, behind so many others if not.
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

    /// What the program makes of a call: as the kernel runs it, so far as it is made of what is used here.
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
                        // All arguments are the same here.
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
    fn the_calls_of_the_list_are_refused_and_no_others() {
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
            // Every third call, some with a neighbour, some for an argument only.
            let asked = || vec![load_argument(1), mask(0xff), if_equal(7, 0, 1), refusal(), permission()];
            let refused = |at: i64| {
                let when = |call: i64| match at % 5 {
                    0 | 1 => Refused { call, when: When::Always },
                    2 => Refused { call, when: When::Asked(asked()) },
                    _ => Refused { call, when: When::Told },
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
    fn neighbours_are_looked_at_as_one() {
        let told = [3, 4, 6, 7, 8].map(|call| Refused { call, when: When::Told });
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
    fn a_call_may_be_asked_for_its_argument() {
        let asked = vec![load_argument(1), mask(0xff), if_equal(7, 0, 1), refusal(), permission()];
        let program = compile(1, vec![Refused { call: 16, when: When::Asked(asked) }]);
        assert_eq!(outcome(&program, 1, 16, 0x107), REFUSE);
        assert_eq!(outcome(&program, 1, 16, 0x108), ALLOW);
        assert_eq!(outcome(&program, 1, 17, 0x107), ALLOW);
    }
}
