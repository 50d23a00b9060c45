//! Sandboxes: copies of this machine's files that programs can change without effect on the machine.
//!
//! A sandbox is a mount namespace (mount_namespaces(7)). It contains the machine's file systems, each with an empty
//! overlayfs layer in memory above it. All files can be read. Every write, creation or removal affects the layer
//! only. A thread [enters](Sandbox::enter) a sandbox. From then on, the files that it opens and the programs that it
//! starts are in that sandbox. [`Sandbox::traces`] lists the changes in the layers: the difference between the sandbox
//! and the machine.
//!
//! Sandboxes share everything except files: the network, processes, the kernel. `/sys`, `/dev` and the kernel settings
//! in `/proc` are read-only. Devices are the machine's.

mod diff;
mod error;
mod kernel_fs;
mod mounted_file;
mod mounts;
mod overlay;
mod paths;
mod skeleton;
mod user;

use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

pub use error::SandboxError;
pub use mounts::unescaped;

use overlay::{Plan, Stage};

/// Makes sandboxes, all from the current state of the machine.
pub struct SandboxBuilder {
    /// Namespace that is copied for each sandbox.
    base: OwnedFd,
    /// Directory in which sandboxes are built.
    stage: Stage,
    /// Structure of the sandboxes.
    plan: Plan,
    /// True if a user other than root makes sandboxes, in a user namespace.
    by_user: bool,
}

/// A copy of this machine's files. It exists until it is dropped and no process uses it any more.
pub struct Sandbox {
    number: u64,
    space: OwnedFd,
    tops: Vec<Top>,
}

/// Layer above one file system.
struct Top {
    /// Mount point of the file system.
    at: PathBuf,
    /// Upper directory: all changes.
    upper: OwnedFd,
    /// Lower directory: the original.
    lower: OwnedFd,
    by_user: bool,
}

thread_local! {
    /// World of this thread; 0 is the machine.
    static INSIDE: Cell<u64> = const { Cell::new(0) };
}

impl SandboxBuilder {
    /// Determines the structure of sandboxes on this machine. If the user is not root, first moves the process into a
    /// user namespace with the same user id. Only a process with a single thread can do that.
    ///
    /// # Errors
    /// If the kernel, or the caller's environment, does not allow it.
    pub fn prepare() -> Result<SandboxBuilder, SandboxError> {
        let by_user = !rustix::process::geteuid().is_root();
        if by_user {
            user::enter()?;
        }
        let base =
            open("/proc/thread-self/ns/mnt", OFlags::RDONLY).map_err(SandboxError::of("open the mount namespace"))?;
        let stage = Stage::new()?;
        let worlds = SandboxBuilder { base, stage, plan: overlay::plan(by_user)?, by_user };
        // Test now instead of failing during the work.
        worlds.make()?;
        Ok(worlds)
    }

    /// Makes a sandbox.
    ///
    /// # Errors
    /// If the system does not allow it.
    pub fn make(&self) -> Result<Sandbox, SandboxError> {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // A separate thread, because a thread cannot return to its earlier namespace.
        let made = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, || self.put_together(number));
            thread.map(|thread| thread.join().unwrap_or(Err(SandboxError::Lost)))
        });
        made.unwrap_or(Err(SandboxError::Lost))
    }

    fn put_together(&self, number: u64) -> Result<Sandbox, SandboxError> {
        // The caller may be in another sandbox.
        move_into(&self.base).map_err(SandboxError::of("enter the mount namespace of the sandboxes"))?;
        unshare(UnshareFlags::NEWNS).map_err(SandboxError::of("make a mount namespace"))?;
        let tops = overlay::lay(&self.stage, &self.plan, self.by_user)?;
        let space =
            open("/proc/thread-self/ns/mnt", OFlags::RDONLY).map_err(SandboxError::of("open the new sandbox"))?;
        Ok(Sandbox { number, space, tops })
    }

    /// Returns the mount points that are missing in sandboxes, because no layer can be mounted above them.
    pub fn left_out(&self) -> impl Iterator<Item = &std::path::Path> {
        self.plan.bottoms.iter().filter(|bottom| bottom.is_left_out()).map(|bottom| bottom.at.as_path())
    }
}

impl Sandbox {
    /// Moves this thread, and all programs that it starts from now on, into the sandbox. Has no effect if the thread
    /// is already there.
    ///
    /// # Errors
    /// If the system does not allow it. The thread then stays where it was.
    pub fn enter(&self) -> std::io::Result<()> {
        if INSIDE.get() != self.number {
            move_into(&self.space)?;
            INSIDE.set(self.number);
        }
        Ok(())
    }

    /// Returns the difference between the sandbox and the machine: a line for each file that was created, removed or
    /// changed, in the order of the paths.
    ///
    /// A line contains kind, mode, owner, size and a checksum of the content, but no time. Paths for which
    /// `is_noise` returns true are left out, with all files below them.
    ///
    /// # Errors
    /// If a layer cannot be read.
    pub fn traces(&self, is_noise: &dyn Fn(&str) -> bool) -> std::io::Result<String> {
        let mut lines = Vec::new();
        for top in &self.tops {
            diff::of(top, is_noise, &mut lines)?;
        }
        lines.sort_unstable();
        Ok(lines.concat())
    }
}

/// Moves this thread into a mount namespace.
fn move_into(space: &OwnedFd) -> std::io::Result<()> {
    // Threads share the working directory and the root by default.
    unshare(UnshareFlags::FS)?;
    Ok(move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Mount))?)
}

#[expect(deprecated, reason = "it is unsafe with a table of descriptors of its own only, which nobody asks for here")]
fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    debug_assert!(!flags.contains(UnshareFlags::FILES));
    rustix::thread::unshare(flags)
}

fn open(path: impl rustix::path::Arg, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    openat(CWD, path, flags | OFlags::CLOEXEC, Mode::empty())
}
