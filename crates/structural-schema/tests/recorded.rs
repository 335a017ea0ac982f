//! Tests of recorded scenarios of a real API server that concern only this crate: CRDs that are created and changed,
//! and custom resources that are created, patched, rejected or warned about.

#![expect(
    clippy::unwrap_used,
    reason = "a recording that cannot be read fails the test"
)]

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use structural_schema::{Outcome, Schema, crd};

/// The state of the server.
#[derive(Default)]
struct World {
    crd: Option<Value>,
    objects: BTreeMap<String, Value>,
}

/// The response of a step: errors (field, message, reason), warnings, and the object.
#[derive(Default, Debug)]
struct Answer {
    bad_request: Option<String>,
    causes: Vec<(String, String, String)>,
    warnings: Vec<String>,
    object: Option<Value>,
}

impl Answer {
    fn refused(errors: &[apimachinery::field::Error]) -> Self {
        let cause = |error: &apimachinery::field::Error| {
            (
                error.field.to_string(),
                normalise(&error.message()),
                error.kind.reason().to_owned(),
            )
        };
        Self {
            causes: errors.iter().map(cause).collect(),
            ..Self::default()
        }
    }
}

fn normalise(text: &str) -> String {
    let time = regex::Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)").unwrap();
    time.replace_all(text, "TIME").into_owned()
}

fn normalised(value: &Value) -> Value {
    serde_json::from_str(&normalise(&value.to_string())).unwrap()
}

fn body_of(step: &Value) -> Option<Value> {
    let text = step.get("body")?.to_string();
    let text = text.replace("${group}", "GROUP").replace("${ns}", "NS");
    // A real group is a domain, but the recordings contain the placeholder GROUP.
    serde_json::from_str(&text).ok()
}

fn in_group(value: &Value) -> Value {
    serde_json::from_str(&value.to_string().replace("GROUP", "group.example.com")).unwrap()
}

fn from_group(answer: Answer) -> Answer {
    let back = |text: String| text.replace("group.example.com", "GROUP");
    Answer {
        causes: answer
            .causes
            .into_iter()
            .map(|(field, message, reason)| (field, back(message), reason))
            .collect(),
        bad_request: answer.bad_request.map(back),
        object: answer
            .object
            .map(|object| serde_json::from_str(&back(object.to_string())).unwrap()),
        ..answer
    }
}

fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let map = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            map.remove(key);
        } else {
            merge(map.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

fn json_patch(target: &mut Value, patch: &Value) {
    for operation in patch.as_array().unwrap() {
        let (parent, key) = operation["path"].as_str().unwrap().rsplit_once('/').unwrap();
        let key = key.replace("~1", "/").replace("~0", "~");
        let Some(parent) = target.pointer_mut(parent) else {
            continue;
        };
        let value = operation.get("value").cloned().unwrap_or_default();
        match (operation["op"].as_str().unwrap(), parent) {
            ("remove", Value::Array(items)) => drop(items.remove(key.parse().unwrap())),
            ("remove", parent) => drop(parent.as_object_mut().unwrap().remove(&key)),
            ("add", Value::Array(items)) if key == "-" => items.push(value),
            ("add", Value::Array(items)) => items.insert(key.parse().unwrap(), value),
            (_, Value::Array(items)) => items[key.parse::<usize>().unwrap()] = value,
            (_, parent) => drop(parent.as_object_mut().unwrap().insert(key, value)),
        }
    }
}

impl World {
    fn create_crd(&mut self, body: Value, dry_run: bool) -> Answer {
        let mut crd = body;
        crd::default(&mut crd);
        crd::prepare_for_create(&mut crd);
        let errors = crd::validate_create(&crd);
        if !errors.is_empty() {
            return Answer::refused(&errors);
        }
        let warnings = crd::warnings(&crd, None);
        if !dry_run {
            crd["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
            self.crd = Some(crd);
        }
        Answer {
            warnings,
            ..Answer::default()
        }
    }

    fn patch_crd(&mut self, patch: &Value) -> Answer {
        let old = self.crd.clone().unwrap();
        let mut crd = old.clone();
        json_patch(&mut crd, patch);
        crd::default(&mut crd);
        crd["status"] = old["status"].clone();
        crd::prepare_for_update(&mut crd);
        let errors = crd::validate_update(&crd, &old);
        if errors.is_empty() {
            self.crd = Some(crd);
        }
        Answer::refused(&errors)
    }

    fn version(&self, name: &str) -> Option<(&Value, Schema)> {
        let versions = self.crd.as_ref()?["spec"]["versions"].as_array()?;
        let version = versions.iter().find(|version| version["name"] == name)?;
        Some((
            version,
            Schema::compile(&version["schema"]["openAPIV3Schema"]).unwrap(),
        ))
    }

    fn write(&mut self, place: &Place, body: Value, dry_run: bool) -> Option<Answer> {
        let (version, schema) = self.version(&place.version)?;
        let has_status = version.pointer("/subresources/status").is_some();
        let mut object = body;
        let mut warnings = match schema.decode(&mut object) {
            Ok(unknown) => unknown
                .iter()
                .map(|path| format!("unknown field \"{path}\""))
                .collect::<Vec<_>>(),
            Err(problem) => {
                return Some(Answer {
                    bad_request: Some(problem.to_string()),
                    ..Answer::default()
                });
            }
        };
        schema.default(&mut object);
        let old = place
            .name
            .as_ref()
            .and_then(|name| self.objects.get(name))
            .cloned();
        let status_of = |from: Option<&Value>| from.and_then(|from| from.get("status")).cloned();
        if place.is_status {
            let mut kept = old.clone()?;
            set(&mut kept, status_of(Some(&object)));
            object = kept;
        } else if has_status {
            set(&mut object, status_of(old.as_ref()));
        }
        let Outcome {
            errors,
            warnings: more,
        } = if place.is_status {
            schema.check_status(&object, old.as_ref())
        } else {
            schema.check(&object, old.as_ref())
        };
        warnings.extend(more);
        if !errors.is_empty() {
            return Some(Answer {
                warnings,
                ..Answer::refused(&errors)
            });
        }
        if !dry_run {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            self.objects.insert(name, object.clone());
        }
        Some(Answer {
            warnings,
            object: Some(object),
            ..Answer::default()
        })
    }
}

fn set(object: &mut Value, status: Option<Value>) {
    let map = object.as_object_mut().unwrap();
    match status {
        Some(status) => drop(map.insert("status".to_owned(), status)),
        None => drop(map.remove("status")),
    }
}

/// The parts of the path of a custom resource.
struct Place {
    version: String,
    name: Option<String>,
    is_status: bool,
}

fn place_of(path: &str) -> Option<Place> {
    let rest = path.strip_prefix("/apis/${group}/")?;
    let parts: Vec<&str> = rest
        .split('/')
        .filter(|part| *part != "namespaces" && *part != "${ns}")
        .collect();
    let (version, _, name, subresource) = match parts.as_slice() {
        [version, plural] => (version, plural, None, None),
        [version, plural, name] => (version, plural, Some(name), None),
        [version, plural, name, subresource] => (version, plural, Some(name), Some(*subresource)),
        _ => return None,
    };
    let is_status = match subresource {
        None => false,
        Some("status") => true,
        Some(_) => return None,
    };
    Some(Place {
        version: (*version).to_owned(),
        name: name.map(|name| (*name).to_owned()),
        is_status,
    })
}

fn run(world: &mut World, step: &Value) -> Option<Answer> {
    let method = step["method"].as_str()?;
    let path = step["path"].as_str()?;
    let query = |name: &str| {
        step.pointer(&format!("/query/{name}"))
            .and_then(Value::as_str)
            .unwrap_or("")
    };
    let kind = step
        .pointer("/headers/Content-Type")
        .and_then(Value::as_str)
        .unwrap_or("");
    let dry_run = query("dryRun") == "All";
    let body = in_group(&body_of(step)?);
    if path.contains("customresourcedefinitions") {
        return match method {
            "POST" => Some(world.create_crd(body, dry_run)),
            "PATCH" if path.ends_with("/status") => {
                json_patch(world.crd.as_mut()?, &body);
                None
            }
            "PATCH" => Some(world.patch_crd(&body)),
            _ => None,
        };
    }
    let place = place_of(path)?;
    if method == "POST" && kind.is_empty() && query("fieldValidation") != "Strict" {
        return world.write(&place, body, dry_run);
    }
    if method == "PUT" && step["expect"]["status"] == 200 {
        return world.write(&place, body, dry_run);
    }
    if method != "PATCH" || !query("fieldValidation").is_empty() {
        return None;
    }
    let mut object = world.objects.get(place.name.as_ref()?)?.clone();
    // Stored objects are pruned by the current schema when they are read.
    world.version(&place.version)?.1.decode(&mut object).ok()?;
    object["apiVersion"] = json!(format!("group.example.com/{}", place.version));
    match kind {
        "application/merge-patch+json" => merge(&mut object, &body),
        "application/json-patch+json" => json_patch(&mut object, &body),
        _ => return None,
    }
    world.write(&place, object, dry_run)
}

fn compare(step: &Value, answer: &Answer) -> Result<(), String> {
    let expect = &step["expect"];
    let status = expect["status"].as_i64().unwrap_or(0);
    let strings = |value: &Value| value.as_str().unwrap_or("<nil>").to_owned();
    if status == 422 {
        let Some(causes) = expect.pointer("/body/details/causes").and_then(Value::as_array) else {
            return if answer.causes.is_empty() {
                Err("should be refused".to_owned())
            } else {
                Ok(())
            };
        };
        let wanted: Vec<_> = causes
            .iter()
            .map(|cause| {
                (
                    strings(&cause["field"]),
                    strings(&cause["message"]),
                    strings(&cause["reason"]),
                )
            })
            .collect();
        if wanted != answer.causes {
            return Err(format!("want {wanted:#?}\n got {:#?}", answer.causes));
        }
    } else if status == 400 {
        let message = strings(&expect["body"]["message"]);
        let found = answer.bad_request.as_deref().unwrap_or("nothing");
        if !message.ends_with(found) {
            return Err(format!("want {message}\n got {found}"));
        }
    } else if !answer.causes.is_empty() || answer.bad_request.is_some() {
        return Err(format!("want {status}\n got {answer:#?}"));
    }
    let query = step.pointer("/query/fieldValidation").and_then(Value::as_str);
    let wanted: Vec<String> = expect["headers"]["warning"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|warning| strings(warning).replace("299 - ", ""))
        .map(|warning| serde_json::from_str(&warning).unwrap_or(warning))
        .collect();
    if query != Some("Ignore") && wanted != answer.warnings && status != 422 {
        return Err(format!("want warnings {wanted:#?}\n got {:#?}", answer.warnings));
    }
    let Some(object) = &answer.object else {
        return Ok(());
    };
    let without_metadata = |object: &Value| {
        let mut object = normalised(object);
        object.as_object_mut().unwrap().remove("metadata");
        object
    };
    let (wanted, found) = (without_metadata(&expect["body"]), without_metadata(object));
    // The recordings have normalized identifiers.
    if wanted != found && !wanted.to_string().contains("\"U") {
        return Err(format!("want {wanted}\n got {found}"));
    }
    Ok(())
}

fn check(folder: &str, skip: &[&str]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(folder);
    let mut failures = Vec::new();
    let mut judged = 0;
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    for file in files {
        let scenario: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let name = scenario["name"].as_str().unwrap().to_owned();
        let mut world = World::default();
        for step in scenario["steps"].as_array().unwrap() {
            let id = format!("{name}/{}", step["id"].as_str().unwrap_or(""));
            if skip.contains(&name.as_str()) || skip.contains(&id.as_str()) {
                continue;
            }
            let Some(answer) = run(&mut world, step).map(from_group) else {
                continue;
            };
            judged += 1;
            if let Err(problem) = compare(step, &answer) {
                failures.push(format!("{id}: {problem}"));
            }
        }
    }
    assert!(judged > 0, "no step was judged");
    assert!(
        failures.is_empty(),
        "{} of {judged} steps differ:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn custom_resource_definitions() {
    check(
        "crd",
        &[
            // The registry is responsible for these: duplicate names, names in paths, generated names, unknown fields
            // of CRDs, verbs.
            "crd-create-minimal/again",
            "crd-immutable-fields/name",
            "crd-stored-versions",
            "cr-metadata-schema/generate",
            "crd-invalid-subresources/unknown-subresource-pruned",
            "status-subresource/status-post",
            // The JSON decoder converts 1.0 to 1.
            "validate-type/integer-whole-float",
        ],
    );
}

#[test]
fn field_validation() {
    check("field-validation", &[]);
}

#[test]
fn rules() {
    check("cel", &["cel-apply", "cel-metadata/generate-name"]);
}
