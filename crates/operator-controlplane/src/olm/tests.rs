//! Table tests of the controllers of OLM v0.
#![expect(clippy::needless_pass_by_value, reason = "the helpers take literals")]

use std::sync::Arc;

use operator_apiserver::client::Gvr;
use operator_olm::catalog::{Catalog, validate};
use serde_json::{Value, json};

use super::catalog::{Catalogs, Loaded};
use super::csv;
use super::kinds::{CATALOG_SOURCE, CSV, INSTALL_PLAN, OPERATOR_CONDITION, OPERATOR_GROUP, SUBSCRIPTION};
use super::resolve::{Pick, Request, Source, resolve};
use crate::kind::{CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, NAMESPACE};
use crate::object::Object;
use crate::plan::{Action, Plan};
use crate::testing::{Scene, names};

fn property(kind: &str, value: Value) -> Value {
    json!({"type": kind, "value": value})
}

fn bundle(package: &str, version: &str, properties: &[Value]) -> Value {
    let mut all = vec![property(
        "olm.package",
        json!({"packageName": package, "version": version}),
    )];
    all.extend(properties.iter().cloned());
    json!({
        "schema": "olm.bundle", "name": format!("{package}.v{version}"), "package": package,
        "image": "example.com/x:1", "properties": all,
    })
}

fn api(kind: &str) -> Value {
    json!({"group": "x.io", "version": "v1", "kind": kind})
}

fn source(documents: &[Value]) -> Source {
    let catalog = Catalog::from_documents(documents).unwrap();
    let index = validate(&catalog).unwrap();
    Source {
        namespace: "ns".to_owned(),
        name: "cat".to_owned(),
        loaded: Arc::new(Loaded {
            catalog,
            index,
            ..Loaded::default()
        }),
    }
}

fn package(name: &str, entries: Value) -> [Value; 2] {
    [
        json!({"schema": "olm.package", "name": name, "defaultChannel": "a"}),
        json!({"schema": "olm.channel", "package": name, "name": "a", "entries": entries}),
    ]
}

fn request(package: &str) -> Request {
    Request {
        name: format!("sub-{package}"),
        package: package.to_owned(),
        channel: "a".to_owned(),
        source: ("ns".to_owned(), "cat".to_owned()),
        ..Request::default()
    }
}

fn installed(name: &str, version: &str) -> Arc<Value> {
    Arc::new(json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": {"version": version},
    }))
}

fn picked(picks: &[Pick]) -> Vec<String> {
    picks
        .iter()
        .map(|pick| format!("{}<{}", pick.candidate.bundle.name, pick.candidate.replaces))
        .collect()
}

#[test]
fn upgrades_follow_replaces_skips_and_ranges() {
    let versions = ["1.0.0", "1.1.0", "1.2.0", "2.0.0"];
    let entries = json!([
        {"name": "op.v1.0.0"},
        {"name": "op.v1.1.0", "replaces": "op.v1.0.0"},
        {"name": "op.v1.2.0", "replaces": "op.v1.1.0"},
        {"name": "op.v2.0.0", "replaces": "op.v1.2.0"},
    ]);
    let skipping = json!([
        {"name": "op.v1.0.0"},
        {"name": "op.v1.1.0", "replaces": "op.v1.0.0"},
        {"name": "op.v1.2.0", "replaces": "op.v1.0.0", "skips": ["op.v1.1.0"]},
        {"name": "op.v2.0.0", "replaces": "op.v1.2.0"},
    ]);
    let ranged = json!([
        {"name": "op.v1.0.0"},
        {"name": "op.v1.1.0", "replaces": "op.v1.0.0"},
        {"name": "op.v1.2.0", "replaces": "op.v1.1.0"},
        {"name": "op.v2.0.0", "replaces": "op.v1.2.0", "skipRange": "<1.2.0"},
    ]);
    let cases = [
        (&entries, "", vec!["op.v2.0.0<"]),
        (&entries, "1.0.0", vec!["op.v1.1.0<op.v1.0.0"]),
        (&entries, "1.2.0", vec!["op.v2.0.0<op.v1.2.0"]),
        (&entries, "2.0.0", vec![]),
        (&skipping, "1.1.0", vec!["op.v1.2.0<op.v1.1.0"]),
        (&skipping, "1.0.0", vec!["op.v1.2.0<op.v1.0.0"]),
        (&ranged, "1.0.0", vec!["op.v2.0.0<op.v1.0.0"]),
        (&ranged, "1.2.0", vec!["op.v2.0.0<op.v1.2.0"]),
    ];
    for (entries, version, expected) in cases {
        let mut documents = package("op", entries.clone()).to_vec();
        documents.extend(versions.map(|version| bundle("op", version, &[])));
        let mut request = request("op");
        request.installed = (!version.is_empty()).then(|| installed(&format!("op.v{version}"), version));
        let existing: Vec<Arc<Value>> = request.installed.iter().cloned().collect();
        let picks = resolve(&[request], &[source(&documents)], &existing).unwrap();
        assert_eq!(picked(&picks), expected, "{version} of {entries}");
    }
}

