//! Pipes between kilter and a child.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::fs::{Gid, Mode, OFlags, Uid, open};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::identity::Identity;
use crate::invocation::{Capture, Invocation};

/// kilter's ends of the pipes.
pub(crate) struct OwnEnds {
    pub(crate) stdin: Option<OwnedFd>,
    /// Standard output, standard error and descriptor 3.
    pub(crate) outputs: [Option<OwnedFd>; 3],
}

/// The child's ends of the pipes. `/dev/null` replaces missing ends.
pub(crate) struct ChildEnds {
    /// Standard input, standard output and standard error.
    standard: [Option<OwnedFd>; 3],
    /// `/dev/null`, if a standard stream needs it. It is opened here because the thread that starts a confined child
    /// cannot open it.
    null: Option<OwnedFd>,
    pub(crate) channel: Option<OwnedFd>,
}

pub(crate) fn streams(invocation: &Invocation) -> io::Result<(OwnEnds, ChildEnds)> {
    let identity = invocation.identity.as_ref();
    let output = |capture| match capture {
        Capture::Nothing => Ok((None, None)),
        Capture::First(_) | Capture::Last(_) | Capture::AtMost(_) => both(identity),
    };
    let input = match &invocation.input {
        Some(input) => (Some(input.try_clone()?), None),
        None if invocation.stdin.is_some() => both(identity)?,
        None => (None, None),
    };
    let (stdout, stderr) = match invocation.is_one_output() {
        true => {
            let (read, write) = both(identity)?;
            let again = write.as_ref().map(OwnedFd::try_clone).transpose()?;
            ((read, write), (None, again))
        }
        false => (output(invocation.stdout)?, output(invocation.stderr)?),
    };
    let channel = output(invocation.channel)?;
    let own = OwnEnds { stdin: input.1, outputs: [stdout.0, stderr.0, channel.0] };
    let standard = [input.0, stdout.1, stderr.1];
    let is_short = standard.iter().any(Option::is_none);
    let null = is_short.then(|| open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())).transpose()?;
    Ok((own, ChildEnds { standard, null, channel: channel.1 }))
}

type Ends = (Option<OwnedFd>, Option<OwnedFd>);

/// Creates a pipe: read end and write end. It belongs to the user of the child. Otherwise that user could not open
/// `/dev/stderr`.
fn both(identity: Option<&Identity>) -> io::Result<Ends> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    if let Some(identity) = identity {
        rustix::fs::fchown(&write, Some(Uid::from_raw(identity.uid)), Some(Gid::from_raw(identity.gid)))?;
    }
    Ok((Some(read), Some(write)))
}

impl ChildEnds {
    /// Returns copies of the standard streams for one attempt to start. There may be further attempts.
    pub(crate) fn stdio(&self) -> io::Result<[Stdio; 3]> {
        let one = |end: &Option<OwnedFd>| match end.as_ref().or(self.null.as_ref()) {
            Some(end) => end.try_clone().map(Stdio::from),
            None => Ok(Stdio::null()),
        };
        let [stdin, stdout, stderr] = &self.standard;
        Ok([one(stdin)?, one(stdout)?, one(stderr)?])
    }
}
