//! Sequences of requests ([`Sequence`]), and helpers to build their steps.

use serde_json::{Map, Value, json};

use crate::scenario::{Ordered, Step};

/// A sequence of requests, and the objects to delete after it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sequence {
    /// The resource of the sequence, such as `apps/v1/deployments`.
    pub(crate) subject: String,
    pub(crate) steps: Vec<Step>,
    /// The paths of the objects to delete, last to first.
    pub(crate) cleanup: Vec<String>,
}

/// Returns a request without a body.
pub(crate) fn request(method: &str, path: impl Into<String>) -> Step {
    Step {
        method: Some(method.to_owned()),
        path: Some(path.into()),
        ..Step::default()
    }
}

/// Returns a request with a JSON body.
pub(crate) fn send(method: &str, path: impl Into<String>, body: Value) -> Step {
    Step {
        body: Some(Ordered::from(body)),
        ..request(method, path)
    }
}

/// Returns a PATCH with a media type such as `merge-patch+json`.
pub(crate) fn patch(path: impl Into<String>, media_type: &str, body: Value) -> Step {
    send("PATCH", path, body).header("Content-Type", &format!("application/{media_type}"))
}

impl Step {
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn query(mut self, name: &str, value: &str) -> Self {
        self.query.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn capture(mut self, name: &str, path: &str) -> Self {
        self.capture.insert(name.to_owned(), path.to_owned());
        self
    }

    /// Returns the step in the format of a scenario.
    pub(crate) fn describe(&self) -> String {
        let mut fields = Map::new();
        let mut add = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        if let Some(method) = &self.method {
            add("method", method.as_str().into());
        }
        for (name, value) in [
            ("id", &self.id),
            ("path", &self.path),
            ("body_text", &self.body_text),
            ("watch", &self.watch),
            ("events", &self.events),
            ("user", &self.user),
        ] {
            if let Some(value) = value {
                add(name, value.as_str().into());
            }
        }
        if !self.query.is_empty() {
            add(
                "query",
                self.query.clone().into_iter().collect::<Map<_, _>>().into(),
            );
        }
        if !self.headers.is_empty() {
            let headers = self
                .headers
                .iter()
                .map(|(name, value)| (name.clone(), value.as_str().into()));
            add("headers", headers.collect::<Map<_, _>>().into());
        }
        if !self.capture.is_empty() {
            let captured = self
                .capture
                .iter()
                .map(|(name, path)| (name.clone(), path.as_str().into()));
            add("capture", captured.collect::<Map<_, _>>().into());
        }
        if !self.groups.is_empty() {
            add("groups", self.groups.clone().into());
        }
        if !self.ignore.is_empty() {
            add("ignore", self.ignore.clone().into());
        }
        if self.count > 0 {
            add("count", self.count.into());
        }
        for (name, value) in [("seconds", self.seconds), ("quiet", self.quiet)] {
            if let Some(value) = value {
                add(name, value.into());
            }
        }
        if let Some(retry) = &self.retry {
            add(
                "retry",
                json!({"until": retry.until, "equals": retry.equals, "seconds": retry.seconds}),
            );
        }
        let text = Value::Object(fields).to_string();
        match &self.body {
            Some(body) => format!("{}, \"body\": {body}}}", text.strip_suffix('}').unwrap_or(&text)),
            None => text,
        }
    }
}

/// Returns the differences between two objects as a JSON merge patch.
pub(crate) fn merge_patch(from: &Value, to: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (from, to) else {
        return to.clone();
    };
    let mut changes = Map::new();
    for (name, value) in new {
        match old.get(name) {
            Some(before) if before == value => {}
            Some(before @ Value::Object(_)) if value.is_object() => {
                changes.insert(name.clone(), merge_patch(before, value));
            }
            _ => {
                changes.insert(name.clone(), value.clone());
            }
        }
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        changes.insert(name.clone(), Value::Null);
    }
    Value::Object(changes)
}
