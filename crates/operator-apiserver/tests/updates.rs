//! Tests of rejected changes of built-in objects, with the texts of the API server.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod asking;

use asking::{delete, get, merge, post, send};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use operator_apiserver::ApiServer;
use serde_json::{Value, json};
use tower::ServiceExt;

fn server() -> ApiServer {
    let builder = ApiServer::builder().disable_admission_plugins(["ServiceAccount"]);
    builder.build().unwrap()
}

/// Creates an object, and applies merge patches to it. Each patch has its expected error; an empty one means success.
async fn changes(server: &ApiServer, collection: &str, object: Value, changes: &[(Value, &str)]) {
    let created = post(server, collection, object).await;
    created.is_done();
    let path = format!(
        "{collection}/{}",
        created.body["metadata"]["name"].as_str().unwrap()
    );
    changes_of(server, &path, changes).await;
}

async fn changes_of(server: &ApiServer, path: &str, changes: &[(Value, &str)]) {
    for (change, said) in changes {
        let answer = merge(server, &format!("{path}?dryRun=All"), change.clone()).await;
        if said.is_empty() {
            assert_eq!(answer.code, 200, "{change}: {}", answer.body);
            continue;
        }
        assert_eq!(answer.code, 422, "{change}: {}", answer.body);
        let message = answer.message();
        assert!(message.ends_with(said), "{change}: {message}");
    }
}

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test]
async fn a_pod_keeps_all_but_images_deadlines_tolerations_and_gates() {
    let server = server();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
        "containers": [{"name": "c", "image": "i:1"}], "activeDeadlineSeconds": 100,
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "schedulingGates": [{"name": "x.io/one"}, {"name": "x.io/two"}], "nodeSelector": {"a": "b"},
    }});
    let spec = |spec: Value| json!({"spec": spec});
    let fixed = "fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
    let table = [
        (spec(json!({"containers": [{"name": "c", "image": "i:2"}]})), ""),
        (
            spec(json!({"containers": [{"name": "d", "image": "i:1"}]})),
            fixed,
        ),
        (
            spec(json!({"containers": [{"name": "c", "image": "i:1"}, {"name": "d", "image": "i"}]})),
            "spec.containers: Forbidden: pod updates may not add or remove containers",
        ),
        (
            spec(json!({"containers": [{"name": "c", "image": " i"}]})),
            "spec.containers[0].image: Invalid value: \" i\": must not have leading or trailing whitespace",
        ),
        (spec(json!({"activeDeadlineSeconds": 50})), ""),
        (
            spec(json!({"activeDeadlineSeconds": 200})),
            "spec.activeDeadlineSeconds: Invalid value: 200: must be less than or equal to previous value",
        ),
        (
            spec(json!({"activeDeadlineSeconds": -1})),
            "spec.activeDeadlineSeconds: Invalid value: -1: must be between 0 and 2147483647, inclusive]",
        ),
        (
            spec(json!({"activeDeadlineSeconds": null})),
            "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value",
        ),
        (
            spec(json!({"tolerations": []})),
            "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
        ),
        // Admission adds its fields again.
        (
            spec(json!({"tolerations": [{"key": "a", "operator": "Exists"}], "priority": null})),
            "",
        ),
        (spec(json!({"schedulingGates": [{"name": "x.io/two"}]})), ""),
        (
            spec(json!({"schedulingGates": [{"name": "x.io/three"}]})),
            "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'x.io/three'",
        ),
        (spec(json!({"nodeSelector": {"c": "d"}})), ""),
        (
            spec(json!({"nodeSelector": {"a": "e"}})),
            "spec.nodeSelector: Invalid value: {\"a\":\"e\"}: only additions are allowed (no mutations or deletions)",
        ),
        (spec(json!({"hostname": "h"})), fixed),
    ];
    changes(&server, PODS, pod, &table).await;
}

