use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{Change, Evaluator, Refusal, charge, releases, status};
use apimachinery::gvk::Gvr;

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_767_225_600)
}

fn gvr(group: &str, resource: &str) -> Gvr {
    Gvr::new(group, "v1", resource)
}

fn used(hard: &Value, objects: &[(Gvr, Value)]) -> Value {
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
    used_of(&quota, objects)
}

fn used_of(quota: &Value, objects: &[(Gvr, Value)]) -> Value {
    let objects = objects.iter().map(|(gvr, object)| (gvr, object));
    let status = status(quota, objects, now(), |group, _| group != "unknown.example.com").unwrap();
    assert_eq!(status["hard"], quota["spec"]["hard"]);
    status["used"].clone()
}

fn pod(cpu: &str) -> Value {
    json!({"spec": {"containers": [{"name": "c", "resources": {
        "requests": {"cpu": cpu, "nvidia.com/gpu": "1"}, "limits": {"cpu": "1", "memory": "64Mi", "nvidia.com/gpu": "1"},
    }}]}})
}

#[test]
fn objects_are_counted_by_every_name_they_have() {
    let objects = [
        (gvr("", "configmaps"), json!({})),
        (gvr("", "configmaps"), json!({})),
        (gvr("apps", "deployments"), json!({})),
        (gvr("example.com", "widgets"), json!({})),
        (gvr("", "events"), json!({})),
    ];
    let hard = json!({
        "configmaps": "1", "count/configmaps": "1", "count/deployments.apps": "1", "count/widgets.example.com": "1",
        "count/secrets": "1", "count/events": "1", "count/x.unknown.example.com": "1", "example.com/other": "1",
    });
    let expected = json!({
        "configmaps": "2", "count/configmaps": "2", "count/deployments.apps": "1", "count/widgets.example.com": "1",
        "count/secrets": "0",
    });
    assert_eq!(used(&hard, &objects), expected);
}

#[test]
fn pods_count_until_they_end() {
    let mut ended = pod("1");
    ended["status"] = json!({"phase": "Failed"});
    let mut stuck = pod("1");
    stuck["metadata"] =
        json!({"deletionTimestamp": "2025-12-31T23:59:00Z", "deletionGracePeriodSeconds": 30});
    let mut leaving = stuck.clone();
    leaving["metadata"]["deletionGracePeriodSeconds"] = 90.into();
    let objects = [pod("250m"), ended, stuck, leaving].map(|pod| (gvr("", "pods"), pod));
    let hard = json!({
        "pods": "9", "count/pods": "9", "cpu": "9", "requests.cpu": "9", "limits.memory": "1Gi",
        "requests.nvidia.com/gpu": "3", "limits.ephemeral-storage": "1",
    });
    let expected = json!({
        "pods": "2", "count/pods": "4", "cpu": "1250m", "requests.cpu": "1250m", "limits.memory": "128Mi",
        "requests.nvidia.com/gpu": "2", "limits.ephemeral-storage": "0",
    });
    assert_eq!(used(&hard, &objects), expected);
}

