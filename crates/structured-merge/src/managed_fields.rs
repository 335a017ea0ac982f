//! `metadata.managedFields`: the owner, time and version of each field ([`Managed`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::field_set::{FieldSet, FieldsError};
use crate::path;

/// The operation of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Any other write.
    Update,
}

impl Operation {
    /// Returns the value of `operation` in an entry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// The identity of a manager: an entry of managedFields without its fields and its time.
///
/// Managers are sorted as the API server sorts the JSON text of such an entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Manager(Arc<Identity>);

/// The parts of a manager, and the text that identifies it. The derived order is that of the text, because equal texts have
/// equal parts.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Identity {
    text: String,
    name: String,
    operation: Operation,
    /// Empty for appliers.
    api_version: String,
    subresource: String,
}

impl Manager {
    /// Returns the identity of a manager. `api_version` is ignored for appliers, because an applier keeps its entry
    /// when it uses another version.
    pub fn new(name: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let api_version = match operation {
            Operation::Apply => "",
            Operation::Update => api_version,
        };
        // The API server sorts and compares by this text, so the order of the keys matters.
        let mut text = String::from("{");
        let mut push = |key: &str, value: &str| {
            if value.is_empty() {
                return;
            }
            if text.len() > 1 {
                text.push(',');
            }
            for part in ["\"", key, "\":"] {
                text.push_str(part);
            }
            path::write_quoted(&mut text, value);
        };
        push("manager", name);
        push("operation", operation.as_str());
        push("apiVersion", api_version);
        push("subresource", subresource);
        text.push('}');
        Self(Arc::new(Identity {
            text,
            name: name.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
        }))
    }

    /// Formats the manager for conflicts: `"kubectl" with subresource "scale" using apps/v1`.
    pub(crate) fn describe(&self) -> String {
        let Identity {
            name,
            operation,
            api_version,
            subresource,
            ..
        } = &*self.0;
        let mut out = apimachinery::go::quote(name);
        if !subresource.is_empty() {
            out.push_str(&format!(
                " with subresource {}",
                apimachinery::go::quote(subresource)
            ));
        }
        if *operation == Operation::Update {
            out.push_str(&format!(" using {api_version}"));
        }
        out
    }
}

/// The fields that a manager owns, in one version of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// The fields. They are shared, because most writes do not change most managers.
    pub fields: Arc<FieldSet>,
    /// The version of the fields, such as `apps/v1`.
    pub api_version: String,
    /// True if the fields were applied.
    pub applied: bool,
}

/// Values of `fieldsV1`.
pub(crate) type Encoded = BTreeMap<Manager, Value>;

/// All managers of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managed {
    /// The fields of each owner.
    pub owners: BTreeMap<Manager, Owned>,
    /// The time of the last change of each manager. It may contain managers that no longer own fields.
    pub times: BTreeMap<Manager, Value>,
}

/// An error of parsing `metadata.managedFields`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The operation is neither `Apply` nor `Update`.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// The version is missing.
    #[error("apiVersion must not be empty")]
    ApiVersion,
    /// The type of the field set is missing.
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    /// The type of the field set is not `FieldsV1`.
    #[error("invalid fieldsType {0:?} in managed fields entry {1}")]
    FieldsType(String, usize),
    /// The field set is invalid.
    #[error("error decoding set: {0}")]
    Fields(#[from] FieldsError),
}

impl Managed {
    /// Parses the entries of `metadata.managedFields`.
    ///
    /// # Errors
    /// Returns an error if an entry has no valid operation, version or field set.
    pub fn decode(entries: &[Value]) -> Result<Self, DecodeError> {
        let mut managed = Self::default();
        for (index, entry) in entries.iter().enumerate() {
            let manager = managed.decode_entry(index, entry)?;
            if !entry["time"].is_null() {
                managed.times.insert(manager, entry["time"].clone());
            }
        }
        Ok(managed)
    }

    /// Parses the entries of `metadata.managedFields`, and keeps the values of their `fieldsV1` for
    /// [`encode_with`](Self::encode_with).
    pub(crate) fn decode_owned(entries: Vec<Value>) -> Result<(Self, Encoded), DecodeError> {
        let (mut managed, mut encoded) = (Self::default(), Encoded::new());
        for (index, mut entry) in entries.into_iter().enumerate() {
            let manager = managed.decode_entry(index, &entry)?;
            let mut take = |key: &str| entry.get_mut(key).map(Value::take).unwrap_or_default();
            match take("time") {
                Value::Null => {}
                time => _ = managed.times.insert(manager.clone(), time),
            }
            encoded.insert(manager, take("fieldsV1"));
        }
        Ok((managed, encoded))
    }

