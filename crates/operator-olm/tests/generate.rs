//! Replays recorded results of the Go program for the generation of bundles.

#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

use operator_olm::generate::{GenerateError, Generated, Level, Message, Options, generate, parse_stream};
use serde_json::{Map, Value, json};

/// Cases whose recorded result is a defect of the Go program, with the reason. They count as failed.
const DIFFERENT: &[(&str, &str)] = &[
    (
        "generate-base-hand-written-related-images",
        "images that the author listed are kept",
    ),
    ("generate-base-no-annotations", "the Go program crashes"),
];

fn cases() -> Vec<Value> {
    let text = std::fs::read_to_string(format!(
        "{}/tests/recorded/generate.json",
        env!("CARGO_MANIFEST_DIR")
    ));
    let mut cases: Value = serde_json::from_str(&text.unwrap()).unwrap();
    serde_json::from_value(cases["cases"].take()).unwrap()
}

fn run(case: &Value) -> Result<Generated, GenerateError> {
    let text = |name: &str| case[name].as_str().unwrap();
    let accounts: Vec<String> = serde_json::from_value(case["extraServiceAccounts"].clone()).unwrap();
    let (objects, _) = parse_stream(text("input"));
    let (bases, _) = parse_stream(text("base"));
    let options = Options {
        package: text("package"),
        version: text("version"),
        extra_service_accounts: &accounts,
        ..Options::default()
    };
    generate(&objects, bases.first(), &options)
}

fn log(messages: &[Message]) -> Value {
    let lines = messages.iter().map(|message| {
        let level = match message.level {
            Level::Info => "info",
            Level::Warning => "warning",
            Level::Error => "error",
        };
        // Formats a text like logrus.
        format!("level={level} msg={:?}", message.text).into()
    });
    Value::Array(lines.collect())
}

fn answer(case: &Value) -> Map<String, Value> {
    let mut answer = Map::new();
    match run(case) {
        Ok(generated) => {
            answer.insert("csv".into(), generated.csv);
            answer.insert("files".into(), json!(generated.files));
            answer.insert("log".into(), log(&generated.log));
        }
        Err(error) => {
            let text = match &error {
                GenerateError::Version { reason, .. } => reason.clone(),
                GenerateError::NoBase { .. } => "no base".to_owned(),
                other => other.to_string(),
            };
            answer.insert("error".into(), text.into());
            if let GenerateError::Invalid(messages) = &error {
                answer.insert("log".into(), log(messages));
            }
        }
    }
    answer
}

#[test]
fn recorded_generations_are_met() {
    let cases = cases();
    let mut failed = Vec::new();
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let got = answer(case);
        let mut same = true;
        for key in ["csv", "files", "log", "error", "panic"] {
            let absent = if key == "log" { json!([]) } else { Value::Null };
            let shorten = |value: &Value| match value {
                Value::String(text) => {
                    let end = text.find("while decoding JSON:").unwrap_or(text.len());
                    text[..end].into()
                }
                other => other.clone(),
            };
            let expected = shorten(case["expected"].get(key).unwrap_or(&absent));
            let got = shorten(got.get(key).unwrap_or(&absent));
            if expected != got && !DIFFERENT.iter().any(|(known, _)| *known == name) {
                failed.push(format!("{name}: {key}\n  expected {expected}\n  got      {got}"));
            }
            same &= expected == got;
        }
        let known = DIFFERENT.iter().any(|(different, _)| *different == name);
        assert!(!(known && same), "{name} differs no longer");
    }
    assert!(
        failed.is_empty(),
        "{} of {}:\n{}",
        failed.len(),
        cases.len(),
        failed.join("\n")
    );
}

#[test]
fn upgrade_edges_and_annotations_are_set() {
    let case = cases()
        .into_iter()
        .find(|case| case["name"] == "generate-base-replaces-skips")
        .unwrap();
    let (objects, _) = parse_stream(case["input"].as_str().unwrap());
    let (bases, _) = parse_stream(case["base"].as_str().unwrap());
    let options = Options {
        package: "memcached-operator",
        version: "0.2.0",
        replaces: Some("memcached-operator.v0.1.0"),
        skips: &["memcached-operator.v0.1.1".to_owned()],
        skip_range: Some("<0.2.0"),
        annotations: &[("createdAt", "2026-01-01T00:00:00Z".to_owned())],
        ..Options::default()
    };
    let csv = generate(&objects, bases.first(), &options).unwrap().csv;
    assert_eq!(csv["metadata"]["name"], "memcached-operator.v0.2.0");
    assert_eq!(csv["spec"]["replaces"], "memcached-operator.v0.1.0");
    assert_eq!(csv["spec"]["skips"], json!(["memcached-operator.v0.1.1"]));
    assert_eq!(csv["metadata"]["annotations"]["olm.skipRange"], "<0.2.0");
    assert_eq!(
        csv["metadata"]["annotations"]["createdAt"],
        "2026-01-01T00:00:00Z"
    );
}

#[test]
fn hand_written_related_images_are_kept() {
    let name = "generate-base-hand-written-related-images";
    let case = cases().into_iter().find(|case| case["name"] == name).unwrap();
    let csv = run(&case).unwrap().csv;
    assert_eq!(
        csv["spec"]["relatedImages"],
        json!([{"name": "kept", "image": "a:1"}])
    );
}

#[test]
fn broken_documents_are_skipped_with_a_reason() {
    let (objects, skipped) =
        parse_stream("kind: A\n---\na: [\n---\n# nothing\n---\nname: x\n--- \nkind: B\n");
    assert_eq!(objects.len(), 2);
    assert_eq!(skipped.len(), 2, "{skipped:?}");
    assert!(skipped[0].starts_with("document 2: yaml: "), "{skipped:?}");
    assert_eq!(skipped[1], "document 4: it has no kind");
}

/// Checks that fields of any type at any position are errors or ignored, and that nothing panics.
#[test]
fn mutated_inputs_do_not_panic() {
    let case = cases()
        .into_iter()
        .find(|case| case["name"] == "generate-webhooks")
        .unwrap();
    let (objects, _) = parse_stream(case["input"].as_str().unwrap());
    let (bases, _) = parse_stream(case["base"].as_str().unwrap());
    let options = Options {
        package: "memcached-operator",
        ..Options::default()
    };
    let mut runs = 0;
    let wrong = [
        json!(null),
        json!("x"),
        json!(1),
        json!([]),
        json!({}),
        json!([[1]]),
    ];
    for (index, object) in objects.iter().chain(&bases).enumerate() {
        for pointer in pointers(object) {
            for value in &wrong {
                let mut changed = objects.clone();
                let mut base = bases.clone();
                let target = changed.get_mut(index).unwrap_or_else(|| &mut base[0]);
                *target.pointer_mut(&pointer).unwrap() = value.clone();
                _ = generate(&changed, base.first(), &options);
                runs += 1;
            }
        }
    }
    assert!(runs > 500, "{runs}");
}

fn pointers(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = vec![(String::new(), value)];
    while let Some((pointer, value)) = rest.pop() {
        match value {
            Value::Object(fields) => rest.extend(fields.iter().map(|(key, value)| {
                let key = key.replace('~', "~0").replace('/', "~1");
                (format!("{pointer}/{key}"), value)
            })),
            Value::Array(items) => {
                rest.extend(
                    items
                        .iter()
                        .enumerate()
                        .map(|(index, item)| (format!("{pointer}/{index}"), item)),
                );
            }
            _ => {}
        }
        found.push(pointer);
    }
    found
}
