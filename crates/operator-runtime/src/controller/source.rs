//! Where the requests of a controller come from: kinds in the cache, and whatever else the operator listens to.

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

/// Feeds the queue of a controller.
pub(crate) enum Source {
    /// A kind: the future ends when it is in the cache and its objects in the queue.
    Kind(Box<dyn FnOnce(Requests) -> BoxFuture<'static, ()> + Send>),
    /// Anything else: the future ends when the source has run dry, or is told to stop.
    Raw(Box<dyn FnOnce(Requests, CancellationToken) -> BoxFuture<'static, Result<()>> + Send>),
}

// === impl Source ===

impl Source {
    /// The events of a kind that all predicates accept, through a handler.
    pub(super) fn kind<K: View>(
        cache: &Cache,
        kind: &Kind,
        predicates: Vec<Box<dyn Predicate<K>>>,
        handler: Box<dyn EventHandler<K>>,
        filters: Filters,
    ) -> Self {
        // The informer exists from now on, so that its watch starts with the cache.
        let informer = cache.informer_of::<K>(kind);
        Self::Kind(Box::new(move |requests| {
            Box::pin(async move {
                informer.synced::<K>().await;
                let later = Later::new();
                let (tasks, fresh) = (later.tasks.clone(), requests.until(&later));
                let unchanged = fresh.clone().of_priority(LOW_PRIORITY);
                let handle = move |event: &Event<K>| {
                    // It lives as long as the handler does.
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

    /// The keys that a stream brings, until it ends.
    pub(super) fn keys(stream: impl Stream<Item = ObjectKey> + Send + 'static) -> Self {
        Self::stream(stream, |key, requests| requests.add(key, Add::default()))
    }

    /// What a handler makes of the events that a stream brings, until it ends.
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
            // The stream may have run dry before what it brought is done.
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
