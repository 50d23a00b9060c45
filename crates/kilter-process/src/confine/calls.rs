//! System calls that a confined child may not make: calls that change the machine and that Landlock does not
//! control.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{self, MaskedEq, Ne};
use seccompiler::{BpfProgram, SeccompCmpArgLen, SeccompCondition, SeccompRule};

use super::Confinement;
use super::filter::{Refused, When, absence, compile, if_equal, load_argument, mask, permission, question, refusal};
use super::listener::NotifyListener;
use super::table::{self, Needs};

/// `AUDIT_ARCH_…` of the build target, if its system calls are known here.
const ARCHITECTURE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xc000_003e)
} else if cfg!(target_arch = "aarch64") {
    Some(0xc000_00b7)
} else {
    None
};

/// Modes, owners, times, extended attributes and flags of files. These calls are refused also for files that the
/// child may write, because the filter sees numbers and no paths.
const METADATA: [i64; 19] = [
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    REMOVEXATTRAT,
    FILE_SETATTR,
    // Names of message queues are files that Landlock does not control.
    libc::SYS_mq_unlink,
    // The kernel keeps keys per user.
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
];

/// Older calls for the same.
#[cfg(target_arch = "x86_64")]
const METADATA_OLD: &[i64] =
    &[libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown, libc::SYS_utime, libc::SYS_utimes, libc::SYS_futimesat];
#[cfg(not(target_arch = "x86_64"))]
const METADATA_OLD: &[i64] = &[];

/// The machine as a whole: file systems, names, clock, kernel. Most of these calls need capabilities that the child
/// has lost. The filter is a second barrier without cost.
const MACHINE: [i64; 29] = [
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    MOVE_MOUNT,
    FSOPEN,
    FSCONFIG,
    FSMOUNT,
    FSPICK,
    MOUNT_SETATTR,
    OPEN_TREE_ATTR,
    libc::SYS_quotactl,
    QUOTACTL_FD,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_clock_settime,
    libc::SYS_settimeofday,
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    KEXEC_FILE_LOAD,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_bpf,
    // An io_uring performs some of these operations without a system call that the filter could refuse.
    IO_URING_SETUP,
    IO_URING_ENTER,
    IO_URING_REGISTER,
];

/// Calls that affect other processes.
const PROCESSES: [i64; 4] = [libc::SYS_ptrace, libc::SYS_process_vm_writev, PIDFD_GETFD, PROCESS_MADVISE];

pub(super) const KEXEC_FILE_LOAD: i64 = if cfg!(target_arch = "x86_64") { 320 } else { 294 };
// Numbers from 424 on are the same on all architectures. Not every libc defines all of them.
const PIDFD_GETFD: i64 = 438;
const IO_URING_SETUP: i64 = 425;
const IO_URING_ENTER: i64 = 426;
const IO_URING_REGISTER: i64 = 427;
pub(super) const MOVE_MOUNT: i64 = 429;
pub(super) const FSOPEN: i64 = 430;
const FSCONFIG: i64 = 431;
const FSMOUNT: i64 = 432;
const FSPICK: i64 = 433;
const PROCESS_MADVISE: i64 = 440;
pub(super) const MOUNT_SETATTR: i64 = 442;
const QUOTACTL_FD: i64 = 443;
pub(super) const FCHMODAT2: i64 = 452;
pub(super) const SETXATTRAT: i64 = 463;
pub(super) const REMOVEXATTRAT: i64 = 466;
const OPEN_TREE_ATTR: i64 = 467;
pub(super) const FILE_SETATTR: i64 = 469;

/// Recipient of notifications about calls that change the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallListener {
    /// A listener.
    Supervisor,
    /// No recipient.
    None,
}

/// Mechanism that prevents truncation of a file that is not open for writing: `truncate`, and an open with `O_RDONLY
/// | O_TRUNC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TruncateGuard {
    /// Landlock (Linux 6.2), except in the child's own directory.
    Ruled,
    /// The seccomp filters. They refuse it for all files, because they see no paths.
    Refused,
}

/// Compiled filters, created on first use.
static PROGRAMS: [OnceLock<Option<BpfProgram>>; 8] = [const { OnceLock::new() }; 8];

/// Makes the kernel refuse the listed calls with EPERM, for this thread and all processes that it starts.
pub(super) fn refuse(confinement: Confinement, cutting: TruncateGuard) -> Result<(), NotRefused> {
    match compiled(confinement, CallListener::None, cutting) {
        _ if confinement == Confinement::None => Ok(()),
        Some(program) => seccompiler::apply_filter(program).map_err(|_| NotRefused),
        None => Err(NotRefused),
    }
}

