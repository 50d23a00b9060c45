//! System calls that the kernel asks kilter about, with their effects.

use super::attempt::Operation;
use super::calls::{
    FCHMODAT2, FILE_SETATTR, FSOPEN, KEXEC_FILE_LOAD, MOUNT_SETATTR, MOVE_MOUNT, REMOVEXATTRAT, SETXATTRAT,
};
use super::listener::CallVerdict;
use super::resolve_path::Last;

/// Effect of a call on one file or on the machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallEffect {
    pub(super) call: i64,
    pub(super) operation: Operation,
    pub(super) at: At,
    pub(super) needs: Needs,
    /// `GoOn` if Landlock controls the call.
    pub(super) answer: CallVerdict,
}

/// Arguments that name the file.
#[derive(Clone, Copy, Debug)]
pub(super) enum At {
    /// A path, relative to the working directory.
    Path(usize),
    /// A descriptor, and a path relative to it. An empty path means the descriptor itself.
    From(usize, usize),
    Descriptor(usize),
    /// The address of a socket, and its length.
    Socket(usize, usize),
    /// The call is not about a file.
    Nowhere,
}

/// Precondition of a call. If it does not hold, the call fails by itself.
#[derive(Clone, Copy, Debug)]
pub(super) enum Needs {
    /// The file exists.
    There(Last),
    /// The name is free.
    Free,
    /// Another file exists, which gets this name. The name may already be in use.
    Given(At),
    /// No precondition: the call creates or truncates the file.
    Creates,
    /// The flags of an open, in this argument, determine the precondition.
    Flags(usize),
    /// The flags of an open, in the memory at this argument, determine the precondition.
    FlagsBehind(usize),
    /// The call is not about a file.
    Nothing,
}

const FOLLOWED: Needs = Needs::There(Last::Followed);
const ITSELF: Needs = Needs::There(Last::Itself);

/// `openat2`, which has the same number on all architectures.
pub(super) const OPENAT2: i64 = 437;

/// Creates the entry of a call that Landlock controls.
const fn ruled(call: i64, operation: Operation, at: At, needs: Needs) -> CallEffect {
    CallEffect { call, operation, at, needs, answer: CallVerdict::GoOn }
}

/// Creates the entry of a call that the filter refuses.
const fn refused(call: i64, operation: Operation, at: At, needs: Needs) -> CallEffect {
    CallEffect { call, operation, at, needs, answer: CallVerdict::Refused }
}

const fn of_machine(call: i64, operation: Operation) -> CallEffect {
    refused(call, operation, At::Nowhere, Needs::Nothing)
}

