//! Memory of this process.
#![expect(unsafe_code, reason = "the C library keeps more memory than is in use unless it is told otherwise")]

/// Gives back to the system what was used for a while and is free. After much work the C library keeps as much again as is in
/// use, since what stays lies here and there between what has gone. It takes some 10 ms for 100 MB.
pub fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes the locks of the allocator as every allocation does, and touches free pages only.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Has all threads that are begun from now on take memory from one place: a place for each costs some system calls, and in a
/// program that goes on for long what stays of what one has made and another replaces lies here and there in all of them, and
/// keeps as much again from being given back. Threads that take much memory at the same time wait for each other.
pub fn keep_memory_together() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets a number that the allocator reads under its own lock.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}
