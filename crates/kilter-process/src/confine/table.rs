//! System calls that the kernel asks kilter about, with their effects.

use super::attempt::Deed;
use super::calls::{
    FCHMODAT2, FILE_SETATTR, FSOPEN, KEXEC_FILE_LOAD, MOUNT_SETATTR, MOVE_MOUNT, REMOVEXATTRAT, SETXATTRAT,
};
use super::listener::Answer;
use super::place::Last;

/// Effect of a call on one file or on the machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) call: i64,
    pub(super) deed: Deed,
    pub(super) at: At,
    pub(super) needs: Needs,
    /// `GoOn` if Landlock controls the call.
    pub(super) answer: Answer,
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
const fn ruled(call: i64, deed: Deed, at: At, needs: Needs) -> Asked {
    Asked { call, deed, at, needs, answer: Answer::GoOn }
}

/// Creates the entry of a call that the filter refuses.
const fn refused(call: i64, deed: Deed, at: At, needs: Needs) -> Asked {
    Asked { call, deed, at, needs, answer: Answer::Refused }
}

const fn of_machine(call: i64, deed: Deed) -> Asked {
    refused(call, deed, At::Nowhere, Needs::Nothing)
}

const EVERYWHERE: &[Asked] = &[
    ruled(libc::SYS_openat, Deed::Write, At::From(0, 1), Needs::Flags(2)),
    ruled(OPENAT2, Deed::Write, At::From(0, 1), Needs::FlagsBehind(2)),
    ruled(libc::SYS_truncate, Deed::Write, At::Path(0), FOLLOWED),
    ruled(libc::SYS_unlinkat, Deed::Remove, At::From(0, 1), ITSELF),
    ruled(libc::SYS_mkdirat, Deed::Make, At::From(0, 1), Needs::Free),
    ruled(libc::SYS_mknodat, Deed::Make, At::From(0, 1), Needs::Free),
    ruled(libc::SYS_symlinkat, Deed::Make, At::From(1, 2), Needs::Free),
    ruled(libc::SYS_linkat, Deed::Make, At::From(2, 3), Needs::Free),
    ruled(RENAMEAT, Deed::Rename, At::From(0, 1), ITSELF),
    ruled(RENAMEAT, Deed::Make, At::From(2, 3), Needs::Given(At::From(0, 1))),
    ruled(libc::SYS_renameat2, Deed::Rename, At::From(0, 1), ITSELF),
    ruled(libc::SYS_renameat2, Deed::Make, At::From(2, 3), Needs::Given(At::From(0, 1))),
    ruled(libc::SYS_bind, Deed::Make, At::Socket(1, 2), Needs::Free),
    refused(libc::SYS_fchmod, Deed::Mode, At::Descriptor(0), FOLLOWED),
    refused(libc::SYS_fchmodat, Deed::Mode, At::From(0, 1), FOLLOWED),
    refused(FCHMODAT2, Deed::Mode, At::From(0, 1), ITSELF),
    refused(libc::SYS_fchown, Deed::Owner, At::Descriptor(0), FOLLOWED),
    refused(libc::SYS_fchownat, Deed::Owner, At::From(0, 1), ITSELF),
    refused(libc::SYS_utimensat, Deed::Times, At::From(0, 1), ITSELF),
    refused(libc::SYS_setxattr, Deed::Attributes, At::Path(0), FOLLOWED),
    refused(libc::SYS_lsetxattr, Deed::Attributes, At::Path(0), ITSELF),
    refused(libc::SYS_fsetxattr, Deed::Attributes, At::Descriptor(0), FOLLOWED),
    refused(SETXATTRAT, Deed::Attributes, At::From(0, 1), ITSELF),
    refused(libc::SYS_removexattr, Deed::Attributes, At::Path(0), FOLLOWED),
    refused(libc::SYS_lremovexattr, Deed::Attributes, At::Path(0), ITSELF),
    refused(libc::SYS_fremovexattr, Deed::Attributes, At::Descriptor(0), FOLLOWED),
    refused(REMOVEXATTRAT, Deed::Attributes, At::From(0, 1), ITSELF),
    refused(FILE_SETATTR, Deed::Attributes, At::From(0, 1), ITSELF),
    refused(libc::SYS_ioctl, Deed::Attributes, At::Descriptor(0), FOLLOWED),
    refused(libc::SYS_mount, Deed::Mount, At::Path(1), FOLLOWED),
    refused(libc::SYS_umount2, Deed::Mount, At::Path(0), FOLLOWED),
    refused(MOVE_MOUNT, Deed::Mount, At::From(2, 3), FOLLOWED),
    refused(MOUNT_SETATTR, Deed::Mount, At::From(0, 1), FOLLOWED),
    of_machine(FSOPEN, Deed::Mount),
    of_machine(libc::SYS_pivot_root, Deed::Mount),
    of_machine(libc::SYS_sethostname, Deed::HostName),
    of_machine(libc::SYS_setdomainname, Deed::HostName),
    of_machine(libc::SYS_clock_settime, Deed::Clock),
    of_machine(libc::SYS_settimeofday, Deed::Clock),
    of_machine(libc::SYS_init_module, Deed::Kernel),
    of_machine(libc::SYS_finit_module, Deed::Kernel),
    of_machine(libc::SYS_delete_module, Deed::Kernel),
    of_machine(libc::SYS_kexec_load, Deed::Kernel),
    of_machine(KEXEC_FILE_LOAD, Deed::Kernel),
    of_machine(libc::SYS_reboot, Deed::Power),
];

const RENAMEAT: i64 = if cfg!(target_arch = "x86_64") { 264 } else { 38 };

#[cfg(target_arch = "x86_64")]
const OLD: &[Asked] = &[
    ruled(libc::SYS_open, Deed::Write, At::Path(0), Needs::Flags(1)),
    ruled(libc::SYS_creat, Deed::Write, At::Path(0), Needs::Creates),
    ruled(libc::SYS_unlink, Deed::Remove, At::Path(0), ITSELF),
    ruled(libc::SYS_rmdir, Deed::Remove, At::Path(0), ITSELF),
    ruled(libc::SYS_mkdir, Deed::Make, At::Path(0), Needs::Free),
    ruled(libc::SYS_mknod, Deed::Make, At::Path(0), Needs::Free),
    ruled(libc::SYS_symlink, Deed::Make, At::Path(1), Needs::Free),
    ruled(libc::SYS_link, Deed::Make, At::Path(1), Needs::Free),
    ruled(libc::SYS_rename, Deed::Rename, At::Path(0), ITSELF),
    ruled(libc::SYS_rename, Deed::Make, At::Path(1), Needs::Given(At::Path(0))),
    refused(libc::SYS_chmod, Deed::Mode, At::Path(0), FOLLOWED),
    refused(libc::SYS_chown, Deed::Owner, At::Path(0), FOLLOWED),
    refused(libc::SYS_lchown, Deed::Owner, At::Path(0), ITSELF),
    refused(libc::SYS_utime, Deed::Times, At::Path(0), FOLLOWED),
    refused(libc::SYS_utimes, Deed::Times, At::Path(0), FOLLOWED),
    refused(libc::SYS_futimesat, Deed::Times, At::From(0, 1), FOLLOWED),
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[Asked] = &[];

/// Returns all effects. A call that affects two files has two entries.
pub(super) fn all() -> impl Iterator<Item = &'static Asked> {
    EVERYWHERE.iter().chain(OLD)
}

/// Returns the effects of a call.
pub(super) fn asked(call: i64) -> impl Iterator<Item = &'static Asked> {
    all().filter(move |asked| asked.call == call)
}
