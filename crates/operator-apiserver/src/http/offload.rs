//! Runs long work on separate threads, so that short requests, handshakes and health checks do not wait for it.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::thread;

use parking_lot::{Condvar, Mutex};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// The maximum number of concurrent tasks; further ones wait in FIFO order.
const TASKS_MAX: usize = 64;

/// Runs long work.
#[derive(Debug)]
pub(crate) struct Offload {
    tasks: Arc<Semaphore>,
    slots: Arc<Slots>,
}

/// The maximum number of computing threads. Waiting tasks, such as those that call a webhook, hold no slot, because
/// the webhook may need one.
#[derive(Debug)]
struct Slots {
    free: Mutex<usize>,
    freed: Condvar,
}

struct Slot<'a>(&'a Slots);

impl Default for Offload {
    fn default() -> Self {
        // The system reads several files for the answer.
        static PROCESSORS: LazyLock<usize> =
            LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));
        Self {
            tasks: Arc::new(Semaphore::new(TASKS_MAX)),
            slots: Arc::new(Slots {
                // One processor remains for short requests.
                free: Mutex::new(PROCESSORS.saturating_sub(1).max(1)),
                freed: Condvar::new(),
            }),
        }
    }
}

impl Slots {
    fn take(&self) -> Slot<'_> {
        let mut free = self.free.lock();
        while *free == 0 {
            self.freed.wait(&mut free);
        }
        *free -= 1;
        Slot(self)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.freed.notify_one();
    }
}

impl Offload {
    /// Runs work on a blocking thread, or in place outside a runtime. Returns `None` if it panicked.
    ///
    /// When the returned future is dropped, the work is dropped at its next await.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let Ok(runtime) = Handle::try_current() else {
            return Some(work.await);
        };
        let permit = self.tasks.clone().acquire_owned().await.ok()?;
        let slots = self.slots.clone();
        let cancelled = CancellationToken::new();
        let _guard = cancelled.clone().drop_guard();
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            runtime.block_on(async move {
                let mut work = pin!(work);
                let work = std::future::poll_fn(|context| {
                    let _slot = slots.take();
                    work.as_mut().poll(context)
                });
                cancelled.run_until_cancelled(work).await
            })
        });
        task.await.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_that_waits_leaves_room_for_other_work() {
        let offload = Offload::default();
        *offload.slots.free.lock() = 1;
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let waits = offload.run(receiver);
        let sends = offload.run(async move { sender.send(1) });
        let (received, sent) = tokio::join!(waits, sends);
        assert_eq!((received, sent), (Some(Ok(1)), Some(Ok(()))));
    }

    #[tokio::test]
    async fn abandoned_work_is_dropped() {
        let offload = Offload::default();
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let waits = offload.run(async move {
            let _sender = sender;
            std::future::pending::<()>().await;
        });
        let abandoned = tokio::time::timeout(std::time::Duration::from_millis(1), waits).await;
        assert!(abandoned.is_err());
        assert!(receiver.await.is_err());
    }

    #[tokio::test]
    async fn work_that_panics_is_reported() {
        let offload = Offload::default();
        let panics = offload.run(async { panic!("as the test wants") });
        assert_eq!(panics.await, None::<()>);
        assert_eq!(offload.run(async { 1 }).await, Some(1));
    }
}
