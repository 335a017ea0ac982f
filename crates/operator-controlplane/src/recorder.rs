//! Records Events about objects, as `kubectl describe` shows them ([`Recorder`]). Repeated Events increment a count.

use std::collections::HashMap;

use operator_apiserver::client::{Client, Patch};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::kind::EVENT;
use crate::object::{Object, time};
use crate::plan::Note;

/// The maximum number of distinct Events that are remembered to count repetitions.
const REMEMBERED_MAX: usize = 4096;

#[derive(Clone, Debug)]
struct Seen {
    namespace: String,
    name: String,
    count: i64,
}

/// Writes Events.
#[derive(Debug)]
pub(crate) struct Recorder {
    client: Client,
    clock: Clock,
    seen: Mutex<HashMap<String, Seen>>,
}

impl Recorder {
    pub(crate) fn new(client: Client, clock: Clock) -> Self {
        Self {
            client,
            clock,
            seen: Mutex::default(),
        }
    }

    /// Records an Event. An error is only logged, because no controller depends on Events.
    pub(crate) async fn record(&self, note: &Note) {
        let id = format!(
            "{}/{}/{}/{}",
            note.about.text("/uid"),
            note.component,
            note.reason,
            note.message
        );
        let seen = self.seen.lock().get(&id).cloned();
        if let Some(seen) = seen
            && self.count(&id, &seen).await
        {
            return;
        }
        self.create(id, note).await;
    }

    async fn count(&self, id: &str, seen: &Seen) -> bool {
        let count = seen.count + 1;
        let patch = Patch::Merge(json!({"count": count, "lastTimestamp": time(self.clock.now())}));
        let done = self
            .client
            .patch(&EVENT.gvr, &seen.namespace, &seen.name, None, patch)
            .await;
        if let Some(entry) = self.seen.lock().get_mut(id) {
            entry.count = count;
        }
        done.is_ok()
    }

    async fn create(&self, id: String, note: &Note) {
        let now = self.clock.now();
        let event = event(note, now);
        let namespace = event.namespace().to_owned();
        let name = event.name().to_owned();
        match self.client.create(&EVENT.gvr, &namespace, event).await {
            Ok(_) => self.remember(
                id,
                Seen {
                    namespace,
                    name,
                    count: 1,
                },
            ),
            Err(status) => tracing::debug!(reason = note.reason, error = %status, "event not recorded"),
        }
    }

    fn remember(&self, id: String, seen: Seen) {
        let mut all = self.seen.lock();
        if all.len() >= REMEMBERED_MAX {
            all.clear();
        }
        all.insert(id, seen);
    }
}

/// Returns the Event of a note. As in client-go, its name is the object's name and the time in hexadecimal.
fn event(note: &Note, now: jiff::Timestamp) -> Value {
    let about = &note.about;
    let namespace = match about.text("/namespace") {
        "" => "default",
        namespace => namespace,
    };
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": format!("{}.{:x}", about.text("/name"), now.as_nanosecond()),
            "namespace": namespace,
        },
        "involvedObject": about,
        "reason": note.reason,
        "message": note.message,
        "type": note.kind,
        "count": 1,
        "firstTimestamp": time(now),
        "lastTimestamp": time(now),
        "source": {"component": note.component},
        "reportingComponent": note.component,
        "reportingInstance": "",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::NODE;

    #[test]
    fn an_event_about_a_cluster_scoped_object_is_in_the_default_namespace() {
        let node = json!({"metadata": {"name": "n", "uid": "u"}});
        let note = Note::normal("kubelet", &NODE, &node, "Starting", "Starting kubelet.".into());
        let event = event(&note, jiff::Timestamp::UNIX_EPOCH);
        assert_eq!(event.namespace(), "default");
        assert_eq!(event.name(), "n.0");
        assert_eq!(event.text("/involvedObject/kind"), "Node");
        assert_eq!(event.text("/firstTimestamp"), "1970-01-01T00:00:00Z");
    }
}