    /// Adds the manager of an entry without its time.
    fn decode_entry(&mut self, index: usize, entry: &Value) -> Result<Manager, DecodeError> {
        let text = |key: &str| entry[key].as_str().unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(DecodeError::Operation),
        };
        if text("apiVersion").is_empty() {
            return Err(DecodeError::ApiVersion);
        }
        match text("fieldsType") {
            "FieldsV1" => {}
            "" => return Err(DecodeError::NoFieldsType(index)),
            other => return Err(DecodeError::FieldsType(other.to_owned(), index)),
        }
        let manager = Manager::new(
            text("manager"),
            operation,
            text("apiVersion"),
            text("subresource"),
        );
        let owned = Owned {
            fields: Arc::new(FieldSet::from_value(&entry["fieldsV1"])?),
            api_version: text("apiVersion").to_owned(),
            applied: operation == Operation::Apply,
        };
        self.owners.insert(manager.clone(), owned);
        Ok(manager)
    }

    /// Returns the entries of `metadata.managedFields` in the API server's order: by operation, time, name, version and
    /// subresource.
    pub fn encode(&self) -> Vec<Value> {
        self.encode_with(Encoded::new())
    }

    /// Returns the entries as [`encode`](Self::encode) does, with the values of `encoded` for the managers whose fields
    /// have not changed.
    pub(crate) fn encode_with(&self, mut encoded: Encoded) -> Vec<Value> {
        let mut entries: Vec<_> = self
            .owners
            .iter()
            .map(|(manager, owned)| {
                let known = encoded
                    .remove(manager)
                    .filter(|known| owned.fields.is_value(known));
                self.entry(manager, owned, known.unwrap_or_else(|| owned.fields.to_value()))
            })
            .collect();
        entries.sort_by(|left, right| left.0.cmp(&right.0));
        entries.into_iter().map(|(_, entry)| entry).collect()
    }

    fn entry<'a>(&self, manager: &'a Manager, owned: &'a Owned, fields: Value) -> (SortKey<'a>, Value) {
        let parts = &*manager.0;
        let operation = if owned.applied {
            Operation::Apply
        } else {
            Operation::Update
        };
        let time = self.times.get(manager);
        let mut entry = Map::new();
        let mut put = |key: &str, value: Value| entry.insert(key.to_owned(), value);
        put("operation", operation.as_str().into());
        put("apiVersion", owned.api_version.as_str().into());
        put("fieldsType", "FieldsV1".into());
        put("fieldsV1", fields);
        if !parts.name.is_empty() {
            put("manager", parts.name.as_str().into());
        }
        if let Some(time) = time {
            put("time", time.clone());
        }
        if !parts.subresource.is_empty() {
            put("subresource", parts.subresource.as_str().into());
        }
        let seconds = time.and_then(Value::as_str).map_or(0, unix_seconds);
        let key = (
            operation,
            seconds,
            parts.name.as_str(),
            owned.api_version.as_str(),
            parts.subresource.as_str(),
        );
        (key, Value::Object(entry))
    }

    /// Returns the time of the last change of a manager in Unix seconds; 0 if it is unknown.
    pub(crate) fn seconds(&self, manager: &Manager) -> i64 {
        self.times
            .get(manager)
            .and_then(Value::as_str)
            .map_or(0, unix_seconds)
    }
}

type SortKey<'a> = (Operation, i64, &'a str, &'a str, &'a str);

/// Returns the entries of an object; `None` if the object has no list of entries.
pub fn entries(object: &Value) -> Option<&[Value]> {
    object
        .get("metadata")?
        .get("managedFields")?
        .as_array()
        .map(Vec::as_slice)
}

/// Removes and returns the entries of an object; `None` if the object has no list of entries.
pub(crate) fn take_entries(object: &mut Value) -> Option<Vec<Value>> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    match metadata.remove("managedFields")? {
        Value::Array(entries) => Some(entries),
        _ => None,
    }
}

/// Replaces the entries of an object; an empty list removes the field.
pub fn set_entries(object: &mut Value, entries: Vec<Value>) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    let Some(metadata) = metadata.as_object_mut() else {
        return;
    };
    if entries.is_empty() {
        metadata.remove("managedFields");
    } else {
        metadata.insert("managedFields".to_owned(), Value::Array(entries));
    }
}

/// Returns true if two versions of an object are equal except for the time stamps of their managedFields. A server must
/// not store such a change.
pub fn equal_but_for_times(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            old.len() == new.len()
                && old.iter().all(|(key, value)| {
                    let Some(other) = new.get(key) else { return false };
                    if key == "metadata" {
                        metadata_equal_but_for_times(value, other)
                    } else {
                        value == other
                    }
                })
        }
        _ => old == new,
    }
}

fn metadata_equal_but_for_times(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else {
        return old == new;
    };
    old.len() == new.len()
        && old.iter().all(|(key, value)| {
            let Some(other) = new.get(key) else { return false };
            match (key.as_str(), value, other) {
                ("managedFields", Value::Array(old), Value::Array(new)) => {
                    old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same_entry(old, new))
                }
                _ => value == other,
            }
        })
}

fn same_entry(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else {
        return old == new;
    };
    let timeless = |entry: &Map<String, Value>| entry.len() - usize::from(entry.contains_key("time"));
    timeless(old) == timeless(new)
        && old
            .iter()
            .filter(|(key, _)| *key != "time")
            .all(|(key, value)| new.get(key) == Some(value))
}

/// Returns the Unix seconds of an RFC 3339 time; 0 for an invalid time.
fn unix_seconds(text: &str) -> i64 {
    parse_time(text).unwrap_or(0)
}

fn parse_time(text: &str) -> Option<i64> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let zone = text
        .get(19..)?
        .trim_start_matches(|char: char| char == '.' || char.is_ascii_digit());
    // The days since 1970-01-01 in the proleptic Gregorian calendar, with years that start in March.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = year * 365 + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (month * 153 + 2) / 5
        + day
        - 719_469;
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second - zone_seconds(zone)?)
}

fn zone_seconds(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (sign, rest) = if let Some(rest) = zone.strip_prefix('-') {
        (-1, rest)
    } else {
        (1, zone.strip_prefix('+')?)
    };
    let (hours, minutes) = rest.split_once(':')?;
    Some(sign * (hours.parse::<i64>().ok()? * 3_600 + minutes.parse::<i64>().ok()? * 60))
}
