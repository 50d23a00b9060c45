//! Messages about panics: the place in the code, without the panic message.
//!
//! Panic messages repeat values, such as an unexpected error or a text. The report contains the message of a panic
//! in a provider, without the secrets of its resource.

use crate::{output, streams};

/// Hides the messages of panics, unless a backtrace is requested.
pub(crate) fn install_panic_hook() {
    let is_asked = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
    if is_asked {
        return;
    }
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|place| format!(" at {}:{}", place.file(), place.line()));
        let place = place.unwrap_or_default();
        // kilter shows output in memory only after the end of its command.
        streams::of_process(|| {
            output::error(format_args!(
                "there is a defect in kilter{place}; its message may hold secrets and is not shown"
            ));
            output::hint("RUST_BACKTRACE=1 shows it");
        });
    }));
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    /// Returns the output of a process that panics with a secret.
    fn said(backtrace: &str) -> String {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "--nocapture", "panics::tests::panics"]);
        let output = command.env("RUST_BACKTRACE", backtrace).output().unwrap();
        assert!(!output.status.success(), "it panics");
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    }

    #[test]
    fn panic_message_hides_resource_unless_requested() {
        let told = said("0");
        assert!(told.contains("there is a defect in kilter at ") && told.contains("panics.rs:"), "{told}");
        assert!(!told.contains("hunter"), "{told}");
        assert!(said("1").contains("hunter"));
    }

    #[test]
    #[ignore = "it is run by the test above, in a process of its own"]
    fn panics() {
        super::install_panic_hook();
        let secret = String::from_utf8_lossy(b"hunter\xc3\xbc2").into_owned();
        assert!(secret[..7].is_empty(), "a text cannot be cut within a letter");
    }
}
