//! Random changes of valid objects, guided by the schemas of their fields.

use serde_json::{Map, Value, json};

use super::catalog::Catalog;
use super::random::Random;

/// The maximum nesting of values that are generated for a schema.
const VALUE_DEPTH_MAX: usize = 4;

/// Strings for fields whose names are not in [`TEXTS_BY_NAME`].
const TEXTS: [&str; 22] = [
    "",
    "a",
    "b",
    "x-1",
    "A_b",
    "a.b",
    "a/b",
    "a b",
    "-a",
    "1",
    "0",
    "true",
    "http",
    "10.0.0.1",
    "fe80::1",
    "a.example.com",
    "example.com/x",
    "*",
    "ü",
    "Always",
    "kubernetes.io/x",
    "a0123456789012345678901234567890123456789012345678901234567890123",
];

/// Strings for fields by the names of the fields.
const TEXTS_BY_NAME: [(&str, &[&str]); 26] = [
    ("name", &["a", "b", "c", "v", "A", "", "a.b", "a_b", "http", "-x"]),
    ("namespace", &["", "default", "nope", "A"]),
    ("generateName", &["a-", "", "A_"]),
    ("path", &["/", "p", "", "../x", "/a/../b", "a//b"]),
    ("mountPath", &["/v", "/w", "", "a:b", "relative"]),
    ("subPath", &["a", "../x", "/abs", ""]),
    ("image", &["img", "", " img", "img:latest", "a/b:c@sha256:1"]),
    ("cpu", &["1", "100m", "0.5m", "-1"]),
    (
        "schedule",
        &[
            "* * * * *",
            "@hourly",
            "TZ=UTC * * * * *",
            "x",
            "0 0 31 2 *",
            "CRON_TZ=UTC 0 0 * * *",
        ],
    ),
    ("timeZone", &["Etc/UTC", "Europe/Berlin", "Local", "nope", ""]),
    (
        "expression",
        &[
            "true",
            "1 + 1",
            "object.metadata.name == 'a'",
            "size(object.spec)",
            "x",
            "",
            "has(object.spec) &&",
            "'a'",
        ],
    ),
    ("valueExpression", &["'a'", "string(1)", "1", "x", ""]),
    (
        "messageExpression",
        &["'a'", "1", "x", "'a' + object.metadata.name"],
    ),
    (
        "rule",
        &["true", "self.size > 0", "self", "oldSelf == self", "x", "", "1"],
    ),
    (
        "url",
        &[
            "https://127.0.0.1:1/x",
            "http://a.example.com",
            "https://a/b?c",
            "x",
            "",
        ],
    ),
    (
        "host",
        &["a.example.com", "*.example.com", "*", "A", "10.0.0.1", "a."],
    ),
    (
        "cidr",
        &["10.0.0.0/8", "10.0.0.1/8", "fe80::/64", "x", "010.0.0.0/8"],
    ),
    (
        "ip",
        &["1.2.3.4", "127.0.0.1", "fe80::1", "::1", "01.2.3.4", "x", ""],
    ),
    ("clusterIP", &["None", "", "10.0.0.77", "1.2.3.4", "x"]),
    ("externalName", &["a.example.com", "a_b", "", "a..b", "10.0.0.1"]),
    (
        "operator",
        &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Equal", "x", ""],
    ),
    ("key", &["k", "kubernetes.io/hostname", "a/b/c", "", "-"]),
    ("apiVersion", &["v1", "apps/v1", "x", "a/b/c", ""]),
    ("apiGroup", &["", "rbac.authorization.k8s.io", "apps", "A"]),
    (
        "kind",
        &["Pod", "User", "Role", "ClusterRole", "Service", "x", ""],
    ),
    ("pattern", &["^a$", "(", "", "\\d+"]),
];

const QUANTITIES: [&str; 12] = [
    "1", "0", "100m", "1Gi", "1.5", "-1", "1e3", "x", "", "0.0001", "1Ki", "10E",
];
const TIMES: [&str; 4] = [
    "2024-01-01T00:00:00Z",
    "2024-01-01T00:00:00.000000Z",
    "x",
    "2024-01-01",
];

