//! One child process, from its start to its end.
//!
//! [`Invocation`] says what to start: argv, an exact environment ([`Environment`]), input, identity, how much of the
//! outputs to keep, a deadline, and whether it may change the machine ([`Confinement`]). [`run`] starts it, feeds and
//! drains it, ends it when its time is up or somebody cancels, and returns what became of it: [`Finished`].
//! [`run_observed`] tells what happens while it happens. [`which`] finds programs, [`trust`] tells whether root
//! may run one. [`world`] makes copies of this machine's files to run programs in. [`give_memory_back`] is about this process.
//!
//! The call blocks its thread; nothing here knows of async runtimes, of resources or of the meaning
//! of exit codes. What to start and what to make of the result is left to others.
//!
//! # What a child can rely on
//! - *Environment*: `PATH` is [`DEFAULT_PATH`], `LANG` and `LC_ALL` are `C.UTF-8`. Nothing is passed
//!   on from kilter's own environment but what is allowed by name; `HOME`, `USER` and the like are
//!   there only if given. `TMPDIR` is set for a confined child.
//! - *Standard input*: the bytes that were given, then end of file; `/dev/null` if none were.
//! - *Outputs*: pipes that are always read, beyond the limit too; `/dev/null` if nobody wants them. They belong to
//!   the user that the child runs as, who can open `/dev/stderr`.
//! - *Descriptor 3*: a pipe as well, where the caller wants one, otherwise closed. A child that works without it
//!   works the same with it.
//! - *Process group*: its own, in the background of any terminal, so that Ctrl-C there reaches kilter only.
//! - *Another user*: a session of its own, without any terminal: it cannot type into kilter's. The working
//!   directory is entered with that user's rights.
//!
//! # What the caller can rely on
//! - `run` returns when the child has exited, whatever its descendants do: one that keeps the
//!   pipes open costs a tenth of a second ([`Finished::leaked`]) and is left alone, unless
//!   [`Leftovers::Ended`] was asked for.
//! - At the deadline, or when cancelled, the whole process group gets SIGTERM, or another [`Signal`], and SIGKILL when the
//!   grace is over, and so do the *strays*: descendants of its members in groups of their own (`timeout`, `setsid`, jobs of a
//!   shell). When `run` returns none of them runs. The same goes for a child that wrote more than it was allowed, whether
//!   it or a descendant did. Strays cost nothing before: they are looked for, in `/proc`, when a child has to end.
//! - Out of reach is a descendant in another group whose parent had ended before the child was told to end, as daemons do: it belongs to
//!   init. Only a control group holds those. A *subreaper* (`PR_SET_CHILD_SUBREAPER`) would have kilter inherit them, but for the
//!   process as a whole: it would have to wait for everybody's orphans. So is one that a parent starts and leaves behind in
//!   another group during the grace.
//! - Nobody else is signalled: a stray is known by its number and the time of its start.
//! - A child that never reads its input, closes its outputs early or floods them does no harm: memory is bounded
//!   by the limits of [`Capture`]. One that wrote more than [`Capture::AtMost`] never counts as a success, however it ended.
//! - Without identity, umask and descriptor 3 nothing runs between fork and exec: the standard library takes
//!   `posix_spawn`.
//! - An event is told before the next thing is read ([`Event`]); [`StreamLines`] makes lines of bounded length of
//!   chunks.
//!
//! # What a confined child cannot do
//! With [`Confinement::ReadOnly`] neither the child nor any descendant can write, make, remove, move or truncate files,
//! change their modes, owners, times, flags or extended attributes, control devices, mount, signal or trace processes
//! outside, or change host name, clock, kernel parameters, modules or the configuration of the network: whatever
//! user it runs as, root included. What it writes to is its streams, terminals, `/dev/null`, `/dev/zero`, `/dev/full`, and
//! a directory of its own at `TMPDIR`, which is removed when it has ended. [`Finished::confined`] says how far this
//! kernel keeps that promise, [`can_confine`] says so beforehand.
//!
//! *Not covered*: what others do in its name. It may connect to Unix sockets and over the network: `systemctl stop`
//! asks systemd, which is not confined. [`Confinement::ReadOnlyAlone`] is for children that need to ask nobody. Also not covered are
//! System V shared memory, semaphores and messages, sends to message queues that exist, and advisory locks.
//!
//! *What it cannot read*: `/proc/PID/{environ,exe,cwd,root,fd,maps}` of processes outside (`lsof`, `ss -p`), what the kernel
//! tells only those who may also change it (rules of the packet filter, LVM), and block devices by ioctl. 32-bit programs
//! are killed. Times and modes cannot be set in its temporary directory either (`touch` fails there, `>` does not).
//!
//! *What it tried* is told, whatever it says of it itself ([`Finished::attempts`]): the kernel asks kilter before an open that
//! writes, or another call that changes something, is made, and kilter says that Landlock is to decide, or refuses where the
//! filter would have. It is a report, and no part of the confinement: a path is that of the moment before, and nobody looks
//! whether it would have been refused to the user anyway. A call that fails by itself (`mkdir` of what is there) is
//! no attempt. Not told are refused signals, changes of the network, and calls that programs try to read with (keys,
//! io_uring, BPF, priorities), nor what is tried where the kernel does not ask: where kilter may not look into the child
//! (another user's, without `CAP_SYS_PTRACE`; Yama), and where kilter is itself confined. [`Finished::refusal_hint`] is what
//! the child says of it.
//!
//! Who waits for such a child has to answer: [`run`] does, until it returns. What the child leaves behind then gets ENOSYS for
//! all that the kernel would ask about, `/dev/null` opened for writing included. The child cannot listen to
//! others in this way (`SECCOMP_FILTER_FLAG_NEW_LISTENER`: EBUSY).
//!
//! *Start from* [`Invocation`] and [`run`].

mod between;
mod channel;
mod confine;
mod environment;
mod event;
mod finished;
mod identity;
mod invocation;
mod kin;
mod lines;
mod memory;
mod pipes;
mod run;
mod running;
mod signal;
mod start;
mod stop;
mod streams;
pub mod trust;
mod which;
pub mod world;

pub use confine::{Attempt, Attempts, Confined, Confinement, Deed, Gap, can_confine};
pub use environment::{DEFAULT_PATH, Environment, LOCALE};
pub use event::{Event, Observer, Stream};
pub use finished::{Captured, Ending, Finished, SpawnError, Status};
pub use identity::Identity;
pub use invocation::{Capture, Group, Invocation, Leftovers};
pub use lines::{LineEnd, Lines, StreamLines};
pub use memory::{give_memory_back, keep_memory_together};
pub use run::{Cancel, run, run_observed};
pub use signal::Signal;
pub use which::which;