#[test]
fn usage_of_services_and_claims() {
    let service =
        |kind: &str, ports: usize| json!({"spec": {"type": kind, "ports": vec![json!({"port": 1}); ports]}});
    let mut without = service("LoadBalancer", 2);
    without["spec"]["allocateLoadBalancerNodePorts"] = false.into();
    without["spec"]["ports"][0]["nodePort"] = 30000.into();
    let claim =
        json!({"spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "1.5Ki"}}}});
    let objects = [
        (gvr("", "services"), service("ClusterIP", 3)),
        (gvr("", "services"), service("NodePort", 2)),
        (gvr("", "services"), without),
        (gvr("", "persistentvolumeclaims"), claim),
    ];
    let hard = json!({
        "services": "9", "services.nodeports": "9", "services.loadbalancers": "9", "persistentvolumeclaims": "9",
        "requests.storage": "1Gi", "gold.storageclass.storage.k8s.io/requests.storage": "1Gi",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1", "tin.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
    });
    let expected = json!({
        "services": "3", "services.nodeports": "3", "services.loadbalancers": "1", "persistentvolumeclaims": "1",
        "requests.storage": "1536", "gold.storageclass.storage.k8s.io/requests.storage": "1536",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1", "tin.storageclass.storage.k8s.io/persistentvolumeclaims": "0",
    });
    assert_eq!(used(&hard, &objects), expected);
}

#[test]
fn devices_count_as_many_as_a_claim_may_get() {
    let exact = |class: &str, count: i64| json!({"deviceClassName": class, "allocationMode": "ExactCount", "count": count});
    let claim = json!({"spec": {"devices": {"requests": [
        {"name": "a", "exactly": exact("gpu", 2)},
        {"name": "b", "firstAvailable": [exact("gpu", 3), exact("gpu", 1), {"deviceClassName": "nic", "allocationMode": "All"}]},
    ]}}});
    let hard = json!({"gpu.deviceclass.resource.k8s.io/devices": "9", "nic.deviceclass.resource.k8s.io/devices": "9"});
    let expected = json!({"gpu.deviceclass.resource.k8s.io/devices": "5", "nic.deviceclass.resource.k8s.io/devices": "32"});
    assert_eq!(
        used(&hard, &[(gvr("resource.k8s.io", "resourceclaims"), claim)]),
        expected
    );
}

#[test]
fn scopes_exclude_objects_outside_any_of_them() {
    let mut timed = pod("1");
    timed["spec"]["activeDeadlineSeconds"] = 5.into();
    let mut important = pod("1");
    important["spec"]["priorityClassName"] = "high".into();
    let mut modest = pod("1");
    modest["spec"]["containers"] = json!([{"name": "c"}]);
    modest["spec"]["affinity"] = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "podAffinityTerm": {"namespaces": ["other"]}},
    ]}});
    let objects = [timed, important, modest].map(|pod| (gvr("", "pods"), pod));
    let count = |spec: Value| {
        let mut quota = json!({"metadata": {"name": "q"}, "spec": spec});
        quota["spec"]["hard"] = json!({"pods": "9"});
        used_of(&quota, &objects)["pods"].clone()
    };
    for (scope, expected) in [
        ("Terminating", "1"),
        ("NotTerminating", "2"),
        ("BestEffort", "1"),
        ("NotBestEffort", "2"),
        ("PriorityClass", "1"),
        ("CrossNamespacePodAffinity", "1"),
        ("VolumeAttributesClass", "0"),
    ] {
        assert_eq!(count(json!({"scopes": [scope]})), expected, "{scope}");
    }
    for (operator, values, expected) in [
        ("In", json!(["high", "low"]), "1"),
        ("NotIn", json!(["high"]), "2"),
        ("Exists", json!(null), "1"),
        ("DoesNotExist", json!(null), "2"),
    ] {
        let expression = json!({"scopeName": "PriorityClass", "operator": operator, "values": values});
        let selector = json!({"matchExpressions": [expression]});
        assert_eq!(count(json!({"scopeSelector": selector})), expected, "{operator}");
    }
    assert_eq!(count(json!({"scopes": ["NotTerminating", "NotBestEffort"]})), "1");
}

#[test]
fn a_status_that_is_right_is_not_written_again() {
    let quota = json!({
        "metadata": {"name": "q"}, "spec": {"hard": {"cpu": "1", "pods": "1"}},
        "status": {"hard": {"cpu": "1000m", "pods": "1"}, "used": {"cpu": "0", "pods": "0"}},
    });
    let none = || std::iter::empty();
    assert_eq!(status(&quota, none(), now(), |_, _| true), None);
    let mut other = quota.clone();
    other["spec"]["hard"]["pods"] = "2".into();
    assert!(status(&other, none(), now(), |_, _| true).is_some());
    assert_eq!(
        status(&json!({"spec": {}, "status": {}}), none(), now(), |_, _| true),
        None
    );
}

fn quota(hard: &Value, used: &Value) -> Value {
    json!({"metadata": {"name": "q"}, "spec": {"hard": hard}, "status": {"hard": hard, "used": used}})
}

fn create(quota: &Value, (group, resource): (&str, &str), object: &Value) -> Result<Option<Value>, String> {
    let evaluator = Evaluator::of(group, resource).unwrap();
    let used = charge(quota, &evaluator, Change::Create, object, now()).map_err(why)?;
    Ok(used.map(Value::from))
}

