//! Reads the object in the body of a create or an update.

use http::header::CONTENT_TYPE;
use serde_json::Value;

use super::options;
use crate::codec::body::{self, Media};
use crate::http::call::Call;
use crate::object;
use crate::resource::Definition;
use crate::status::Status;
use crate::write::Warnings;
use crate::write::object_body::{check_name, check_version, complete_in_order, mistyped, wrong_version};

/// Reads, checks, normalises and defaults the object in a body.
///
/// With `name`, the object must have it: a wrong name is found before a wrong type is.
pub(crate) fn read(
    call: &Call,
    definition: &Definition,
    warnings: &Warnings,
    name: Option<&str>,
) -> Result<Value, Status> {
    let media = Media::parse(call.header(CONTENT_TYPE), definition.is_custom())?;
    let kind = definition.subject.kind.as_str();
    let named = (definition.version.as_str(), kind);
    let api_version = definition.api_version();
    let decoded = body::decode(&call.body, media, (&api_version, kind))
        .map_err(|why| body::unrecognized(named, media, &why, &call.body))?;
    let mut value = decoded.value;
    if value.is_null() {
        value = Value::Object(Default::default());
    }
    if !value.is_object() {
        return Err(body::no_object(named, media, &value, &call.body));
    }
    let misnamed = name.and_then(|name| check_name(&value, name).err());
    let given = object::text(&value, &["apiVersion"]);
    if definition.is_custom() {
        if let Some(refusal) = body::without_type(kind, &value, &call.body) {
            return Err(refusal);
        }
        if given.is_empty() {
            return Err(wrong_version(definition, given));
        }
        check_version(definition, &value)?;
    } else if given.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {given}");
        return Err(body::untyped(kind, &why, &call.body));
    }
    let validation = options::field_validation(call);
    let mistyped = mistyped(definition, &value).is_some();
    let completed = complete_in_order(
        definition,
        &mut value,
        decoded.duplicates,
        validation,
        warnings,
        (media == Media::Json).then_some(&*call.body),
    );
    match (completed, misnamed) {
        (Err(_), Some(misnamed)) if mistyped => Err(misnamed),
        (Err(refusal), _) | (Ok(()), Some(refusal)) => Err(refusal),
        (Ok(()), None) => {
            if let Some(record) = &call.audit {
                record.request_object(&value);
            }
            Ok(value)
        }
    }
}