#[test]
fn a_starting_csv_and_dependencies_are_resolved() {
    let mut documents = package(
        "op",
        json!([{"name": "op.v1.0.0"}, {"name": "op.v2.0.0", "replaces": "op.v1.0.0"}]),
    )
    .to_vec();
    documents.extend(package("dep", json!([{"name": "dep.v1.0.0"}])));
    let needs = [property("olm.gvk.required", api("Dep"))];
    documents.extend([
        bundle("op", "1.0.0", &needs),
        bundle("op", "2.0.0", &[]),
        bundle("dep", "1.0.0", &[property("olm.gvk", api("Dep"))]),
    ]);
    let mut first = request("op");
    first.starting = "op.v1.0.0".to_owned();
    let picks = resolve(&[first], &[source(&documents)], &[]).unwrap();
    assert_eq!(picked(&picks), ["op.v1.0.0<", "dep.v1.0.0<"]);
    assert_eq!(
        picks.iter().map(|pick| pick.request).collect::<Vec<_>>(),
        [Some(0), None]
    );
}

#[test]
fn failed_resolutions_have_a_reason() {
    let mut documents = package("op", json!([{"name": "op.v1.0.0"}])).to_vec();
    documents.extend(package("rival", json!([{"name": "rival.v1.0.0"}])));
    documents.extend(package("needy", json!([{"name": "needy.v1.0.0"}])));
    let owns = [property("olm.gvk", api("Thing"))];
    documents.extend([
        bundle("op", "1.0.0", &owns),
        bundle("rival", "1.0.0", &owns),
        bundle("needy", "1.0.0", &[property("olm.gvk.required", api("None"))]),
    ]);
    let sources = [source(&documents)];
    let channel = Request {
        channel: "b".to_owned(),
        ..request("op")
    };
    let starting = Request {
        starting: "op.v9.0.0".to_owned(),
        ..request("op")
    };
    let cases = [
        (
            vec![request("none")],
            "constraints not satisfiable: no operators found in package none in the catalog referenced by \
             subscription sub-none, subscription sub-none exists",
        ),
        (
            vec![channel],
            "constraints not satisfiable: no operators found in channel b of package op in the catalog referenced by \
             subscription sub-op, subscription sub-op exists",
        ),
        (
            vec![starting],
            "constraints not satisfiable: no operators found with name op.v9.0.0 in channel a of package op in the \
             catalog referenced by subscription sub-op, subscription sub-op exists",
        ),
        (
            vec![request("needy")],
            "constraints not satisfiable: bundle cat/ns/a/needy.v1.0.0 requires an operator providing an API with \
             group: x.io, version: v1, kind: None, subscription sub-needy requires cat/ns/a/needy.v1.0.0, \
             subscription sub-needy exists",
        ),
        (
            vec![request("op"), request("rival")],
            "constraints not satisfiable: cat/ns/a/op.v1.0.0 and cat/ns/a/rival.v1.0.0 provide Thing (x.io/v1), \
             subscription sub-op requires cat/ns/a/op.v1.0.0, subscription sub-op exists, subscription sub-rival \
             requires cat/ns/a/rival.v1.0.0, subscription sub-rival exists",
        ),
    ];
    for (requests, expected) in cases {
        assert_eq!(resolve(&requests, &sources, &[]).err().as_deref(), Some(expected));
    }
}

