//! Runs one child process from start to end.
//!
//! [`Invocation`] describes the child: argv, exact environment ([`Environment`]), input, identity, amount of output
//! to keep, deadline, and confinement ([`Confinement`]). [`run`] starts the child, writes its input, reads its
//! outputs, ends it at the deadline or on cancel, and returns the result ([`Output`]). [`run_observed`] also
//! reports events while the child runs.
//!
//! [`Coprocess`] starts a child that answers requests until its input ends.
//!
//! [`which`] finds programs. [`trust`] decides which files may control what root does. [`world`] makes copies of
//! this machine's files to run programs in. [`trim_heap`] returns unused memory of this process to the
//! system.
//!
//! Calls block their thread. This crate knows no async runtime, no resources and no meaning of exit codes. The
//! caller decides which program to start and how to interpret the result.
//!
//! # Guarantees for a child
//! - *Environment*: `PATH` is [`DEFAULT_PATH`], `LANG` and `LC_ALL` are `C.UTF-8`. The child inherits only variables
//!   of kilter that are allowed by name. `HOME`, `USER` and similar variables are set only on request. `TMPDIR` is
//!   set for a confined child.
//! - *Standard input*: the given bytes, then end of file; `/dev/null` if there are none.
//! - *Outputs*: pipes that kilter reads continuously, also beyond the limit; `/dev/null` if the caller wants no
//!   output. They belong to the user of the child, who can open `/dev/stderr`.
//! - *Descriptor 3*: a pipe on request, otherwise closed. A child that works without it works in the same way with
//!   it.
//! - *Process group*: its own, in the background of any terminal, so that Ctrl-C reaches kilter only.
//! - *Another user*: its own session without a terminal, so that the child cannot type into kilter's terminal. The
//!   child enters its working directory with that user's rights.
//!
//! # Guarantees for the caller
//! - `run` returns when the child has exited, even if descendants still run. A descendant that keeps the pipes open
//!   delays the return by 0.1 s ([`Output::leaked`]). It keeps running unless the caller sets
//!   [`KillMode::Ended`].
//! - At the deadline or on cancel the whole process group gets SIGTERM (or another [`Signal`]), and SIGKILL after
//!   the grace. The same holds for *strays*: descendants of its members in other groups (`timeout`, `setsid`, jobs
//!   of a shell). None of them runs when `run` returns. kilter ends a child that exceeds its output limit in the
//!   same way, also if a descendant wrote the output. kilter searches `/proc` for strays only when a child has to
//!   end, so they cost nothing before.
//! - kilter cannot end a descendant in another group whose parent had already ended, as daemons do. It belongs to
//!   init. The same holds for a process that a parent starts and leaves in another group during the grace. Only a
//!   control group contains such processes. A *subreaper* (`PR_SET_CHILD_SUBREAPER`) would inherit them, but for the
//!   whole process: kilter would have to wait for all orphans.
//! - No other process gets a signal, because process number and start time identify a stray.
//! - A child that never reads its input, closes its outputs early or floods them does no harm, because [`Capture`]
//!   limits the memory. A child that exceeds [`Capture::AtMost`] never counts as successful.
//! - Without identity, umask, size limit and descriptor 3, no code runs between fork and exec, so the standard library
//!   uses `posix_spawn`.
//! - kilter reports each [`Event`] before it reads further. [`StreamLines`] splits chunks into lines of bounded
//!   length.
//!
//! # Limits of a confined child
//! With [`Confinement::ReadOnly`] neither the child nor any descendant can change the machine, even as root:
//!
//! - write, make, remove, move or truncate files,
//! - change modes, owners, times, flags or extended attributes of files,
//! - control devices, mount, or signal or trace processes outside,
//! - change host name, clock, kernel parameters, modules or the configuration of the network.
//!
//! The child can write to its streams, terminals, `/dev/null`, `/dev/zero`, `/dev/full`, and its own directory at
//! `TMPDIR`, which kilter removes afterwards. [`Output::confined`] reports how far this kernel enforces the
//! confinement, [`can_confine`] reports it beforehand.
//!
//! *Not covered*: actions of other processes on its behalf. The child may connect to Unix sockets and over the
//! network: `systemctl stop` asks systemd, which is not confined. Use [`Confinement::ReadOnlyAlone`] for children
//! that need no other process. System V shared memory, semaphores and messages, sends to existing message queues,
//! and advisory locks are not covered either.
//!
//! *Reads that fail*: `/proc/PID/{environ,exe,cwd,root,fd,maps}` of processes outside (`lsof`, `ss -p`), information
//! that the kernel gives only to privileged processes (rules of the packet filter, LVM), and block devices by ioctl.
//! The kernel kills 32-bit programs. The child cannot set times and modes in its temporary directory either (`touch`
//! fails there, `>` does not).
//!
//! *Attempts* are reported independently of the child's own messages ([`Output::attempts`]). The kernel asks
//! kilter before an open for writing, or another changing call. kilter lets Landlock decide, or refuses the call if
//! the filter would have refused it. The report is no part of the confinement. A path in it is that of the moment
//! before the call, and the user's own permissions are not checked. A call that fails by itself (`mkdir` of an
//! existing directory) is no attempt.
//!
//! kilter does not report:
//!
//! - refused signals, changes of the network, and calls that programs also use for reads (keys, io_uring, BPF,
//!   priorities),
//! - attempts of a child that kilter may not inspect (another user's, without `CAP_SYS_PTRACE`; Yama),
//! - attempts while kilter is itself confined.
//!
//! [`Output::refusal_hint`] contains the child's own message about a refusal.
//!
//! kilter must answer the kernel's questions while it waits for such a child. [`run`] does so until it returns.
//! Processes that the child leaves behind then get ENOSYS for all calls that the kernel would ask about, also for
//! opening `/dev/null` to write. The child itself cannot install such a listener
//! (`SECCOMP_FILTER_FLAG_NEW_LISTENER`: EBUSY).
//!
//! *Start from* [`Invocation`] and [`run`].

pub mod acl;
mod channel;
mod confine;
mod coprocess;
mod detached;
mod environment;
mod event;
mod finished;
mod identity;
mod invocation;
mod lines;
mod memory;
mod memory_script;
mod pipes;
mod pre_exec;
mod process_tree;
mod run;
mod running;
mod signal;
mod start;
mod stop;
mod streams;
pub mod trust;
mod which;
pub mod world;

pub use confine::{Attempt, Attempts, Confined, Confinement, MissingFeature, Operation, can_confine};
pub use coprocess::{Coprocess, CoprocessEvent, WriteError};
pub use detached::start_detached;
pub use environment::{DEFAULT_PATH, Environment, LOCALE};
pub use event::{Event, Observer, Stream};
pub use finished::{Captured, Output, SpawnError, Status, Termination};
pub use identity::Identity;
pub use invocation::{Capture, Group, Invocation, KillMode};
pub use lines::{LineEnd, Lines, StreamLines};
pub use memory::{trim_heap, use_single_arena};
pub use run::{Cancel, run, run_observed};
pub use signal::Signal;
pub use which::which;