/// Makes `count` changes to an object.
pub(crate) fn mutate(
    catalog: &Catalog,
    schema: &Value,
    object: &mut Value,
    count: usize,
    random: &mut Random,
) {
    for _ in 0..count {
        change(catalog, schema, object, 0, random);
    }
}

fn change(catalog: &Catalog, schema: &Value, value: &mut Value, depth: usize, random: &mut Random) {
    let schema = catalog.resolve(schema);
    match value {
        Value::Object(fields) => change_object(catalog, schema, fields, depth, random),
        Value::Array(items) => change_array(catalog, &schema["items"], items, depth, random),
        _ => {}
    }
}

fn change_object(
    catalog: &Catalog,
    schema: &Value,
    fields: &mut Map<String, Value>,
    depth: usize,
    random: &mut Random,
) {
    let nested: Vec<String> = fields
        .iter()
        .filter(|(_, value)| value.is_object() || value.is_array())
        .map(|(name, _)| name.clone())
        .collect();
    let deeper = if depth == 0 { 96 } else { 62 };
    let descends = random.chance(deeper);
    let mut chosen = random.pick(&nested).cloned();
    // Most useful changes are outside the metadata.
    if depth == 0 && chosen.as_deref() == Some("metadata") && random.chance(70) {
        chosen = random.pick(&nested).cloned();
    }
    if descends && let Some(name) = chosen {
        let of_field = field_schema(schema, &name);
        if let Some(value) = fields.get_mut(&name) {
            return change(catalog, of_field, value, depth + 1, random);
        }
    }
    if random.chance(2) {
        fields.insert("unknownField".to_owned(), json!("x"));
        return;
    }
    if random.chance(15) {
        let names: Vec<String> = fields.keys().cloned().collect();
        if let Some(name) = random.pick(&names).filter(|name| !is_identity(depth, name)) {
            fields.remove(name);
        }
        return;
    }
    set_field(catalog, schema, fields, depth, random);
}

fn is_identity(depth: usize, name: &str) -> bool {
    depth == 0 && matches!(name, "apiVersion" | "kind" | "metadata")
        || depth == 1 && matches!(name, "name" | "namespace")
}

fn set_field(
    catalog: &Catalog,
    schema: &Value,
    fields: &mut Map<String, Value>,
    depth: usize,
    random: &mut Random,
) {
    let mut names: Vec<&String> = schema["properties"]
        .as_object()
        .map(|known| known.keys().collect())
        .unwrap_or_default();
    names.retain(|name| !is_identity(depth, name));
    let (name, of_field) = match random.pick(&names) {
        Some(name) => ((*name).clone(), field_schema(schema, name)),
        None => (map_key(random).to_owned(), &schema["additionalProperties"]),
    };
    let value = if random.chance(4) {
        wrong(random)
    } else {
        value(catalog, of_field, &name, 0, random)
    };
    fields.insert(name, value);
}

/// Returns a key of a map, such as labels and resource lists.
fn map_key(random: &mut Random) -> &'static str {
    random.text(&[
        "k",
        "app",
        "cpu",
        "memory",
        "storage",
        "example.com/x",
        "a/b/c",
        "",
        "A b",
        "requests.cpu",
        "hugepages-2Mi",
        "pods",
        "ephemeral-storage",
    ])
}

fn change_array(
    catalog: &Catalog,
    schema: &Value,
    items: &mut Vec<Value>,
    depth: usize,
    random: &mut Random,
) {
    let index = random.below(items.len());
    match random.below(10) {
        0 => items.push(value(catalog, schema, "", 0, random)),
        1 => items.extend(items.get(index).cloned()),
        2 if index < items.len() => {
            items.remove(index);
        }
        _ => {
            if let Some(item) = items.get_mut(index) {
                if item.is_object() {
                    change(catalog, schema, item, depth + 1, random);
                } else {
                    *item = value(catalog, schema, "", 0, random);
                }
            }
        }
    }
}

