//! Reads the object in the body of a create or an update.

use apimachinery::json;
use apimachinery::object;
use http::header::CONTENT_TYPE;
use serde_json::Value;

use super::options;
use crate::codec::body::{self, Media};
use crate::http::call::Call;
use crate::resource::Definition;
use crate::status::{self, Status};
use crate::write::Warnings;
use crate::write::object_body::{
    FaultOrder, StrictFaults, WantedType, cannot_handle, check_name, check_version, complete, mistyped,
    report, unregistered, wrong_version,
};

/// Parses, checks, normalizes and defaults the object in a body.
///
/// If `name` is given, the object must have this name; a wrong name is reported before a wrong type.
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
    let is_struct = media == Media::Json && !definition.is_custom();
    let decoded = if is_struct {
        json::parse_typed(&call.body)
    } else {
        body::decode(&call.body, media, (&api_version, kind))
    };
    let decoded = decoded.map_err(|why| body::unrecognized(named, media, &why, &call.body))?;
    let mut value = decoded.value;
    if value.is_null() {
        value = Value::Object(Default::default());
    }
    if !value.is_object() {
        return Err(body::no_object(named, media, &value, &call.body));
    }
    if !definition.is_custom()
        && let Some(why) = body::unreadable_type(&value)
    {
        return Err(body::untyped(kind, &why, &call.body));
    }
    let misnamed = name.and_then(|name| check_name(&value, name).err());
    if !definition.is_custom() && object::text(&value, &["apiVersion"]) == format!("/{api_version}") {
        // The core group may have its separator.
        value["apiVersion"] = api_version.as_str().into();
    }
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
    let faults = StrictFaults {
        earlier: if is_struct {
            Vec::new()
        } else {
            decoded.duplicates.clone()
        },
        duplicates: if is_struct { decoded.duplicates } else { Vec::new() },
        replaced: decoded.replaced,
        order: match media {
            _ if definition.is_custom() => FaultOrder::Path,
            Media::Json => FaultOrder::Document(&call.body),
            // Other formats are first converted to JSON with sorted fields.
            Media::Yaml | Media::Protobuf => FaultOrder::Fields,
        },
    };
    let completed = complete(definition, &mut value, faults, validation, warnings);
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

/// Parses the body of a request to a subresource whose kind differs from the resource, such as a Binding.
pub(crate) fn read_other(
    call: &Call,
    wanted: &apimachinery::gvk::Gvk,
    warnings: &Warnings,
) -> Result<Value, Status> {
    let media = Media::parse(call.header(CONTENT_TYPE), false)?;
    let named = (wanted.version, wanted.kind);
    let api_version = match wanted.group {
        "" => wanted.version.to_owned(),
        group => format!("{group}/{}", wanted.version),
    };
    let decoded = match media {
        Media::Json => json::parse_typed(&call.body),
        _ => body::decode(&call.body, media, (&api_version, wanted.kind)),
    };
    let decoded = decoded.map_err(|why| body::unrecognized(named, media, &why, &call.body))?;
    let mut value = decoded.value;
    if value.is_null() {
        value = Value::Object(Default::default());
    }
    if !value.is_object() {
        return Err(body::no_object(named, media, &value, &call.body));
    }
    if let Some(why) = body::unreadable_type(&value) {
        return Err(body::untyped(wanted.kind, &why, &call.body));
    }
    let (given, kind) = (
        object::text(&value, &["apiVersion"]),
        object::text(&value, &["kind"]),
    );
    if given.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {given}");
        return Err(body::untyped(wanted.kind, &why, &call.body));
    }
    let expected = WantedType {
        group: wanted.group,
        version: wanted.version,
        kind: wanted.kind,
    };
    if let Some(refusal) = unregistered(&expected, given, kind) {
        return Err(refusal);
    }
    let version = given.rsplit('/').next().filter(|version| !version.is_empty());
    expected.check_kind(kind, version.unwrap_or(wanted.version))?;
    let order = match media {
        Media::Json => FaultOrder::Document(&call.body),
        Media::Yaml | Media::Protobuf => FaultOrder::Fields,
    };
    let faults = match media {
        Media::Json => StrictFaults {
            duplicates: decoded.duplicates,
            order,
            ..StrictFaults::default()
        },
        Media::Yaml | Media::Protobuf => StrictFaults {
            earlier: decoded.duplicates,
            order,
            ..StrictFaults::default()
        },
    };
    let sorted = value.to_string();
    let unknown = builtin_kinds::decode_body(wanted, &mut value, decoded.replaced).map_err(|why| {
        status::bad_request(format!("{} {why}", cannot_handle(wanted.kind, wanted.version)))
    })?;
    let found = faults.combine(&unknown, Some(&sorted));
    report(
        (wanted.kind, wanted.version),
        &found,
        options::field_validation(call),
        warnings,
    )?;
    Ok(value)
}
