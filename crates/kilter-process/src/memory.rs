//! Memory of this process.
#![expect(
    unsafe_code,
    reason = "the C library gives memory back that lies between what is in use only when it is asked to"
)]

/// Gives back to the system what was used for a while and is free. After much work the C library keeps as much again as is in
/// use, since what stays lies here and there between what has gone. It takes some 10 ms for 100 MB.
pub fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes the locks of the allocator as every allocation does, and touches free pages only.
    unsafe {
        libc::malloc_trim(0);
    }
}