#[tokio::test]
async fn every_part_of_the_spec_of_a_pod_is_validated() {
    let server = server();
    let pod = |more: Value| {
        let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    };
    for (more, said) in [
        (
            json!({"dnsPolicy": "x"}),
            "spec.dnsPolicy: Unsupported value: \"x\": supported values: \"ClusterFirstWithHostNet\", \"ClusterFirst\", \"Default\", \"None\"",
        ),
        (
            json!({"dnsConfig": {"nameservers": ["1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"]}}),
            "spec.dnsConfig.nameservers: Invalid value: [\"1.1.1.1\",\"1.1.1.2\",\"1.1.1.3\",\"1.1.1.4\"]: must not have more than 3 nameservers",
        ),
        (
            json!({"dnsConfig": {"options": [{"value": "2"}]}}),
            "spec.dnsConfig.options[0]: Required value: must not be empty",
        ),
        (
            json!({"schedulingGates": [{"name": "a"}], "nodeName": "n"}),
            "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
        ),
        (
            json!({"schedulingGates": [{"name": "a"}, {"name": "a"}]}),
            "spec.schedulingGates[1]: Duplicate value: \"a\"",
        ),
        (
            json!({"preemptionPolicy": "x"}),
            "the string value of PreemptionPolicy (x) must not be provided in pod spec; priority admission controller computed PreemptLowerPriority from the given PriorityClass name",
        ),
        (
            json!({"tolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 3}]}),
            "spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set",
        ),
        (
            json!({"topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"},
            {"maxSkew": 2, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]}),
            "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: \"{z, DoNotSchedule}\"",
        ),
        (
            json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 0, "preference": {"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}}]}}}),
            "preference.matchFields[0].operator: Invalid value: \"Exists\": not a valid selector operator]",
        ),
    ] {
        let answer = post(&server, PODS, pod(more)).await;
        assert!(answer.message().ends_with(said), "{}", answer.message());
    }
    let accepted = pod(json!({"dnsConfig": {"searches": [".", "_sip._tcp.example.com."]}}));
    post(&server, PODS, accepted).await.is_done();
}

#[tokio::test]
async fn a_service_keeps_its_addresses_and_its_health_check_port() {
    let server = server();
    let collection = "/api/v1/namespaces/default/services";
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {
        "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30111,
        "clusterIP": "10.0.0.77", "ports": [{"port": 80}],
    }});
    let ports = |port: Value| json!({"spec": {"ports": [port]}});
    let table = [
        (json!({"spec": {"clusterIP": null}}), ""),
        (json!({"spec": {"healthCheckNodePort": null}}), ""),
        (
            json!({"spec": {"healthCheckNodePort": 30112}}),
            "spec.healthCheckNodePort: Forbidden: field is immutable",
        ),
        (
            json!({"spec": {"clusterIP": "10.0.0.78"}}),
            "spec.clusterIPs[0]: Invalid value: [\"10.0.0.78\"]: may not change once set",
        ),
        (
            json!({"spec": {"clusterIPs": ["10.0.0.78"]}}),
            "is invalid: spec.clusterIPs: Invalid value: [\"10.0.0.78\"]: first value must match `clusterIP`",
        ),
        (
            json!({"spec": {"externalTrafficPolicy": "Nowhere"}}),
            "spec.externalTrafficPolicy: Unsupported value: \"Nowhere\": supported values: \"Cluster\", \"Local\"",
        ),
        // The range is checked when a port is allocated, which a dry run does not do.
        (ports(json!({"port": 80, "nodePort": -1})), ""),
        (
            ports(json!({"port": 80, "appProtocol": "a b"})),
            "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ),
        (
            json!({"spec": {"externalIPs": ["127.0.0.1"]}}),
            "spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
        ),
        (
            json!({"spec": {"type": "ExternalName", "externalName": "a.b"}}),
            "",
        ),
    ];
    changes(&server, collection, service, &table).await;
    let change = ports(json!({"port": 80, "nodePort": -1}));
    let answer = merge(&server, &format!("{collection}/s"), change).await;
    assert_eq!(answer.code, 422, "{}", answer.body);
    let said = "spec.ports[0].nodePort: Invalid value: -1: provided port is not in the valid range. The range of valid ports is 30000-32767";
    assert!(answer.message().ends_with(said), "{}", answer.message());
}

#[tokio::test]
async fn storage_kinds_have_immutable_fields() {
    let server = server();
    let selector = |value: &str| {
        json!({"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "In", "values": [value]}]}]}})
    };
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"},
        "nodeAffinity": selector("b"),
    }});
    let table = [
        (json!({"spec": {"capacity": {"storage": "2Gi"}}}), ""),
        (
            json!({"spec": {"capacity": {"storage": "-1"}}}),
            "[spec.capacity[storage]: Invalid value: -1: must be a valid resource quantity, spec.capacity[storage]: Invalid value: \"-1\": must be greater than zero]",
        ),
        (
            json!({"spec": {"nodeAffinity": selector("c")}}),
            "nodeAffinity: Invalid value: {\"Required\":{\"NodeSelectorTerms\":[{\"MatchExpressions\":[{\"Key\":\"a\",\"Operator\":\"In\",\"Values\":[\"c\"]}],\"MatchFields\":null}]}}: field is immutable, except for updating from beta label to GA",
        ),
        (
            json!({"spec": {"volumeMode": ""}}),
            "volumeMode: Invalid value: \"\": field is immutable]",
        ),
    ];
    changes(&server, "/api/v1/persistentvolumes", volume, &table).await;

    let driver = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "d.io"},
        "spec": {"volumeLifecycleModes": ["Persistent"]}});
    let table = [
        (json!({"spec": {"podInfoOnMount": true}}), ""),
        (
            json!({"spec": {"attachRequired": false}}),
            "spec.attachedRequired: Invalid value: false: field is immutable",
        ),
        (
            json!({"spec": {"volumeLifecycleModes": ["Ephemeral"]}}),
            "spec.volumeLifecycleModes: Invalid value: [\"Ephemeral\"]: field is immutable",
        ),
    ];
    changes(&server, "/apis/storage.k8s.io/v1/csidrivers", driver, &table).await;

    let attachment = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "a"},
        "spec": {"attacher": "d.io", "nodeName": "n", "source": {"persistentVolumeName": "v"}}});
    let table = [(
        json!({"spec": {"nodeName": "m"}}),
        "spec: Invalid value: {\"Attacher\":\"d.io\",\"Source\":{\"PersistentVolumeName\":\"v\",\"InlineVolumeSpec\":null},\"NodeName\":\"m\"}: field is immutable",
    )];
    changes(
        &server,
        "/apis/storage.k8s.io/v1/volumeattachments",
        attachment,
        &table,
    )
    .await;

    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        "dataSourceRef": {"kind": "Pod", "name": ""},
    }});
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let answer = post(&server, claims, claim).await;
    let said = "spec.dataSource: Invalid value: \"Pod\": must be 'PersistentVolumeClaim' when referencing the default apiGroup";
    assert!(answer.message().contains(said), "{}", answer.message());
    assert!(
        answer.message().contains("spec.dataSource.name: Required value"),
        "{}",
        answer.message()
    );
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        "dataSource": {"kind": "Pod", "name": ""},
    }});
    let answer = post(&server, claims, claim).await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    assert!(answer.body["spec"].get("dataSource").is_none());
}

