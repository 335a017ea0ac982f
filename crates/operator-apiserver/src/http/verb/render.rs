//! Renders objects and lists as responses.

use std::sync::Arc;

use apimachinery::json;
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use crate::codec::{Form, Transform, body, protobuf};
use crate::http::call::{Answer, Call};
use crate::http::table::{IncludeObject, Rows};
use crate::registry::{Page, Registry};
use crate::resource::Definition;
use crate::status::{self, Status};

/// Renders one object in the requested format.
pub(crate) fn object(
    registry: &Registry,
    call: &Call,
    definition: &Definition,
    form: Form,
    code: StatusCode,
    object: &Value,
) -> Result<Answer, Status> {
    let value = match form.transform {
        Transform::None => return Ok(Answer::object(code, object, form)),
        Transform::Table => {
            let include = IncludeObject::parse(call)?;
            Rows::new(registry, definition, form, include).single(object)?
        }
        Transform::PartialObjectMetadata => partial(object, form),
        Transform::PartialObjectMetadataList if definition.is_custom() => {
            return Err(status::plain("content is not a list"));
        }
        Transform::PartialObjectMetadataList => {
            let found = format!("is not a list ({})", go_type(definition, ""));
            return Err(status::wrong_transform("PartialObjectMetadataList", &found));
        }
    };
    Ok(Answer::object(code, &value, form))
}

/// Returns the name of the Go type in which the real server holds an object.
fn go_type(definition: &Definition, suffix: &str) -> String {
    if definition.is_custom() {
        return format!("*unstructured.Unstructured{suffix}");
    }
    let group = go_package(&definition.subject.group);
    format!("*{group}.{}{suffix}", definition.subject.kind)
}

/// Returns the Go package of a group's internal types.
pub(crate) fn go_package(group: &str) -> &str {
    match group.split('.').next().unwrap_or_default() {
        "" | "events" => "core",
        "rbac" => "rbac",
        first => first,
    }
}

/// Removes the annotation of a DaemonSet that the API server holds as a field of the spec.
fn forget_template_generation(metadata: &mut Value) {
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else {
        return;
    };
    annotations.remove("deprecated.daemonset.template.generation");
    if annotations.is_empty()
        && let Some(metadata) = metadata.as_object_mut()
    {
        metadata.remove("annotations");
    }
}

/// Returns only the metadata of an object.
pub(crate) fn partial(object: &Value, form: Form) -> Value {
    let mut metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    if object.get("kind").is_some_and(|kind| kind == "DaemonSet") {
        forget_template_generation(&mut metadata);
    }
    json!({"kind": "PartialObjectMetadata", "apiVersion": form.meta_version(), "metadata": metadata})
}

/// Renders a page of a list in the requested format.
pub(crate) fn list(
    registry: &Registry,
    call: &Call,
    definition: &Definition,
    form: Form,
    page: &Page,
) -> Result<Answer, Status> {
    let bytes = match form.transform {
        Transform::None if form == Form::default() => list_bytes(definition, page)?,
        Transform::None if form.protobuf => list_protobuf(definition, page)?,
        Transform::PartialObjectMetadata => {
            let found = format!("is a list ({})", go_type(definition, "List"));
            return Err(status::wrong_transform("PartialObjectMetadata", &found));
        }
        Transform::Table => {
            let include = IncludeObject::parse(call)?;
            let mut rows = Rows::new(registry, definition, form, include);
            let head = rows.head(&transformed_metadata(page));
            let stored = page.items.iter();
            let rows = stored.map(|stored| rows.row(&definition.serve(&stored.value)));
            with_items(head, "rows", rows, form)?
        }
        Transform::PartialObjectMetadataList => {
            let head = json!({
                "kind": "PartialObjectMetadataList", "apiVersion": form.meta_version(),
                "metadata": transformed_metadata(page), "items": null,
            });
            let stored = page.items.iter();
            let items = stored.map(|stored| Ok(partial(&stored.value, form)));
            with_items(head, "items", items, form)?
        }
        Transform::None => {
            let stored = page.items.iter();
            let items = stored.map(|stored| Ok(item(definition, &definition.serve(&stored.value))));
            with_items(list_head(definition, page), "items", items, form)?
        }
    };
    Ok(Answer::new(StatusCode::OK, form.content_type(), bytes))
}