const EVERYWHERE: &[CallEffect] = &[
    ruled(libc::SYS_openat, Operation::Write, At::From(0, 1), Needs::Flags(2)),
    ruled(OPENAT2, Operation::Write, At::From(0, 1), Needs::FlagsBehind(2)),
    ruled(libc::SYS_truncate, Operation::Write, At::Path(0), FOLLOWED),
    ruled(libc::SYS_unlinkat, Operation::Remove, At::From(0, 1), ITSELF),
    ruled(libc::SYS_mkdirat, Operation::Make, At::From(0, 1), Needs::Free),
    ruled(libc::SYS_mknodat, Operation::Make, At::From(0, 1), Needs::Free),
    ruled(libc::SYS_symlinkat, Operation::Make, At::From(1, 2), Needs::Free),
    ruled(libc::SYS_linkat, Operation::Make, At::From(2, 3), Needs::Free),
    ruled(RENAMEAT, Operation::Rename, At::From(0, 1), ITSELF),
    ruled(RENAMEAT, Operation::Make, At::From(2, 3), Needs::Given(At::From(0, 1))),
    ruled(libc::SYS_renameat2, Operation::Rename, At::From(0, 1), ITSELF),
    ruled(libc::SYS_renameat2, Operation::Make, At::From(2, 3), Needs::Given(At::From(0, 1))),
    ruled(libc::SYS_bind, Operation::Make, At::Socket(1, 2), Needs::Free),
    refused(libc::SYS_fchmod, Operation::Mode, At::Descriptor(0), FOLLOWED),
    refused(libc::SYS_fchmodat, Operation::Mode, At::From(0, 1), FOLLOWED),
    refused(FCHMODAT2, Operation::Mode, At::From(0, 1), ITSELF),
    refused(libc::SYS_fchown, Operation::Owner, At::Descriptor(0), FOLLOWED),
    refused(libc::SYS_fchownat, Operation::Owner, At::From(0, 1), ITSELF),
    refused(libc::SYS_utimensat, Operation::Times, At::From(0, 1), ITSELF),
    refused(libc::SYS_setxattr, Operation::Attributes, At::Path(0), FOLLOWED),
    refused(libc::SYS_lsetxattr, Operation::Attributes, At::Path(0), ITSELF),
    refused(libc::SYS_fsetxattr, Operation::Attributes, At::Descriptor(0), FOLLOWED),
    refused(SETXATTRAT, Operation::Attributes, At::From(0, 1), ITSELF),
    refused(libc::SYS_removexattr, Operation::Attributes, At::Path(0), FOLLOWED),
    refused(libc::SYS_lremovexattr, Operation::Attributes, At::Path(0), ITSELF),
    refused(libc::SYS_fremovexattr, Operation::Attributes, At::Descriptor(0), FOLLOWED),
    refused(REMOVEXATTRAT, Operation::Attributes, At::From(0, 1), ITSELF),
    refused(FILE_SETATTR, Operation::Attributes, At::From(0, 1), ITSELF),
    refused(libc::SYS_ioctl, Operation::Attributes, At::Descriptor(0), FOLLOWED),
    refused(libc::SYS_mount, Operation::Mount, At::Path(1), FOLLOWED),
    refused(libc::SYS_umount2, Operation::Mount, At::Path(0), FOLLOWED),
    refused(MOVE_MOUNT, Operation::Mount, At::From(2, 3), FOLLOWED),
    refused(MOUNT_SETATTR, Operation::Mount, At::From(0, 1), FOLLOWED),
    of_machine(FSOPEN, Operation::Mount),
    of_machine(libc::SYS_pivot_root, Operation::Mount),
    of_machine(libc::SYS_sethostname, Operation::HostName),
    of_machine(libc::SYS_setdomainname, Operation::HostName),
    of_machine(libc::SYS_clock_settime, Operation::Clock),
    of_machine(libc::SYS_settimeofday, Operation::Clock),
    of_machine(libc::SYS_init_module, Operation::Kernel),
    of_machine(libc::SYS_finit_module, Operation::Kernel),
    of_machine(libc::SYS_delete_module, Operation::Kernel),
    of_machine(libc::SYS_kexec_load, Operation::Kernel),
    of_machine(KEXEC_FILE_LOAD, Operation::Kernel),
    of_machine(libc::SYS_reboot, Operation::Power),
];

const RENAMEAT: i64 = if cfg!(target_arch = "x86_64") { 264 } else { 38 };

#[cfg(target_arch = "x86_64")]
const OLD: &[CallEffect] = &[
    ruled(libc::SYS_open, Operation::Write, At::Path(0), Needs::Flags(1)),
    ruled(libc::SYS_creat, Operation::Write, At::Path(0), Needs::Creates),
    ruled(libc::SYS_unlink, Operation::Remove, At::Path(0), ITSELF),
    ruled(libc::SYS_rmdir, Operation::Remove, At::Path(0), ITSELF),
    ruled(libc::SYS_mkdir, Operation::Make, At::Path(0), Needs::Free),
    ruled(libc::SYS_mknod, Operation::Make, At::Path(0), Needs::Free),
    ruled(libc::SYS_symlink, Operation::Make, At::Path(1), Needs::Free),
    ruled(libc::SYS_link, Operation::Make, At::Path(1), Needs::Free),
    ruled(libc::SYS_rename, Operation::Rename, At::Path(0), ITSELF),
    ruled(libc::SYS_rename, Operation::Make, At::Path(1), Needs::Given(At::Path(0))),
    refused(libc::SYS_chmod, Operation::Mode, At::Path(0), FOLLOWED),
    refused(libc::SYS_chown, Operation::Owner, At::Path(0), FOLLOWED),
    refused(libc::SYS_lchown, Operation::Owner, At::Path(0), ITSELF),
    refused(libc::SYS_utime, Operation::Times, At::Path(0), FOLLOWED),
    refused(libc::SYS_utimes, Operation::Times, At::Path(0), FOLLOWED),
    refused(libc::SYS_futimesat, Operation::Times, At::From(0, 1), FOLLOWED),
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[CallEffect] = &[];

/// Returns all effects. A call that affects two files has two entries.
pub(super) fn all() -> impl Iterator<Item = &'static CallEffect> {
    EVERYWHERE.iter().chain(OLD)
}

/// Returns the effects of a call.
pub(super) fn asked(call: i64) -> impl Iterator<Item = &'static CallEffect> {
    all().filter(move |asked| asked.call == call)
}
