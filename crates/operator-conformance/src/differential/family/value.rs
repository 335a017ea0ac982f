//! Unusual values in fields with a syntax of their own: times, quantities, base64, formats, selectors, YAML, and
//! expressions.

use serde_json::{Value, json};

use super::Making;
use crate::differential::random::Random;
use crate::differential::sequence::{Sequence, request, send};
use crate::scenario::Step;

const TIMES: [&str; 6] = [
    "2024-01-01T00:00:00Z",
    "2024-02-29T23:59:59.123456Z",
    "2024-12-31T01:02:03+01:30",
    "0001-01-01T00:00:00Z",
    "1969-12-31T23:59:59.5-00:30",
    "9999-12-31T23:59:59Z",
];
const QUANTITIES: [&str; 10] = [
    "1",
    "1.5Gi",
    "100m",
    "-2k",
    "0.001",
    "1e3",
    "5E-3",
    "12345678901",
    "3Ki",
    "7u",
];
const BASE64: [&str; 5] = ["YQ==", "YWI=", "YWJj", "YWJj\nZGVm", ""];
const SELECTORS: [&str; 8] = [
    "a=b",
    "a!=b,c",
    "a in (b,c)",
    "x.y/z notin (1)",
    "!a",
    "n>5",
    "a==b, c=d",
    "exists",
];
const SCALARS: [&str; 30] = [
    "yes",
    "~",
    "0x1F",
    "017",
    "1_000",
    "1e3",
    ".5",
    ".inf",
    "1:30",
    "2001-01-01",
    "!!str 1",
    "!!int 1",
    "!!float 1",
    "!!binary YQ==",
    "!!null ''",
    "!!bool yes",
    "'a'",
    "\"a\"",
    "\"a\\u00e9\"",
    "[a, b]",
    "{a: b}",
    "{<<: {a: 1}, a: 2}",
    "&a b",
    "*a",
    "|\n  a",
    ">-\n  a\n  b",
    "a b",
    "a: b",
    "- a",
    "18446744073709551615",
];
const FORMATS: [(&str, &[&str]); 14] = [
    ("date-time", &TIMES),
    ("date", &["2024-01-01"]),
    ("duration", &["1h", "1.5s", "3 days", "2 weeks 1 hour", "-5ms"]),
    ("byte", &BASE64),
    (
        "uri",
        &[
            "https://u:p@a.b:80/c%20d?e=f#g",
            "/a/b",
            "http://[::1]:80",
            "mailto:a@b",
        ],
    ),
    ("email", &["a.b@c.de", "A <a@b>"]),
    ("hostname", &["a-b.cd", "localhost"]),
    ("ipv4", &["1.2.3.4", "::ffff:1.2.3.4"]),
    ("ipv6", &["::1", "2001:db8::1:0"]),
    ("cidr", &["10.0.0.0/8", "::/0"]),
    ("mac", &["00:11:22:33:44:55", "0011.2233.4455"]),
    ("uuid", &["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
    ("isbn", &["0321751043", "978-0321751041"]),
    ("rgbcolor", &["rgb(0, 10,255)"]),
];
/// The characters that replace others, or are inserted.
const CHARACTERS: [&str; 24] = [
    "0", "1", "9", "a", "Z", "e", "t", "z", "-", "+", ".", ",", ":", "/", " ", "=", "%", "_", "\n", "\"",
    "#", "[", "(", "é",
];

/// Sends requests with one unusual value each. Nothing is stored.
pub(super) fn values(making: &mut Making<'_>) -> Sequence {
    let steps = (0..8).map(|_| step(making)).collect();
    Sequence {
        subject: "values".to_owned(),
        steps,
        cleanup: Vec::new(),
    }
}

fn step(making: &mut Making<'_>) -> Step {
    let (namespace, random) = (making.namespace, &mut making.random);
    let core = format!("/api/v1/namespaces/{namespace}");
    let step = match random.below(12) {
        0 => {
            let time = near(random, &TIMES);
            let event = json!({
                "metadata": {"name": "a"}, "involvedObject": {"namespace": namespace}, "firstTimestamp": time,
            });
            send("POST", format!("{core}/events"), event)
        }
        1 => {
            let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
            let lease = json!({"metadata": {"name": "a"}, "spec": {"renewTime": near(random, &TIMES)}});
            send("POST", path, lease)
        }
        2 => {
            let quantity = near(random, &QUANTITIES);
            // A real server computes the power of ten, and does not respond for minutes.
            let lower = quantity.to_ascii_lowercase();
            let is_huge = lower.split('e').skip(1).any(|exponent| exponent.len() > 4);
            let quantity = if is_huge { "1".to_owned() } else { quantity };
            let quota = json!({"metadata": {"name": "a"}, "spec": {"hard": {"pods": quantity}}});
            send("POST", format!("{core}/resourcequotas"), quota)
        }
        3 => {
            let secret = json!({"metadata": {"name": "a"}, "data": {"a": near(random, &BASE64)}});
            send("POST", format!("{core}/secrets"), secret)
        }
        4 => {
            let selector = near(random, &SELECTORS);
            let parameter = random.text(&["labelSelector", "fieldSelector"]);
            return request("GET", format!("{core}/configmaps"))
                .query(parameter, &selector)
                .query("limit", "1");
        }
        5 | 6 => {
            let scalar = near(random, &SCALARS);
            let entry = match random.below(3) {
                0 => format!("{scalar}: x"),
                1 => format!("x: {scalar}\n  y: z"),
                _ => format!("x: {scalar}"),
            };
            Step {
                body_text: Some(format!(
                    "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata:\n  {entry}\n"
                )),
                ..request("POST", format!("{core}/configmaps")).header("Content-Type", "application/yaml")
            }
        }
        7 | 8 => {
            let (format, texts) = random
                .pick(&FORMATS)
                .copied()
                .unwrap_or(("date", &["2024-01-01"]));
            let schema = json!({"type": "string", "format": format, "default": near(random, texts)});
            definition(&schema)
        }
        _ => {
            let schema = json!({
                "type": "string", "maxLength": 5, "default": "abc",
                "x-kubernetes-validations": [{
                    "rule": "self == 'x'", "messageExpression": format!("string({})", expression(random, 2)),
                }],
            });
            definition(&schema)
        }
    };
    step.query("dryRun", "All")
}

/// Returns a POST of a CRD with a schema, whose default is validated.
fn definition(schema: &Value) -> Step {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "values.diff.example.com"},
        "spec": {
            "group": "diff.example.com", "scope": "Namespaced", "names": {"plural": "values", "kind": "Value"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"value": schema}}},
            }],
        },
    });
    send(
        "POST",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        definition,
    )
}

