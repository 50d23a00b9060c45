//! Signals by name.

use rustix::process::Signal as Raw;

/// A signal that asks a process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal(Raw);

/// Signals of Linux with their names from signal(7), in the order of their numbers.
const SIGNALS: [(&str, Raw); 31] = [
    ("SIGHUP", Raw::HUP),
    ("SIGINT", Raw::INT),
    ("SIGQUIT", Raw::QUIT),
    ("SIGILL", Raw::ILL),
    ("SIGTRAP", Raw::TRAP),
    ("SIGABRT", Raw::ABORT),
    ("SIGBUS", Raw::BUS),
    ("SIGFPE", Raw::FPE),
    ("SIGKILL", Raw::KILL),
    ("SIGUSR1", Raw::USR1),
    ("SIGSEGV", Raw::SEGV),
    ("SIGUSR2", Raw::USR2),
    ("SIGPIPE", Raw::PIPE),
    ("SIGALRM", Raw::ALARM),
    ("SIGTERM", Raw::TERM),
    ("SIGSTKFLT", Raw::STKFLT),
    ("SIGCHLD", Raw::CHILD),
    ("SIGCONT", Raw::CONT),
    ("SIGSTOP", Raw::STOP),
    ("SIGTSTP", Raw::TSTP),
    ("SIGTTIN", Raw::TTIN),
    ("SIGTTOU", Raw::TTOU),
    ("SIGURG", Raw::URG),
    ("SIGXCPU", Raw::XCPU),
    ("SIGXFSZ", Raw::XFSZ),
    ("SIGVTALRM", Raw::VTALARM),
    ("SIGPROF", Raw::PROF),
    ("SIGWINCH", Raw::WINCH),
    ("SIGIO", Raw::IO),
    ("SIGPWR", Raw::POWER),
    ("SIGSYS", Raw::SYS),
];

impl Signal {
    /// Default signal.
    pub const TERM: Signal = Signal(Raw::TERM);

    /// Returns the signal with a name such as `SIGINT`.
    pub fn named(name: &str) -> Option<Signal> {
        SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, raw)| Signal(*raw))
    }

    /// Returns the names of all signals, in the order of their numbers.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SIGNALS.iter().map(|(name, _)| *name)
    }

    /// Returns the name of the signal with a number.
    pub fn name_of(number: i32) -> Option<&'static str> {
        SIGNALS.iter().find(|(_, raw)| raw.as_raw() == number).map(|(name, _)| *name)
    }

    pub(crate) fn raw(self) -> Raw {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_that_of_another_number() {
        let mut numbers: Vec<i32> = SIGNALS.iter().map(|(_, raw)| raw.as_raw()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!((numbers.len(), numbers.first(), numbers.last()), (31, Some(&1), Some(&31)));
        assert_eq!((Signal::named("SIGTERM"), Signal::named("sigterm")), (Some(Signal::TERM), None));
        assert_eq!((Signal::name_of(9), Signal::name_of(34)), (Some("SIGKILL"), None));
    }
}
