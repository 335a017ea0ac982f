//! Requests that delete objects and collections.

use serde_json::json;

use super::Making;
use crate::differential::sequence::{Sequence, request, send};
use crate::scenario::Step;

/// The difference between the numbers of the second and the first object of a sequence.
const SECOND: u64 = 500_000;

/// Deletes objects with options, and reads the remaining objects.
pub(super) fn delete(making: &mut Making<'_>) -> Sequence {
    if making.random.chance(20) {
        return delete_collection(making);
    }
    let kind = making.kind("delete");
    let mut object = making.object(&kind);
    if making.random.chance(40) {
        let finalizer = making
            .random
            .text(&["example.com/f", "foregroundDeletion", "orphan"]);
        object["metadata"]["finalizers"] = json!([finalizer]);
    }
    let mut sequence = making.begin(&kind, &object);
    let path = making.path(&kind, &object);
    sequence.steps.push(
        making
            .create(&kind, &object)
            .capture("uid", "metadata.uid")
            .capture("rv", "metadata.resourceVersion"),
    );
    if kind.kind == "Namespace" {
        // The deletion of this kind needs a controller.
        return sequence;
    }
    for _ in 0..=making.random.below(2) {
        let step = delete_step(making, &path, &[]);
        sequence.steps.push(step);
    }
    sequence.steps.push(request("GET", path));
    sequence
}

/// Deletes the part of a collection that a selector matches.
fn delete_collection(making: &mut Making<'_>) -> Sequence {
    let kind = making.kind("deletecollection");
    let label = format!("g{}", making.number);
    let mut sequence = Sequence::default();
    for number in [making.number, making.number + SECOND] {
        let mut object = kind.object(number, &mut making.random);
        object["metadata"]["labels"]["group"] = label.as_str().into();
        if making.random.chance(25) {
            object["metadata"]["finalizers"] = json!(["example.com/f"]);
        }
        let one = making.begin(&kind, &object);
        sequence.subject = one.subject;
        sequence.cleanup.extend(one.cleanup);
        sequence.steps.push(
            making
                .create(&kind, &object)
                .capture("uid", "metadata.uid")
                .capture("rv", "metadata.resourceVersion"),
        );
    }
    let path = kind.collection(making.namespace);
    let mut selectors = vec![("labelSelector", format!("group={label}"))];
    if making.random.chance(30) {
        let name = making
            .random
            .text(&["metadata.name!=x", "metadata.name=x", "nope=1"]);
        selectors.push(("fieldSelector", name.to_owned()));
    }
    let step = delete_step(making, &path, &selectors);
    sequence.steps.push(step);
    sequence
        .steps
        .push(request("GET", path).query("labelSelector", &format!("group={label}")));
    sequence
}

/// Returns a DELETE with random options. `selectors` restrict it.
fn delete_step(making: &mut Making<'_>, path: &str, selectors: &[(&str, String)]) -> Step {
    let step = optional_delete(making, path);
    selectors
        .iter()
        .fold(step, |step, (name, value)| step.query(name, value))
}

fn optional_delete(making: &mut Making<'_>, path: &str) -> Step {
    let random = &mut making.random;
    let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
    if random.chance(40) {
        options["propagationPolicy"] = random
            .text(&["Foreground", "Background", "Orphan", "nope", ""])
            .into();
    }
    if random.chance(30) {
        options["gracePeriodSeconds"] = random
            .pick(&[json!(0), json!(1), json!(30), json!(-1), json!("x")])
            .cloned()
            .unwrap_or_default();
    }
    if random.chance(25) {
        let all = [
            json!({"uid": "${uid}"}),
            json!({"uid": "nope"}),
            json!({"resourceVersion": "${rv}"}),
            json!({"resourceVersion": "1"}),
            json!({}),
        ];
        options["preconditions"] = random.pick(&all).cloned().unwrap_or_default();
    }
    if random.chance(10) {
        options["orphanDependents"] = random.chance(50).into();
    }
    if random.chance(10) {
        options["dryRun"] = random
            .pick(&[json!(["All"]), json!(["x"]), json!([])])
            .cloned()
            .unwrap_or_default();
    }
    if random.chance(15) {
        options["nope"] = json!(1);
    }
    match random.below(10) {
        0 => request("DELETE", path),
        1 => request("DELETE", path).query(
            "propagationPolicy",
            random.text(&["Foreground", "Background", "Orphan", "nope"]),
        ),
        2 => request("DELETE", path).query("gracePeriodSeconds", random.text(&["0", "1", "x"])),
        3 => request("DELETE", path).query("dryRun", random.text(&["All", "x", ""])),
        _ => send("DELETE", path, options),
    }
}