/// Returns a namespace with a group and a ClusterServiceVersion.
fn scene() -> Scene {
    let mut scene = Scene::new();
    scene.put(&NAMESPACE, json!({"metadata": {"name": "ns", "uid": "ns"}}));
    scene.put(&OPERATOR_GROUP, group(&["ns"]));
    scene
}

fn group(targets: &[&str]) -> Value {
    json!({
        "metadata": {"name": "og", "namespace": "ns", "uid": "og"}, "spec": {},
        "status": {"namespaces": targets},
    })
}

fn operator(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name, "annotations": {"olm.targetNamespaces": "ns"}},
        "spec": {
            "installModes": [{"type": "OwnNamespace", "supported": true}],
            "install": {"strategy": "deployment", "spec": {"deployments": []}},
        },
    })
}

fn csv_plan(scene: &Scene, name: &str) -> Plan {
    let mut none = |_: &[String], _| None;
    scene.plan(|world, key| csv::plan(world, key, &mut none), "ns", name)
}

/// Applies the status of a plan; returns the resulting phase and reason.
fn step(scene: &mut Scene, name: &str) -> (String, String, String) {
    let plan = csv_plan(scene, name);
    if let Some(Action::Update { object, .. }) = plan.status {
        scene.put(&CSV, *object);
    }
    let csv = scene.objects.get(&CSV, "ns", name).unwrap();
    let text = |field: &str| csv.text(&format!("/status/{field}")).to_owned();
    (text("phase"), text("reason"), text("message"))
}

fn expect(scene: &mut Scene, name: &str, phase: &str, reason: &str) {
    let (found, why, message) = step(scene, name);
    assert_eq!((found.as_str(), why.as_str()), (phase, reason), "{message}");
}

#[test]
fn a_csv_without_parts_goes_through_its_phases() {
    let mut scene = scene();
    scene.put(&CSV, operator("op.v1"));
    expect(&mut scene, "op.v1", "Pending", "RequirementsUnknown");
    expect(&mut scene, "op.v1", "InstallReady", "AllRequirementsMet");
    expect(&mut scene, "op.v1", "Installing", "InstallSucceeded");
    expect(&mut scene, "op.v1", "Succeeded", "InstallSucceeded");
    let plan = csv_plan(&scene, "op.v1");
    assert!(plan.actions.is_empty() && plan.status.is_none(), "{plan:?}");
}

#[test]
fn the_group_is_checked_first() {
    let cases: [(Option<&[&str]>, &str, &str); 5] = [
        (None, "NoOperatorGroup", "csv in namespace with no operatorgroups"),
        (
            Some(&[]),
            "NoTargetNamespaces",
            "no targetNamespaces are matched operatorgroups namespace selection",
        ),
        (
            Some(&[""]),
            "UnsupportedOperatorGroup",
            "AllNamespaces InstallModeType not supported, cannot configure to watch all namespaces",
        ),
        (
            Some(&["other"]),
            "UnsupportedOperatorGroup",
            "SingleNamespace InstallModeType not supported, cannot configure to watch one namespace",
        ),
        (
            Some(&["a", "b"]),
            "UnsupportedOperatorGroup",
            "MultiNamespace InstallModeType not supported, cannot configure to watch 2 namespaces",
        ),
    ];
    for (targets, reason, message) in cases {
        let mut scene = scene();
        match targets {
            Some(targets) => scene.put(&OPERATOR_GROUP, group(targets)),
            None => scene.remove(&OPERATOR_GROUP, "ns", "og"),
        }
        scene.put(&CSV, operator("op.v1"));
        let expected = ("Failed".to_owned(), reason.to_owned(), message.to_owned());
        assert_eq!(step(&mut scene, "op.v1"), expected);
        scene.put(&OPERATOR_GROUP, group(&["ns"]));
        expect(&mut scene, "op.v1", "Pending", "RequirementsUnknown");
    }
}

