//! A script that tells what changes, for as long as somebody listens.

use ecow::eco_format;
use kilter_process::{Event, LineEnd, Lines, Stream};
use kilter_provider::{Context, Level, ProviderError, Tell};

use super::ScriptProvider;
use super::error::circumstances;
use crate::convention::{Heard, Request};

/// How many bytes a line has at most.
const LONGEST: usize = 1 << 20;

/// Of so many lines that mean nothing it is told.
const TOLD: u32 = 3;

impl ScriptProvider {
    /// Runs the script and passes on what it tells, until it is interrupted.
    ///
    /// A line that means nothing may mean anything: something has happened, and nobody knows to what.
    pub(super) fn listen(&self, cx: &Context<'_>, tell: &dyn Tell) -> Result<(), ProviderError> {
        let mut listener = self.convention.listener();
        let (mut lines, mut number, mut wrong) = (Lines::new(LONGEST), 0, 0);
        let mut take = |line: &[u8], end: LineEnd| {
            number += 1;
            let heard = match (std::str::from_utf8(line), end) {
                (_, LineEnd::Cut) => Err(eco_format!("line {number} of its output is longer than {LONGEST} bytes")),
                (Err(_), _) => Err(eco_format!("line {number} of its output is not UTF-8")),
                (Ok(line), _) => listener(number, line).map_err(|error| eco_format!("{error}")),
            };
            match heard {
                Ok(Heard::Nothing) => {}
                Ok(Heard::Watching) => tell.watching(),
                Ok(Heard::Changed(names)) => names.iter().for_each(|name| tell.changed(name)),
                Ok(Heard::Anything) => tell.anything(),
                Err(why) => {
                    tell.anything();
                    wrong += 1;
                    if wrong <= TOLD {
                        cx.log(Level::Warning, self.metadata.schema.name.as_str(), "", &format!("watch: {why}"));
                    }
                }
            }
        };
        let ended = self.call_observed(cx, &Request::Watch, &mut |event| match event {
            Event::Chunk { stream: Stream::Stdout, bytes } => lines.feed(bytes, &mut take),
            Event::Closed { stream: Stream::Stdout } => lines.end(&mut take),
            _ => {}
        });
        match ended {
            // Whoever interrupts it has heard enough.
            _ if cx.interrupt().is_raised() => Ok(()),
            Err(error) => Err(error.into()),
            Ok((_, by)) => Err(ProviderError::new(eco_format!(
                "watch by the provider `{}` ({}, {}): it has ended{}",
                self.metadata.name,
                self.metadata.convention,
                self.path.display(),
                circumstances(Some(&by.status), &by.last_words)
            ))),
        }
    }
}