/// Like [`refuse`], and makes the kernel ask the listener before each call that would make a change. The owner of
/// the listener must answer.
///
/// The kernel may not support listeners. It allows only one, and a process that started this one may have it.
pub(super) fn refuse_and_listen(
    confinement: Confinement,
    cutting: TruncateGuard,
) -> Result<NotifyListener, NotRefused> {
    let program = compiled(confinement, CallListener::Supervisor, cutting).ok_or(NotRefused)?;
    NotifyListener::install(program, cutting).map_err(|_| NotRefused)
}

fn compiled(confinement: Confinement, heard: CallListener, cutting: TruncateGuard) -> Option<&'static BpfProgram> {
    let is_alone = match confinement {
        Confinement::None => return None,
        Confinement::ReadOnly => 0,
        Confinement::ReadOnlyAlone => 1,
    };
    let at = is_alone
        + 2 * usize::from(heard == CallListener::Supervisor)
        + 4 * usize::from(cutting == TruncateGuard::Refused);
    PROGRAMS[at].get_or_init(|| program(confinement, heard, cutting)).as_ref()
}

/// The kernel has no seccomp filters, or the system calls of this architecture are not known.
pub(super) struct NotRefused;

fn program(confinement: Confinement, heard: CallListener, cutting: TruncateGuard) -> Option<BpfProgram> {
    let always = METADATA.iter().chain(METADATA_OLD).chain(&MACHINE).chain(&PROCESSES);
    let always = always.map(|&call| Refused { call, when: When::Always });
    let mut refused: Vec<Refused> = always.chain(sometimes(heard)).collect();
    if confinement == Confinement::ReadOnlyAlone {
        // Netlink sockets only query the kernel: the capabilities that changes need are dropped.
        let rules = vec![when([arg(0, Dword, Ne, libc::AF_NETLINK as u64)])];
        refused.push(Refused { call: libc::SYS_socket, when: When::Rules(rules) });
    }
    if cutting == TruncateGuard::Refused {
        refused.extend(cuts(heard));
    }
    if heard == CallListener::Supervisor {
        // Calls that are always refused and that the table contains cause a notification instead. Calls that are
        // refused for some arguments only contain their own decision.
        refused.retain(|refused| !matches!(refused.when, When::Always) || table::asked(refused.call).next().is_none());
        let known: BTreeSet<i64> = refused.iter().map(|refused| refused.call).collect();
        let asked: BTreeMap<i64, Needs> = table::all().map(|asked| (asked.call, asked.needs)).collect();
        let asked = asked.into_iter().filter(|(call, _)| !known.contains(call));
        refused.extend(asked.map(|(call, needs)| Refused { call, when: asked_when(needs) }));
    }
    Some(compile(ARCHITECTURE?, refused))
}

/// Returns the condition for a notification. Most opens only read and need none.
fn asked_when(needs: Needs) -> When {
    let Needs::Flags(index) = needs else { return When::Supervised };
    let writes = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
    let index = u32::try_from(index).expect("a system call has six arguments");
    When::Block(vec![load_argument(index), mask(writes.unsigned_abs()), if_equal(0, 1, 0), question(), permission()])
}

/// Returns the calls that truncate a file without having it open for writing.
fn cuts(heard: CallListener) -> Vec<Refused> {
    // The flags of `openat2` lie in memory and may change before the kernel reads them. Programs that find the call
    // missing use `openat`.
    let mut cuts = vec![
        Refused { call: table::OPENAT2, when: When::Block(vec![absence()]) },
        // `open_by_handle_at` opens files without a path, for processes that may read all files.
        Refused { call: libc::SYS_open_by_handle_at, when: When::Always },
    ];
    if heard == CallListener::None {
        cuts.push(Refused { call: libc::SYS_truncate, when: When::Always });
        let opens = table::all().filter_map(|asked| match asked.needs {
            Needs::Flags(index) => Some((asked.call, u32::try_from(index).expect("a system call has six arguments"))),
            _ => None,
        });
        let both = (libc::O_ACCMODE | libc::O_TRUNC).unsigned_abs();
        cuts.extend(opens.map(|(call, flags)| {
            let [reads, neither] = CUTTING_FLAGS;
            let when = vec![
                load_argument(flags),
                mask(both),
                if_equal(reads, 1, 0),
                if_equal(neither, 0, 1),
                refusal(),
                permission(),
            ];
            Refused { call, when: When::Block(when) }
        }));
    }
    cuts
}

/// Access mode and truncation of an open that truncates a file without writing to it. The first opens for reading.
/// The second (access mode 3) opens only to control a device.
const CUTTING_FLAGS: [u32; 2] = [libc::O_TRUNC.unsigned_abs(), (libc::O_TRUNC | libc::O_ACCMODE).unsigned_abs()];

