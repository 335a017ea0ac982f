//! One version of a custom resource, parsed once from the CRD: [`CustomVersion`].

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::field::ErrorList;
use apimachinery::jsonpath::JsonPath;
use apimachinery::object;
use serde_json::Value;
use structural_schema::Outcome;
use structured_merge::Schema;
use structured_merge::scale::ReplicasPaths;
use tokio_util::sync::CancellationToken;

use super::conversion::Conversion;
use super::scale::Scale;
use builtin_kinds::Column;
use builtin_kinds::{NAME_DESCRIPTION, age};

/// A version of a CRD.
#[derive(Debug)]
pub(crate) struct CustomVersion {
    pub(crate) api_version: String,
    /// The `group/version` of the stored form.
    pub(crate) storage_api_version: String,
    /// The server-side apply schemas of all versions of the CRD, by apiVersion.
    pub(crate) merge_schemas: BTreeMap<String, Schema>,
    pub(crate) has_status: bool,
    pub(crate) scale: Option<Scale>,
    /// The paths of the replicas in all versions of the CRD.
    pub(crate) replicas_paths: ReplicasPaths,
    pub(crate) columns: Vec<PrinterColumn>,
    /// The selectable fields, as JSON paths such as `.spec.color`.
    pub(crate) selectable_fields: Vec<String>,
    pub(crate) schema: structural_schema::Schema,
    pub(crate) storage_schema: structural_schema::Schema,
    /// The revision of the CRD from which this was parsed. Objects stored before it may not match the schema.
    pub(crate) since: u64,
    /// A text that identifies this definition with this schema.
    pub(crate) identity: String,
    pub(crate) deprecation: Option<String>,
    /// True if the CRD is terminating, so that creates are rejected.
    pub(crate) terminating: bool,
    /// Cancelled when the CRD changes or is deleted. Watches then end, as in the API server when the storage of a
    /// custom resource is replaced.
    pub(crate) retired: CancellationToken,
    /// The conversion webhook; without it, a conversion only changes the apiVersion.
    pub(crate) conversion: Option<Arc<Conversion>>,
}

/// A column of `kubectl get`.
#[derive(Debug)]
pub(crate) struct PrinterColumn {
    pub(crate) column: Column,
    pub(crate) json_path: Option<JsonPath>,
}

/// The maximum size of the cells of an object, in bytes. Each column can contain the whole object.
const ROW_BYTES_MAX: usize = 16 << 20;

impl PrinterColumn {
    /// Returns the value of an object in this column; null if it does not have the column's type.
    fn cell(&self, object: &Value, now: i64, visits: &mut usize) -> Value {
        let path = self.json_path.as_ref();
        let value = path.and_then(|path| path.first_within(object, visits));
        let Some(value) = value else {
            return Value::Null;
        };
        match (self.column.kind.as_str(), value) {
            ("string", Value::String(_)) => value.clone(),
            ("string", Value::Null) => "<no value>".into(),
            ("string", other) => other.to_string().into(),
            ("integer", Value::Number(number)) => {
                let whole = number.as_f64().unwrap_or_default().trunc() as i64;
                number.as_i64().unwrap_or(whole).into()
            }
            ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
            ("date", Value::String(time)) => age(time, now).into(),
            _ => Value::Null,
        }
    }
}

impl CustomVersion {
    /// Normalizes a body by its schema; returns its unknown fields.
    pub(crate) fn decode(&self, object: &mut Value) -> Result<Vec<String>, String> {
        let unknown = self
            .schema
            .decode(object)
            .map_err(|malformed| malformed.to_string())?;
        make_whole(object);
        Ok(unknown)
    }

    pub(crate) fn default(&self, object: &mut Value) {
        self.schema.default(object);
    }

    pub(crate) fn prepare_for_create(&self, object: &mut Value) {
        if self.has_status
            && let Some(map) = object.as_object_mut()
        {
            map.remove("status");
        }
    }

    pub(crate) fn prepare_for_update(&self, subresource: &str, object: &mut Value, old: &Value) {
        match subresource {
            "" if self.has_status => object::copy_field(object, old, "status"),
            "status" => {
                let sent = std::mem::replace(object, old.clone());
                object::copy_field(object, &sent, "status");
                object::copy_meta(object, &sent, "managedFields");
            }
            _ => {}
        }
    }

