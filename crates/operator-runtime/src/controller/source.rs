//! [`Source`]: kinds in the cache, streams and functions that add requests to the queue of a controller.

use std::future::Future;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;

use crate::cache::Cache;
use crate::error::Result;
use crate::event::Event;
use crate::handler::EventHandler;
use crate::object::{Kind, Meta, ObjectKey, View};
use crate::predicate::Predicate;
use crate::queue::requests::Later;
use crate::queue::{Add, LOW_PRIORITY, Requests};

/// Predicates of every event of every kind.
pub(super) type Filters = Arc<[Box<dyn Predicate<dyn Meta>>]>;

/// A source of requests for the queue of a controller.
pub(crate) enum Source {
    /// A kind. The future completes when the objects of the first list are in the queue.
    Kind(Box<dyn FnOnce(Requests) -> BoxFuture<'static, ()> + Send>),
    /// Another source. The future completes when the source ends or is cancelled.
    Raw(Box<dyn FnOnce(Requests, CancellationToken) -> BoxFuture<'static, Result<()>> + Send>),
}

// === impl Source ===

impl Source {
    /// Returns a source of the events of a kind that all predicates accept, mapped by a handler.
    pub(super) fn kind<K: View>(
        cache: &Cache,
        kind: &Kind,
        predicates: Vec<Box<dyn Predicate<K>>>,
        handler: Box<dyn EventHandler<K>>,
        filters: Filters,
    ) -> Self {
        // The informer must exist before the cache starts, so that its watch starts with it.
        let informer = cache.informer_of::<K>(kind);
        Self::Kind(Box::new(move |requests| {
            Box::pin(async move {
                informer.synced::<K>().await;
                let later = Later::new();
                let (tasks, fresh) = (later.tasks.clone(), requests.until(&later));
                let unchanged = fresh.clone().of_priority(LOW_PRIORITY);
                let handle = move |event: &Event<K>| {
                    // Kept alive by the handler.
                    let _later = &later;
                    let is_accepted = predicates.iter().all(|predicate| predicate.test(event));
                    if is_accepted && passes(&filters, event) {
                        let is_unchanged = event.is_initial() || event.is_resync();
                        handler.enqueue(event, if is_unchanged { &unchanged } else { &fresh });
                    }
                };
                informer.add_handler(handle).await;
                tasks.wait().await;
            })
        }))
    }

    /// Returns a source of the keys of a stream.
    pub(super) fn keys(stream: impl Stream<Item = ObjectKey> + Send + 'static) -> Self {
        Self::stream(stream, |key, requests| requests.add(key, Add::default()))
    }

    /// Returns a source of the events of a stream, mapped by a handler.
    pub(super) fn events<K: Send + Sync + 'static>(
        stream: impl Stream<Item = Event<K>> + Send + 'static,
        handler: impl EventHandler<K>,
    ) -> Self {
        Self::stream(stream, move |event, requests| handler.enqueue(&event, requests))
    }

    fn stream<T: Send + 'static>(
        stream: impl Stream<Item = T> + Send + 'static,
        add: impl Fn(T, &Requests) + Send + Sync + 'static,
    ) -> Self {
        Self::raw(async move |requests: Requests, stop: CancellationToken| {
            let later = Later::new();
            let requests = requests.until(&later);
            let mut stream = std::pin::pin!(stream.take_until(stop.clone().cancelled_owned()));
            while let Some(value) = stream.next().await {
                add(value, &requests);
            }
            // The work of the last events may continue after the stream has ended.
            stop.run_until_cancelled(later.tasks.wait()).await;
            Ok(())
        })
    }

    pub(super) fn raw<R>(run: impl FnOnce(Requests, CancellationToken) -> R + Send + 'static) -> Self
    where
        R: Future<Output = Result<()>> + Send + 'static,
    {
        Self::Raw(Box::new(move |requests, stop| {
            Box::pin(async move { run(requests, stop).await })
        }))
    }
}

fn passes<K: View>(filters: &Filters, event: &Event<K>) -> bool {
    if filters.is_empty() {
        return true;
    }
    let event = event.map(|object| -> Arc<dyn Meta> { object.clone() });
    filters.iter().all(|predicate| predicate.test(&event))
}
