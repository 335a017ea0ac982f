//! Go's format of the internal structs of device claims: all fields in the order of the struct, with their Go names.

use serde_json::{Value, json};

use crate::tree::at;

/// The format of a field's value.
pub(super) enum Print {
    /// A string, empty if missing.
    Text,
    /// A number, zero if missing.
    Number,
    /// A struct, empty if missing.
    Struct(&'static [Field]),
    /// A pointer to a struct or a list of structs, null if missing.
    Structs(&'static [Field]),
    /// Any other value, null if missing.
    Plain,
}

/// The Go name of a field, its JSON name and its format.
pub(super) struct Field(&'static str, &'static str, Print);

pub(super) const CLAIM_SPEC: &[Field] = &[Field("Devices", "devices", Print::Struct(CLAIM))];

const CLAIM: &[Field] = &[
    Field("Requests", "requests", Print::Structs(REQUEST)),
    Field("Constraints", "constraints", Print::Structs(CONSTRAINT)),
    Field("Config", "config", Print::Structs(CONFIGURATION)),
];

const REQUEST: &[Field] = &[
    Field("Name", "name", Print::Text),
    Field("Exactly", "exactly", Print::Structs(EXACTLY)),
    Field("FirstAvailable", "firstAvailable", Print::Structs(ALTERNATIVE)),
];

const EXACTLY: &[Field] = &[
    Field("DeviceClassName", "deviceClassName", Print::Text),
    Field("Selectors", "selectors", Print::Structs(SELECTOR)),
    Field("AllocationMode", "allocationMode", Print::Text),
    Field("Count", "count", Print::Number),
    Field("AdminAccess", "adminAccess", Print::Plain),
    Field("Tolerations", "tolerations", Print::Structs(TOLERATION)),
    Field("Capacity", "capacity", Print::Structs(CAPACITY)),
];

const ALTERNATIVE: &[Field] = &[
    Field("Name", "name", Print::Text),
    Field("DeviceClassName", "deviceClassName", Print::Text),
    Field("Selectors", "selectors", Print::Structs(SELECTOR)),
    Field("AllocationMode", "allocationMode", Print::Text),
    Field("Count", "count", Print::Number),
    Field("Tolerations", "tolerations", Print::Structs(TOLERATION)),
    Field("Capacity", "capacity", Print::Structs(CAPACITY)),
];

const SELECTOR: &[Field] = &[Field("CEL", "cel", Print::Structs(EXPRESSION))];
const EXPRESSION: &[Field] = &[Field("Expression", "expression", Print::Text)];
const CAPACITY: &[Field] = &[Field("Requests", "requests", Print::Plain)];

const TOLERATION: &[Field] = &[
    Field("Key", "key", Print::Text),
    Field("Operator", "operator", Print::Text),
    Field("Value", "value", Print::Text),
    Field("Effect", "effect", Print::Text),
    Field("TolerationSeconds", "tolerationSeconds", Print::Plain),
];

const CONSTRAINT: &[Field] = &[
    Field("Requests", "requests", Print::Plain),
    Field("MatchAttribute", "matchAttribute", Print::Plain),
    Field("DistinctAttribute", "distinctAttribute", Print::Plain),
];

const CONFIGURATION: &[Field] = &[
    Field("Requests", "requests", Print::Plain),
    Field("Opaque", "opaque", Print::Structs(OPAQUE)),
];

const OPAQUE: &[Field] = &[
    Field("Driver", "driver", Print::Text),
    Field("Parameters", "parameters", Print::Plain),
];

pub(super) const ALLOCATION: &[Field] = &[
    Field("Devices", "devices", Print::Struct(ALLOCATED)),
    Field("NodeSelector", "nodeSelector", Print::Structs(NODE_SELECTOR)),
    Field("AllocationTimestamp", "allocationTimestamp", Print::Plain),
];

const ALLOCATED: &[Field] = &[
    Field("Results", "results", Print::Structs(RESULT)),
    Field("Config", "config", Print::Structs(ALLOCATED_CONFIGURATION)),
];

const RESULT: &[Field] = &[
    Field("Request", "request", Print::Text),
    Field("Driver", "driver", Print::Text),
    Field("Pool", "pool", Print::Text),
    Field("Device", "device", Print::Text),
    Field("AdminAccess", "adminAccess", Print::Plain),
    Field("Tolerations", "tolerations", Print::Structs(TOLERATION)),
    Field("BindingConditions", "bindingConditions", Print::Plain),
    Field(
        "BindingFailureConditions",
        "bindingFailureConditions",
        Print::Plain,
    ),
    Field("ShareID", "shareID", Print::Plain),
    Field("ConsumedCapacity", "consumedCapacity", Print::Plain),
];

const ALLOCATED_CONFIGURATION: &[Field] = &[
    Field("Source", "source", Print::Text),
    Field("Requests", "requests", Print::Plain),
    Field("Opaque", "opaque", Print::Structs(OPAQUE)),
];

const NODE_SELECTOR: &[Field] = &[Field(
    "NodeSelectorTerms",
    "nodeSelectorTerms",
    Print::Structs(TERM),
)];

const TERM: &[Field] = &[
    Field(
        "MatchExpressions",
        "matchExpressions",
        Print::Structs(REQUIREMENT),
    ),
    Field("MatchFields", "matchFields", Print::Structs(REQUIREMENT)),
];

const REQUIREMENT: &[Field] = &[
    Field("Key", "key", Print::Text),
    Field("Operator", "operator", Print::Text),
    Field("Values", "values", Print::Plain),
];

/// Formats an object, or a list of them.
pub(super) fn print(value: &Value, fields: &[Field]) -> String {
    if let Some(items) = value.as_array() {
        let items: Vec<String> = items.iter().map(|item| print(item, fields)).collect();
        return format!("[{}]", items.join(","));
    }
    let printed: Vec<String> = fields
        .iter()
        .map(|Field(go_name, name, form)| {
            let field = at(value, &[name]);
            let text = match form {
                Print::Struct(fields) => print(field, fields),
                Print::Structs(fields) if !field.is_null() => print(field, fields),
                Print::Text if field.is_null() => json!("").to_string(),
                Print::Number if field.is_null() => json!(0).to_string(),
                _ => field.to_string(),
            };
            format!("\"{go_name}\":{text}")
        })
        .collect();
    format!("{{{}}}", printed.join(","))
}

/// Formats the spec of a template: the fields of its metadata, followed by the spec of the claims.
pub(super) fn template_spec(spec: &Value) -> String {
    let inner = print(at(spec, &["spec"]), CLAIM_SPEC);
    let metadata = at(spec, &["metadata"]);
    let fields = ["labels", "annotations"]
        .into_iter()
        .filter(|field| !at(metadata, &[field]).is_null())
        .map(|field| format!("\"{field}\":{},", at(metadata, &[field])));
    format!("{{{}\"Spec\":{inner}}}", fields.collect::<String>())
}
