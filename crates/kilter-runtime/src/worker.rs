//! Threads for calls that may block, created on demand.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope};

/// Identifier of a call, unique over a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallId(pub(crate) u64);

/// Work of a call.
struct Job<'env> {
    call: CallId,
    work: Box<dyn FnOnce() + Send + 'env>,
}

/// Workers of one run: at most `limit`. A new one starts when no worker is idle.
pub(crate) struct Workers<'scope, 'env: 'scope> {
    scope: &'scope Scope<'scope, 'env>,
    shared: Arc<SharedQueue<'scope>>,
    limit: usize,
    started: usize,
}

struct SharedQueue<'scope> {
    queue: Mutex<Queue<'scope>>,
    wakeup: Condvar,
}

#[derive(Default)]
struct Queue<'scope> {
    jobs: VecDeque<Job<'scope>>,
    idle: usize,
    closed: bool,
    /// True if no queued job may start.
    paused: bool,
}

impl<'scope, 'env> Workers<'scope, 'env> {
    pub(crate) fn new(scope: &'scope Scope<'scope, 'env>, limit: usize) -> Self {
        let shared = Arc::new(SharedQueue { queue: Mutex::new(Queue::default()), wakeup: Condvar::new() });
        Workers { scope, shared, limit, started: 0 }
    }

    /// Queues `work` for a worker. Jobs start in the order of submission.
    pub(crate) fn submit(&mut self, call: CallId, work: impl FnOnce() + Send + 'scope) {
        let mut queue = self.shared.lock();
        queue.jobs.push_back(Job { call, work: Box::new(work) });
        let enough = queue.idle >= queue.jobs.len();
        drop(queue);
        if enough || self.started == self.limit {
            self.shared.wakeup.notify_one();
        } else {
            self.start();
        }
    }

    /// Starts one more worker. If the system allows no thread, the running workers do the job, or this thread if
    /// there are none.
    fn start(&mut self) {
        let shared = Arc::clone(&self.shared);
        let thread = Builder::new().name("worker".into());
        match thread.spawn_scoped(self.scope, move || shared.work()) {
            Ok(_) => self.started += 1,
            Err(_) if self.started > 0 => self.shared.wakeup.notify_one(),
            Err(_) => self.shared.work_off(),
        }
    }
}

impl Workers<'_, '_> {
    /// Returns the queued jobs.
    pub(crate) fn queued(&self) -> Vec<CallId> {
        self.shared.lock().jobs.iter().map(|job| job.call).collect()
    }

    /// Stops or resumes the start of queued jobs.
    pub(crate) fn pause(&mut self, paused: bool) {
        self.shared.lock().paused = paused;
        self.shared.wakeup.notify_all();
        if self.started == 0 && !self.shared.lock().jobs.is_empty() {
            self.start();
        }
    }

    /// Returns the number of queued jobs.
    pub(crate) fn queued_count(&self) -> usize {
        self.shared.lock().jobs.len()
    }

    /// Cancels queued jobs.
    pub(crate) fn cancel_queued(&mut self, is_meant: impl Fn(CallId) -> bool) -> Vec<CallId> {
        let mut queue = self.shared.lock();
        let jobs = std::mem::take(&mut queue.jobs).into_iter();
        let (taken, left): (VecDeque<_>, _) = jobs.partition(|job| is_meant(job.call));
        queue.jobs = left;
        drop(queue);
        taken.into_iter().map(|job| job.call).collect()
    }
}

impl Drop for Workers<'_, '_> {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.wakeup.notify_all();
    }
}

impl<'scope> SharedQueue<'scope> {
    /// Locks the queue. A job never panics while it holds the lock, so that a poisoned lock still guards a sound
    /// queue.
    fn lock(&self) -> MutexGuard<'_, Queue<'scope>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            (job.work)();
        }
    }

    /// Runs the jobs that may start now.
    fn work_off(&self) {
        loop {
            let mut queue = self.lock();
            let job = if queue.paused { None } else { queue.jobs.pop_front() };
            drop(queue);
            match job {
                Some(job) => (job.work)(),
                None => return,
            }
        }
    }

    fn next(&self) -> Option<Job<'scope>> {
        let mut queue = self.lock();
        loop {
            if !queue.paused
                && let Some(job) = queue.jobs.pop_front()
            {
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            queue.idle += 1;
            queue = self.wakeup.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }
}
