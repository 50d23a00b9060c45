//! Standard streams of a command: those of the process, or memory.
//!
//! kilter executes the commands of several devices in this process, each on a thread of its own. Their streams are in
//! memory, so that the outputs do not mix.

use std::cell::RefCell;
use std::io::{self, Read, StdoutLock, Write};
use std::time::Instant;

thread_local! {
    /// Streams of the command that this thread executes, if they are in memory.
    static STREAMS: RefCell<Option<MemoryStreams>> = const { RefCell::new(None) };
}

/// Standard streams in memory.
#[derive(Debug, Default)]
pub(crate) struct MemoryStreams {
    /// Standard input that is not read yet.
    stdin: io::Cursor<Vec<u8>>,
    /// Standard output.
    pub(crate) stdout: Vec<u8>,
    /// Standard error.
    pub(crate) stderr: Vec<u8>,
    /// Time at which a run of the command ends after its calls in flight.
    until: Option<Instant>,
}

/// Executes a command of this thread with this standard input, and returns its output. A run of it ends at `until`, as
/// after a signal.
pub(crate) fn in_memory<T>(stdin: Vec<u8>, until: Option<Instant>, command: impl FnOnce() -> T) -> (T, MemoryStreams) {
    STREAMS.set(Some(MemoryStreams { stdin: io::Cursor::new(stdin), until, ..MemoryStreams::default() }));
    let done = command();
    (done, STREAMS.take().unwrap_or_default())
}

/// Calls `work` with the streams of the process.
pub(crate) fn of_process<T>(work: impl FnOnce() -> T) -> T {
    let streams = STREAMS.take();
    let done = work();
    STREAMS.set(streams);
    done
}

/// Returns true if the streams of this thread are in memory.
pub(crate) fn is_in_memory() -> bool {
    STREAMS.with_borrow(Option::is_some)
}

/// Returns the time at which a run of this thread ends, if it is limited.
pub(crate) fn until() -> Option<Instant> {
    STREAMS.with_borrow(|streams| streams.as_ref()?.until)
}

/// Reads at most `limit` bytes of the standard input.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn read_stdin(limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let is_read = STREAMS.with_borrow_mut(|streams| match streams {
        Some(streams) => (&mut streams.stdin).take(limit).read_to_end(&mut bytes).map(|_| true),
        None => Ok(false),
    });
    if !is_read? {
        io::stdin().lock().take(limit).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Standard output of this thread.
pub(crate) enum Stdout {
    /// That of the process.
    Process(StdoutLock<'static>),
    /// Memory.
    Memory,
}

/// Returns the standard output of this thread.
pub(crate) fn stdout() -> Stdout {
    if is_in_memory() { Stdout::Memory } else { Stdout::Process(io::stdout().lock()) }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stdout::Process(stdout) => stdout.write(bytes),
            Stdout::Memory => {
                STREAMS.with_borrow_mut(|streams| streams.iter_mut().for_each(|one| one.stdout.extend(bytes)));
                Ok(bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stdout::Process(stdout) => stdout.flush(),
            Stdout::Memory => Ok(()),
        }
    }
}

/// Writes a line to the standard error of this thread. Removes styles for outputs without colours, and in memory unless
/// `is_styled`.
pub(crate) fn error_line(line: &str, is_styled: bool) {
    let is_written = STREAMS.with_borrow_mut(|streams| {
        let Some(streams) = streams else { return false };
        match is_styled {
            true => streams.stderr.extend(line.bytes()),
            false => anstream::adapter::strip_str(line).for_each(|piece| streams.stderr.extend(piece.bytes())),
        }
        streams.stderr.push(b'\n');
        true
    });
    if !is_written {
        // A failure of standard error cannot be reported.
        let _ = writeln!(anstream::stderr().lock(), "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_a_thread_are_in_memory_only_during_its_command() {
        let (read, streams) = in_memory(b"input".to_vec(), None, || {
            error_line("an error", false);
            of_process(|| assert!(!is_in_memory()));
            stdout().write_all(b"data").unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| assert!(!is_in_memory()));
            });
            [read_stdin(2).unwrap(), read_stdin(100).unwrap()]
        });
        assert_eq!(read, [b"in".to_vec(), b"put".to_vec()]);
        assert_eq!((streams.stdout.as_slice(), streams.stderr.as_slice()), (&b"data"[..], &b"an error\n"[..]));
        assert!(!is_in_memory());
    }
}
