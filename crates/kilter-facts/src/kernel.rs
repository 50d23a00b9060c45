//! System calls that facts use.

mod addresses;

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Names of the kernel and the machine, from `uname(2)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uname {
    /// The kernel: `Linux`.
    pub sysname: String,
    /// Host name.
    pub nodename: String,
    /// Release of the kernel: `6.1.0-18-amd64`.
    pub release: String,
    /// The hardware: `x86_64`.
    pub machine: String,
}

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Index of the interface.
    pub interface: u32,
    /// The address.
    pub address: IpAddr,
    /// Length of the network prefix in bits.
    pub prefix: u8,
    /// `global`, `site`, `link` or `host`.
    pub scope: &'static str,
    /// Names of the set flags, in the order of their bits.
    pub flags: Vec<&'static str>,
}

/// Space of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Total size.
    pub size: u64,
    /// Space available to a normal user.
    pub available: u64,
    /// Free space, including the blocks reserved for root.
    pub free: u64,
}

/// Effective user and group of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
}

/// Kernel interfaces other than files.
pub trait Kernel: Send + Sync {
    /// Returns the names of the kernel and the machine.
    fn uname(&self) -> Uname;

    /// Returns the addresses of all interfaces, in the kernel's order.
    ///
    /// # Errors
    /// If the kernel refuses the request.
    fn addresses(&self) -> io::Result<Vec<Address>>;

    /// Returns the space of the file system that contains `path`. None if it is unknown.
    fn space(&self, path: &Path) -> Option<Space>;

    /// Returns the effective user and group of this process.
    fn ids(&self) -> Ids;

    /// Returns the current time in seconds since 1970 in UTC.
    fn now(&self) -> i64;
}

/// Returns the name of a machine from the host name of the kernel. Before any program has set one, the host name is
/// empty or `(none)`.
pub fn machine_name(nodename: &str) -> &str {
    match nodename {
        "" | "(none)" => "localhost",
        name => name,
    }
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