#[test]
fn requirements_are_reported_until_they_are_met() {
    let mut scene = scene();
    let mut csv = operator("op.v1");
    csv["spec"]["customresourcedefinitions"] =
        json!({"required": [{"name": "things.x.io", "version": "v1", "kind": "Thing"}]});
    csv["spec"]["minKubeVersion"] = "1.30.0".into();
    scene.put(&CSV, csv);
    expect(&mut scene, "op.v1", "Pending", "RequirementsUnknown");
    expect(&mut scene, "op.v1", "Pending", "RequirementsNotMet");
    let known = scene.objects.get(&CSV, "ns", "op.v1").unwrap();
    let statuses: Vec<(&str, &str)> = known
        .items("/status/requirementStatus")
        .iter()
        .map(|status| (status.text("/name"), status.text("/status")))
        .collect();
    assert_eq!(statuses, [("op.v1", "Present"), ("things.x.io", "NotPresent")]);
    let definition = |served: bool| {
        json!({
            "metadata": {"name": "things.x.io", "uid": "d"},
            "spec": {"versions": [{"name": "v1", "served": served}]},
            "status": {"conditions": [{"type": "Established", "status": "True"}]},
        })
    };
    scene.put(&CUSTOM_RESOURCE_DEFINITION, definition(true));
    expect(&mut scene, "op.v1", "InstallReady", "AllRequirementsMet");
    expect(&mut scene, "op.v1", "Installing", "InstallSucceeded");
    expect(&mut scene, "op.v1", "Succeeded", "InstallSucceeded");
    scene.put(&CUSTOM_RESOURCE_DEFINITION, definition(false));
    expect(&mut scene, "op.v1", "Failed", "RequirementsNotMet");
    expect(&mut scene, "op.v1", "Pending", "RequirementsNotMet");
}

#[test]
fn an_installation_has_five_minutes() {
    let mut scene = scene();
    let mut csv = operator("op.v1");
    csv["spec"]["install"]["spec"]["deployments"] = json!([{"name": "d", "spec": {"replicas": 1}}]);
    scene.put(&CSV, csv);
    expect(&mut scene, "op.v1", "Pending", "RequirementsUnknown");
    expect(&mut scene, "op.v1", "InstallReady", "AllRequirementsMet");
    let actions = csv_plan(&scene, "op.v1").actions;
    assert_eq!(names(&actions), ["create deployments/d"]);
    let Some(Action::Create { object, .. }) = actions.into_iter().next() else {
        panic!("no creation")
    };
    let mut deployment = *object;
    deployment["metadata"]["uid"] = "d".into();
    scene.put(&DEPLOYMENT, deployment);
    expect(&mut scene, "op.v1", "Installing", "InstallSucceeded");
    expect(&mut scene, "op.v1", "Installing", "InstallWaiting");
    let waiting = scene.objects.get(&CSV, "ns", "op.v1").unwrap();
    assert_eq!(
        waiting.text("/status/message"),
        "installing: waiting for deployment d to become ready: deployment \"d\" not available: missing condition \
         Available"
    );
    scene.wait(299);
    expect(&mut scene, "op.v1", "Installing", "InstallWaiting");
    scene.wait(1);
    expect(&mut scene, "op.v1", "Failed", "InstallCheckFailed");
}

