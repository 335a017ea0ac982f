//! Runs the claims of the fuzz targets on inputs that are derived from samples of client requests: unchanged,
//! truncated, with changed bytes, or combined.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]

#[path = "../fuzz/claims.rs"]
mod claims;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

const REQUESTS: &[&str] = &[
    "GET\naccept: application/json;as=Table;v=v1;g=meta.k8s.io\n/api/v1/namespaces/default/pods?limit=1&watch=0\n",
    "POST\ncontent-type: application/json\n/api/v1/namespaces?dryRun=All&fieldValidation=Strict\n{\"metadata\":{\"generateName\":\"a-\"}}",
    "PUT\nimpersonate-user: system:serviceaccount:a:b\n/apis/apps/v1/namespaces/default/deployments/a/scale\n{\"spec\":{\"replicas\":3}}",
    "DELETE\nx: y\n/apis/example.com/v1/namespaces/default/widgets?labelSelector=app%3Da&propagationPolicy=Orphan\n",
    "GET\naccept: application/yaml\n/apis/example.com/v1/widgets/../../../openapi/v3?timeout=1s&pretty=true\n",
    "GET\nif-none-match: \"x\"\n/openapi/v2?hash=%FF\n",
];
const PATCHES: &[&str] = &[
    "\u{0}[{\"op\":\"add\",\"path\":\"/metadata/labels/a~1b\",\"value\":1},{\"op\":\"move\",\"from\":\"/data\",\"path\":\"/data/k\"}]",
    "\u{4}[{\"op\":\"test\",\"path\":\"/spec/template/spec/containers/-1\"},{\"op\":\"copy\",\"from\":\"\",\"path\":\"/spec/x\"}]",
    "\u{5}{\"spec\":{\"replicas\":null,\"template\":{\"spec\":{\"containers\":[]}}}}",
    "\u{6}{\"spec\":{\"template\":{\"spec\":{\"$setElementOrder/containers\":[{\"name\":\"c\"}],\"containers\":[{\"$patch\":\"delete\",\"name\":\"c\"}]}}}}",
    "\u{6}{\"$retainKeys\":[\"metadata\"],\"metadata\":{\"finalizers\":[\"a/b\"],\"$deleteFromPrimitiveList/finalizers\":[\"a/b\"]}}",
    "\u{7}apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: 5}\n",
    "\u{b}apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a, managedFields: []}\nspec: {sizes: [{name: s, size: 10}, {name: s}]}\n",
];
const SELECTORS: &[&str] = &[
    "app=a,tier notin (x, y),!gone\u{0}metadata.name!=a,metadata.namespace==default",
    "app in (a,b),n>3,n<9\u{0}spec.color=red\\,blue",
    "a=(\u{0}=",
];
const TOKENS: &[&str] = &[
    r#"{"v":"meta.k8s.io/v1","rv":5,"start":"a\u0000"}"#,
    r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"../b"}"#,
    r#"{"v":"meta.k8s.io/v1","rv":9223372036854775807,"start":"zzz"}"#,
];
const MESSAGES: &[&str] = &[
    "\u{0}\u{a}\u{4}\u{a}\u{2}hi\u{12}\u{6}\u{a}\u{1}k\u{12}\u{1}v",
    "\u{1}\u{a}\u{3}\u{a}\u{1}z\u{12}\u{8}\u{8}\u{3}\u{12}\u{4}\u{a}\u{2}\u{a}\u{0}",
    "\u{3}\u{12}\u{10}\u{12}\u{e}\u{a}\u{1}c\u{12}\u{1}i2\u{6}\u{18}\u{50}\u{22}\u{2}tc",
];
const TEXTS: &[&str] = &[
    "\u{0}apiVersion: v1\nkind: ConfigMap\nmetadata: &m\n  name: z\ndata: {k: !!str 1, y: 'no', b: |\n  text}\n",
    "\u{2}apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: z\nspec:\n  sizes:\n  - &a {name: x}\n  - *a\n",
    "\u{0}a: &a [*a]\n<<: {b: 1}\n? [c]\n: d\n---\ne: 0x1F\n",
    "\u{5}spec: {versions: [{schema: {openAPIV3Schema: {type: object, properties: {a: {type: string, pattern: '('}}}}}]}\n",
];

const OBJECTS: &[&str] = &[
    "\u{0}{\"metadata\":{\"name\":\"x\",\"labels\":{\"a\":\"b\",\"a\":\"c\"}},\"data\":{\"k\":\"v\"},\"unknown\":1}",
    "\u{2}{\"metadata\":{\"name\":\"a\"},\"spec\":{\"color\":\"none\",\"sizes\":[{\"name\":\"s\",\"size\":1e400}]}}",
];
const HEADERS: &[&str] = &[
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json\napplication/json\nkubectl/v1",
    "*/*;q=0.1,application/vnd.kubernetes.protobuf;q=2\ntext/yaml; charset=\"\nMozilla/5",
];
const QUANTITIES: &[&str] = &["1.5Gi\u{0}2026-01-01T00:00:00.000000Z", "1e-99\u{0}*/5 0 31 2 *"];
const DAMAGES: &[&str] = &["\u{1}\u{20}\u{0}x", "\u{41}\u{40}\u{1}A\u{0}\u{2}\u{1}B"];

/// Generates inputs: a truncated and changed sample, or two of them combined.
fn inputs(samples: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let one = prop::sample::select(samples).prop_map(|text| text.as_bytes().to_vec());
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4), 0..6);
    (one.clone(), one, edits, 0..4).prop_map(|(mut bytes, other, edits, join)| {
        if join == 0 {
            let half = other.len() / 2;
            bytes.truncate(bytes.len() / 2);
            bytes.extend_from_slice(&other[half..]);
        }
        for (index, byte, how) in edits {
            if bytes.is_empty() {
                break;
            }
            let at = index.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => drop(bytes.remove(at)),
                _ => bytes.truncate(at),
            }
        }
        bytes
    })
}

fn check(samples: &'static [&'static str], claim: fn(&[u8])) {
    for sample in samples {
        claim(sample.as_bytes());
    }
    let mut runner = TestRunner::new(Config {
        cases: std::env::var("PROPTEST_CASES")
            .ok()
            .and_then(|cases| cases.parse().ok())
            .unwrap_or(50),
        failure_persistence: None,
        ..Config::default()
    });
    let run = runner.run(&inputs(samples), |bytes| {
        claim(&bytes);
        Ok(())
    });
    run.unwrap();
}

macro_rules! claims {
    ($($name:ident: $samples:expr,)*) => {
        $(
            #[test]
            fn $name() {
                check($samples, claims::$name);
            }
        )*
    };
}

claims! {
    request: REQUESTS,
    patch: PATCHES,
    selector: SELECTORS,
    continue_token: TOKENS,
    protobuf: MESSAGES,
    yaml: TEXTS,
    json: OBJECTS,
    headers: HEADERS,
    quantity: QUANTITIES,
    journal: DAMAGES,
}

#[test]
fn inputs_longer_than_a_url_are_skipped() {
    let long = vec![b'a'; 30_000];
    claims::continue_token(&long);
    claims::selector(&long);
}
