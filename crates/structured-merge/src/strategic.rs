//! Strategic merge patches of built-in kinds, which merge lists by a key instead of replacing them ([`apply`]).
//!
//! Directives: `$patch: replace|delete|merge`, `$retainKeys`, `$deleteFromPrimitiveList/FIELD` and
//! `$setElementOrder/FIELD`. The [built-in types](crate::builtin) declare which lists are merged, and by which key.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::builtin::{Field, FieldKind, Type};
use crate::go;

mod order;

use order::Keyed;

type Object = Map<String, Value>;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";

/// The reason why a patch could not be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StrategicError {
    /// A directive is malformed: a 400 with the reason `BadRequest`.
    #[error("{0}")]
    BadRequest(&'static str),
    /// The patch refers to a value that does not exist: a 422 without a reason.
    #[error("{0}")]
    Unprocessable(&'static str),
    /// Any other error: a 500 without a reason.
    #[error("{0}")]
    Internal(String),
}

const BAD_RETAIN_KEYS: StrategicError = StrategicError::BadRequest("invalid patch format of retainKeys");
const BAD_DELETE_LIST: StrategicError = StrategicError::BadRequest("invalid patch format of primitive list");
const BAD_ORDER_LIST: StrategicError =
    StrategicError::BadRequest("invalid patch format of setElementOrder list");
const LISTS_OF_LISTS: StrategicError = StrategicError::Unprocessable("lists of lists are not supported");

fn no_merge_key(item: &Value, key: &str) -> StrategicError {
    if !item.is_object() {
        let found = go::type_name(item);
        return StrategicError::Internal(format!(
            "expected a map[string]interface {{}}, but received a {found}"
        ));
    }
    StrategicError::Internal(format!(
        "map: {} does not contain declared merge key: {key}",
        go::plain(item)
    ))
}

fn unknown_directive(directive: &Value, patch: &Object) -> StrategicError {
    let directive = match directive {
        Value::String(text) => text.clone(),
        Value::Null => "%!s(<nil>)".to_owned(),
        other => format!("%!s({}={})", go::type_name(other), go::plain(other)),
    };
    let patch = go::plain(&Value::Object(patch.clone()));
    StrategicError::Internal(format!("unknown patch type: {directive} in map: {patch}"))
}

/// Applies a strategic merge patch to an object of a built-in type.
///
/// ```
/// use serde_json::json;
/// use structured_merge::{builtin, strategic};
///
/// let account = builtin::types().for_kind("", "v1", "ServiceAccount").unwrap();
/// let live = json!({"secrets": [{"name": "a"}]});
/// let patch = json!({"secrets": [{"name": "b"}, {"name": "a", "$patch": "delete"}]});
/// let patched = strategic::apply(&live, &patch, account).unwrap();
/// assert_eq!(patched, json!({"secrets": [{"name": "b"}]}));
/// ```
///
/// # Errors
/// See [`StrategicError`]. A patch that is not an object changes nothing.
pub fn apply(live: &Value, patch: &Value, kind: &Type) -> Result<Value, StrategicError> {
    let (Value::Object(live), Value::Object(patch)) = (live, patch) else {
        return Ok(live.clone());
    };
    merge_maps(live.clone(), patch.clone(), Part::Struct(kind)).map(Value::Object)
}

/// The current position in a type.
#[derive(Clone, Copy)]
enum Part<'a> {
    Struct(&'a Type),
    Map(&'a FieldKind),
    Unknown,
}

impl<'a> Part<'a> {
    fn of(kind: &'a FieldKind) -> Self {
        match kind {
            FieldKind::Ref(entry) => Self::Struct(entry.resolve()),
            FieldKind::Map(value) => Self::Map(value),
            FieldKind::List(item) => Self::of(item),
            _ => Self::Unknown,
        }
    }

    fn below(self, name: &str) -> Result<Below<'a>, StrategicError> {
        match self {
            Self::Struct(kind) => match kind.field(name) {
                Some(field) => Ok(Below::field(field)),
                None => Err(StrategicError::Internal(format!(
                    "unable to find api field in struct {} for the json field {}",
                    kind.name.rsplit('.').next().unwrap_or_default(),
                    apimachinery::go::quote(name)
                ))),
            },
            Self::Map(value) => Ok(Below {
                part: Self::of(value),
                strategy: "",
                key: "",
            }),
            Self::Unknown => Ok(Below {
                part: Self::Unknown,
                strategy: "",
                key: "",
            }),
        }
    }
}

/// A field: its type and its patch strategy.
#[derive(Clone, Copy)]
struct Below<'a> {
    part: Part<'a>,
    /// The patch strategy: `merge`, `replace` or empty. `retainKeys` only allows a directive that is supported
    /// everywhere.
    strategy: &'a str,
    /// The merge key; empty for lists of scalars.
    key: &'a str,
}

impl<'a> Below<'a> {
    fn field(field: &'a Field) -> Self {
        let strategies = field.patch_strategy.unwrap_or_default().split(',');
        let strategy = strategies
            .into_iter()
            .find(|strategy| *strategy != "retainKeys")
            .unwrap_or_default();
        Self {
            part: Part::of(&field.kind),
            strategy,
            key: field.patch_merge_key.unwrap_or_default(),
        }
    }
}

