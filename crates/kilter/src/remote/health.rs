//! Health of the hosts of a stage.

use std::time::{Duration, Instant};

use kilter_fetch::Request;
use kilter_process::{Cancel, Environment, Invocation};

use crate::cli::{HOST, RolloutArgs};
use crate::signals;

/// Interval between two checks of a host.
const INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time for one check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of the answer to a check in bytes.
const MAX_ANSWER: u64 = 1 << 20;

/// Interval in which a wait looks for a signal.
const TICK: Duration = Duration::from_millis(50);

/// Variables of the user for the command of a check.
const VARIABLES: [&str; 3] = ["HOME", "USER", "SSH_AUTH_SOCK"];

/// Checks of a host from this machine.
pub(super) struct HealthChecks<'a> {
    url: Option<&'a str>,
    command: Option<&'a str>,
    time: Duration,
}

impl<'a> HealthChecks<'a> {
    /// Returns the checks of a command line, if there are any.
    pub(super) fn of(args: &'a RolloutArgs) -> Option<HealthChecks<'a>> {
        let (url, command) = (args.healthy_url.as_deref(), args.healthy_command.as_deref());
        let time = args.healthy_for.filter(|_| url.is_some() || command.is_some())?;
        Some(HealthChecks { url, command, time })
    }

    /// Checks a host for some time.
    ///
    /// # Errors
    /// The reason why it is not healthy.
    pub(super) fn check(&self, name: &str, address: &str) -> Result<(), String> {
        let begun = Instant::now();
        stays_healthy(self.time, &|| begun.elapsed(), &|| pause(INTERVAL), &|| self.once(name, address))
    }

    fn once(&self, name: &str, address: &str) -> Result<(), String> {
        if let Some(url) = self.url {
            // An address of IPv6 has brackets in a URL.
            let address = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
            let url = url.replace(HOST, &address);
            let request = Request { url: &url, known: None, max_bytes: MAX_ANSWER, timeout: CHECK_TIMEOUT };
            let answer = kilter_fetch::get(&request, signals::raised(), &mut |_| Ok(()));
            answer.map_err(|error| format!("{url}: {error}"))?;
        }
        if let Some(command) = self.command {
            let environment =
                Environment::new().allow(VARIABLES).set("KILTER_HOST", name).set("KILTER_ADDRESS", address);
            let mut invocation = Invocation::new("/bin/sh").args(["-c", command]).environment(&environment);
            invocation.deadline = Some(CHECK_TIMEOUT);
            let finished = kilter_process::run(&invocation, Some(Cancel::new(signals::raised())));
            let finished = finished.map_err(|error| error.to_string())?;
            if !finished.is_success() {
                return Err(match finished.status.code() {
                    Some(code) => format!("`{command}` ended with {code}"),
                    None => format!("`{command}` was ended after {} s", CHECK_TIMEOUT.as_secs()),
                });
            }
        }
        Ok(())
    }
}

/// Waits, unless a signal ends the roll-out.
pub(super) fn pause(time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until && signals::exit().is_none() {
        std::thread::sleep(TICK.min(until.saturating_duration_since(Instant::now())));
    }
}

/// Repeats a check until it has succeeded for `time` without a failure. The first success must come within the same
/// time.
fn stays_healthy(
    time: Duration,
    elapsed: &dyn Fn() -> Duration,
    pause: &dyn Fn(),
    check: &dyn Fn() -> Result<(), String>,
) -> Result<(), String> {
    let mut since = None;
    loop {
        match (check(), since) {
            (Ok(()), None) => since = Some(elapsed()),
            (Ok(()), Some(since)) if elapsed() >= since + time => return Ok(()),
            (Ok(()), Some(_)) => {}
            (Err(why), None) if elapsed() >= time => return Err(why),
            (Err(_), None) => {}
            (Err(why), Some(_)) => return Err(format!("no longer healthy: {why}")),
        }
        if signals::exit().is_some() {
            return Ok(());
        }
        pause();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Returns the result of a check of 5 s with these results, one each second, and the number of checks.
    fn result(results: &[bool]) -> (Result<(), String>, usize) {
        let count = Cell::new(0);
        let check = || {
            let is_good = results.get(count.get()).or(results.last()).copied().unwrap_or_default();
            count.set(count.get() + 1);
            if is_good { Ok(()) } else { Err("x".to_owned()) }
        };
        let elapsed = || Duration::from_secs(count.get() as u64 - 1);
        (stays_healthy(Duration::from_secs(5), &elapsed, &|| {}, &check), count.get())
    }

    #[test]
    fn host_is_healthy_if_it_stays_so_for_the_whole_time() {
        assert_eq!(result(&[true]), (Ok(()), 6));
        assert_eq!(result(&[false, false, true]), (Ok(()), 8));
        assert_eq!(result(&[false]), (Err("x".to_owned()), 6));
        // It flaps.
        assert_eq!(result(&[true, true, false, true]), (Err("no longer healthy: x".to_owned()), 3));
    }
}