#[test]
fn an_operator_that_is_not_upgradeable_holds_its_successor_back() {
    let mut scene = scene();
    let mut old = operator("op.v1");
    old["status"] = json!({"phase": "Succeeded", "reason": "InstallSucceeded", "message": "install strategy completed with no errors"});
    scene.put(&CSV, old);
    let mut new = operator("op.v2");
    new["spec"]["replaces"] = "op.v1".into();
    scene.put(&CSV, new);
    let condition = |status: &str| {
        json!({
            "metadata": {"name": "op.v1", "namespace": "ns", "uid": "c"},
            "spec": {"conditions": [{"type": "Upgradeable", "status": status, "reason": "Busy", "message": "busy"}]},
        })
    };
    scene.put(&OPERATOR_CONDITION, condition("False"));
    expect(&mut scene, "op.v1", "Replacing", "BeingReplaced");
    expect(&mut scene, "op.v2", "Pending", "RequirementsUnknown");
    let held = step(&mut scene, "op.v2");
    assert_eq!(
        held,
        (
            "Pending".to_owned(),
            "OperatorConditionNotUpgradeable".to_owned(),
            "operator is not upgradeable: the operator is not upgradeable: busy".to_owned()
        )
    );
    scene.put(&OPERATOR_CONDITION, condition("True"));
    expect(&mut scene, "op.v2", "InstallReady", "AllRequirementsMet");
    expect(&mut scene, "op.v2", "Installing", "InstallSucceeded");
    expect(&mut scene, "op.v2", "Succeeded", "InstallSucceeded");
    expect(&mut scene, "op.v1", "Deleting", "Replaced");
    let actions = csv_plan(&scene, "op.v1").actions;
    assert_eq!(names(&actions), ["delete clusterserviceversions/op.v1"]);
}

#[test]
fn a_failing_step_is_retried_for_a_minute() {
    let mut scene = Scene::new();
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
    let step = |kind: &str| {
        json!({
            "resolving": "op.v1", "status": "Unknown",
            "resource": {"group": "", "version": "v1", "kind": kind, "name": "c", "manifest": manifest.to_string()},
        })
    };
    let put = |scene: &mut Scene, kind: &str| {
        let status =
            json!({"phase": "Installing", "startTime": "2024-01-01T00:00:00Z", "plan": [step(kind)]});
        let metadata = json!({"name": "p", "namespace": "ns", "uid": "p"});
        scene.put(
            &INSTALL_PLAN,
            json!({"metadata": metadata, "spec": {}, "status": status}),
        );
    };
    scene.put(&CSV, operator("op.v1"));
    put(&mut scene, "ConfigMap");
    let plan = |scene: &Scene| scene.plan(super::install_plan::plan, "ns", "p");
    assert_eq!(names(&plan(&scene).actions), ["create configmaps/c"]);
    scene.failure = Some(crate::plan::Failure {
        reason: "FailedCreate",
        message: "no".to_owned(),
    });
    let status = |plan: Plan| match plan.status {
        Some(Action::Update { object, .. }) => object["status"].clone(),
        other => panic!("{other:?}"),
    };
    let retrying = plan(&scene);
    assert_eq!(retrying.actions.len(), 1);
    assert_eq!(
        status(retrying).text("/message"),
        "retrying execution due to error: no"
    );
    scene.wait(60);
    let failed = plan(&scene);
    assert!(failed.actions.is_empty());
    let failed = status(failed);
    assert_eq!(failed.text("/phase"), "Failed");
    assert_eq!(failed.text("/conditions/0/reason"), "InstallComponentFailed");
    scene.failure = None;
    put(&mut scene, "Unknown");
    let unsupported = status(plan(&scene));
    assert_eq!(unsupported.text("/plan/0/status"), "UnsupportedResource");
    assert_eq!(unsupported.text("/phase"), "Failed");
}

#[test]
fn a_definition_never_loses_a_stored_version() {
    let mut scene = Scene::new();
    let definition = |version: &str| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.x.io"},
            "spec": {"versions": [{"name": version, "served": true}]},
        })
    };
    let mut known = definition("v1");
    known["metadata"]["uid"] = "d".into();
    known["status"] =
        json!({"storedVersions": ["v1"], "conditions": [{"type": "Established", "status": "True"}]});
    scene.put(&CUSTOM_RESOURCE_DEFINITION, known.clone());
    let gvr = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let refused = super::install_plan::definition(&scene.objects, &gvr, &known, &definition("v2"), "Present");
    let super::install_plan::Step::Failed { message, .. } = refused else {
        panic!("not refused")
    };
    assert_eq!(
        message,
        "risk of data loss updating \"things.x.io\": new CRD removes version v1 that is listed as a stored version on \
         the existing CRD"
    );
}