/// Returns true if a call truncates a file without having it open for writing.
pub(super) fn is_cut(call: i64, arguments: &[u64; 6]) -> bool {
    let both = u64::from((libc::O_ACCMODE | libc::O_TRUNC).unsigned_abs());
    call == libc::SYS_truncate
        || table::asked(call).any(|asked| match asked.needs {
            Needs::Flags(index) => CUTTING_FLAGS.map(u64::from).contains(&(arguments[index] & both)),
            _ => false,
        })
}

/// Returns the calls that are refused for some arguments only.
fn sometimes(heard: CallListener) -> impl Iterator<Item = Refused> {
    let of_others = |call| Refused { call, when: When::Rules(vec![when([arg(0, Dword, Ne, 0)])]) };
    // `which` is a process (`process`), and its id is 0, the caller.
    let of_other_kinds = |call, process| {
        let rules = vec![when([arg(0, Dword, Ne, process)]), when([arg(1, Dword, Ne, 0)])];
        Refused { call, when: When::Rules(rules) }
    };
    let others = [
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setattr,
        libc::SYS_migrate_pages,
        libc::SYS_move_pages,
    ];
    let limits = vec![when([arg(0, Dword, Ne, 0), arg(2, Qword, Ne, 0)])];
    let creat = u64::from(libc::O_CREAT.unsigned_abs());
    let queues = vec![when([arg(1, Dword, MaskedEq(creat), creat)])];
    others.map(of_others).into_iter().chain([
        of_other_kinds(libc::SYS_setpriority, 0),
        of_other_kinds(libc::SYS_ioprio_set, 1),
        Refused { call: libc::SYS_prlimit64, when: When::Rules(limits) },
        Refused { call: libc::SYS_mq_open, when: When::Rules(queues) },
        Refused { call: libc::SYS_ioctl, when: When::Block(controls(heard)) },
    ])
}

/// Filters the requests of ioctl(2) to files and terminals that are open for reading.
///
/// A request consists of two direction bits, a size, a type and a number. The numbers are the kernel's, on all
/// supported architectures. The code is written by hand because the kernel runs it more often than the rest. As a
/// list of rules it would make up half of the program.
fn controls(heard: CallListener) -> BpfProgram {
    const TYPE: u32 = 0xff00;
    const READS: u32 = 0x8000_0000;
    const WRITES: u32 = 0x4000_0000;
    // Flags and projects of files, freezing, and all other requests of ext4, XFS, F2FS and bcachefs that do not only
    // read.
    let file_systems = [b'f', b'X', b'v', 0xf5, 0xbc].map(|kind| u32::from(kind) << 8);
    vec![
        load_argument(1),
        // Requests that simulate input to a terminal or control the console.
        if_equal(0x5412, 11, 0),
        if_equal(0x541c, 10, 0),
        mask(TYPE),
        // Requests of btrfs, with snapshots and subvolumes. They include `FICLONE`, and programs copy files without
        // it.
        if_equal(0x9400, 8, 0),
        if_equal(file_systems[0], 4, 0),
        if_equal(file_systems[1], 3, 0),
        if_equal(file_systems[2], 2, 0),
        if_equal(file_systems[3], 1, 0),
        if_equal(file_systems[4], 0, 4),
        load_argument(1),
        mask(READS | WRITES),
        if_equal(READS, 1, 0),
        if heard == CallListener::Supervisor { question() } else { refusal() },
        permission(),
    ]
}

fn when<const N: usize>(conditions: [SeccompCondition; N]) -> SeccompRule {
    SeccompRule::new(conditions.into()).expect("there is a condition")
}

fn arg(index: u8, length: SeccompCmpArgLen, is: SeccompCmpOp, value: u64) -> SeccompCondition {
    SeccompCondition::new(index, length, is, value).expect("a system call has six arguments")
}

#[cfg(test)]
mod tests {
    use super::super::listener::CallVerdict;
    use super::*;

    #[test]
    fn the_program_is_small() {
        // The kernel translates the program at each start of a confined child.
        for (heard, most) in [(CallListener::None, 230), (CallListener::Supervisor, 260)] {
            for cutting in [TruncateGuard::Ruled, TruncateGuard::Refused] {
                for confinement in [Confinement::ReadOnly, Confinement::ReadOnlyAlone] {
                    let length = program(confinement, heard, cutting).map_or(0, |program| program.len());
                    assert!((100..most).contains(&length), "{length}");
                }
            }
        }
    }

    #[test]
    fn supervisor_refuses_like_the_kernel() {
        let always = METADATA.iter().chain(METADATA_OLD).chain(&MACHINE).chain(&PROCESSES);
        for call in always.chain(&[libc::SYS_ioctl]) {
            assert!(table::asked(*call).all(|asked| asked.answer == CallVerdict::Refused), "{call}");
        }
    }
}
