//! Concurrent processing of a list.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Applies `work` to each of `items`, with at most `jobs` concurrent calls. Returns the results in the order of
/// the items.
pub(crate) fn parallel_map<T: Sync, R: Send>(items: &[T], jobs: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let jobs = jobs.min(items.len());
    if jobs < 2 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(items.len()));
    let worker = || {
        while let Some(at) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < items.len()) {
            let result = work(&items[at]);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
        }
    };
    std::thread::scope(|scope| {
        // If a thread cannot be started, there are fewer workers.
        let _ = (1..jobs).try_for_each(|_| std::thread::Builder::new().spawn_scoped(scope, worker).map(drop));
        worker();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_results_keep_item_order() {
        let items: Vec<u32> = (0..100).collect();
        for jobs in [0, 1, 3, 200] {
            assert_eq!(
                parallel_map(&items, jobs, |item| item * 2),
                items.iter().map(|item| item * 2).collect::<Vec<_>>()
            );
        }
        assert!(parallel_map(&[] as &[u32], 4, |item| *item).is_empty());
    }
}