fn merge_maps(mut live: Object, mut patch: Object, part: Part<'_>) -> Result<Object, StrategicError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Object::new()),
            _ => Err(unknown_directive(directive, &patch)),
        };
    }
    retain_keys(&mut live, &mut patch)?;
    merge_ordered_lists(&mut live, &mut patch, part)?;
    for (name, value) in patch {
        merge_entry(&mut live, &name, value, part)?;
    }
    Ok(live)
}

fn merge_entry(live: &mut Object, name: &str, value: Value, part: Part<'_>) -> Result<(), StrategicError> {
    let deletes = name.starts_with(DELETE_FROM_LIST);
    let name = if deletes {
        directive_field(name, BAD_DELETE_LIST)?
    } else {
        name
    };
    if value.is_null() {
        live.remove(name);
        return Ok(());
    }
    let merged = match (live.remove(name), value) {
        (Some(Value::Object(old)), Value::Object(new)) => {
            let below = part.below(name)?;
            Some(Value::Object(if below.strategy == "replace" {
                new
            } else {
                merge_maps(old, new, below.part)?
            }))
        }
        (Some(Value::Array(old)), Value::Array(new)) => {
            Some(Value::Array(merge_lists(old, new, part.below(name)?, deletes)?))
        }
        (old, _) if deletes => old,
        (Some(old), value) if scalar_kind(&old) == scalar_kind(&value) => Some(value),
        (_, value) => without_directives(value),
    };
    live.extend(merged.map(|merged| (name.to_owned(), merged)));
    Ok(())
}

/// Returns `FIELD` of a directive `PREFIX/FIELD`.
fn directive_field(name: &str, malformed: StrategicError) -> Result<&str, StrategicError> {
    match name.split_once('/') {
        Some((DELETE_FROM_LIST | SET_ELEMENT_ORDER, field)) => Ok(field),
        _ => Err(malformed),
    }
}

fn scalar_kind(value: &Value) -> &'static str {
    go::type_name(value)
}

/// Returns the value of a new field, without nulls and without directives that only apply to a merge.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => {
            let entries = map.into_iter().filter(|(_, value)| !value.is_null());
            Some(
                entries
                    .filter_map(|(key, value)| Some((key, without_directives(value)?)))
                    .collect(),
            )
        }
        Value::Array(items) => Some(items.into_iter().filter_map(without_directives).collect()),
        scalar => Some(scalar),
    }
}

/// Removes the keys that are not in `$retainKeys`.
fn retain_keys(live: &mut Object, patch: &mut Object) -> Result<(), StrategicError> {
    let Some(kept) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let kept = kept.as_array().ok_or(BAD_RETAIN_KEYS)?;
    let kept: HashSet<&str> = kept.iter().filter_map(Value::as_str).collect();
    let is_kept = |key: &str| kept.contains(key);
    let is_directive = |key: &str| key.starts_with(DELETE_FROM_LIST) || key.starts_with(SET_ELEMENT_ORDER);
    if patch
        .iter()
        .any(|(key, value)| !value.is_null() && !is_directive(key) && !is_kept(key))
    {
        return Err(BAD_RETAIN_KEYS);
    }
    live.retain(|key, _| is_kept(key));
    Ok(())
}

/// Merges the lists whose order is set by the patch, and removes them from the patch.
fn merge_ordered_lists(live: &mut Object, patch: &mut Object, part: Part<'_>) -> Result<(), StrategicError> {
    let directives: Vec<String> = patch
        .keys()
        .filter(|key| key.starts_with(SET_ELEMENT_ORDER))
        .cloned()
        .collect();
    for directive in directives {
        let Some(wanted) = patch.remove(&directive) else {
            continue;
        };
        let wanted = list(wanted)?;
        let name = directive_field(&directive, BAD_ORDER_LIST)?;
        let below = part.below(name)?;
        let old = live.get(name).cloned().map(list).transpose()?;
        let new = patch.get(name).cloned().map(list).transpose()?;
        check_order(new.as_deref().unwrap_or_default(), &wanted, below.key)?;
        let merged = match (old.clone(), new.clone()) {
            (Some(old), Some(new)) => merge_lists(old, new, below, false)?,
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => continue,
        };
        let old = old.unwrap_or_default();
        of_one_kind(&[&old, new.as_deref().unwrap_or_default()])?;
        let keyed = Keyed(below.key);
        let (patched, server_only) = keyed.partition(merged, &wanted)?;
        live.insert(
            name.to_owned(),
            keyed.normalized(patched, server_only, &wanted, &old)?.into(),
        );
        patch.remove(name);
    }
    Ok(())
}

fn list(value: Value) -> Result<Vec<Value>, StrategicError> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(StrategicError::Internal(format!(
            "expected a []interface {{}}, but received a {}",
            go::type_name(&other)
        ))),
    }
}