#[test]
fn a_definition_that_existing_objects_violate_is_refused() {
    use super::install_plan::{Step, definition};
    let crd = |maximum: i64| {
        let size = json!({"type": "object", "properties": {"size": {"type": "integer", "maximum": maximum}}});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": size}}});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.x.io", "uid": "d"},
            "spec": {
                "group": "x.io", "names": {"plural": "things", "kind": "Thing"},
                "versions": [{"name": "v1", "served": true, "schema": schema}],
            },
            "status": {"storedVersions": ["v1"], "conditions": [{"type": "Established", "status": "True"}]},
        })
    };
    let gvr = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let things = crate::kind::Kind {
        gvr: Gvr::new("x.io", "v1", "things"),
        name: "Thing",
    };
    let mut scene = Scene::new();
    scene.put(
        &things,
        json!({
            "apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "a", "namespace": "ns", "uid": "a"},
            "spec": {"size": 4},
        }),
    );
    let update = |maximum: i64| definition(&scene.objects, &gvr, &crd(5), &crd(maximum), "Present");
    assert!(matches!(update(4), Step::Write(_)));
    assert!(matches!(update(5), Step::Done("Present")));
    let Step::Failed {
        message, is_final, ..
    } = update(3)
    else {
        panic!("not refused")
    };
    assert_eq!(
        message,
        "error validating x.io/v1, Kind=Thing \"ns/a\": updated validation is too restrictive: spec.size: Invalid \
         value: 4: spec.size in body should be less than or equal to 3"
    );
    assert!(!is_final, "the object may be corrected");
}

#[test]
fn rules_over_properties_select_a_dependency() {
    let mut documents = package("op", json!([{"name": "op.v1.0.0"}])).to_vec();
    documents.extend(package(
        "dep",
        json!([{"name": "dep.v1.0.0"}, {"name": "dep.v2.0.0", "replaces": "dep.v1.0.0"}]),
    ));
    let rule = |text: &str| {
        let rule = format!(
            "properties.exists(p, p.type == 'olm.package' && p.value.packageName == 'dep' && {text})"
        );
        property(
            "olm.constraint",
            json!({"failureMessage": "needs dep", "cel": {"rule": rule}}),
        )
    };
    let documents = |text: &str| {
        let mut documents = documents.clone();
        documents.push(bundle("op", "1.0.0", &[rule(text)]));
        documents.extend([bundle("dep", "1.0.0", &[]), bundle("dep", "2.0.0", &[])]);
        [source(&documents)]
    };
    let old = documents("semver_compare(p.value.version, '2.0.0') < 0");
    let picks = resolve(&[request("op")], &old, &[]).unwrap();
    assert_eq!(picked(&picks), ["op.v1.0.0<", "dep.v1.0.0<"]);
    let none = documents("semver_compare(p.value.version, '3.0.0') >= 0");
    let error = resolve(&[request("op")], &none, &[]).err().unwrap();
    assert!(
        error.contains("bundle cat/ns/a/op.v1.0.0 requires an operator with constraint:"),
        "{error}"
    );
    assert!(error.contains("and message: \"needs dep\""), "{error}");
}

#[test]
fn a_catalog_source_reports_errors() {
    let source =
        |spec: Value| json!({"metadata": {"name": "cat", "namespace": "ns", "uid": "cat"}, "spec": spec});
    let cases = [
        (
            json!({"sourceType": "grpc"}),
            "SpecInvalidError",
            "image and address unset: at least one must be set for sourcetype: grpc",
        ),
        (
            json!({"sourceType": "configmap"}),
            "SpecInvalidError",
            "configmap name unset: must be set for sourcetype: internal",
        ),
        (
            json!({"sourceType": "configmap", "configMap": "none"}),
            "ConfigMapError",
            "failed to get catalogsource configmap none",
        ),
        (
            json!({"sourceType": "x"}),
            "SpecInvalidError",
            "unknown sourcetype: x",
        ),
    ];
    for (spec, reason, message) in cases {
        let mut scene = scene();
        scene.put(&CATALOG_SOURCE, source(spec));
        let catalogs = Catalogs::default();
        let plan = scene.plan(
            |world, key| super::catalog_source::plan(world, key, &catalogs),
            "ns",
            "cat",
        );
        let Some(Action::Update { object, .. }) = plan.status else {
            panic!("{plan:?}")
        };
        assert_eq!(
            (object.text("/status/reason"), object.text("/status/message")),
            (reason, message)
        );
    }
}

