//! Renders objects and lists as responses.

use std::sync::Arc;

use apimachinery::json;
use apimachinery::object;
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use crate::codec::protobuf;
use crate::codec::{Form, Transform};
use crate::http::call::{Answer, Call};
use crate::http::table::{self, IncludeObject};
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
            let metadata = json!({"resourceVersion": object::resource_version(object)});
            table::render(
                registry,
                definition,
                std::iter::once(object),
                &metadata,
                (form, include),
            )
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
    if form == Form::default() {
        return Ok(Answer::new(
            StatusCode::OK,
            form.content_type(),
            list_bytes(definition, page),
        ));
    }
    if form.protobuf && form.transform == Transform::None {
        let bytes = list_protobuf(definition, page);
        return Ok(Answer::new(StatusCode::OK, form.content_type(), bytes));
    }
    let value = match form.transform {
        Transform::PartialObjectMetadata => {
            let found = format!("is a list ({})", go_type(definition, "List"));
            return Err(status::wrong_transform("PartialObjectMetadata", &found));
        }
        Transform::Table => {
            let include = IncludeObject::parse(call)?;
            let objects: Vec<_> = page
                .items
                .iter()
                .map(|stored| definition.serve(&stored.value))
                .collect();
            let metadata = transformed_metadata(page);
            let rows = objects.iter().map(|object| &**object);
            table::render(registry, definition, rows, &metadata, (form, include))
        }
        Transform::PartialObjectMetadataList => {
            let items: Vec<Value> = page
                .items
                .iter()
                .map(|stored| partial(&stored.value, form))
                .collect();
            let items = if items.is_empty() {
                Value::Null
            } else {
                items.into()
            };
            json!({
                "kind": "PartialObjectMetadataList", "apiVersion": form.meta_version(),
                "metadata": transformed_metadata(page), "items": items,
            })
        }
        Transform::None => {
            let items: Vec<Value> = page
                .items
                .iter()
                .map(|stored| item(definition, &definition.serve(&stored.value)))
                .collect();
            json!({
                "kind": definition.list_kind, "apiVersion": definition.api_version(),
                "metadata": list_metadata(definition, page), "items": items,
            })
        }
    };
    Ok(Answer::object(StatusCode::OK, &value, form))
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

fn list_protobuf(definition: &Definition, page: &Page) -> Bytes {
    let items: Vec<Bytes> = page
        .items
        .iter()
        .map(|stored| {
            let object = definition.serve(&stored.value);
            if Arc::ptr_eq(&object, &stored.value) {
                stored.protobuf().clone()
            } else {
                Bytes::from(protobuf::encode::body(
                    (&*definition.api_version(), &*definition.subject.kind),
                    &object,
                ))
            }
        })
        .collect();
    let kind = (&*definition.api_version(), definition.list_kind.as_str());
    let metadata = list_metadata(definition, page);
    Bytes::from(protobuf::encode::list(
        kind,
        &metadata,
        items.iter().map(|item| &**item),
    ))
}

fn list_bytes(definition: &Definition, page: &Page) -> Bytes {
    let head = json!({
        "kind": definition.list_kind, "apiVersion": definition.api_version(),
        "metadata": list_metadata(definition, page),
    });
    let mut text = head.to_string().into_bytes();
    text.pop();
    text.extend_from_slice(b",\"items\":[");
    for (index, stored) in page.items.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        let object = definition.serve(&stored.value);
        let as_stored = Arc::ptr_eq(&object, &stored.value);
        match (as_stored, definition.is_custom()) {
            (true, true) => text.extend_from_slice(stored.bytes()),
            (true, false) => stored.write_untyped(&mut text),
            (false, _) => json::write(&mut text, &item(definition, &object)),
        }
    }
    text.extend_from_slice(b"]}\n");
    Bytes::from(text)
}