/// Checks that the items of the patch are in the order that the patch sets.
fn check_order(patch: &[Value], wanted: &[Value], key: &str) -> Result<(), StrategicError> {
    if wanted.is_empty() || patch.is_empty() {
        return Ok(());
    }
    let keyed = Keyed(key);
    let mut rest = wanted.iter();
    for item in patch.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        let mut found = false;
        for candidate in rest.by_ref() {
            found = keyed.same(item, candidate)?;
            if found {
                break;
            }
        }
        if !found {
            let (patch, wanted) = (Value::from(patch.to_vec()), Value::from(wanted.to_vec()));
            return Err(StrategicError::Internal(format!(
                "The order in patch list:\n{}\n doesn't match {SET_ELEMENT_ORDER} list:\n{}\n",
                go::plain(&patch),
                go::plain(&wanted)
            )));
        }
    }
    Ok(())
}

/// Returns the kind of the items of all lists, which must be the same; `None` if there are no items.
fn of_one_kind(lists: &[&[Value]]) -> Result<Option<&'static str>, StrategicError> {
    let mut kinds = lists.iter().copied().flatten().map(go::type_name);
    let Some(first) = kinds.next() else {
        return Err(StrategicError::Internal(
            "no elements in any of the given slices".to_owned(),
        ));
    };
    if first == "[]interface {}" {
        return Err(LISTS_OF_LISTS);
    }
    if kinds.any(|kind| kind != first) {
        let lists: Vec<_> = lists
            .iter()
            .map(|list| go::plain(&Value::from(list.to_vec())))
            .collect();
        return Err(StrategicError::Internal(format!(
            "list element types are not identical: [{}]",
            lists.join(" ")
        )));
    }
    Ok(Some(first))
}

fn merge_lists(
    old: Vec<Value>,
    new: Vec<Value>,
    below: Below<'_>,
    deletes: bool,
) -> Result<Vec<Value>, StrategicError> {
    if below.strategy != "merge" {
        return Ok(new);
    }
    if old.is_empty() && new.is_empty() {
        return Ok(old);
    }
    let of_maps = of_one_kind(&[&old, &new])? == Some("map[string]interface {}");
    if of_maps {
        merge_map_lists(old, new, below)
    } else {
        merge_scalar_lists(old, &new, deletes)
    }
}

fn merge_scalar_lists(old: Vec<Value>, new: &[Value], deletes: bool) -> Result<Vec<Value>, StrategicError> {
    if deletes {
        let new: HashSet<&Value> = new.iter().collect();
        return Ok(old.into_iter().filter(|item| !new.contains(item)).collect());
    }
    let mut seen = HashSet::with_capacity(old.len() + new.len());
    let merged = old.iter().chain(new).filter(|item| seen.insert(*item));
    let merged: Vec<Value> = merged.cloned().collect();
    let (patched, server_only) = Keyed("").partition(merged, new)?;
    Keyed("").normalized(patched, server_only, new, &old)
}

fn merge_map_lists(old: Vec<Value>, new: Vec<Value>, below: Below<'_>) -> Result<Vec<Value>, StrategicError> {
    if below.key.is_empty() {
        return Err(StrategicError::Internal(
            "cannot merge lists without merge key for type struct".to_owned(),
        ));
    }
    let keyed = Keyed(below.key);
    let (old, new) = follow_directives(old, new, keyed)?;
    let mut merged = old.clone();
    let mut positions = keyed.positions(&old);
    for item in &new {
        let key = keyed.value(item)?;
        let position = *positions.entry(key).or_insert(merged.len());
        match merged.get_mut(position) {
            Some(Value::Object(found)) => {
                let patch = item.as_object().cloned().unwrap_or_default();
                *found = merge_maps(std::mem::take(found), patch, below.part)?;
            }
            _ => merged.push(item.clone()),
        }
    }
    let (patched, server_only) = keyed.partition(merged, &new)?;
    keyed.normalized(patched, server_only, &new, &old)
}

/// Applies items with `$patch`; the rest of the lists is merged later.
fn follow_directives(
    mut old: Vec<Value>,
    new: Vec<Value>,
    keyed: Keyed<'_>,
) -> Result<(Vec<Value>, Vec<Value>), StrategicError> {
    let mut rest = Vec::with_capacity(new.len());
    let mut deleted = HashSet::new();
    let mut replaces = false;
    for item in new {
        let Some(directive) = item.get(DIRECTIVE) else {
            rest.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                deleted.insert(keyed.value(&item)?.clone());
            }
            Some("replace") => replaces = true,
            Some("merge") => {
                let message = "merging lists cannot yet be specified in the patch";
                return Err(StrategicError::Internal(message.to_owned()));
            }
            _ => {
                return Err(unknown_directive(
                    directive,
                    &item.as_object().cloned().unwrap_or_default(),
                ));
            }
        }
    }
    if !deleted.is_empty() {
        old.retain(|candidate| candidate.get(keyed.0).is_none_or(|key| !deleted.contains(key)));
    }
    Ok(if replaces { (rest, Vec::new()) } else { (old, rest) })
}
