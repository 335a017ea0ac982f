//! Runs the checks of the fuzz targets on random, nearly valid inputs.

#[path = "../fuzz/claims.rs"]
mod claims;

use proptest::prelude::*;

/// Tokens of schemas, objects and expressions.
const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\0",
    "1",
    "-1",
    "1e9",
    "null",
    "true",
    "a",
    "s",
    "l",
    "self",
    "oldSelf",
    "self.s",
    "self.l",
    "self.m",
    "self.x",
    "(",
    ")",
    ".",
    "?",
    "&&",
    "||",
    "!",
    "==",
    "<",
    "+",
    "*",
    "%",
    "/",
    " in ",
    "'a'",
    "b'a'",
    "has(",
    ".all(x, ",
    ".map(x, ",
    ".exists_one(x, ",
    ".sortBy(x, ",
    ".optMap(x, ",
    ".size()",
    ".matches('a*')",
    ".replace('a', 'b')",
    ".split('')",
    "duration(",
    "timestamp(",
    ".getHours('Europe/Paris')",
    "quantity(",
    "ip(",
    "cidr(",
    "url(",
    "semver(",
    "optional.of(",
    ".?a",
    "[?0]",
    "lists.range(",
    "'%s'.format([",
    "\"type\":\"object\"",
    "\"type\":\"array\"",
    "\"type\":\"string\"",
    "\"properties\":{\"a\":{",
    "\"items\":{",
    "\"default\":",
    "\"enum\":[",
    "\"pattern\":\"",
    "\"maximum\":",
    "\"multipleOf\":",
    "\"x-kubernetes-int-or-string\":true",
    "\"x-kubernetes-list-type\":\"map\"",
    "\"x-kubernetes-validations\":[{\"rule\":\"",
    "\"additionalProperties\":",
    "\"not\":{",
    "\"oneOf\":[{",
];

fn soup() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        8 => prop::sample::select(WORDS).prop_map(|word| word.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(word, 0..24).prop_map(|words| words.concat())
}

/// Returns JSON values, separated by zero bytes.
fn json(values: &[serde_json::Value]) -> Vec<u8> {
    let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
    texts.join("\0").into_bytes()
}

fn value() -> impl Strategy<Value = serde_json::Value> {
    let keys = prop::sample::select(vec![
        "a",
        "type",
        "properties",
        "items",
        "default",
        "enum",
        "nullable",
        "required",
        "maximum",
        "pattern",
        "format",
        "anyOf",
        "not",
        "additionalProperties",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-embedded-resource",
        "metadata",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-int-or-string",
    ]);
    let leaf = prop::sample::select(vec![
        serde_json::json!(null),
        serde_json::json!(true),
        serde_json::json!(1),
        serde_json::json!(-0.5),
        serde_json::json!("object"),
        serde_json::json!("array"),
        serde_json::json!("string"),
        serde_json::json!("map"),
        serde_json::json!(["a"]),
        serde_json::json!("date"),
    ]);
    leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(serde_json::Value::from),
            prop::collection::vec((keys.clone(), inner), 0..5).prop_map(|fields| {
                serde_json::Value::Object(
                    fields
                        .into_iter()
                        .map(|(key, value)| (key.to_owned(), value))
                        .collect(),
                )
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn definitions(bytes in soup(), schema in value(), object in value(), old in value()) {
        claims::definition(&bytes);
        claims::definition(&json(&[schema, object, old]));
    }

    #[test]
    fn expressions(bytes in soup()) {
        claims::expression(&bytes);
    }

    #[test]
    fn rules(bytes in soup(), object in value()) {
        let text = String::from_utf8_lossy(&bytes).replace('\0', "");
        claims::rule(&[text.as_bytes(), b"\0", object.to_string().as_bytes()].concat());
    }

    #[test]
    fn patterns(bytes in soup(), text in "[a-c]{0,9}") {
        let pattern = String::from_utf8_lossy(&bytes).replace('\0', "");
        claims::pattern(&[pattern.as_bytes(), b"\0", text.as_bytes()].concat());
    }
}

#[test]
fn inputs_that_were_found() {
    for input in include_str!("data/fuzz-found.txt").lines() {
        let bytes = serde_json::from_str::<String>(input).unwrap().into_bytes();
        claims::definition(&bytes);
        claims::expression(&bytes);
        claims::rule(&bytes);
    }
}