/// Returns one of the texts, most often with small changes.
fn near(random: &mut Random, texts: &[&'static str]) -> String {
    let mut characters: Vec<String> = random.text(texts).chars().map(String::from).collect();
    for _ in 0..random.below(3) {
        let at = random.below(characters.len() + 1);
        let other = random.text(&CHARACTERS).to_owned();
        match random.below(3) {
            0 => characters.insert(at, other),
            1 if at < characters.len() => characters[at] = other,
            _ if at < characters.len() => {
                characters.remove(at);
            }
            _ => characters.truncate(at.saturating_sub(1)),
        }
    }
    characters.concat()
}

/// Returns an expression, which need not have a valid type.
fn expression(random: &mut Random, depth: usize) -> String {
    const LITERALS: [&str; 22] = [
        "self",
        "1",
        "-7",
        "0",
        "2u",
        "1.5",
        "-0.0",
        "1e21",
        "123456.7",
        "'abc'",
        "''",
        "'é1'",
        "b'a'",
        "true",
        "null",
        "[1, 2]",
        "['b', 'a']",
        "[]",
        "{'a': 1}",
        "dyn(1)",
        "optional.of('a')",
        "type(1)",
    ];
    if depth == 0 || random.chance(20) {
        return match random.below(5) {
            0 => format!("timestamp('{}')", random.text(&TIMES)),
            1 => format!("duration('{}')", random.text(&["1h", "90s", "-1.5s", "3ms"])),
            _ => random.text(&LITERALS).to_owned(),
        };
    }
    let mut part = || expression(random, depth - 1);
    let (a, b) = (part(), part());
    match random.below(8) {
        0 => {
            let operator = random.text(&["+", "-", "*", "/", "%", "==", "!=", "<", ">=", "in", "&&", "||"]);
            format!("({a} {operator} {b})")
        }
        1 => {
            let function = random.text(&[
                "int",
                "uint",
                "double",
                "string",
                "bool",
                "bytes",
                "type",
                "dyn",
                "size",
                "duration",
                "timestamp",
                "isURL",
                "isIP",
                "isQuantity",
            ]);
            format!("{function}({a})")
        }
        2 => {
            let member = random.text(&[
                "size()",
                "trim()",
                "lowerAscii()",
                "upperAscii()",
                "reverse()",
                "sum()",
                "min()",
                "max()",
                "isSorted()",
                "first()",
                "distinct()",
                "flatten()",
                "join()",
                "getHours()",
                "getDate()",
                "getSeconds()",
                "hasValue()",
            ]);
            format!("{a}.{member}")
        }
        3 => {
            let member = random.text(&[
                "indexOf",
                "lastIndexOf",
                "contains",
                "startsWith",
                "endsWith",
                "matches",
                "split",
                "join",
                "charAt",
                "substring",
                "find",
                "findAll",
                "orValue",
                "getHours",
                "slice",
            ]);
            format!("{a}.{member}({b})")
        }
        4 => {
            let clause = random.text(&["%s", "%d", "%f", "%.2f", "%e", "%x", "%b", "%o", "<%s|%s>"]);
            format!("'{clause}'.format([{a}])")
        }
        5 => format!("[{a}, {b}]"),
        6 => format!("({a} == {b} ? {a} : {b})"),
        _ => {
            let macros = random.text(&["map", "filter", "all", "exists", "exists_one"]);
            format!("{a}.{macros}(x, {b})")
        }
    }
}
