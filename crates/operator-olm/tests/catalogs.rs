//! Replays recorded results of the Go programs: catalogs and templates.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test that fails panics")]

use operator_olm::catalog::{Bundle, Catalog, mermaid, validate};
use operator_olm::template;
use serde_json::{Map, Value, json};

/// Cases whose recorded result is a defect of the Go program, with the reason. They count as failed.
const DIFFERENT: &[(&str, &str)] = &[];

fn cases(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(format!(
        "{}/tests/recorded/{file}.json",
        env!("CARGO_MANIFEST_DIR")
    ));
    let mut cases: Value = serde_json::from_str(&text.unwrap()).unwrap();
    serde_json::from_value(cases["cases"].take()).unwrap()
}

fn file<'a>(case: &'a Value, name: &str) -> &'a str {
    let ops = case["ops"].as_array().unwrap();
    let op = ops
        .iter()
        .find(|op| op["file"] == name)
        .expect("the case writes the file");
    op["text"].as_str().unwrap()
}

/// Removes the part of an error that comes from Go's decoder.
fn shortened(text: &str) -> String {
    let ends = ["json: ", "yaml: "].map(|decoder| text.find(decoder));
    let end = ends.into_iter().flatten().min().unwrap_or(text.len());
    text[..end].to_owned()
}

fn answer(catalog: &Catalog) -> Map<String, Value> {
    let mut answer = Map::new();
    match validate(catalog) {
        Err(error) => {
            answer.insert("validate".into(), error.into());
        }
        Ok(index) => {
            answer.insert("validate".into(), Value::Null);
            let mut heads = Map::new();
            for (name, package) in index.packages {
                for (channel, head) in package.heads {
                    heads.insert(format!("{name}/{channel}"), head.into());
                }
                heads.insert(name, package.default_channel.into());
            }
            answer.insert("heads".into(), heads.into());
        }
    }
    answer.insert("render".into(), catalog.documents().into());
    answer
}

fn compare(name: &str, expected: &Value, got: &Map<String, Value>, failed: &mut Vec<String>) {
    let mut differences = Vec::new();
    for (key, expected) in expected.as_object().unwrap() {
        let got = got.get(key).unwrap_or(&Value::Null);
        let same = match (expected, got) {
            (Value::String(expected), Value::String(got)) if key != "mermaid" => {
                shortened(expected) == shortened(got)
            }
            (expected, got) => expected == got,
        };
        if !same {
            differences.push(format!("{name}: {key}\n  expected {expected}\n  got      {got}"));
        }
    }
    let known = DIFFERENT.iter().any(|(different, _)| *different == name);
    assert!(!(known && differences.is_empty()), "{name} differs no longer");
    if !known {
        failed.extend(differences);
    }
}

fn report(kind: &str, total: usize, failed: &[String]) {
    assert!(
        failed.is_empty(),
        "{} of {total} {kind}:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

#[test]
fn recorded_catalogs_are_met() {
    let cases = cases("catalogs");
    let mut failed = Vec::new();
    for case in &cases {
        let got = match Catalog::load(file(case, "catalog.yaml")) {
            Err(error) => Map::from_iter([("load".to_owned(), error.into())]),
            Ok(catalog) => {
                let mut got = answer(&catalog);
                let drawn = mermaid(&catalog).unwrap_or_else(|error| format!("error: {error}"));
                got.insert("mermaid".into(), drawn.into());
                got
            }
        };
        compare(
            case["name"].as_str().unwrap(),
            &case["expected"],
            &got,
            &mut failed,
        );
    }
    report("catalogs", cases.len(), &failed);
}

#[test]
fn recorded_templates_are_met() {
    let cases = cases("templates");
    let mut failed = Vec::new();
    for case in &cases {
        let bundles: Map<String, Value> = serde_json::from_str(file(case, "bundles.json")).unwrap();
        let bundle = |image: &str| -> Result<Bundle, String> {
            let Some(document) = bundles.get(image) else {
                return Err(format!("render reference {image:?}: not found"));
            };
            let mut catalog = Catalog::from_documents(std::slice::from_ref(document))?;
            Ok(catalog.bundles.remove(0))
        };
        let text = file(case, "template.yaml");
        let rendered = match case["kind"].as_str().unwrap() {
            "semver" => template::semver(text, &bundle),
            _ => template::basic(text, &bundle),
        };
        let got = match rendered {
            Err(error) => Map::from_iter([("error".to_owned(), error.into())]),
            Ok(catalog) => answer(&catalog),
        };
        compare(
            case["name"].as_str().unwrap(),
            &case["expected"],
            &got,
            &mut failed,
        );
    }
    report("templates", cases.len(), &failed);
}

fn chain(length: usize, first_replaces: &str) -> Catalog {
    let name = |index: usize| format!("cache.v0.{index}.0");
    let entries: Vec<Value> = (0..length)
        .map(|index| {
            let replaces = if index == 0 {
                first_replaces.to_owned()
            } else {
                name(index - 1)
            };
            json!({"name": name(index), "replaces": replaces, "skipRange": ">=0.0.0"})
        })
        .collect();
    let mut documents = vec![
        json!({"schema": "olm.package", "name": "cache", "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": "cache", "name": "stable", "entries": entries}),
    ];
    documents.extend((0..length).map(|index| {
        let package = json!({"packageName": "cache", "version": format!("0.{index}.0")});
        let properties = json!([{"type": "olm.package", "value": package}]);
        json!({"schema": "olm.bundle", "package": "cache", "name": name(index), "image": "a.b/c", "properties": properties})
    }));
    Catalog::from_documents(&documents).unwrap()
}

#[test]
fn long_chains_and_cycles_need_no_recursion() {
    assert!(validate(&chain(20_000, "")).is_ok());
    let error = validate(&chain(20_000, "cache.v0.19998.0")).unwrap_err();
    assert!(
        error.contains("detected cycle in replaces chain"),
        "{}",
        error.len()
    );
    let error = mermaid(&chain(2_000, "")).unwrap_err();
    assert_eq!(error, "the upgrade graph has more than 100000 edges");
}

#[test]
fn malformed_files_are_errors() {
    let deep = format!("schema: olm.package\nname: {}", "[".repeat(100_000));
    let deep_json = format!("{{\"schema\":\"olm.package\",\"icon\":{}", "[".repeat(100_000));
    for text in [
        &deep,
        &deep_json,
        "a: b: c",
        "{",
        "- x",
        "schema: {}\n",
        "schema: olm.bundle\nproperties: [1]\n",
    ] {
        assert!(Catalog::load(text).is_err(), "{}", &text[..text.len().min(40)]);
    }
    assert_eq!(Catalog::load(""), Ok(Catalog::default()));
}

#[test]
fn the_written_form_reads_back() {
    for case in cases("catalogs") {
        let Ok(catalog) = Catalog::load(file(&case, "catalog.yaml")) else {
            continue;
        };
        for text in [catalog.to_json(), catalog.to_yaml()] {
            let again = Catalog::load(&text).unwrap();
            assert_eq!(again.documents(), catalog.documents());
            assert_eq!(again.to_json(), catalog.to_json());
        }
    }
}
