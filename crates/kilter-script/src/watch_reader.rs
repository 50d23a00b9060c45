//! Reads the output of a watching script line by line.

use ecow::eco_format;
use kilter_process::{Event, LineEnd, Lines, Stream};
use kilter_provider::{Context, Level, WatchSink};

use crate::convention::{LineParser, WatchLine};

/// Maximum length of a line, in bytes.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Maximum number of invalid lines that are reported.
const MAX_REPORTED_LINES: u32 = 3;

/// Reader for the output of a script. Passes on its events.
pub(crate) struct WatchReader<'a> {
    lines: Lines,
    said: WatchLineParser<'a>,
}

struct WatchLineParser<'a> {
    listener: LineParser,
    type_name: &'a str,
    cx: &'a Context<'a>,
    tell: &'a dyn WatchSink,
    number: usize,
    wrong: u32,
}

impl<'a> WatchReader<'a> {
    pub(crate) fn new(
        listener: LineParser,
        type_name: &'a str,
        cx: &'a Context<'a>,
        tell: &'a dyn WatchSink,
    ) -> WatchReader<'a> {
        let said = WatchLineParser { listener, type_name, cx, tell, number: 0, wrong: 0 };
        WatchReader { lines: Lines::new(MAX_LINE_BYTES), said }
    }

    /// Handles an event of the process.
    pub(crate) fn observe(&mut self, event: &Event<'_>) {
        let said = &mut self.said;
        match event {
            Event::Chunk { stream: Stream::Stdout, bytes } => {
                self.lines.feed(bytes, &mut |line: &[u8], end| said.line(line, end));
            }
            Event::Closed { stream: Stream::Stdout } => self.lines.end(&mut |line: &[u8], end| said.line(line, end)),
            _ => {}
        }
    }
}

impl WatchLineParser<'_> {
    /// Handles a line. An invalid line counts as a change of any resource.
    fn line(&mut self, line: &[u8], end: LineEnd) {
        self.number += 1;
        let number = self.number;
        let heard = match (std::str::from_utf8(line), end) {
            (_, LineEnd::Cut) => Err(eco_format!("line {number} of its output is longer than {MAX_LINE_BYTES} bytes")),
            (Err(_), _) => Err(eco_format!("line {number} of its output is not UTF-8")),
            (Ok(line), _) => (self.listener)(number, line).map_err(|error| eco_format!("{error}")),
        };
        match heard {
            Ok(WatchLine::Nothing) => {}
            Ok(WatchLine::Watching) => self.tell.watching(),
            Ok(WatchLine::Changed(names)) => names.iter().for_each(|name| self.tell.changed(name)),
            Ok(WatchLine::Anything) => self.tell.all_changed(),
            Err(why) => {
                self.tell.all_changed();
                self.wrong += 1;
                if self.wrong <= MAX_REPORTED_LINES {
                    self.cx.log(Level::Warning, self.type_name, "", &format!("watch: {why}"));
                }
            }
        }
    }
}
