//! Tests that recorded sequences of writes to a custom resource result in the same objects and managers as in a real
//! API server.
//!
//! The test server below implements the other steps of a write: merge patches, defaults, the status subresource. The
//! recordings are those of the conformance tests of the embedded server.
#![expect(clippy::unwrap_used, reason = "a recording of another shape fails the test")]

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};
use structured_merge::managed_fields::equal_but_for_times;
use structured_merge::{ApplyError, FieldManager, FieldSet, Schema, Settings};

const RECORDED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../operator-apiserver/tests/recorded/apply-generated"
);

#[test]
fn generated_sequences_of_writes() {
    let mut failures = Vec::new();
    let mut scenarios = 0;
    for entry in std::fs::read_dir(RECORDED).unwrap() {
        let path = entry.unwrap().path();
        scenarios += 1;
        failures.extend(
            replay(&path)
                .err()
                .map(|error| format!("{}: {error}", path.display())),
        );
    }
    assert!(scenarios > 30, "only {scenarios} recordings found");
    assert!(
        failures.is_empty(),
        "{} of {scenarios} fail:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

fn replay(path: &Path) -> Result<(), String> {
    let recorded: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut server = None;
    for step in recorded["steps"].as_array().unwrap() {
        let Some(method) = step["method"].as_str() else {
            server.iter_mut().for_each(Server::tick);
            continue;
        };
        let path = step["path"].as_str().unwrap();
        if path.contains("customresourcedefinitions") {
            server = Some(Server::new(&step["body"]));
            continue;
        }
        if path.ends_with("/widgets") && method == "GET" {
            continue;
        }
        let answer = server.as_mut().unwrap().serve(method, path, step);
        let (expected, answer) = (normalized(&step["expect"]["body"]), normalized(&answer));
        if expected != answer {
            return Err(format!(
                "step {}:\n  expected {expected}\n  got      {answer}",
                step["id"]
            ));
        }
    }
    Ok(())
}

/// Returns the compared parts of an object or a Status: those that the test server sets.
fn normalized(body: &Value) -> Value {
    if body["kind"] == "Status" {
        return json!({"message": body["message"]});
    }
    let metadata = &body["metadata"];
    let mut managers = metadata["managedFields"].clone();
    for entry in managers.as_array_mut().into_iter().flatten() {
        if let Some(time) = entry.get_mut("time") {
            *time = "TIME".into();
        }
    }
    let text = json!({
        "spec": body["spec"], "status": body["status"], "labels": metadata["labels"],
        "annotations": metadata["annotations"], "managedFields": managers,
    });
    let text = text.to_string().replace("${group}", "GROUP");
    serde_json::from_str(&text).unwrap()
}

/// One custom resource and its CRD.
struct Server {
    schemas: BTreeMap<String, Value>,
    has_status: bool,
    object: Option<Value>,
    seconds: u64,
}

impl Server {
    fn new(definition: &Value) -> Self {
        let versions = definition["spec"]["versions"].as_array().unwrap();
        let schema = |version: &Value| {
            (
                format!("GROUP/{}", version["name"].as_str().unwrap()),
                version["schema"]["openAPIV3Schema"].clone(),
            )
        };
        Self {
            schemas: versions.iter().map(schema).collect(),
            has_status: versions[0]["subresources"]["status"].is_object(),
            object: None,
            seconds: 0,
        }
    }

    fn tick(&mut self) {
        self.seconds += 2;
    }

    fn serve(&mut self, method: &str, path: &str, step: &Value) -> Value {
        let version = format!("GROUP/{}", path.split('/').nth(3).unwrap());
        let subresource = if path.ends_with("/status") { "status" } else { "" };
        let now = format!("2026-01-01T00:{:02}:{:02}Z", self.seconds / 60, self.seconds % 60);
        let body: Value =
            serde_json::from_str(&step["body"].to_string().replace("${group}", "GROUP")).unwrap();
        let writer = step["query"]["fieldManager"].as_str().unwrap_or_default();
        let fields = self.fields(&version, subresource);
        let mut live = self.object.clone();
        if let Some(live) = &mut live {
            live["apiVersion"] = version.as_str().into();
        }
        let mut new = match (
            method,
            step["headers"]["Content-Type"].as_str().unwrap_or_default(),
        ) {
            ("GET", _) => return live.unwrap(),
            ("PATCH", "application/apply-patch+yaml") => {
                let force = step["query"]["force"] == "true";
                match fields.apply(live.as_ref(), &body, writer, force, &now) {
                    Ok(new) => new,
                    Err(error) => return status(&error),
                }
            }
            ("PATCH", _) => {
                let mut new = live.clone().unwrap();
                merge_patch(&mut new, &body);
                self.default(&version, &mut new);
                fields.update(live.as_ref(), new, writer, &now)
            }
            _ => {
                let mut new = body;
                self.default(&version, &mut new);
                fields.update(live.as_ref(), new, writer, &now)
            }
        };
        self.default(&version, &mut new);
        self.store(subresource, live, new)
    }

    fn store(&mut self, subresource: &str, live: Option<Value>, mut new: Value) -> Value {
        if self.has_status {
            let live = live.clone().unwrap_or_default();
            let kept: &[&str] = if subresource == "status" {
                &["spec"]
            } else {
                &["status"]
            };
            for key in kept {
                match live.get(*key) {
                    Some(value) => new[*key] = value.clone(),
                    None => _ = new.as_object_mut().unwrap().remove(*key),
                }
            }
            if subresource == "status" {
                let managed = new["metadata"]["managedFields"].take();
                new["metadata"] = live["metadata"].clone();
                new["metadata"]["managedFields"] = managed;
            }
        }
        new["metadata"]["uid"] = "U".into();
        let new = match live {
            Some(live) if equal_but_for_times(&live, &new) => live,
            _ => new,
        };
        self.object = Some(new.clone());
        new
    }

    fn fields(&self, version: &str, subresource: &str) -> FieldManager {
        let reset = match (self.has_status, subresource) {
            (false, _) => json!({}),
            (true, "") => json!({"f:status": {}}),
            (true, _) => json!({"f:metadata": {}, "f:spec": {}}),
        };
        FieldManager::new(Settings {
            group: "GROUP".to_owned(),
            version: version.trim_start_matches("GROUP/").to_owned(),
            kind: "Widget".to_owned(),
            subresource: subresource.to_owned(),
            schemas: self
                .schemas
                .iter()
                .map(|(name, schema)| (name.clone(), Schema::structural(schema)))
                .collect(),
            reset_fields: BTreeMap::from([(version.to_owned(), FieldSet::from_value(&reset).unwrap())]),
            converter: None,
        })
    }

    fn default(&self, version: &str, object: &mut Value) {
        default(&self.schemas[version], object);
        // Metadata is decoded into a Go struct and back, which drops empty maps.
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.retain(|_, value| value.as_object().is_none_or(|map| !map.is_empty()));
    }
}

fn status(error: &ApplyError) -> Value {
    json!({"kind": "Status", "message": error.to_string()})
}

fn merge_patch(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let target = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge_patch(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// Sets defaults, and removes nulls if the schema has a default or does not allow null.
fn default(schema: &Value, value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| default(&schema["items"], item)),
        Value::Object(object) => {
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                if object.get(name).is_some_and(Value::is_null) && property["nullable"] != true {
                    object.remove(name);
                }
                if let Some(default) = property.get("default") {
                    object.entry(name.clone()).or_insert_with(|| default.clone());
                }
                if let Some(value) = object.get_mut(name) {
                    default(property, value);
                }
            }
        }
        _ => {}
    }
}
