//! Patches of a kustomization: strategic merges and JSON 6902 on their target objects.

use serde_json::{Map, Value};

use super::build::{BuildError, documents, invalid};
use super::kustomization::Selector;
use super::resource::Resource;

/// Lists that are merged by item, with their merge keys. Other lists are replaced.
const MERGE_KEYS: [(&str, &[&str]); 19] = [
    ("containers", &["name"]),
    ("initContainers", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("env", &["name"]),
    ("ports", &["containerPort", "port"]),
    ("volumes", &["name"]),
    ("volumeMounts", &["mountPath"]),
    ("volumeDevices", &["devicePath"]),
    ("imagePullSecrets", &["name"]),
    ("hostAliases", &["ip"]),
    ("topologySpreadConstraints", &["topologyKey"]),
    ("secrets", &["name"]),
    ("webhooks", &["name"]),
    ("ownerReferences", &["uid"]),
    ("conditions", &["type"]),
    ("resourceClaims", &["name"]),
    ("volumeClaimTemplates", &["name"]),
    ("schedulingGates", &["name"]),
    ("addresses", &["ip"]),
];

/// Applies the patches in a text. A patch without a target names its object itself.
pub(super) fn apply(
    path: &str,
    resources: &mut Vec<Resource>,
    target: Option<&Selector>,
    text: &str,
) -> Result<(), BuildError> {
    for patch in documents(path, text)? {
        match (&patch, target) {
            (Value::Array(_), Some(target)) => json_patch(path, resources, target, &patch)?,
            (Value::Array(_), None) => return Err(invalid(path, "a JSON patch needs a `target`")),
            (Value::Object(_), _) => merge_into(path, resources, target, &patch)?,
            _ => return Err(invalid(path, "a patch is neither a mapping nor a list")),
        }
    }
    Ok(())
}

fn json_patch(
    path: &str,
    resources: &mut [Resource],
    target: &Selector,
    patch: &Value,
) -> Result<(), BuildError> {
    let operations: json_patch::Patch = serde_json::from_value(patch.clone())
        .map_err(|error| invalid(path, format!("a JSON patch: {error}")))?;
    let matcher = Matcher::of(path, target)?;
    for resource in resources.iter_mut().filter(|resource| matcher.is_for(resource)) {
        json_patch::patch(&mut resource.value, &operations)
            .map_err(|error| invalid(path, format!("the patch of {}: {error}", resource.describe())))?;
    }
    Ok(())
}

fn merge_into(
    path: &str,
    resources: &mut Vec<Resource>,
    target: Option<&Selector>,
    patch: &Value,
) -> Result<(), BuildError> {
    let named = Resource::new(patch.clone());
    let matcher = target.map(|target| Matcher::of(path, target)).transpose()?;
    let is_for = |resource: &Resource| match &matcher {
        Some(matcher) => matcher.is_for(resource),
        None => {
            resource.kind() == named.kind()
                && resource.group() == named.group()
                && resource.names().any(|name| name == named.name())
                && (named.namespace().is_empty()
                    || resource.namespaces().any(|there| there == named.namespace()))
        }
    };
    if target.is_none() && !resources.iter().any(is_for) {
        return Err(invalid(
            path,
            format!("a patch is for {}, which is not there", named.describe()),
        ));
    }
    if patch.get("$patch").is_some_and(|directive| directive == "delete") {
        resources.retain(|resource| !is_for(resource));
        return Ok(());
    }
    for resource in resources.iter_mut().filter(|resource| is_for(resource)) {
        let mut patch = patch.clone();
        // The fields that identify the object are not changed.
        if let Some(patch) = patch.as_object_mut() {
            patch.remove("apiVersion");
            patch.remove("kind");
        }
        if let Some(metadata) = patch.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("name");
            metadata.remove("namespace");
        }
        merge(&mut resource.value, &patch);
    }
    Ok(())
}

/// Applies `patch` to `value` as a strategic merge.
fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *value = patch.clone();
        return;
    };
    if patch
        .get("$patch")
        .is_some_and(|directive| directive == "replace")
    {
        let mut whole = patch.clone();
        whole.remove("$patch");
        *value = Value::Object(whole);
        return;
    }
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Some(map) = value.as_object_mut() else { return };
    for (key, change) in patch {
        match change {
            Value::Null => {
                map.remove(key);
            }
            Value::Array(changes) => {
                let list = map.entry(key.as_str()).or_insert(Value::Null);
                merge_list(key, list, changes);
            }
            Value::Object(directive) if directive.get("$patch").is_some_and(|text| text == "delete") => {
                map.remove(key);
            }
            Value::Object(_) => merge(map.entry(key.as_str()).or_insert(Value::Null), change),
            other => {
                map.insert(key.clone(), other.clone());
            }
        }
    }
}

