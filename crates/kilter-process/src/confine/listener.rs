//! Seccomp notifications: the kernel asks before a call is made (seccomp_unotify(2)).
#![expect(
    unsafe_code,
    reason = "a filter with a listener, its requests, and the memory that an argument points to have no safe interface"
)]

use std::ffi::{CString, c_long};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use libc::{seccomp_data, seccomp_notif, seccomp_notif_resp};
use rustix::io::Errno;
use rustix::ioctl::{IntegerSetter, Opcode, Setter, Updater, ioctl, opcode};
use seccompiler::BpfProgram;

use super::calls::TruncateGuard;

/// Requests to a listener (`linux/seccomp.h`).
const RECEIVE: Opcode = opcode::read_write::<seccomp_notif>(b'!', 0);
const SEND: Opcode = opcode::read_write::<seccomp_notif_resp>(b'!', 1);
const IS_PENDING: Opcode = opcode::write::<u64>(b'!', 2);
const SET_FLAGS: Opcode = opcode::write::<u64>(b'!', 4);

/// Flag that makes caller and listener take turns on one processor, because one of them always waits for the other
/// (Linux 6.6).
const SYNC_WAKE_UP: usize = 1;

/// Maximum length of a path in bytes, with the terminating zero.
const MAX_PATH_BYTES: usize = 4096;

/// Smallest page size in bytes. Memory within one page can be read at once.
const PAGE: u64 = 4096;

/// Descriptor through which the kernel asks about calls.
#[derive(Debug)]
pub(crate) struct NotifyListener {
    fd: OwnedFd,
    pub(super) cutting: TruncateGuard,
}

/// A call that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingCall {
    id: u64,
    /// Id of the calling thread; 0 if it is not visible in this PID namespace.
    pub(super) caller: u32,
    pub(super) number: i64,
    pub(super) arguments: [u64; 6],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallVerdict {
    /// The kernel continues the call as if there were no listener.
    GoOn,
    /// The call fails with EPERM.
    Refused,
}

impl NotifyListener {
    /// Installs a filter in this thread, which must have `no_new_privs`, and returns its listener. The descriptor is
    /// closed on exec.
    pub(super) fn install(program: &BpfProgram, cutting: TruncateGuard) -> io::Result<NotifyListener> {
        let listens = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
        // Signals do not interrupt a caller whose call has been received (Linux 5.19).
        let killable = listens | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
        let fd = install(program, killable).or_else(|_| install(program, listens))?;
        // SAFETY: the request takes a number.
        let sync = unsafe { ioctl(&fd, IntegerSetter::<SET_FLAGS>::new_usize(SYNC_WAKE_UP)) };
        // An optimisation: without it a notification takes a little longer.
        let _ = sync;
        Ok(NotifyListener { fd, cutting })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Receives the next call. Blocks until there is one.
    pub(super) fn receive(&self) -> Result<PendingCall, Errno> {
        let data = seccomp_data { nr: 0, arch: 0, instruction_pointer: 0, args: [0; 6] };
        // The kernel requires that all bytes are zero.
        let mut asked = seccomp_notif { id: 0, pid: 0, flags: 0, data };
        // SAFETY: the request takes a pointer to this structure, and writes only to it.
        unsafe { ioctl(&self.fd, Updater::<RECEIVE, seccomp_notif>::new(&mut asked)) }?;
        let seccomp_notif { id, pid, data, .. } = asked;
        Ok(PendingCall { id, caller: pid, number: data.nr.into(), arguments: data.args })
    }

    /// Returns true if a call still waits. Its thread id then still means the thread that made it.
    pub(super) fn is_pending(&self, call: &PendingCall) -> bool {
        // SAFETY: the request reads a number through a pointer.
        unsafe { ioctl(&self.fd, Setter::<IS_PENDING, u64>::new(call.id)) }.is_ok()
    }

    /// Answers a call. A call that no longer waits needs no answer.
    pub(super) fn answer(&self, call: &PendingCall, answer: CallVerdict) -> Result<(), Errno> {
        let (error, flags) = match answer {
            CallVerdict::GoOn => (0, u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap_or(1)),
            CallVerdict::Refused => (-libc::EPERM, 0),
        };
        let mut answer = seccomp_notif_resp { id: call.id, val: 0, error, flags };
        // SAFETY: the request takes a pointer to this structure.
        match unsafe { ioctl(&self.fd, Updater::<SEND, seccomp_notif_resp>::new(&mut answer)) } {
            Err(Errno::NOENT) => Ok(()),
            sent => sent,
        }
    }
}

fn install(program: &BpfProgram, flags: libc::c_ulong) -> io::Result<OwnedFd> {
    let len = u16::try_from(program.len()).map_err(|_| io::Error::from(Errno::INVAL))?;
    // Both types are `struct sock_filter`.
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut().cast::<libc::sock_filter>() };
    // SAFETY: the kernel reads the program, which outlives the call, and changes nothing.
    let fd: c_long = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &program) };
    match RawFd::try_from(fd) {
        // SAFETY: the kernel has just opened it for this call.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

impl PendingCall {
    /// Returns the text that an argument points to, as the caller's memory holds it now.
    pub(super) fn text(&self, address: u64) -> Option<CString> {
        let mut text: Vec<u8> = Vec::new();
        while text.len() < MAX_PATH_BYTES {
            let from = address.checked_add(text.len() as u64)?;
            // Most texts are short.
            let most = if text.is_empty() { 256 } else { PAGE };
            let room = usize::try_from((PAGE - from % PAGE).min(most)).ok()?;
            let read = self.memory(from, room)?;
            let end = read.iter().position(|&byte| byte == 0);
            text.extend_from_slice(&read[..end.unwrap_or(read.len())]);
            if end.is_some() {
                return CString::new(text).ok().filter(|text| text.count_bytes() < MAX_PATH_BYTES);
            }
        }
        None
    }

    /// Returns `length` bytes of the caller's memory.
    pub(super) fn memory(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let caller = i32::try_from(self.caller).ok().filter(|&caller| caller > 0)?;
        let mut bytes = vec![0_u8; length];
        let own = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: length };
        let others = libc::iovec { iov_base: usize::try_from(address).ok()? as *mut libc::c_void, iov_len: length };
        // SAFETY: the kernel writes at most `length` bytes to `bytes`. It reads another process's memory and checks
        // itself that this memory is mapped.
        let read = unsafe { libc::process_vm_readv(caller, &own, 1, &others, 1, 0) };
        (usize::try_from(read) == Ok(length)).then_some(bytes)
    }
}

#[cfg(test)]
impl PendingCall {
    /// Returns a call of this process that does not exist in the kernel.
    pub(super) fn made_up(number: i64, arguments: [u64; 6]) -> PendingCall {
        PendingCall { id: 0, caller: std::process::id(), number, arguments }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_child_are_read_up_to_path_limit() {
        let call = PendingCall::made_up(0, [0; 6]);
        for length in [0, 1, 255, 256, 300, 4000, 4095, 4096, 9000] {
            let text = CString::new(vec![b'x'; length]).unwrap();
            let expected = (length < MAX_PATH_BYTES).then_some(text.clone());
            assert!(call.text(text.as_ptr() as u64) == expected, "{length}");
        }
        assert_eq!((call.text(1), call.text(u64::MAX)), (None, None));
    }
}
