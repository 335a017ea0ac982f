//! The default columns: name and age.

use apimachinery::object;
use serde_json::Value;

use super::Column;
use super::duration::human_duration;

/// The description of the name column.
pub const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

const AGE_DESCRIPTION: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// Returns the columns of kinds without columns of their own.
pub fn generic_columns() -> Vec<Column> {
    let column = |name: &str, format: &str, description: &str| Column {
        name: name.to_owned(),
        kind: "string".to_owned(),
        format: format.to_owned(),
        description: description.to_owned(),
        priority: 0,
    };
    vec![
        column("Name", "name", NAME_DESCRIPTION),
        column("Age", "", AGE_DESCRIPTION),
    ]
}

/// Returns the cells for [`generic_columns`].
pub fn generic_cells(object: &Value, now: i64) -> Vec<Value> {
    let created = object::text(object, &["metadata", "creationTimestamp"]);
    vec![object::name(object).into(), age(created, now).into()]
}

/// Returns the age of a time stamp.
pub fn age(timestamp: &str, now: i64) -> String {
    match timestamp.parse::<jiff::Timestamp>() {
        Ok(time) => human_duration(now - time.as_second()),
        Err(_) => "<invalid>".to_owned(),
    }
}