    /// Returns true if the generation increases: on all changes except those of the metadata, and of a status that is a
    /// subresource.
    pub(crate) fn generation_changed(&self, old: &Value, new: &Value) -> bool {
        let counts = |key: &str| key != "metadata" && !(self.has_status && key == "status");
        let part = |object: &Value| -> Vec<(String, Value)> {
            let fields = object.as_object().into_iter().flatten();
            fields
                .filter(|(key, _)| counts(key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        part(old) != part(new)
    }

    pub(crate) fn validate_create(&self, object: &Value) -> Outcome {
        self.schema
            .check_with(object, None, self.check_scale(object, true))
    }

    pub(crate) fn validate_update(&self, subresource: &str, object: &Value, old: &Value) -> Outcome {
        let is_status = subresource == "status";
        let scale = self.check_scale(object, !is_status);
        if is_status {
            self.schema.check_status_with(object, Some(old), scale)
        } else {
            self.schema.check_with(object, Some(old), scale)
        }
    }

    fn check_scale(&self, object: &Value, with_spec: bool) -> ErrorList {
        let scale = self.scale.as_ref();
        scale.map_or_else(ErrorList::new, |scale| scale.check(object, with_spec))
    }

    pub(crate) fn field_label(&self, object: &Value, label: &str) -> Result<String, String> {
        let path = format!(".{label}");
        if !self.selectable_fields.contains(&path) {
            return Err(format!("field label not supported: {label}"));
        }
        let fields: Vec<&str> = label.split('.').collect();
        Ok(match object::get(object, &fields) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        })
    }

    pub(crate) fn columns(&self) -> Vec<Column> {
        let name = Column {
            name: "Name".to_owned(),
            kind: "string".to_owned(),
            format: "name".to_owned(),
            description: NAME_DESCRIPTION.to_owned(),
            priority: 0,
        };
        std::iter::once(name)
            .chain(self.columns.iter().map(|column| column.column.clone()))
            .collect()
    }

    /// Returns the cells of an object in a table; `None` if they are too large, or no values are left to visit.
    pub(crate) fn cells(&self, object: &Value, now: i64, visits: &mut usize) -> Option<Vec<Value>> {
        let mut cells = vec![Value::from(object::name(object))];
        let mut bytes = 0;
        for column in &self.columns {
            let cell = column.cell(object, now, visits);
            bytes += cell.as_str().map_or(0, str::len);
            if bytes > ROW_BYTES_MAX || *visits == 0 {
                return None;
            }
            cells.push(cell);
        }
        Some(cells)
    }

    /// Returns a stored object in this version: sets the apiVersion, and applies changes of the schema since the object
    /// was stored.
    pub(crate) fn serve(&self, stored: &Arc<Value>) -> Arc<Value> {
        let same_version = object::text(stored, &["apiVersion"]) == self.api_version;
        let revision: u64 = object::resource_version(stored).parse().unwrap_or_default();
        if same_version && (revision == 0 || revision > self.since) {
            return stored.clone();
        }
        let converted = self
            .conversion
            .as_ref()
            .filter(|_| !same_version)
            .and_then(|conversion| conversion.known(stored, &self.api_version));
        let mut object = match converted {
            Some(converted) => Arc::unwrap_or_clone(converted),
            None => relabelled((**stored).clone(), &self.api_version),
        };
        self.schema.prune(&mut object);
        self.schema.drop_nulls(&mut object);
        self.schema.default(&mut object);
        Arc::new(object)
    }

    /// Returns an object of this version in its stored form. Fields that the storage version does not have are dropped.
    pub(crate) fn to_storage(&self, object: Value) -> Value {
        if self.api_version == self.storage_api_version {
            return object;
        }
        let mut stored = relabelled(object, &self.storage_api_version);
        self.fit_storage(&mut stored);
        stored
    }

    /// Normalizes an object of the storage version by the schema of that version.
    pub(crate) fn fit_storage(&self, stored: &mut Value) {
        self.storage_schema.prune(stored);
        self.storage_schema.default(stored);
    }
}

/// The limit up to which floats represent all integers exactly.
const EXACT_FLOAT_MAX: f64 = 9_007_199_254_740_992.0;

/// Writes floats without a fraction as whole numbers, as Go's encoder does.
fn make_whole(value: &mut Value) {
    match value {
        Value::Object(map) => map.values_mut().for_each(make_whole),
        Value::Array(list) => list.iter_mut().for_each(make_whole),
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            if float.fract() == 0.0 && float.abs() <= EXACT_FLOAT_MAX {
                *number = (float as i64).into();
            }
        }
        _ => {}
    }
}

fn relabelled(mut object: Value, api_version: &str) -> Value {
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion".to_owned(), api_version.into());
    }
    object
}