#[tokio::test]
async fn nodes_keep_their_network_and_their_provider() {
    let server = server();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {
        "podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"], "providerID": "a://b",
    }});
    let taints = |taints: Value| json!({"spec": {"taints": taints}});
    let table = [
        (json!({"spec": {"unschedulable": true}}), ""),
        (
            json!({"spec": {"providerID": "a://c"}}),
            "spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid",
        ),
        (
            json!({"spec": {"podCIDRs": ["10.2.0.0/24"], "podCIDR": "10.2.0.0/24"}}),
            "spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid",
        ),
        (
            taints(json!([{"key": "a", "value": "b", "effect": "NoSchedule"}])),
            "",
        ),
        (
            taints(json!([{"key": "a"}])),
            "metadata.taints[0].effect: Required value",
        ),
        (
            taints(json!([{"key": "a", "effect": "Never"}])),
            "metadata.taints[0].effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
        ),
        (
            taints(json!([{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}])),
            "metadata.taints[1]: Duplicate value: {\"Key\":\"a\",\"Value\":\"\",\"Effect\":\"NoSchedule\",\"TimeAdded\":null}: taints must be unique by key and effect pair",
        ),
    ];
    changes(&server, "/api/v1/nodes", node, &table).await;
}

#[tokio::test]
async fn names_of_api_services_match_their_group_and_version() {
    let server = server();
    let service = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
    "metadata": {"name": "v1.zz.example.com"}, "spec": {
        "group": "zz.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
        "insecureSkipTLSVerify": true, "service": {"name": "s", "namespace": "n", "port": 443},
    }});
    let table = [
        (json!({"spec": {"versionPriority": 20}}), ""),
        (
            json!({"spec": {"versionPriority": 1001}}),
            "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000",
        ),
        (
            json!({"spec": {"group": "other.com"}}),
            "metadata.name: Invalid value: \"v1.zz.example.com\": must be `spec.version+\".\"+spec.group`: \"v1.other.com\"",
        ),
        (
            json!({"spec": {"service": null}}),
            "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
        ),
        (
            json!({"spec": {"service": {"name": null, "port": 0}}}),
            "[spec.service.name: Required value, spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive]",
        ),
    ];
    changes(
        &server,
        "/apis/apiregistration.k8s.io/v1/apiservices",
        service,
        &table,
    )
    .await;
}

