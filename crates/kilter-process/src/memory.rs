//! Memory of this process.
#![expect(unsafe_code, reason = "the C library keeps more memory than is in use unless it is told otherwise")]

/// Returns free memory of this process to the system.
///
/// After much work the C library keeps free memory of about the size that is in use, because remaining allocations
/// lie between the free ones. The call takes about 10 ms for 100 MB.
pub fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes the locks of the allocator as every allocation does, and touches free pages only.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Makes all threads that start from now on allocate from one arena.
///
/// An arena per thread costs some system calls. In a long-running program, allocations of different threads also
/// replace each other, so that each arena becomes fragmented. Fragmented arenas keep about as much free memory as is
/// in use. The cost of one arena: threads that allocate much at the same time wait for each other.
pub fn use_single_arena() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets a number that the allocator reads under its own lock.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}