/// The maximum size of a list in a response, in bytes. The defaults of a schema and the columns of a table can make the
/// items larger than they are stored.
const LIST_BYTES_MAX: usize = 512 << 20;

fn check_size(bytes: usize) -> Result<(), Status> {
    if bytes <= LIST_BYTES_MAX {
        return Ok(());
    }
    Err(status::too_large(format!(
        "the list is larger than {LIST_BYTES_MAX} bytes: request it in pages, with the parameter limit"
    )))
}

/// Encodes a list. `head` has its other fields, and the value of `field` if there are no items.
fn with_items(
    mut head: Value,
    field: &str,
    items: impl ExactSizeIterator<Item = Result<Value, Status>>,
    form: Form,
) -> Result<Bytes, Status> {
    if items.len() == 0 {
        return Ok(body::encode(&head, form));
    }
    if form.yaml || form.protobuf || form.pretty {
        let mut values = Vec::new();
        let (mut text, mut bytes) = (Vec::new(), 0);
        for item in items {
            let item = item?;
            text.clear();
            json::write(&mut text, &item);
            bytes += text.len();
            check_size(bytes)?;
            values.push(item);
        }
        head[field] = values.into();
        return Ok(body::encode(&head, form));
    }
    list_text(head, field, items, |text, item| {
        json::write(text, &item?);
        Ok(())
    })
}

/// Writes a list as JSON, item by item.
fn list_text<T>(
    mut head: Value,
    field: &str,
    items: impl Iterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T) -> Result<(), Status>,
) -> Result<Bytes, Status> {
    if let Some(head) = head.as_object_mut() {
        head.remove(field);
    }
    let mut text = json::to_string(&head).into_bytes();
    text.pop();
    text.extend_from_slice(format!(",\"{field}\":[").as_bytes());
    for (index, item) in items.enumerate() {
        if index > 0 {
            text.push(b',');
        }
        write(&mut text, item)?;
        check_size(text.len())?;
    }
    text.extend_from_slice(b"]}\n");
    Ok(Bytes::from(text))
}

fn list_head(definition: &Definition, page: &Page) -> Value {
    json!({
        "kind": definition.list_kind, "apiVersion": definition.api_version(),
        "metadata": list_metadata(definition, page), "items": [],
    })
}

/// Returns an item of a list: items of built-in lists omit their type, those of custom resources have it.
fn item(definition: &Definition, object: &Value) -> Value {
    let mut item = object.clone();
    if !definition.is_custom()
        && let Some(map) = item.as_object_mut()
    {
        map.remove("apiVersion");
        map.remove("kind");
    }
    item
}

/// Returns the metadata of a list in another format. Only lists of custom resources in their own format have an empty
/// continue token.
fn transformed_metadata(page: &Page) -> Value {
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if !page.token.is_empty() {
        metadata["continue"] = page.token.as_str().into();
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    metadata
}

fn list_metadata(definition: &Definition, page: &Page) -> Value {
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if definition.is_custom() || !page.token.is_empty() {
        metadata["continue"] = page.token.as_str().into();
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    metadata
}

fn list_protobuf(definition: &Definition, page: &Page) -> Result<Bytes, Status> {
    let mut items = Vec::with_capacity(page.items.len());
    let mut bytes = 0;
    for stored in &page.items {
        let object = definition.serve(&stored.value);
        let item = if Arc::ptr_eq(&object, &stored.value) {
            stored.protobuf().clone()
        } else {
            Bytes::from(protobuf::encode::body(
                (&*definition.api_version(), &*definition.subject.kind),
                &object,
            ))
        };
        bytes += item.len();
        check_size(bytes)?;
        items.push(item);
    }
    let kind = (&*definition.api_version(), definition.list_kind.as_str());
    let metadata = list_metadata(definition, page);
    Ok(Bytes::from(protobuf::encode::list(
        kind,
        &metadata,
        items.iter().map(|item| &**item),
    )))
}

fn list_bytes(definition: &Definition, page: &Page) -> Result<Bytes, Status> {
    let head = list_head(definition, page);
    list_text(head, "items", page.items.iter(), |text, stored| {
        let object = definition.serve(&stored.value);
        let as_stored = Arc::ptr_eq(&object, &stored.value);
        match (as_stored, definition.is_custom()) {
            (true, true) => text.extend_from_slice(stored.bytes()),
            (true, false) => stored.write_untyped(text),
            (false, _) => json::write(text, &item(definition, &object)),
        }
        Ok(())
    })
}
