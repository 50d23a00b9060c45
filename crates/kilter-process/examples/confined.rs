//! Runs a command that cannot change the machine, and says what became of it.
//!
//! `cargo run -p kilter-process --example confined -- COMMAND [ARGUMENT…]`

use std::process::ExitCode;

use kilter_process::{Capture, Confinement, Environment, Invocation, KillMode, run};

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let Some(program) = words.next() else {
        eprintln!("usage: confined COMMAND [ARGUMENT…]");
        return ExitCode::from(2);
    };
    let environment = Environment::new().user(rustix::process::geteuid().as_raw());
    let mut invocation = Invocation::new(program).args(words).environment(&environment).captured(1 << 20);
    invocation.channel = Capture::Last(1 << 20);
    let invocation = invocation.confined(Confinement::ReadOnly).leftovers(KillMode::Ended);
    match run(&invocation, None) {
        Err(error) => {
            eprintln!("{}", error.with_sources());
            ExitCode::from(2)
        }
        Ok(finished) => {
            print!("{}", finished.stdout.text());
            eprint!("{}", finished.stderr.text());
            eprintln!("{}, {}", finished.confined, finished.status);
            if !finished.attempts.is_empty() {
                eprintln!("it tried to {}", finished.attempts);
            } else if let Some(hint) = &finished.refusal_hint {
                eprintln!("it may have tried to change something: {hint}");
            }
            ExitCode::from(u8::from(!finished.is_success()))
        }
    }
}
