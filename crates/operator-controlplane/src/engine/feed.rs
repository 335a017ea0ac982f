//! Maintains the index from watch events, and maps each event to the keys of each controller.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use operator_apiserver::client::{Client, Event, EventType, Gvr};
use serde_json::Value;

use crate::engine::Cache;
use crate::object::Object;
use crate::objects::{Key, Objects};
use crate::queue::Queue;

/// The delay before another snapshot after the watch returned nothing.
const PAUSE: Duration = Duration::from_millis(200);

/// A controller's subscription to events.
pub(crate) struct Subscriber {
    pub(crate) keys: fn(&Objects, &Event, &mut Vec<Key>),
    pub(crate) queue: Arc<Queue>,
}

/// Maintains the index until its task is dropped.
pub(crate) async fn feed(client: Client, cache: Arc<Cache>, subscribers: Vec<Subscriber>) {
    loop {
        let (revision, objects) = client.snapshot();
        let missed = difference(&cache.objects.read(), revision, &objects);
        for event in missed {
            take(&cache, &subscribers, &event);
        }
        cache.reach(revision);
        let mut watch = client.watch(revision);
        let mut idle = true;
        while let Some(event) = watch.next().await {
            idle = false;
            take(&cache, &subscribers, &event);
            cache.reach(event.revision);
        }
        if idle {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn take(cache: &Cache, subscribers: &[Subscriber], event: &Event) {
    cache.objects.write().apply(event);
    let objects = cache.objects.read();
    let mut keys = Vec::new();
    for subscriber in subscribers {
        (subscriber.keys)(&objects, event, &mut keys);
        for key in keys.drain(..) {
            subscriber.queue.add(key);
        }
    }
}

/// Returns the events that update the index to a snapshot.
fn difference(objects: &Objects, revision: u64, snapshot: &[(Arc<Gvr>, Arc<Value>)]) -> Vec<Event> {
    // Most objects of a snapshot are those of the index, and are shared with it.
    let indexed: HashSet<_> = objects.all().map(|(_, object)| Arc::as_ptr(object)).collect();
    let listed: HashSet<_> = snapshot.iter().map(|(_, object)| Arc::as_ptr(object)).collect();
    let old: Vec<_> = objects
        .all()
        .filter(|(_, object)| !listed.contains(&Arc::as_ptr(object)))
        .collect();
    let new = snapshot
        .iter()
        .filter(|(_, object)| !indexed.contains(&Arc::as_ptr(object)));
    let known: HashMap<&str, &Arc<Value>> = old.iter().map(|(_, object)| (object.uid(), *object)).collect();
    let found: HashSet<&str> = new.clone().map(|(_, object)| object.uid()).collect();
    let event = |gvr: &Arc<Gvr>, kind, object: &Arc<Value>, old: Option<&Arc<Value>>| Event {
        revision,
        gvr: gvr.clone(),
        kind,
        object: object.clone(),
        old: old.cloned(),
    };
    let gone = old.iter().filter(|(_, object)| !found.contains(object.uid()));
    let gone = gone.map(|(gvr, object)| event(gvr, EventType::Deleted, object, Some(object)));
    let here = new.filter_map(|(gvr, object)| match known.get(object.uid()) {
        None => Some(event(gvr, EventType::Added, object, None)),
        Some(old) if old.version() == object.version() => None,
        Some(old) => Some(event(gvr, EventType::Modified, object, Some(old))),
    });
    gone.chain(here).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kind::POD;

    #[test]
    fn a_new_snapshot_becomes_the_events_that_were_missed() {
        let gvr = Arc::new(POD.gvr.clone());
        let pod = |name: &str, version: &str| {
            Arc::new(json!({"metadata": {"name": name, "uid": name, "resourceVersion": version}}))
        };
        let mut objects = Objects::default();
        for (name, version) in [("gone", "1"), ("same", "2"), ("changed", "3")] {
            objects.insert(&gvr, &pod(name, version));
        }
        let snapshot = [("same", "2"), ("changed", "4"), ("new", "5")];
        let snapshot: Vec<_> = snapshot
            .map(|(name, version)| (gvr.clone(), pod(name, version)))
            .into();
        let events: Vec<_> = difference(&objects, 9, &snapshot)
            .into_iter()
            .map(|event| (event.kind, event.object.name().to_owned(), event.old.is_some()))
            .collect();
        let expected = [
            (EventType::Deleted, "gone", true),
            (EventType::Modified, "changed", true),
            (EventType::Added, "new", false),
        ];
        assert_eq!(
            events,
            expected.map(|(kind, name, old)| (kind, name.to_owned(), old))
        );
    }
}
