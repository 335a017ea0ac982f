//! Tests of claims and volumes step by step.

use serde_json::json;

use super::*;
use crate::kind::Kind;
use crate::testing::{Scene, names};

fn claim(spec: &Value) -> Value {
    let mut claim = json!({
        "metadata": {"namespace": "a", "name": "data", "uid": "data", "finalizers": [CLAIM_PROTECTION]},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"},
    });
    for (field, value) in spec.as_object().unwrap() {
        claim["spec"][field] = value.clone();
    }
    claim
}

/// Applies the plans of the claims and volumes until there are no more actions.
fn settle(scene: &mut Scene) {
    for _ in 0..20 {
        let volumes: Vec<String> = scene
            .objects
            .list(&PERSISTENT_VOLUME, "")
            .map(|volume| volume.name().to_owned())
            .collect();
        let mut keys = vec![("a".to_owned(), "data".to_owned())];
        keys.extend(volumes.into_iter().map(|name| (String::new(), name)));
        let mut is_settled = true;
        for (namespace, name) in keys {
            let plan = scene.plan(plan, &namespace, &name);
            for action in plan.actions.into_iter().chain(plan.status) {
                is_settled = false;
                carry_out(scene, action);
            }
        }
        if is_settled {
            return;
        }
    }
    panic!("never settles");
}

fn carry_out(scene: &mut Scene, action: Action) {
    let kind = |gvr: &operator_apiserver::client::Gvr| -> &'static Kind {
        if PERSISTENT_VOLUME.is(gvr) {
            &PERSISTENT_VOLUME
        } else {
            &PERSISTENT_VOLUME_CLAIM
        }
    };
    match action {
        Action::Create { gvr, object, .. } | Action::Update { gvr, object, .. } => {
            let mut object = *object;
            if object.uid().is_empty() {
                object["metadata"]["uid"] = object.name().into();
            }
            scene.put(kind(&gvr), object);
        }
        Action::Delete {
            gvr, namespace, name, ..
        } => scene.remove(kind(&gvr), &namespace, &name),
        other => panic!("unexpected {other:?}"),
    }
}

fn scene_with_class() -> Scene {
    let mut scene = Scene::new();
    let Some(Action::Create { object, .. }) = scene.plan(plan, "", CLASS_KEY).actions.pop() else {
        panic!("a class")
    };
    scene.put(&STORAGE_CLASS, *object);
    assert!(scene.plan(plan, "", CLASS_KEY).actions.is_empty());
    scene
}

#[test]
fn a_claim_gets_a_volume_of_the_default_class() {
    let mut scene = scene_with_class();
    scene.put(&PERSISTENT_VOLUME_CLAIM, claim(&json!({})));
    settle(&mut scene);
    let claim = scene.objects.get(&PERSISTENT_VOLUME_CLAIM, "a", "data").unwrap();
    assert_eq!(claim.text("/status/phase"), "Bound");
    assert_eq!(claim.text("/spec/storageClassName"), "standard");
    assert_eq!(claim.text("/status/capacity/storage"), "1Gi");
    let volume = scene
        .objects
        .get(&PERSISTENT_VOLUME, "", claim.text("/spec/volumeName"))
        .unwrap();
    assert_eq!(volume.text("/status/phase"), "Bound");
    scene.remove(&PERSISTENT_VOLUME_CLAIM, "a", "data");
    settle(&mut scene);
    assert_eq!(scene.objects.list(&PERSISTENT_VOLUME, "").count(), 0);
}

#[test]
fn a_claim_without_a_class_waits_for_a_volume_that_fits() {
    let mut scene = scene_with_class();
    scene.put(&PERSISTENT_VOLUME_CLAIM, claim(&json!({"storageClassName": ""})));
    settle(&mut scene);
    assert_eq!(scene.objects.list(&PERSISTENT_VOLUME, "").count(), 0);
    for (name, size) in [("small", "500Mi"), ("large", "10Gi"), ("right", "2Gi")] {
        let spec = json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}});
        scene.put(
            &PERSISTENT_VOLUME,
            json!({"metadata": {"name": name, "uid": name}, "spec": spec}),
        );
    }
    settle(&mut scene);
    let claim = scene.objects.get(&PERSISTENT_VOLUME_CLAIM, "a", "data").unwrap();
    assert_eq!(
        (claim.text("/spec/volumeName"), claim.text("/status/phase")),
        ("right", "Bound")
    );
    assert_eq!(
        scene
            .objects
            .get(&PERSISTENT_VOLUME, "", "small")
            .unwrap()
            .text("/status/phase"),
        "Available"
    );
}

#[test]
fn a_claim_that_asks_for_more_grows() {
    let mut scene = scene_with_class();
    scene.put(&PERSISTENT_VOLUME_CLAIM, claim(&json!({})));
    settle(&mut scene);
    let mut claim = Value::clone(scene.objects.get(&PERSISTENT_VOLUME_CLAIM, "a", "data").unwrap());
    claim["spec"]["resources"]["requests"]["storage"] = "2Gi".into();
    scene.put(&PERSISTENT_VOLUME_CLAIM, claim);
    settle(&mut scene);
    let claim = scene.objects.get(&PERSISTENT_VOLUME_CLAIM, "a", "data").unwrap();
    assert_eq!(claim.text("/status/capacity/storage"), "2Gi");
}

#[test]
fn a_claim_in_use_is_kept() {
    let mut scene = Scene::new();
    let mut claim = claim(&json!({}));
    claim["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z".into();
    scene.put(&PERSISTENT_VOLUME_CLAIM, claim);
    scene.put(
        &POD,
        json!({
            "metadata": {"namespace": "a", "name": "p", "uid": "p"},
            "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
        }),
    );
    assert_eq!(scene.plan(plan, "a", "data"), Plan::done());
    scene.remove(&POD, "a", "p");
    assert_eq!(
        names(&scene.plan(plan, "a", "data").actions),
        ["patch persistentvolumeclaims/data"]
    );
}
