//! Checks that defaults are not pruned and are valid.

use apimachinery::field::{Error, ErrorList, Path};
use serde_json::{Value, json};

use crate::node::Node;
use crate::rule::Rules;
use crate::{metadata, prune, validate};

/// Returns the errors of all defaults in a schema.
pub(super) fn validate(root: &Node, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    walk(root, path, true, None, &mut errors);
    errors
}

/// The position of a default inside `metadata`, `apiVersion` or `kind` of its resource.
#[derive(Clone)]
struct InsideMeta {
    keys: Vec<String>,
}

fn walk(node: &Node, path: &Path, is_resource: bool, inside: Option<&InsideMeta>, errors: &mut ErrorList) {
    let is_resource = is_resource || node.embedded_resource;
    let inside = if node.embedded_resource { None } else { inside };
    if let Some(default) = &node.default {
        let path = path.child("default");
        match inside {
            Some(inside) => check_meta(default, node, inside, &path, errors),
            None => check(default, node, is_resource, &path, errors),
        }
    }
    if let Some(items) = &node.items {
        walk(items, &path.child("items"), false, inside, errors);
    }
    for (name, property) in &node.properties {
        let path = path.child("properties").key(name);
        let below = match inside {
            Some(inside) => {
                let mut keys = inside.keys.clone();
                keys.push(name.clone());
                Some(InsideMeta { keys })
            }
            None if is_resource && prune::META_FIELDS.contains(&name.as_str()) => Some(InsideMeta {
                keys: vec![name.clone()],
            }),
            None => None,
        };
        walk(property, &path, false, below.as_ref(), errors);
    }
}

fn check(default: &Value, node: &Node, is_resource: bool, path: &Path, errors: &mut ErrorList) {
    let mut pruned = default.clone();
    let unknown = if is_resource {
        prune::prune(&mut pruned, node)
    } else {
        prune::prune_value(&mut pruned, node)
    };
    if !unknown.is_empty() {
        errors.push(Error::invalid(
            path.clone(),
            default.clone(),
            "must not have unknown fields",
        ));
    }
    let mut coerced = default.clone();
    if let Err(problem) = metadata::coerce_embedded(&mut coerced, node, path, is_resource) {
        errors.push(Error::invalid(path.clone(), default.clone(), problem.to_string()));
        return;
    }
    let problems = metadata::validate(default, node, path, is_resource);
    if !problems.is_empty() {
        errors.extend(problems);
        return;
    }
    let problems = validate::validate(default, None, node, path);
    if !problems.is_empty() {
        errors.extend(problems);
        return;
    }
    let rules = Rules::of(node, is_resource);
    errors.extend(rules.validate(default, Some(default), node, path, false).errors);
}

/// Validates defaults inside metadata as part of a resource that contains them.
fn check_meta(default: &Value, node: &Node, inside: &InsideMeta, path: &Path, errors: &mut ErrorList) {
    let mut object = json!({"apiVersion": "validation/v1", "kind": "Validation"});
    let value = inside
        .keys
        .iter()
        .skip(1)
        .rev()
        .fold(default.clone(), |value, key| json!({key: value}));
    if let (Some(map), Some(first)) = (object.as_object_mut(), inside.keys.first()) {
        map.insert(first.clone(), value);
    }
    let mut refuse = |problem: String| {
        let detail = format!("must result in valid metadata: {problem}");
        errors.push(Error::invalid(path.clone(), default.clone(), detail));
    };
    if let Err(problem) = metadata::coerce_root(&mut object) {
        return refuse(problem.to_string());
    }
    let problems = metadata::validate(&object, &Node::default(), &Path::default(), true);
    match &*problems {
        [] => errors.extend(validate::validate(default, None, node, path)),
        [single] => refuse(single.to_string()),
        several => {
            let shown: Vec<String> = several.iter().map(ToString::to_string).collect();
            refuse(format!("[{}]", shown.join(", ")));
        }
    }
}
