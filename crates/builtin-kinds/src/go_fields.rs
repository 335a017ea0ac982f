//! The properties of Go structs that the OpenAPI types do not contain: pointers, `omitempty` and type names.
//!
//! By default, the properties are derived from the OpenAPI type:
//!
//! * a scalar is a value: it is always written if it has a zero default, and otherwise `omitempty`;
//! * a struct is a value if it has a default, and otherwise a pointer with `omitempty`;
//! * lists, maps, times, quantities and similar types are `omitempty`; times and quantities are pointers.
//!
//! `go-fields-1.36.txt` lists the fields that differ, or whose Go type has its own name. The marks are: `*` a pointer,
//! `&` a value, `!` always written, `~` with `omitempty`, `=` with defaults that distinguish an empty list from a
//! missing one, `0` with `omitzero`, `-` no change. The source is the struct tags and defaults of the published Go modules.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;
use structured_merge::builtin::{Field, FieldKind, Type, types};

/// The reading and writing rules of one field of a Go struct.
#[derive(Debug)]
pub(super) struct GoField {
    pub(super) name: &'static str,
    pub(super) kind: &'static FieldKind,
    /// True if the field is a pointer, so that nil differs from the zero value.
    pub(super) pointer: bool,
    /// True if the field is omitted when it is empty.
    pub(super) omit_empty: bool,
    /// True if the field is omitted when it is zero, even if it is a struct.
    pub(super) omit_zero: bool,
    /// True if the defaults distinguish an empty list from a missing one.
    pub(super) keeps_empty: bool,
    /// The name of the type, if it has its own: `v1.Protocol`.
    pub(super) type_name: Option<&'static str>,
}

/// A Go struct.
#[derive(Debug)]
pub(super) struct GoStruct {
    /// The name in error texts: `v1.PodSpec`.
    pub(super) name: String,
    /// The fields, ordered by name.
    pub(super) fields: Vec<GoField>,
}

impl GoStruct {
    /// Returns the name without the package.
    pub(super) fn short_name(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or_default()
    }

    /// Returns true if the struct has a field with this JSON name.
    pub(super) fn has_field(&self, name: &str) -> bool {
        self.fields.binary_search_by(|field| field.name.cmp(name)).is_ok()
    }
}

static STRUCTS: LazyLock<HashMap<&'static str, GoStruct>> = LazyLock::new(structs);

/// Returns the Go struct of a type.
pub(super) fn go_struct(of_type: &Type) -> Option<&'static GoStruct> {
    STRUCTS.get(of_type.name.as_str())
}

type Marks = (&'static str, Option<&'static str>);

fn structs() -> HashMap<&'static str, GoStruct> {
    let exceptions = exceptions(include_str!("go-fields-1.36.txt"));
    let to_struct = |of_type: &'static Type| {
        let name = of_type.name.strip_prefix("io.k8s.").unwrap_or(&of_type.name);
        let field = |field| go_field(field, exceptions.get(&(name, field_name(field))).copied());
        let go = GoStruct {
            name: go_name(name),
            fields: of_type.fields().iter().map(field).collect(),
        };
        (of_type.name.as_str(), go)
    };
    types().iter().map(to_struct).collect()
}

fn field_name(field: &'static Field) -> &'static str {
    field.name
}

/// Returns the Go name of a type: `v1.PodSpec` for `api.core.v1.PodSpec`.
fn go_name(name: &str) -> String {
    let mut parts = name.rsplitn(3, '.');
    let short = parts.next().unwrap_or_default();
    let package = parts.next().unwrap_or_default();
    format!("{package}.{short}")
}

fn exceptions(text: &'static str) -> HashMap<(&'static str, &'static str), Marks> {
    let mut exceptions = HashMap::new();
    let mut of_type = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some(field) = line.strip_prefix(' ') else {
            of_type = line;
            continue;
        };
        let mut words = field.split(' ');
        if let (Some(name), Some(marks)) = (words.next(), words.next()) {
            exceptions.insert((of_type, name), (marks, words.next()));
        }
    }
    exceptions
}

fn go_field(field: &'static Field, exception: Option<Marks>) -> GoField {
    let (marks, type_name) = exception.unwrap_or(("", None));
    let (pointer, omit_empty) = expectation(field);
    GoField {
        name: field.name,
        kind: &field.kind,
        pointer: (pointer || marks.contains('*')) && !marks.contains('&'),
        omit_empty: (omit_empty || marks.contains('~')) && !marks.contains('!'),
        omit_zero: marks.contains('0'),
        keeps_empty: marks.contains('='),
        type_name,
    }
}

/// Returns two properties that are expected from the OpenAPI type of a field: true for a pointer, true for `omitempty`.
fn expectation(field: &Field) -> (bool, bool) {
    match field.kind {
        FieldKind::Ref(_) => (field.default.is_none(), true),
        FieldKind::List(_) | FieldKind::Map(_) => (false, true),
        FieldKind::String
        | FieldKind::Bytes
        | FieldKind::Boolean
        | FieldKind::Int32
        | FieldKind::Int64
        | FieldKind::Number => (false, !field.default.as_ref().is_some_and(is_zero_scalar)),
        FieldKind::IntOrString
        | FieldKind::Quantity
        | FieldKind::Time
        | FieldKind::MicroTime
        | FieldKind::Object
        | FieldKind::Raw
        | FieldKind::Any => (true, true),
    }
}

fn is_zero_scalar(value: &Value) -> bool {
    !value.is_null() && crate::tree::is_zero(value)
}

#[cfg(test)]
mod tests {
    use super::{exceptions, go_struct};
    use structured_merge::builtin::types;

    #[test]
    fn every_exception_is_about_a_field_that_exists() {
        for (of_type, field) in exceptions(include_str!("go-fields-1.36.txt")).keys() {
            let found = types().named(&format!("io.k8s.{of_type}"));
            let found = found.unwrap_or_else(|| panic!("no type {of_type}"));
            assert!(found.field(field).is_some(), "{of_type}.{field}");
        }
    }

    #[test]
    fn pointers_and_omitted_fields_are_distinguished() {
        let deployment = types().named("io.k8s.api.apps.v1.DeploymentSpec").unwrap();
        let go = go_struct(deployment).unwrap();
        assert_eq!(go.name, "v1.DeploymentSpec");
        let field = |name: &str| go.fields.iter().find(|field| field.name == name).unwrap();
        assert!(field("replicas").pointer && field("replicas").omit_empty);
        assert!(!field("paused").pointer && field("paused").omit_empty);
        assert!(field("selector").pointer && !field("selector").omit_empty);
        assert!(!field("template").pointer);
    }
}
