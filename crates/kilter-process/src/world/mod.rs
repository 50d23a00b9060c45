//! Worlds: what a program sees of this machine, in which what it writes stays.
//!
//! A world is a namespace of mounts of its own (mount_namespaces(7)). Its file systems are the machine's, each with an empty
//! layer in memory above it (overlayfs): all can be read, and whatever is written, made or removed lands in the layer. A thread
//! [enters](World::enter) a world; what it opens from then on, and what it starts, is there.
//! [`World::traces`] tells what has become of the layers: how the world differs from the machine.
//!
//! What is no file is shared: the network, processes, the kernel. `/sys`, `/dev` and what sets the kernel in `/proc` can be read
//! only; devices are the machine's.

mod error;
mod layers;
mod mounted_file;
mod mounts;
mod paths;
mod skeleton;
mod traces;
mod user;
mod windows;

use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

pub use error::WorldError;

use layers::{Plan, Stage};

/// Makes worlds, all from the machine as it is.
pub struct Worlds {
    /// The namespace that is copied for each.
    base: OwnedFd,
    /// Where each is put together.
    stage: Stage,
    /// What they are made of.
    plan: Plan,
    /// Whether they are made in a user namespace, by a user who is not root.
    by_user: bool,
}

/// A copy of this machine's files, which lasts until it is dropped and nobody is in it any more.
pub struct World {
    number: u64,
    space: OwnedFd,
    tops: Vec<Top>,
}

/// The layer above one file system.
struct Top {
    /// Where the file system is mounted.
    at: PathBuf,
    /// What was written.
    upper: OwnedFd,
    /// What is beneath.
    lower: OwnedFd,
    by_user: bool,
}

thread_local! {
    /// The world that this thread is in; 0 is the machine.
    static INSIDE: Cell<u64> = const { Cell::new(0) };
}

impl Worlds {
    /// Finds out what worlds are made of here. Whoever is not root is put into a user namespace first, as the user who he is:
    /// only a process with a single thread can do that.
    ///
    /// # Errors
    /// When this kernel, or who runs this, does not allow it.
    pub fn prepare() -> Result<Worlds, WorldError> {
        let by_user = !rustix::process::geteuid().is_root();
        if by_user {
            user::enter()?;
        }
        let base =
            open("/proc/thread-self/ns/mnt", OFlags::RDONLY).map_err(WorldError::of("open the mount namespace"))?;
        let stage = Stage::new()?;
        let worlds = Worlds { base, stage, plan: layers::plan(by_user)?, by_user };
        // Better now than in the midst of the work.
        worlds.make()?;
        Ok(worlds)
    }

    /// Makes a world.
    ///
    /// # Errors
    /// When the system does not let it.
    pub fn make(&self) -> Result<World, WorldError> {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // A thread of its own: there is no way back into the namespace that one came from.
        let made = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, || self.put_together(number));
            thread.map(|thread| thread.join().unwrap_or(Err(WorldError::Lost)))
        });
        made.unwrap_or(Err(WorldError::Lost))
    }

    fn put_together(&self, number: u64) -> Result<World, WorldError> {
        // Whoever asks for a world may be in another one.
        move_into(&self.base).map_err(WorldError::of("enter the mount namespace that worlds are made from"))?;
        unshare(UnshareFlags::NEWNS).map_err(WorldError::of("make a mount namespace"))?;
        let tops = layers::lay(&self.stage, &self.plan, self.by_user)?;
        let space = open("/proc/thread-self/ns/mnt", OFlags::RDONLY).map_err(WorldError::of("open the new world"))?;
        Ok(World { number, space, tops })
    }

    /// What is not in worlds, since no layer can be laid above it.
    pub fn left_out(&self) -> impl Iterator<Item = &std::path::Path> {
        self.plan.bottoms.iter().filter(|bottom| bottom.is_left_out()).map(|bottom| bottom.at.as_path())
    }
}

impl World {
    /// Takes this thread, and what it starts from now on, into the world. It does nothing if the thread is there.
    ///
    /// # Errors
    /// When the system does not let it. The thread is where it was then.
    pub fn enter(&self) -> std::io::Result<()> {
        if INSIDE.get() != self.number {
            move_into(&self.space)?;
            INSIDE.set(self.number);
        }
        Ok(())
    }

    /// How the world differs from the machine: a line for each file that is there or gone, or is another one, in the order of their
    /// paths. It tells kind, mode, owner, size and a sum of the content; never a time. What `is_noise` is left out, with all
    /// that is below it.
    ///
    /// # Errors
    /// When a layer cannot be read.
    pub fn traces(&self, is_noise: &dyn Fn(&str) -> bool) -> std::io::Result<String> {
        let mut lines = Vec::new();
        for top in &self.tops {
            traces::of(top, is_noise, &mut lines)?;
        }
        lines.sort();
        Ok(lines.concat())
    }
}

/// Moves this thread into a namespace of mounts.
fn move_into(space: &OwnedFd) -> std::io::Result<()> {
    // The working directory and the root are shared by threads, unless they are asked not to.
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
