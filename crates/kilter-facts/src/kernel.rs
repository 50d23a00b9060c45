//! What the kernel is asked by system calls.

mod addresses;

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The kernel's name for itself and the machine, as `uname(2)` tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uname {
    /// The kernel: `Linux`.
    pub sysname: String,
    /// The host's name.
    pub nodename: String,
    /// The kernel's release: `6.1.0-18-amd64`.
    pub release: String,
    /// The hardware: `x86_64`.
    pub machine: String,
}

/// The address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The interface's index.
    pub interface: u32,
    /// The address itself.
    pub address: IpAddr,
    /// The bits of its network.
    pub prefix: u8,
    /// `global`, `site`, `link` or `host`.
    pub scope: &'static str,
    /// Words for the flags that are set, in the order of their bits.
    pub flags: Vec<&'static str>,
}

/// The space of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// All of it.
    pub size: u64,
    /// What a normal user can still write.
    pub available: u64,
    /// What is free, blocks reserved for root included.
    pub free: u64,
}

/// Whose rights this process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    /// The effective user.
    pub uid: u32,
    /// The effective group.
    pub gid: u32,
}

/// The kernel's answers that are not read from files.
pub trait Kernel: Send + Sync {
    /// The kernel's name for itself and the machine.
    fn uname(&self) -> Uname;

    /// The addresses of all interfaces, in the kernel's order.
    ///
    /// # Errors
    /// When the kernel does not tell.
    fn addresses(&self) -> io::Result<Vec<Address>>;

    /// The space of the file system that `path` is on; none when that cannot be told.
    fn space(&self, path: &Path) -> Option<Space>;

    /// Whose rights this process has.
    fn ids(&self) -> Ids;

    /// The seconds since 1970 in UTC.
    fn now(&self) -> i64;
}

/// The kernel that this process runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveKernel;

impl Kernel for LiveKernel {
    fn uname(&self) -> Uname {
        let uname = rustix::system::uname();
        let text = |bytes: &std::ffi::CStr| bytes.to_string_lossy().into_owned();
        Uname {
            sysname: text(uname.sysname()),
            nodename: text(uname.nodename()),
            release: text(uname.release()),
            machine: text(uname.machine()),
        }
    }

    fn addresses(&self) -> io::Result<Vec<Address>> {
        addresses::dump()
    }

    fn space(&self, path: &Path) -> Option<Space> {
        let stat = rustix::fs::statvfs(path).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Some(Space { size: bytes(stat.f_blocks), available: bytes(stat.f_bavail), free: bytes(stat.f_bfree) })
    }

    fn ids(&self) -> Ids {
        Ids { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }

    fn now(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    }
}