fn merge_list(name: &str, list: &mut Value, changes: &[Value]) {
    let replaces = changes.iter().any(|change| {
        change
            .get("$patch")
            .is_some_and(|directive| directive == "replace")
    });
    let keys = MERGE_KEYS
        .iter()
        .find(|(there, _)| *there == name)
        .map(|(_, keys)| *keys);
    let key = keys.and_then(|keys| {
        keys.iter()
            .find(|key| changes.iter().any(|change| change.get(**key).is_some()))
    });
    let (Some(key), Value::Array(items), false) = (key, &mut *list, replaces) else {
        let kept = changes.iter().filter(|change| change.get("$patch").is_none());
        *list = Value::Array(kept.cloned().collect());
        return;
    };
    // Items of the patch come first, in its order, as in kustomize.
    let mut merged = Vec::new();
    for change in changes {
        let is_same = |item: &Value| item.get(*key).is_some() && item.get(*key) == change.get(*key);
        let place = items.iter().position(is_same);
        let mut item = place.map_or(Value::Null, |place| items.remove(place));
        if change.get("$patch").is_none_or(|directive| directive != "delete") {
            merge(&mut item, change);
            merged.push(item);
        }
    }
    items.splice(0..0, merged);
}

/// A compiled selector.
pub(super) struct Matcher {
    texts: [Option<regex::Regex>; 5],
    labels: Vec<Requirement>,
    annotations: Vec<Requirement>,
}

/// One requirement of a label selector: a key and its allowed values.
struct Requirement {
    key: String,
    values: Option<Vec<String>>,
    negated: bool,
}

// === impl Matcher ===

impl Matcher {
    pub(super) fn of(path: &str, selector: &Selector) -> Result<Self, BuildError> {
        let compile = |text: &Option<String>| match text.as_deref().filter(|text| !text.is_empty()) {
            None => Ok(None),
            Some(text) => regex::Regex::new(&format!("^(?:{text})$"))
                .map(Some)
                .map_err(|_| invalid(path, format!("the target {text:?} is not a regular expression"))),
        };
        Ok(Self {
            texts: [
                compile(&selector.group)?,
                compile(&selector.version)?,
                compile(&selector.kind)?,
                compile(&selector.name)?,
                compile(&selector.namespace)?,
            ],
            labels: requirements(selector.label_selector.as_deref()),
            annotations: requirements(selector.annotation_selector.as_deref()),
        })
    }

    pub(super) fn is_for(&self, resource: &Resource) -> bool {
        let [group, version, kind, name, namespace] = &self.texts;
        let fits = |pattern: &Option<regex::Regex>, text: &str| {
            pattern.as_ref().is_none_or(|pattern| pattern.is_match(text))
        };
        let any = |pattern: &Option<regex::Regex>, texts: Vec<&str>| {
            let is_match = |pattern: &regex::Regex| texts.iter().any(|text| pattern.is_match(text));
            pattern.as_ref().is_none_or(is_match)
        };
        fits(group, resource.group())
            && fits(version, resource.version())
            && fits(kind, resource.kind())
            && any(name, resource.names().collect())
            && any(namespace, resource.namespaces().collect())
            && holds(&self.labels, resource, "labels")
            && holds(&self.annotations, resource, "annotations")
    }
}

fn holds(requirements: &[Requirement], resource: &Resource, field: &str) -> bool {
    let pairs = &resource.value["metadata"][field];
    requirements.iter().all(|requirement| {
        let there = pairs.get(&requirement.key).and_then(Value::as_str);
        let fits = match &requirement.values {
            None => there.is_some(),
            Some(values) => there.is_some_and(|there| values.iter().any(|value| value == there)),
        };
        fits != requirement.negated
    })
}

/// Parses `a=b,c!=d,e,!f`; sets of values are written as `a in (b, c)`.
fn requirements(selector: Option<&str>) -> Vec<Requirement> {
    let mut parts = Vec::new();
    let mut depth = 0_i32;
    let mut part = String::new();
    for character in selector.unwrap_or_default().chars() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if character == ',' && depth == 0 {
            parts.push(std::mem::take(&mut part));
        } else {
            part.push(character);
        }
    }
    parts.push(part);
    let parts = parts
        .iter()
        .map(|part| part.trim())
        .filter(|part| !part.is_empty());
    parts.map(requirement).collect()
}

fn requirement(part: &str) -> Requirement {
    let with = |key: &str, values: Option<Vec<String>>, negated: bool| Requirement {
        key: key.trim().to_owned(),
        values,
        negated,
    };
    let set = |text: &str| {
        let inner = text.trim().trim_start_matches('(').trim_end_matches(')');
        inner.split(',').map(|value| value.trim().to_owned()).collect()
    };
    if let Some((key, values)) = part.split_once(" notin ") {
        return with(key, Some(set(values)), true);
    }
    if let Some((key, values)) = part.split_once(" in ") {
        return with(key, Some(set(values)), false);
    }
    if let Some((key, value)) = part.split_once("!=") {
        return with(key, Some(vec![value.trim().to_owned()]), true);
    }
    if let Some((key, value)) = part.split_once('=') {
        return with(
            key,
            Some(vec![value.trim_start_matches('=').trim().to_owned()]),
            false,
        );
    }
    match part.strip_prefix('!') {
        Some(key) => with(key, None, true),
        None => with(part, None, false),
    }
}