#[test]
fn a_deleted_pending_plan_is_resolved_anew() {
    let mut scene = scene();
    let status = json!({
        "state": "UpgradePending", "currentCSV": "op.v1", "installPlanRef": {"name": "gone", "uid": "g"},
    });
    let metadata = json!({"name": "sub", "namespace": "ns", "uid": "sub"});
    let spec = json!({"name": "op", "source": "cat", "sourceNamespace": "ns"});
    scene.put(
        &SUBSCRIPTION,
        json!({"metadata": metadata, "spec": spec, "status": status}),
    );
    let catalogs = Catalogs::default();
    let plan = scene.plan(
        |world, key| super::subscription::plan(world, key, &catalogs),
        "",
        "ns",
    );
    let Some(Action::Update { object, .. }) = plan.status else {
        panic!("{plan:?}")
    };
    assert_eq!(object.text("/status/currentCSV"), "");
    assert_eq!(
        object.text("/status/conditions/0/type"),
        "CatalogSourcesUnhealthy"
    );
    assert_eq!(
        object.text("/status/conditions/0/message"),
        "dependency resolution requires at least one catalogsource"
    );
}

#[test]
fn subscriptions_refer_to_a_plan_before_it_has_steps() {
    let mut scene = scene();
    let mut csv = operator("op.v1.0.0");
    csv["apiVersion"] = "operators.coreos.com/v1alpha1".into();
    csv["kind"] = "ClusterServiceVersion".into();
    let content: String = package("op", json!([{"name": "op.v1.0.0"}]))
        .iter()
        .chain([&bundle("op", "1.0.0", &[encoded(&csv)])])
        .map(|document| format!("---\n{document}\n"))
        .collect();
    let metadata = |name: &str| json!({"name": name, "namespace": "ns", "uid": name});
    let config_map = json!({"metadata": metadata("content"), "data": {"catalog.yaml": content}});
    scene.put(&CONFIG_MAP, config_map);
    let source = json!({"sourceType": "configmap", "configMap": "content"});
    let source = json!({"metadata": metadata("cat"), "spec": source});
    scene.put(&CATALOG_SOURCE, source);
    let spec = json!({"name": "op", "channel": "a", "source": "cat", "sourceNamespace": "ns"});
    scene.put(&SUBSCRIPTION, json!({"metadata": metadata("sub"), "spec": spec}));
    let catalogs = Catalogs::default();
    let mut written = Vec::new();
    for _ in 0..10 {
        let plan = scene.plan(
            |world, key| super::subscription::plan(world, key, &catalogs),
            "",
            "ns",
        );
        let actions: Vec<Action> = plan.actions.into_iter().chain(plan.status).collect();
        written.extend(names(&actions));
        for action in actions {
            match action {
                Action::Create { mut object, .. } => {
                    object["metadata"] = metadata("install-1");
                    scene.put(&INSTALL_PLAN, *object);
                }
                Action::Update { gvr, object, .. } if INSTALL_PLAN.is(&gvr) => {
                    scene.put(&INSTALL_PLAN, *object);
                }
                Action::Update { object, .. } => scene.put(&SUBSCRIPTION, *object),
                other => panic!("{other:?}"),
            }
        }
    }
    let expected = [
        "update subscriptions/sub/status",
        "create installplans/install-",
        "update subscriptions/sub/status",
        "update installplans/install-1/status",
        "update subscriptions/sub/status",
    ];
    assert_eq!(written, expected);
}

/// Returns the property that contains an object of a bundle.
fn encoded(object: &Value) -> Value {
    use base64::Engine;
    let data = base64::engine::general_purpose::STANDARD.encode(object.to_string());
    property("olm.bundle.object", json!({"data": data}))
}