fn why(refusal: Refusal) -> String {
    match refusal {
        Refusal::Exceeded(why) | Refusal::Scopes(why) => why,
    }
}

#[test]
fn a_new_object_is_charged_or_refused_with_the_numbers() {
    let quota = quota(
        &json!({"secrets": "2", "count/secrets": "3", "pods": "1"}),
        &json!({"secrets": "1", "count/secrets": "2", "pods": "1"}),
    );
    let charged = create(&quota, ("", "secrets"), &json!({})).unwrap().unwrap();
    assert_eq!(
        charged,
        json!({"secrets": "2", "count/secrets": "3", "pods": "1"})
    );
    assert_eq!(create(&quota, ("", "configmaps"), &json!({})), Ok(None));
    let mut full = quota;
    full["status"]["used"] = charged;
    let refused = create(&full, ("", "secrets"), &json!({})).unwrap_err();
    assert_eq!(
        refused,
        "exceeded quota: q, requested: count/secrets=1,secrets=1, used: count/secrets=3,secrets=2, limited: count/secrets=3,secrets=2"
    );
}

#[test]
fn quotas_without_usage_limit_nothing_or_report_it() {
    let mut fresh = quota(&json!({"secrets": "0"}), &json!({}));
    let refused = create(&fresh, ("", "secrets"), &json!({})).unwrap_err();
    assert_eq!(refused, "status unknown for quota: q, resources: secrets");
    fresh["status"] = json!({});
    assert_eq!(create(&fresh, ("", "secrets"), &json!({})), Ok(None));
}

#[test]
fn containers_must_set_the_resources_that_a_quota_counts() {
    let quota = quota(
        &json!({"limits.cpu": "1", "requests.memory": "1Gi", "requests.ephemeral-storage": "1"}),
        &json!({"limits.cpu": "0", "requests.memory": "0", "requests.ephemeral-storage": "0"}),
    );
    let mut pod = json!({"spec": {
        "containers": [{"name": "b"}, {"name": "a", "resources": {"requests": {"memory": "1"}}}],
        "initContainers": [{"name": "i", "resources": {"limits": {"cpu": "1"}}}],
    }});
    let refused = create(&quota, ("", "pods"), &pod).unwrap_err();
    assert_eq!(
        refused,
        "failed quota: q: must specify limits.cpu for: a,b; requests.memory for: b,i"
    );
    pod["spec"]["resources"] = json!({"requests": {"memory": "1Mi"}});
    assert!(create(&quota, ("", "pods"), &pod).is_ok());
}

#[test]
fn a_change_is_charged_with_its_additional_usage() {
    let quota = quota(
        &json!({"services.nodeports": "2"}),
        &json!({"services.nodeports": "1"}),
    );
    let services = Evaluator::of("", "services").unwrap();
    let service = |kind: &str, ports: usize| json!({"spec": {"type": kind, "ports": vec![json!({}); ports]}});
    let update = |old: &Value, new: &Value| {
        let change = Change::Update { old, subresource: "" };
        assert!(services.handles(change, new));
        let used = charge(&quota, &services, change, new, now());
        used.map(|used| used.map(Value::from)).map_err(why)
    };
    let (one, two, three) = (
        service("NodePort", 1),
        service("NodePort", 2),
        service("NodePort", 3),
    );
    assert_eq!(update(&one, &two), Ok(Some(json!({"services.nodeports": "2"}))));
    assert_eq!(update(&two, &one), Ok(None));
    let refused = update(&one, &three).unwrap_err();
    assert_eq!(
        refused,
        "exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=1, limited: services.nodeports=2"
    );
}

#[test]
fn finished_and_smaller_objects_reduce_the_usage() {
    let running = pod("1");
    let mut ended = running.clone();
    ended["status"] = json!({"phase": "Succeeded"});
    let pods = gvr("", "pods");
    assert!(releases(&pods, &running, &ended));
    assert!(!releases(&pods, &running, &running));
    let service = |kind: &str| json!({"spec": {"type": kind, "ports": [{}]}});
    assert!(releases(
        &gvr("", "services"),
        &service("NodePort"),
        &service("ClusterIP")
    ));
    assert!(!releases(&gvr("", "configmaps"), &running, &ended));
}
