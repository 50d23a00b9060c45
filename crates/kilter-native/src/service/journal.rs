//! Last lines of a unit in the journal.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kilter_process::Invocation;
use kilter_provider::Context;

use super::ServiceHost;
use super::bus::BusError;
use super::systemd::Systemd;
use crate::tool::{self, RecordedPart};

/// Maximum number of lines, and of characters in a line. A message is short.
const MAX_LINES: usize = 5;
const MAX_LINE_CHARS: usize = 100;

const JOURNALCTL_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_OUTPUT_BYTES: usize = 64 * 1024;

/// Number of reads, and the pause between them. The journal may receive the last lines of a process after systemd has
/// noticed its end.
const READS: usize = 3;
const READ_INTERVAL: Duration = Duration::from_millis(100);

impl ServiceHost {
    /// Returns the last lines since the last start of a unit, for the end of a message: lines of the unit, or else
    /// lines of systemd about it. Empty if there is no journal.
    ///
    /// systemd forgets the start of a unit that has ended without an error. The lines are then those since `begun`.
    pub(super) fn last_lines(
        &self,
        cx: &Context<'_>,
        systemd: &mut Systemd<'_>,
        unit: &str,
        begun: SystemTime,
    ) -> String {
        let lines = self.lines(cx, systemd, unit, begun).unwrap_or_default();
        let shown = |line: &String| format!("\n  {}", line.chars().take(MAX_LINE_CHARS).collect::<String>());
        match lines.is_empty() {
            true => String::new(),
            false => format!("\nthe last lines of its journal:{}", lines.iter().map(shown).collect::<String>()),
        }
    }

    fn lines(
        &self,
        cx: &Context<'_>,
        systemd: &mut Systemd<'_>,
        unit: &str,
        begun: SystemTime,
    ) -> Result<Vec<String>, BusError> {
        const SECOND: u64 = 1_000_000;
        let since = match systemd.time(unit, "InactiveExitTimestamp")? / SECOND {
            0 => begun.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            since => since,
        };
        let mut lines = Vec::new();
        for read in 1..=READS {
            self.journalctl(cx, &["--sync".into()]);
            for (at, field) in ["_SYSTEMD_UNIT", "UNIT"].into_iter().enumerate() {
                lines = self.journalctl(
                    cx,
                    &[
                        "--quiet".into(),
                        "--no-pager".into(),
                        "--output=cat".into(),
                        format!("--lines={MAX_LINES}"),
                        format!("--since=@{since}"),
                        format!("{field}={unit}"),
                    ],
                );
                if !lines.is_empty() && (at == 0 || read == READS) {
                    return Ok(lines);
                }
            }
            systemd.pause(READ_INTERVAL)?;
        }
        Ok(lines)
    }

    fn journalctl(&self, cx: &Context<'_>, args: &[String]) -> Vec<String> {
        let journalctl = Invocation::new("journalctl").args(args);
        let journalctl = journalctl.captured(MAX_OUTPUT_BYTES).deadline(JOURNALCTL_TIMEOUT);
        let output = tool::start(&*self.runner, cx, &journalctl, RecordedPart::Arguments);
        let Ok(output) = output else { return Vec::new() };
        output.stdout.text().lines().map(str::to_owned).collect()
    }
}
