use serde_json::{Value, json};

use super::catalog::Catalog;
use super::cause::cause;
use super::family::{Family, Making};
use super::minimise::{Judge, minimise};
use super::random::Random;
use super::sequence::{Sequence, merge_patch, request, send};

fn catalog() -> Catalog {
    let discovery = json!({"groupVersion": "v1", "resources": [
        {"name": "configmaps", "kind": "ConfigMap", "namespaced": true, "verbs": ["create", "get", "list", "watch", "update", "patch", "delete"]},
    ]});
    let openapi = json!({"definitions": {"ConfigMap": {
        "properties": {"immutable": {"type": "boolean"}, "data": {"type": "object", "additionalProperties": {"type": "string"}}},
        "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "ConfigMap"}],
    }}});
    Catalog::new(&[discovery], openapi, &[]).expect("the catalog is complete")
}

fn bodies(seed: u64, family: Family) -> Vec<String> {
    let catalog = catalog();
    (0..50)
        .flat_map(|number| {
            let mut making = Making {
                catalog: &catalog,
                random: Random::new(seed, number),
                number,
                namespace: "n",
            };
            let sequence = family.sequence(&mut making);
            sequence
                .steps
                .iter()
                .map(super::Step::describe)
                .collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn sequences_are_repeatable_from_the_seed() {
    for family in Family::ALL {
        assert_eq!(bodies(1, family), bodies(1, family), "{family}");
        assert_ne!(bodies(1, family), bodies(2, family), "{family}");
        assert_eq!(family.name().parse(), Ok(family));
    }
    assert!("nope".parse::<Family>().is_err());
}

#[test]
fn a_kind_that_no_base_object_has_is_an_error() {
    let error = Catalog::new(&[], json!({"definitions": {}}), &["Nope".to_owned()]);
    assert!(error.is_err());
}

#[test]
fn steps_are_printed_as_json() {
    for family in Family::ALL {
        for line in bodies(3, family) {
            assert!(serde_json::from_str::<Value>(&line).is_ok(), "{line}");
        }
    }
}

#[test]
fn causes_do_not_contain_names() {
    let answer = |name: &str, status: u16| json!({"status": status, "body": {"message": format!("pods \"{name}\" not found")}});
    let first = cause(&answer("a", 404), &answer("a", 200));
    assert_eq!(first, cause(&answer("b", 404), &answer("b", 200)));
    assert!(first.is_some_and(|text| text.starts_with("status 404 -> 200")));
    assert_eq!(cause(&answer("a", 404), &answer("a", 404)), None);
}

#[test]
fn the_order_of_causes_is_compared() {
    let answer = |fields: [&str; 2]| json!({"status": 422, "body": {"details": {"causes": fields.map(|field| json!({"field": field, "message": "m", "reason": "r"}))}}});
    assert!(
        cause(&answer(["a", "b"]), &answer(["b", "a"]))
            .is_some_and(|text| text.starts_with("order of causes"))
    );
    assert!(
        cause(&answer(["a", "b"]), &answer(["a", "c"]))
            .is_some_and(|text| text.starts_with("cause differs: r b"))
    );
}

#[test]
fn a_merge_patch_leads_from_one_object_to_the_other() {
    let patch = merge_patch(
        &json!({"a": 1, "b": {"c": 1, "d": 2}}),
        &json!({"b": {"c": 1, "d": 3}, "e": 4}),
    );
    assert_eq!(patch, json!({"a": null, "b": {"d": 3}, "e": 4}));
}

/// A judge whose difference needs the second step and its field `bad`.
struct NeedsBad(usize);

impl Judge for NeedsBad {
    async fn still_differs(&mut self, sequence: &Sequence) -> bool {
        self.0 += 1;
        sequence.steps.iter().any(|step| {
            let body = step.body.as_ref().map(ToString::to_string).unwrap_or_default();
            step.method.as_deref() == Some("PUT") && body.contains("\"bad\"")
        })
    }
}

#[tokio::test]
async fn minimising_keeps_what_the_difference_needs() {
    let sequence = Sequence {
        steps: vec![
            request("GET", "/a"),
            send(
                "PUT",
                "/a",
                json!({"x": {"y": [1, {"bad": true, "z": 1}]}, "w": 1}),
            ),
            request("DELETE", "/a"),
        ],
        ..Sequence::default()
    };
    let mut judge = NeedsBad(0);
    let shortest = minimise(sequence, &mut judge).await;
    let steps: Vec<String> = shortest.steps.iter().map(super::Step::describe).collect();
    assert_eq!(steps.len(), 1);
    assert!(
        steps[0].contains(r#""body": {"x": {"y": [{"bad": true}]}}"#),
        "{}",
        steps[0]
    );
    assert!(judge.0 < 30);
}