pub(crate) fn field_schema<'a>(schema: &'a Value, name: &str) -> &'a Value {
    let of_field = &schema["properties"][name];
    if of_field.is_null() {
        &schema["additionalProperties"]
    } else {
        of_field
    }
}

/// Returns a value that most schemas reject.
fn wrong(random: &mut Random) -> Value {
    let values = [
        json!(null),
        json!("x"),
        json!(1),
        json!(1.5),
        json!(true),
        json!([]),
        json!({}),
        json!([1]),
        json!({"a": 1}),
    ];
    random.pick(&values).cloned().unwrap_or_default()
}

/// Generates a value for a schema. Strings depend on the name of the field.
pub(crate) fn value(
    catalog: &Catalog,
    schema: &Value,
    name: &str,
    depth: usize,
    random: &mut Random,
) -> Value {
    let reference = schema["$ref"].as_str().unwrap_or_default();
    let resolved = catalog.resolve(schema);
    if reference.ends_with(".Quantity") {
        return random.text(&QUANTITIES).into();
    }
    if resolved["format"] == "int-or-string" {
        let values = [
            json!(0),
            json!(1),
            json!(-1),
            json!(80),
            json!("50%"),
            json!("http"),
            json!("x"),
            json!("101%"),
            json!(""),
        ];
        return random.pick(&values).cloned().unwrap_or_default();
    }
    match resolved["type"].as_str() {
        Some("string") => text(resolved, name, random).into(),
        Some("integer") => {
            let numbers = [
                0,
                1,
                2,
                5,
                -1,
                80,
                65_536,
                2_147_483_647,
                2_147_483_648_i64,
                100,
                3600,
            ];
            random.pick(&numbers).copied().unwrap_or_default().into()
        }
        Some("number") => json!(0.5),
        Some("boolean") => random.chance(50).into(),
        Some("array") if depth < VALUE_DEPTH_MAX => (0..random.below(3))
            .map(|_| value(catalog, &resolved["items"], name, depth + 1, random))
            .collect(),
        Some("array") => json!([]),
        _ if depth >= VALUE_DEPTH_MAX => json!({}),
        _ => object(catalog, resolved, depth, random),
    }
}

fn object(catalog: &Catalog, schema: &Value, depth: usize, random: &mut Random) -> Value {
    let mut fields = Map::new();
    let required: Vec<&str> = schema["required"]
        .as_array()
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    match schema["properties"].as_object() {
        Some(properties) => {
            // A union such as a volume source has many members, of which one or two are enough.
            let share = (200 / properties.len().max(1)).clamp(3, 50);
            for (name, of_field) in properties {
                let needed = required.contains(&name.as_str()) && !random.chance(6);
                if needed || random.chance(share) {
                    fields.insert(name.clone(), value(catalog, of_field, name, depth + 1, random));
                }
            }
        }
        None if schema["additionalProperties"].is_object() => {
            for _ in 0..random.below(3) {
                let key = map_key(random);
                let of_key = value(catalog, &schema["additionalProperties"], key, depth + 1, random);
                fields.insert(key.to_owned(), of_key);
            }
        }
        None => {}
    }
    Value::Object(fields)
}

fn text(schema: &Value, name: &str, random: &mut Random) -> String {
    if let Some(allowed) = schema["enum"].as_array()
        && random.chance(85)
    {
        return random
            .pick(allowed)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
    }
    match schema["format"].as_str() {
        Some("byte") => return random.text(&["aGk=", "", "x", "LS0t"]).to_owned(),
        Some("date-time") => return random.text(&TIMES).to_owned(),
        _ => {}
    }
    let by_name = TEXTS_BY_NAME.iter().find(|(known, _)| *known == name);
    match by_name {
        Some((_, texts)) if random.chance(80) => random.text(texts).to_owned(),
        _ => random.text(&TEXTS).to_owned(),
    }
}