#[tokio::test]
async fn small_kinds_have_immutable_fields() {
    let server = server();
    let autoscaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"}, "spec": {"maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}});
    let table = [
        (
            json!({"spec": {"behavior": {"scaleUp": {"policies": []}}}}),
            "spec.behavior.scaleUp.policies: Required value: must specify at least one Policy",
        ),
        (json!({"spec": {"behavior": {"scaleUp": {}}}}), ""),
    ];
    let collection = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    changes(&server, collection, autoscaler, &table).await;
    let class = json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "c"},
        "spec": {"controller": "a.b/c", "parameters": {"kind": "K", "name": "n"}}});
    let table = [
        (
            json!({"spec": {"controller": "x"}}),
            "[spec.controller: Invalid value: \"x\": field is immutable, spec.controller: Invalid value: \"x\": must be a domain-prefixed path (such as \"acme.io/foo\")]",
        ),
        (
            json!({"spec": {"parameters": {"kind": null}}}),
            "spec.parameters.kind: Required value",
        ),
        (
            json!({"spec": {"parameters": {"scope": "Namespace"}}}),
            "spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'",
        ),
    ];
    changes(
        &server,
        "/apis/networking.k8s.io/v1/ingressclasses",
        class,
        &table,
    )
    .await;

    let runtime = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "r"},
        "handler": "h", "overhead": {"podFixed": {"cpu": "1"}}});
    let table = [
        (
            json!({"overhead": {"podFixed": {"cpu": "-1"}}}),
            "overhead.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
        ),
        (
            json!({"handler": "g"}),
            "handler: Invalid value: \"g\": field is immutable",
        ),
    ];
    changes(&server, "/apis/node.k8s.io/v1/runtimeclasses", runtime, &table).await;

    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"pods": "1000"}, "scopes": ["NotTerminating"]}});
    let table = [
        (
            json!({"spec": {"scopes": ["Terminating"]}}),
            "spec.scopes: Invalid value: [\"Terminating\"]: field is immutable",
        ),
        (
            json!({"spec": {"hard": {"zz": "1"}}}),
            "[spec.hard[zz]: Invalid value: \"zz\": must be a standard resource type or fully qualified, spec.hard[zz]: Invalid value: \"zz\": must be a standard resource for quota]",
        ),
    ];
    changes(
        &server,
        "/api/v1/namespaces/default/resourcequotas",
        quota,
        &table,
    )
    .await;

    let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "e"},
        "subsets": [{"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 80}]}]});
    let address = |address: Value| json!({"subsets": [{"addresses": [address], "ports": [{"port": 80}]}]});
    let table = [
        (
            address(json!({"ip": "x"})),
            "[subsets[0].addresses[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff), subsets[0].addresses[0].ip: Invalid value: \"x\": must be a valid IP address]",
        ),
        (
            address(json!({"ip": "169.254.1.1"})),
            "subsets[0].addresses[0].ip: Invalid value: \"169.254.1.1\": may not be in the link-local range (169.254.0.0/16, fe80::/10)",
        ),
    ];
    changes(&server, "/api/v1/namespaces/default/endpoints", endpoints, &table).await;
}

#[tokio::test]
async fn a_status_is_validated() {
    let server = server();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
        "nodeName": "n", "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    post(&server, PODS, pod).await.is_done();
    let status = format!("{PODS}/p/status");
    let ended = json!({"status": {"containerStatuses": [
        {"name": "c", "image": "i", "state": {"terminated": {"exitCode": 0}}}]}});
    merge(&server, &status, ended).await.is_done();
    let table = [
        (
            json!({"status": {"containerStatuses": [{"name": "c", "image": "i", "state": {"running": {}}}]}}),
            "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state",
        ),
        (
            json!({"status": {"podIPs": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.5"}]}}),
            "may specify no more than one IP for each IP family",
        ),
        (
            json!({"status": {"nominatedNodeName": "m"}}),
            "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node",
        ),
        (json!({"status": {"phase": "Succeeded"}}), ""),
    ];
    changes_of(&server, &status, &table).await;

    let table = [(
        json!({"status": {"phase": "Terminating"}}),
        "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty",
    )];
    changes_of(&server, "/api/v1/namespaces/default/status", &table).await;
}

#[tokio::test]
async fn no_update_begins_a_deletion_and_no_deletion_guesses() {
    let server = server();
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
    let table = [(
        json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}}),
        "metadata.deletionTimestamp: Invalid value: \"2024-01-01T00:00:00Z\": field is immutable",
    )];
    changes(&server, maps, map, &table).await;
    let query = Request::delete(format!("{maps}/c?gracePeriodSeconds=x"));
    let query = query.body(Full::new(Bytes::new())).unwrap();
    let answer = server.clone().oneshot(query).await.unwrap();
    assert_eq!(answer.status(), 400);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let said = "strconv.ParseInt: parsing \\\"x\\\": invalid syntax";
    assert!(String::from_utf8_lossy(&body).contains(said), "{body:?}");
    let map = format!("{maps}/c");
    get(&server, &map).await.is_done();
    let deleted = delete(&server, &map).await;
    deleted.is_done();
    assert!(deleted.warnings.is_empty());
    get(&server, &map).await.is_refused(404, "\"c\" not found");
}

#[tokio::test]
async fn an_empty_list_of_shared_counters_counts() {
    let server = server();
    let slices = "/apis/resource.k8s.io/v1/resourceslices";
    let slice = json!({"metadata": {"name": "s"}, "spec": {
        "driver": "d.example.com", "nodeName": "n", "devices": [{"name": "a"}],
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
    }});
    let said = "spec: Invalid value: \"\": only one of `sharedCounters` or `devices` is allowed";
    let mut both = slice.clone();
    both["spec"]["sharedCounters"] = json!([]);
    let refused = post(&server, slices, both).await;
    assert!(refused.message().ends_with(said), "{}", refused.message());
    let counters = json!([{"name": "c", "counters": {"x": {"value": "1"}}}]);
    let table = [
        (json!({"spec": {"sharedCounters": []}}), said),
        (json!({"spec": {"sharedCounters": [], "devices": []}}), said),
        (json!({"spec": {"sharedCounters": counters, "devices": []}}), said),
        (json!({"spec": {"sharedCounters": counters, "devices": null}}), ""),
        (json!({"spec": {"sharedCounters": null}}), ""),
    ];
    changes(&server, slices, slice, &table).await;
    let path = format!("{slices}/s");
    merge(&server, &path, json!({"spec": {"devices": []}}))
        .await
        .is_done();
    let stored = get(&server, &path).await;
    assert_eq!(stored.body["spec"].get("devices"), None, "{}", stored.body);
}

#[tokio::test]
async fn a_claim_keeps_its_data_source() {
    let server = server();
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let source = json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "x"});
    let claim = |spec: Value| {
        let mut claim = json!({"metadata": {"name": "p"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        }});
        claim["spec"]
            .as_object_mut()
            .unwrap()
            .extend(spec.as_object().unwrap().clone());
        claim
    };
    let core = json!({"dataSource": {"apiGroup": "", "kind": "PersistentVolumeClaim", "name": "x"},
        "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "x"}});
    let refused = post(&server, claims, claim(core)).await;
    assert!(
        refused
            .message()
            .ends_with("spec: Invalid value: {}: must match dataSourceRef"),
        "{}",
        refused.body
    );
    let mut elsewhere = source.clone();
    elsewhere["namespace"] = "zz".into();
    let said = "[spec: Invalid value: {}: may not be specified when dataSourceRef.namespace is specified, spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims]";
    let table = [(json!({"spec": {"dataSourceRef": elsewhere}}), said)];
    changes(&server, claims, claim(json!({"dataSourceRef": source})), &table).await;
}

#[tokio::test]
async fn subresources_of_pods_keep_the_prefix_of_a_generated_name() {
    let server = server();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    post(&server, PODS, pod).await.is_done();
    for (subresource, prefix) in [
        ("resize", json!("a-")),
        ("ephemeralcontainers", json!("a-")),
        ("status", json!("a-")),
    ] {
        let path = format!("{PODS}/p/{subresource}?dryRun=All");
        let answer = merge(&server, &path, json!({"metadata": {"generateName": "a-"}})).await;
        let given = answer.body["metadata"]
            .get("generateName")
            .cloned()
            .unwrap_or_default();
        assert_eq!((answer.code, given), (200, prefix), "{subresource}");
    }
}

#[tokio::test]
async fn resource_versions_are_parsed_as_go_does() {
    let server = server();
    let path = "/api/v1/namespaces/default/configmaps/c";
    post(
        &server,
        "/api/v1/namespaces/default/configmaps",
        json!({"metadata": {"name": "c"}}),
    )
    .await
    .is_done();
    for (version, why) in [
        ("+1", "invalid syntax"),
        ("x", "invalid syntax"),
        ("99999999999999999999", "value out of range"),
    ] {
        let answer = merge(&server, path, json!({"metadata": {"resourceVersion": version}})).await;
        let said = format!("strconv.ParseUint: parsing {version:?}: {why}");
        assert_eq!((answer.code, answer.message()), (500, said.as_str()));
    }
    let said = "resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax";
    get(&server, &format!("{path}?resourceVersion=x"))
        .await
        .is_refused(500, said);
    // Events have no cache, whose error this is.
    let event = "/api/v1/namespaces/default/events/e?resourceVersion=x";
    let said = format!("invalid resource version: {said}");
    get(&server, event).await.is_refused(400, &said);
    let revisions = "/apis/apps/v1/namespaces/default/controllerrevisions";
    let revision = json!({"metadata": {"name": "r"}, "revision": 1, "data": {"a": 1}});
    let table = [(
        json!({"data": null}),
        "is invalid: data: Invalid value: null: field is immutable",
    )];
    changes(&server, revisions, revision, &table).await;
}

#[tokio::test]
async fn the_families_of_pod_addresses_include_mapped_ones() {
    let server = server();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    post(&server, PODS, pod).await.is_done();
    let ips = json!({"status": {"podIPs": [{"ip": "::ffff:1.2.3.4"}, {"ip": "1.2.3.5"}]}});
    let said = "[status.podIPs[0]: Invalid value: \"::ffff:1.2.3.4\": must not be an IPv4-mapped IPv6 address, status.podIPs: Invalid value: [{\"IP\":\"::ffff:1.2.3.4\"},{\"IP\":\"1.2.3.5\"}]: may specify no more than one IP for each IP family]";
    changes_of(&server, &format!("{PODS}/p/status"), &[(ips, said)]).await;
}

#[tokio::test]
async fn the_type_in_a_patch_is_ignored_by_strategic_merge_patches_only() {
    let server = server();
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"b": "c"}});
    let config_maps = "/api/v1/namespaces/default/configmaps";
    post(&server, config_maps, object).await.is_done();
    let path = format!("{config_maps}/a?dryRun=All");
    let patch = async |media: &str, patch: &Value| {
        let media = format!("application/{media}-patch+json");
        send(&server, Method::PATCH, &path, &media, patch).await
    };
    for change in [
        json!({"kind": "Pod"}),
        json!({"apiVersion": "v2"}),
        json!({"apiVersion": null}),
    ] {
        let answer = patch("strategic-merge", &change).await;
        assert_eq!(
            (answer.code, &answer.body["kind"]),
            (200, &json!("ConfigMap")),
            "{change}"
        );
    }
    let unnamed = "the name of the object (a based on URL) was undeterminable: name must be provided";
    for (media, change) in [
        ("merge", json!({"apiVersion": null})),
        ("merge", json!({"apiVersion": ""})),
        ("json", json!([{"op": "remove", "path": "/apiVersion"}])),
    ] {
        patch(media, &change).await.is_refused(400, unnamed);
    }
    patch("merge", &json!({"kind": null})).await.is_done();
    // The whole object cannot be copied.
    for from in [json!({}), json!({"from": ""}), json!({"from": "data"})] {
        let mut copy = json!({"op": "copy", "path": "/data/d"});
        copy.as_object_mut()
            .unwrap()
            .extend(from.as_object().unwrap().clone());
        let why = "the server rejected our request due to an error in our request";
        patch("json", &json!([copy])).await.is_refused(422, why);
    }
}
