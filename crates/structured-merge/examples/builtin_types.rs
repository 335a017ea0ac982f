//! Writes `src/builtin/types-1.36.txt` from a JSON description of Kubernetes' built-in types.
//!
//! ```text
//! cargo run -p structured-merge --example builtin_types -- builtin-types-1.36.json > src/builtin/types-1.36.txt
//! ```
//!
//! The input is an object `{"types": {NAME: TYPE}}`. Each type is an OpenAPI v3 schema without descriptions, in which
//! `$ref` is `ref`, `additionalProperties` is `values`, and the `x-kubernetes-` prefix is `x-`. The format of the
//! output is described in `src/builtin.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Map, Value};

const HEADER: &str = "\
# The built-in types of Kubernetes 1.36. Written by examples/builtin_types.rs; the grammar is in src/builtin.rs.
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args()
        .nth(1)
        .ok_or("usage: builtin_types BUILTIN_TYPES.json")?;
    let input: Value = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let types = input["types"].as_object().ok_or("the input has no \"types\"")?;
    print!("{}", table(types));
    Ok(())
}

fn table(types: &Map<String, Value>) -> String {
    let packages: BTreeSet<&str> = types.keys().map(|name| split(name).0).collect();
    let aliases = aliases(&packages);
    let mut out = String::from(HEADER);
    for package in packages {
        let _ = writeln!(out, "package {} {package}", aliases[package]);
        for (name, schema) in types.iter().filter(|(name, _)| split(name).0 == package) {
            write_type(
                &mut out,
                split(name).1,
                schema,
                &Names {
                    package,
                    aliases: &aliases,
                },
            );
        }
    }
    out
}

struct Names<'a> {
    package: &'a str,
    aliases: &'a BTreeMap<&'a str, String>,
}

impl Names<'_> {
    /// Returns the reference to a type: `.Name` in the current package, `alias.Name` in other packages.
    fn reference(&self, name: &str) -> String {
        let (package, name) = split(name);
        if package == self.package {
            format!(".{name}")
        } else {
            format!("{}.{name}", self.aliases[package])
        }
    }
}

fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('.').unwrap_or(("", name))
}

/// Returns the last two segments of each package, such as `apps/v1`, which are unique.
fn aliases<'a>(packages: &BTreeSet<&'a str>) -> BTreeMap<&'a str, String> {
    let alias = |package: &str| {
        let mut last = package.rsplit('.').take(2).collect::<Vec<_>>();
        last.reverse();
        last.join("/")
    };
    packages
        .iter()
        .map(|package| (*package, alias(package)))
        .collect()
}

fn write_type(out: &mut String, name: &str, schema: &Value, names: &Names<'_>) {
    let _ = write!(out, "type {name}");
    if let Some(special) = special(name, schema) {
        let _ = write!(out, " is={special}");
    }
    for gvk in array(schema, "gvk") {
        let _ = write!(
            out,
            " gvk={}/{}/{}",
            text(gvk, "group"),
            text(gvk, "version"),
            text(gvk, "kind")
        );
    }
    if text(schema, "x-map-type") == "atomic" {
        out.push_str(" atomic");
    }
    if !array(schema, "required").is_empty() {
        let _ = write!(out, " required={}", joined(schema, "required"));
    }
    out.push('\n');
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let _ = writeln!(out, " {name} {}{}", kind(field, names), marks(field));
    }
}

/// Returns the kind of a type that is not a struct: a scalar with its own format, or a free-form value.
fn special(name: &str, schema: &Value) -> Option<&'static str> {
    match name {
        "Quantity" => Some("quantity"),
        "IntOrString" => Some("int-or-string"),
        "Time" => Some("time"),
        "MicroTime" => Some("micro-time"),
        "RawExtension" => Some("raw"),
        "FieldsV1" => Some("object"),
        _ if schema.get("type").is_none() => Some("any"),
        _ => None,
    }
}

fn kind(field: &Value, names: &Names<'_>) -> String {
    if let Some(items) = field.get("items") {
        return format!("[{}]", kind(items, names));
    }
    if let Some(values) = field.get("values") {
        return format!("{{{}}}", kind(values, names));
    }
    if let Some(reference) = field["ref"].as_str() {
        return names.reference(reference);
    }
    let scalar = match (text(field, "type"), text(field, "format")) {
        ("string", "byte") => "bytes",
        ("integer", "int32") => "int32",
        ("integer", _) => "int64",
        (other, _) => other,
    };
    scalar.to_owned()
}

fn marks(field: &Value) -> String {
    let mut out = String::new();
    if let Some(default) = field.get("default") {
        let _ = write!(out, " default={default}");
    }
    match text(field, "x-list-type") {
        "" => {}
        "map" => {
            let _ = write!(out, " map={}", joined(field, "x-list-map-keys"));
        }
        other if field.get("items").is_some() => {
            let _ = write!(out, " {other}");
        }
        _ => {}
    }
    if !text(field, "x-map-type").is_empty() {
        let _ = write!(out, " {}", text(field, "x-map-type"));
    }
    if !text(field, "x-patch-strategy").is_empty() {
        let _ = write!(out, " patch={}", text(field, "x-patch-strategy"));
    }
    if !text(field, "x-patch-merge-key").is_empty() {
        let _ = write!(out, " key={}", text(field, "x-patch-merge-key"));
    }
    let values = field.get("items").or(field.get("values")).unwrap_or(field);
    for (index, value) in array(values, "enum").iter().enumerate() {
        let _ = write!(
            out,
            "{}|{}",
            if index == 0 { " " } else { "" },
            value.as_str().unwrap_or("")
        );
    }
    out
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("")
}

fn array<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn joined(value: &Value, key: &str) -> String {
    array(value, key)
        .iter()
        .filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join(",")
}
