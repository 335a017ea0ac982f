//! Hints for the most frequent errors of the server.

use apimachinery::field::Error;

/// A part of the error's path or text, and its hint. The first match is used.
const FIXES: &[(&str, &str)] = &[
    (
        "must not be empty for specified",
        "give the field a `type`; for a value of any type set `x-kubernetes-preserve-unknown-fields: true` (in Rust: `#[schemars(schema_with = ...)]`, for untagged enums a struct or `IntOrString`)",
    ),
    ("must not be empty at the root", "set `type: object`"),
    (
        "$ref",
        "write out the schema; a recursive type needs `x-kubernetes-preserve-unknown-fields: true` where it recurs",
    ),
    (
        "items must be a schema object and not an array",
        "use a list of one type, or a struct instead of a tuple",
    ),
    (
        "uniqueItems cannot be set",
        "use `x-kubernetes-list-type: set` (in Rust: a Vec with that extension instead of a HashSet)",
    ),
    (
        "additionalProperties and properties are mutual exclusive",
        "move the map to a separate field (in Rust: do not use `#[serde(flatten)]` for a map beside other fields)",
    ),
    (
        "must not be used at the root",
        "move the map to a field of `spec`",
    ),
    (
        "to be structural",
        "move the keyword out of the nested schema, to the property itself",
    ),
    (
        "must not be specified in a nested context",
        "validate `metadata` with a rule: `x-kubernetes-validations`",
    ),
    (
        "because it is defined in",
        "declare the property in `properties` too, with its type",
    ),
    (
        "must be specified for metadata",
        "restrict only `name` and `generateName`",
    ),
    (
        "must not specify anything other than name and generateName",
        "leave `metadata: {type: object}`",
    ),
    (
        "must have exactly one version marked as storage version",
        "set `storage: true` on one version only",
    ),
    (
        "must be spec.names.plural",
        "set metadata.name to the plural, a dot and the group",
    ),
    (
        "should be a domain with at least one dot",
        "use a domain that you own as the group",
    ),
    (
        "must not have unknown fields",
        "add the fields to the schema, or remove them from the default",
    ),
    (
        "exceeds budget",
        "limit the values that the rule reads: `maxItems`, `maxLength`, `maxProperties`",
    ),
    (
        "contributed to estimated rule cost total",
        "limit the values that the rule reads, or remove the rule",
    ),
    (
        "must have a default or be a required property",
        "add the key to `required`, or give it a default",
    ),
    (
        "protected groups must have approval annotation",
        "use another group; `k8s.io` and `kubernetes.io` belong to Kubernetes",
    ),
    (
        "must be a valid regular expression",
        "write the pattern in RE2 syntax: no look-around, no back references",
    ),
    (
        "undefined field",
        "declare the field in the schema, or correct its name in the rule",
    ),
    (
        "no matching overload",
        "compare values of one type; convert with `int()`, `string()` or `double()`",
    ),
    (
        "must evaluate to a bool",
        "make the rule a condition that is true or false",
    ),
    (
        "must be a simple json path starting with .",
        "start the path with a dot",
    ),
    ("does not refer to a valid field", "name a field of the schema"),
    (
        "oldSelf cannot be used on the uncorrelatable portion",
        "make the list `x-kubernetes-list-type: map`, or put the rule above the list",
    ),
];

pub(super) fn fix(error: &Error) -> Option<&'static str> {
    let text = error.to_string();
    FIXES
        .iter()
        .find(|(part, _)| text.contains(part))
        .map(|(_, fix)| *fix)
}
