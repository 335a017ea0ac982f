//! Tests of creates and reads with small differences between kinds, as kube-apiserver handles them.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod asking;

use asking::{get, merge, post, send};
use operator_apiserver::ApiServer;
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn server() -> ApiServer {
    let builder = ApiServer::builder().disable_admission_plugins(["ServiceAccount"]);
    let server = builder.build().unwrap();
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    let crd = json!({"metadata": {"name": "gadgets.example.com"}, "spec": {"group": "example.com",
        "scope": "Namespaced", "versions": [version], "names": {"plural": "gadgets", "kind": "Gadget"}}});
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(&server, crds, crd).await.is_done();
    server
}

#[tokio::test]
async fn a_resource_version_of_a_new_object_is_refused_when_it_is_stored() {
    let server = server().await;
    let object = |version: &str| json!({"metadata": {"name": "a", "resourceVersion": version}});
    let refused = post(&server, CONFIG_MAPS, object("5")).await;
    refused.is_refused(500, "resourceVersion should not be set on objects to be created");
    // Admission and validation run before the check of the resourceVersion.
    let invalid = json!({"metadata": {"name": "A", "resourceVersion": "5"}});
    assert_eq!(post(&server, CONFIG_MAPS, invalid).await.code, 422);
    let dry = post(&server, &format!("{CONFIG_MAPS}?dryRun=All"), object("5")).await;
    dry.is_done();
    assert_eq!(dry.body["metadata"]["resourceVersion"], "5");
    let created = post(&server, CONFIG_MAPS, object("x")).await;
    created.is_done();
    assert_ne!(created.body["metadata"]["resourceVersion"], "x");
}

#[tokio::test]
async fn finalizers_of_custom_resources_need_no_prefix() {
    let server = server().await;
    let gadgets = "/apis/example.com/v1/namespaces/default/gadgets";
    let object = |finalizer: &str| {
        json!({"apiVersion": "example.com/v1", "kind": "Gadget",
        "metadata": {"name": "a", "finalizers": [finalizer]}})
    };
    assert_eq!(post(&server, gadgets, object("a b")).await.code, 422);
    post(&server, gadgets, object("test-finalizer")).await.is_done();
    let change = json!({"metadata": {"finalizers": ["x", "test-finalizer"]}});
    merge(&server, &format!("{gadgets}/a"), change).await.is_done();
    let config_map = json!({"metadata": {"name": "a", "finalizers": ["x"]}});
    let refused = post(&server, CONFIG_MAPS, config_map).await;
    refused.is_refused(
        422,
        "name is neither a standard finalizer name nor is it fully qualified",
    );
}

#[tokio::test]
async fn events_are_found_by_the_names_of_both_groups() {
    let server = server().await;
    let subject = json!({"kind": "Pod", "name": "p", "namespace": "default", "uid": "u"});
    let event = json!({"metadata": {"name": "e"}, "involvedObject": subject, "reason": "R", "reportingComponent": "rc"});
    post(&server, "/api/v1/namespaces/default/events", event)
        .await
        .is_done();
    let count = async |path: &str| {
        let list = get(&server, path).await;
        list.body["items"].as_array().map(Vec::len)
    };
    for (label, found) in [
        ("regarding.name=p", 1),
        ("regarding.uid=u", 1),
        ("regarding.name=q", 0),
        ("reportingController=rc", 1),
        ("reason=R", 1),
    ] {
        let path = format!("/apis/events.k8s.io/v1/namespaces/default/events?fieldSelector={label}");
        assert_eq!(count(&path).await, Some(found), "{label}");
    }
    let path = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=p";
    assert_eq!(count(path).await, Some(1));
}

#[tokio::test]
async fn the_size_of_a_config_map_has_the_path_of_an_empty_name() {
    let server = server().await;
    let large = "x".repeat(1_100_000);
    let refused = post(
        &server,
        CONFIG_MAPS,
        json!({"metadata": {"name": "a"}, "data": {"k": large}}),
    )
    .await;
    let message: Value =
        "ConfigMap \"a\" is invalid: []: Too long: may not be more than 1048576 bytes".into();
    assert_eq!(refused.body["message"], message);
}

#[tokio::test]
async fn an_update_that_names_another_generation_changes_nothing() {
    let server = server().await;
    let created = post(
        &server,
        CONFIG_MAPS,
        json!({"metadata": {"name": "a", "generation": 7}}),
    )
    .await;
    assert_eq!(created.body["metadata"]["generation"], 7);
    let change = json!({"metadata": {"generation": 9, "creationTimestamp": "2020-01-01T00:00:00Z"}});
    let answer = merge(&server, &format!("{CONFIG_MAPS}/a"), change).await;
    answer.is_done();
    assert_eq!(answer.body["metadata"], created.body["metadata"]);
}

#[tokio::test]
async fn the_causes_of_wrong_metadata_are_repeated_as_often_as_the_kind_checks_it() {
    let server = server().await;
    for (path, object, counts) in [
        (CONFIG_MAPS, json!({"metadata": {"name": "m"}}), [2, 1, 2]),
        (
            "/api/v1/namespaces/default/limitranges",
            json!({"metadata": {"name": "m"}, "spec": {"limits": []}}),
            [1, 1, 1],
        ),
        (
            "/api/v1/namespaces/default/podtemplates",
            json!({"metadata": {"name": "m"}, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}),
            [2, 0, 1],
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            json!({"metadata": {"name": "m"}}),
            [2, 0, 0],
        ),
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            json!({"metadata": {"name": "m"}, "spec": {"minAvailable": 1}}),
            [1, 0, 0],
        ),
    ] {
        post(&server, path, object).await.is_done();
        let changes = [
            json!({"uid": "other"}),
            json!({"generateName": "A_"}),
            json!({"finalizers": ["x"]}),
        ];
        let fields = ["metadata.uid", "metadata.generateName", "metadata.finalizers[0]"];
        for ((change, field), count) in changes.into_iter().zip(fields).zip(counts) {
            let answer = merge(
                &server,
                &format!("{path}/m?dryRun=All"),
                json!({"metadata": change}),
            )
            .await;
            let causes = answer.body["details"]["causes"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let found = causes.iter().filter(|cause| cause["field"] == field).count();
            assert_eq!(found, count, "{path} {field}: {}", answer.body);
        }
    }
}

#[tokio::test]
async fn warnings_are_given_for_deprecated_and_dangerous_fields() {
    let server = server().await;
    let core = "/api/v1/namespaces/default";
    let endpoints = get(&server, &format!("{core}/endpoints/nope")).await;
    assert!(endpoints.warnings[0].contains("v1 Endpoints is deprecated in v1.33+"));
    for (path, object, warning) in [
        (
            format!("{core}/secrets"),
            json!({"type": "kubernetes.io/tls", "data": {"tls.crt": "eA==", "tls.key": ""}}),
            "tls: failed to find any PEM data in certificate input",
        ),
        (
            format!("{core}/services"),
            json!({"spec": {"ports": [{"port": 80}], "externalIPs": ["1.2.3.4"]}}),
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        ),
        (
            format!("{core}/services"),
            json!({"spec": {"ports": [{"port": 80}], "trafficDistribution": "PreferClose"}}),
            "use \\\"PreferSameZone\\\"",
        ),
        (
            format!("{core}/services"),
            json!({"spec": {"type": "ExternalName", "externalName": "a.b", "externalIPs": ["1.2.3.4"]}}),
            "spec.externalIPs is ignored",
        ),
        (
            format!("{core}/serviceaccounts"),
            json!({"metadata": {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}}),
            "deprecated in v1.32+",
        ),
        (
            "/apis/storage.k8s.io/v1/csidrivers".to_owned(),
            json!({"spec": {"tokenRequests": [{"audience": ""}]}}),
            "spec.serviceAccountTokenInSecrets is unset",
        ),
        (
            format!("{core}/configmaps"),
            json!({"metadata": {"ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"}, {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"}]}}),
            "; duplicate UID(s) observed: u",
        ),
        (
            format!("{core}/pods"),
            json!({"spec": {"imagePullSecrets": [{"name": ""}], "containers": [{"name": "c", "image": "i"}]}}),
            "spec.imagePullSecrets[0].name: invalid empty name",
        ),
    ] {
        let mut object = object;
        object["metadata"]["name"] = "w".into();
        let answer = post(&server, &format!("{path}?dryRun=All"), object).await;
        answer.is_done();
        assert!(
            answer.warnings.iter().any(|text| text.contains(warning)),
            "{warning}: {:?}",
            answer.warnings
        );
    }
}

#[tokio::test]
async fn fixed_specifications_stay() {
    let server = server().await;
    for (path, object, change, field) in [
        (
            "/apis/storage.k8s.io/v1/volumeattributesclasses",
            json!({"driverName": "d", "parameters": {"a": "b"}}),
            json!({"parameters": {"a": "c"}}),
            "parameters",
        ),
        (
            "/apis/networking.k8s.io/v1/servicecidrs",
            json!({"spec": {"cidrs": ["10.9.0.0/24"]}}),
            json!({"spec": {"cidrs": ["10.8.0.0/24"]}}),
            "spec.cidrs[0]",
        ),
    ] {
        let mut object = object;
        object["metadata"]["name"] = "fixed".into();
        post(&server, path, object).await.is_done();
        let answer = merge(&server, &format!("{path}/fixed"), change).await;
        assert_eq!(
            (answer.code, &answer.body["details"]["causes"][0]["field"]),
            (422, &field.into()),
            "{}",
            answer.body
        );
    }
    let addresses = "/apis/networking.k8s.io/v1/ipaddresses";
    let parent = json!({"resource": "services", "namespace": "n", "name": "s"});
    post(
        &server,
        addresses,
        json!({"metadata": {"name": "192.168.1.1"}, "spec": {"parentRef": parent}}),
    )
    .await
    .is_done();
    let change = json!({"spec": {"parentRef": {"name": "t"}}});
    let answer = merge(&server, &format!("{addresses}/192.168.1.1"), change).await;
    answer.is_refused(422, "Invalid value: {\"Group\":\"\",\"Resource\":\"services\",\"Namespace\":\"n\",\"Name\":\"t\"}: field is immutable");
}

const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";

/// Returns a slice with one device.
fn slice(device: &Value) -> Value {
    let spec = json!({"driver": "d.example.com", "nodeName": "n", "devices": [device],
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}});
    json!({"metadata": {"name": "s"}, "spec": spec})
}

#[tokio::test]
async fn times_are_filled_in() {
    let server = server().await;
    let taint = json!({"key": "k", "effect": "NoSchedule"});
    let slice = post(&server, SLICES, slice(&json!({"name": "d", "taints": [taint]}))).await;
    slice.is_done();
    assert!(slice.body["spec"]["devices"][0]["taints"][0]["timeAdded"].is_string());
}

#[tokio::test]
async fn requests_that_cannot_be_read_say_why() {
    let server = server().await;
    post(&server, CONFIG_MAPS, json!({"metadata": {"name": "a"}}))
        .await
        .is_done();
    let path = format!("{CONFIG_MAPS}/a");
    let refused = send(
        &server,
        http::Method::PATCH,
        &path,
        "application/json-patch+json",
        &json!(["x"]),
    )
    .await;
    refused.is_refused(
        400,
        "error decoding patch: json: cannot unmarshal string into Go value of type handlers.jsonPatchOp",
    );
    let binding = json!({"target": {"kind": "Node", "name": "n"}});
    post(&server, "/api/v1/namespaces/default/bindings", binding)
        .await
        .is_refused(400, "Name parameter required.");
    let list = get(
        &server,
        &format!("{CONFIG_MAPS}?fieldSelector=a%3Db&resourceVersionMatch=Exact"),
    )
    .await;
    assert_eq!(list.code, 422, "{}", list.body);
    assert_eq!(
        get(
            &server,
            &format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Da,%3D")
        )
        .await
        .code,
        200
    );
}

#[tokio::test]
async fn unknown_fields_are_not_duplicates() {
    let server = server().await;
    let body = r#"{"metadata": {"name": "a", "nope": 1, "nope": 2}, "data": {"a": "1", "a": "2"}}"#;
    let request = http::Request::post(format!("{CONFIG_MAPS}?fieldValidation=Strict"))
        .header("content-type", "application/json")
        .body(http_body_util::Full::new(bytes::Bytes::from(body)))
        .unwrap();
    let response = tower::ServiceExt::oneshot(server.clone(), request).await.unwrap();
    let bytes = http_body_util::BodyExt::collect(response.into_body())
        .await
        .unwrap()
        .to_bytes();
    let status: Value = serde_json::from_slice(&bytes).unwrap();
    let message = status["message"].as_str().unwrap();
    assert!(
        message.ends_with(r#"unknown field "metadata.nope", duplicate field "data.a""#),
        "{message}"
    );
}

#[tokio::test]
async fn an_autoscaler_has_no_negative_status() {
    let server = server().await;
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    post(
        &server,
        path,
        json!({"metadata": {"name": "a"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3}}),
    )
    .await
    .is_done();
    let status = json!({"status": {"currentReplicas": 1, "desiredReplicas": -1}});
    let answer = merge(&server, &format!("{path}/a/status"), status).await;
    answer.is_refused(
        422,
        "status.desiredReplicas: Invalid value: -1: must be greater than or equal to 0",
    );
}

#[tokio::test]
async fn a_rejection_names_an_object_without_a_name() {
    let server = ApiServer::builder().build().unwrap();
    post(&server, "/api/v1/namespaces", json!({"metadata": {"name": "n"}}))
        .await
        .is_done();
    for (metadata, name) in [
        (json!({}), "Unknown"),
        (json!({"generateName": "a-"}), "a-"),
        (json!({"name": "b", "generateName": "a-"}), "b"),
    ] {
        let pod = json!({"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let refused = post(&server, "/api/v1/namespaces/n/pods", pod).await;
        let said = format!(
            "pods {name:?} is forbidden: error looking up service account n/default: serviceaccount \"default\" not found"
        );
        assert_eq!((refused.code, refused.message()), (403, said.as_str()));
    }
}

#[tokio::test]
async fn the_address_of_a_webhook_is_parsed_as_go_does() {
    let server = server().await;
    let webhooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let form = "desired format: https://host[/path]";
    let required = "webhooks[0].clientConfig.url: Required value: url must be a valid URL: parse";
    let invalid = "webhooks[0].clientConfig.url: Invalid value:";
    for (url, said) in [
        (
            "https://a:b",
            format!("{required} \"https://a:b\": invalid port \":b\" after host; {form}"),
        ),
        (
            "https://[::1",
            format!("{required} \"https://[::1\": missing ']' in host; {form}"),
        ),
        (
            "https://a/%zz",
            format!("{required} \"https://a/%zz\": invalid URL escape \"%zz\"; {form}"),
        ),
        (
            "https:a",
            format!("{invalid} \"\": host must be specified; {form}"),
        ),
        (
            "//a",
            format!("{invalid} \"\": 'https' is the only allowed URL scheme; {form}"),
        ),
    ] {
        let webhook = json!({"name": "a.b.c", "clientConfig": {"url": url}, "sideEffects": "None", "admissionReviewVersions": ["v1"]});
        let refused = post(
            &server,
            webhooks,
            json!({"metadata": {"name": "w"}, "webhooks": [webhook]}),
        )
        .await;
        assert!(
            refused.message().ends_with(&format!("\"w\" is invalid: {said}")),
            "{}",
            refused.message()
        );
    }
    let service = json!({"namespace": "n", "name": "s", "path": "é"});
    let webhook = json!({"name": "a.b.c", "clientConfig": {"service": service}, "sideEffects": "None", "admissionReviewVersions": ["v1"]});
    let refused = post(
        &server,
        webhooks,
        json!({"metadata": {"name": "w"}, "webhooks": [webhook]}),
    )
    .await;
    assert!(
        refused
            .message()
            .contains("\"é\": segment[0]: a lowercase RFC 1123"),
        "{}",
        refused.message()
    );
}

#[tokio::test]
async fn addresses_are_parsed_with_leading_zeros() {
    let server = server().await;
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let two = "should be a domain with at least two segments separated by dots";
    for (kind, address, said) in [
        (
            "IPv4",
            "::ffff:01.2.3.4",
            "[0]: Invalid value: \"::ffff:01.2.3.4\": must not have leading 0s",
        ),
        (
            "IPv4",
            "::FFFF",
            ": Invalid value: \"::FFFF\": must be an IPv4 address",
        ),
        (
            "IPv6",
            "::FFFF",
            "[0]: Invalid value: \"::FFFF\": must be in canonical form (\"::ffff\")",
        ),
        ("FQDN", "", "[0]: Required value"),
        ("FQDN", "a.", &format!("[0]: Invalid value: \"a\": {two}")),
        ("FQDN", "a.b.", ""),
    ] {
        let slice = json!({"metadata": {"name": "e"}, "addressType": kind, "ports": [],
            "endpoints": [{"addresses": [address]}]});
        let answer = post(&server, &format!("{slices}?dryRun=All"), slice).await;
        match said {
            "" => assert_eq!(answer.code, 201, "{}", answer.body),
            said => answer.is_refused(
                422,
                &format!("EndpointSlice.discovery.k8s.io \"e\" is invalid: endpoints[0].addresses{said}"),
            ),
        }
    }
    let ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let backend = json!({"service": {"name": "s", "port": {"number": 1}}});
    let ingress = json!({"metadata": {"name": "i"}, "spec": {"rules": [{"host": "01.2.3.4"}], "defaultBackend": backend}});
    post(&server, ingresses, ingress).await.is_refused(
        422,
        "Ingress.networking.k8s.io \"i\" is invalid: spec.rules[0].host: Invalid value: \"01.2.3.4\": must be a DNS name, not an IP address",
    );
}

#[tokio::test]
async fn the_metadata_of_events_is_checked_last() {
    let server = server().await;
    let events = "/api/v1/namespaces/default/events";
    let event =
        |namespace: &str| json!({"metadata": {"name": "A B"}, "involvedObject": {"namespace": namespace}});
    post(&server, events, event("other")).await.is_refused(
        422,
        "Event \"A B\" is invalid: involvedObject.namespace: Invalid value: \"other\": does not match event.namespace",
    );
    post(&server, events, event("default")).await.is_done();
    let events = "/apis/events.k8s.io/v1/namespaces/default/events";
    let event = json!({"metadata": {}, "regarding": {"namespace": "other"}, "type": "x"});
    post(&server, events, event).await.is_refused(
        422,
        "Event \"\" is invalid: [involvedObject.namespace: Invalid value: \"other\": does not match event.namespace, metadata.name: Required value: name or generateName is required, eventTime: Required value, type: Invalid value: \"\": has invalid value: x]",
    );
}

#[tokio::test]
async fn numbers_in_errors_are_those_of_go() {
    let server = server().await;
    let number = |rule: Value| {
        let mut schema = json!({"type": "number"});
        schema
            .as_object_mut()
            .unwrap()
            .extend(rule.as_object().unwrap().clone());
        schema
    };
    let version = json!({"name": "v1", "served": true, "storage": true,
    "subresources": {"scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
        "max": number(json!({"maximum": 10_000_000})),
        "far": number(json!({"maximum": 1e20})),
        "fine": number(json!({"multipleOf": 0.00001})),
        "coarse": number(json!({"multipleOf": 1e20})),
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "status": {"x-kubernetes-preserve-unknown-fields": true},
    }}}});
    let crd = json!({"metadata": {"name": "meters.example.com"}, "spec": {"group": "example.com",
        "scope": "Namespaced", "versions": [version], "names": {"plural": "meters", "kind": "Meter"}}});
    post(
        &server,
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        crd,
    )
    .await
    .is_done();
    let meters = "/apis/example.com/v1/namespaces/default/meters?dryRun=All";
    for (field, value, said) in [
        (
            "max",
            json!(12345678.5),
            "max: Invalid value: 1.23456785e+07: max in body should be less than or equal to 1e+07",
        ),
        (
            "far",
            json!(5),
            "far: Invalid value: 5: far in body should be less than or equal to -9223372036854775808",
        ),
        ("fine", json!(0.3), ""),
        (
            "coarse",
            json!(0.3),
            "coarse: Invalid value: 0.3: coarse in body should be a multiple of 1e+20",
        ),
        (
            "status",
            json!(100_000_000.5),
            ".status.n: Invalid value: 0: .status.n accessor error: 1.000000005e+08 is of the type float64, expected map[string]interface{}",
        ),
    ] {
        let mut meter = json!({"apiVersion": "example.com/v1", "kind": "Meter", "metadata": {"name": "a"}});
        meter[field] = value;
        let answer = post(&server, meters, meter).await;
        match said {
            "" => assert_eq!(answer.code, 201, "{}", answer.body),
            said => answer.is_refused(422, &format!("Meter.example.com \"a\" is invalid: {said}")),
        }
    }
    let ranges = "/api/v1/namespaces/default/limitranges?dryRun=All";
    let range = |limit: Value| json!({"metadata": {"name": "l"}, "spec": {"limits": [limit]}});
    let huge = json!({"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "10m"}, "maxLimitRequestRatio": {"cpu": "10E"}});
    assert_eq!(post(&server, ranges, range(huge)).await.code, 201);
    let huge = json!({"type": "Container", "max": {"cpu": "10E"}, "min": {"cpu": "10m"}, "maxLimitRequestRatio": {"cpu": "20"}});
    post(&server, ranges, range(huge)).await.is_refused(
        422,
        "LimitRange \"l\" is invalid: spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"20\": ratio 20 is greater than max/min = 0.000000",
    );
}

#[tokio::test]
async fn a_strategy_of_a_given_type_has_no_default_rolling_update() {
    let server = server().await;
    let create = async |strategy: Value| {
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template, "updateStrategy": strategy});
        let set = json!({"metadata": {"name": "s"}, "spec": spec});
        post(
            &server,
            "/apis/apps/v1/namespaces/default/statefulsets?dryRun=All",
            set,
        )
        .await
    };
    let partition = json!({"partition": 0});
    for (given, rolling) in [
        (json!(null), partition.clone()),
        (json!({}), partition.clone()),
        (json!({"type": "RollingUpdate"}), json!(null)),
        (json!({"type": "RollingUpdate", "rollingUpdate": {}}), partition),
        (json!({"type": "OnDelete"}), json!(null)),
    ] {
        let created = create(given.clone()).await;
        created.is_done();
        assert_eq!(
            created.body["spec"]["updateStrategy"]["rollingUpdate"], rolling,
            "{given}"
        );
    }
    create(json!({"type": "OnDelete", "rollingUpdate": {}})).await.is_refused(
        422,
        "Invalid value: {\"Partition\":0,\"MaxUnavailable\":null}: only allowed for updateStrategy 'RollingUpdate'",
    );
}

#[tokio::test]
async fn a_job_without_rules_of_its_failure_policy_has_none() {
    let server = server().await;
    let template = json!({"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}});
    let job =
        json!({"metadata": {"name": "j"}, "spec": {"podFailurePolicy": {"rules": []}, "template": template}});
    let created = post(&server, "/apis/batch/v1/namespaces/default/jobs", job).await;
    created.is_done();
    assert_eq!(created.body["spec"]["podFailurePolicy"], json!({"rules": null}));
}

#[tokio::test]
async fn policies_of_device_capacities_are_checked() {
    let server = server().await;
    let create = async |policy: Value| {
        let capacity = json!({"c": {"value": "10", "requestPolicy": policy}});
        let device = json!({"name": "d", "allowMultipleAllocations": true, "capacity": capacity});
        post(&server, &format!("{SLICES}?dryRun=All"), slice(&device)).await
    };
    let eleven: Vec<String> = (0..11).map(|value| value.to_string()).collect();
    for (policy, errors) in [
        (json!({"default": "50"}), &[][..]),
        (json!({"default": "2", "validValues": ["1", "2"]}), &[]),
        (
            json!({"default": "5", "validRange": {"min": "2", "max": "8", "step": "3"}}),
            &[],
        ),
        (
            json!({"validValues": ["1"], "validRange": {}}),
            &[
                "Forbidden: exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time",
            ],
        ),
        (
            json!({"validValues": ["1"]}),
            &["default: Required value: required when validValues is defined"],
        ),
        (
            json!({"validRange": {}}),
            &["default: Required value: required when validRange is defined"],
        ),
        (
            json!({"default": "1", "validRange": {}}),
            &["validRange.min: Required value: required when validRange is defined"],
        ),
        (
            json!({"default": "7", "validValues": ["1", "20", "3", "3"]}),
            &[
                "validValues[2]: Invalid value: \"3\": values must be sorted in ascending order",
                "validValues[1]: Invalid value: \"20\": option is larger than capacity value: 10",
                "validValues[3]: Duplicate value: \"3\"",
                "validValues: Invalid value: \"7\": default value is not valid according to the requestPolicy",
            ],
        ),
        (
            json!({"default": "1", "validValues": eleven}),
            &[
                "validValues: Too many: 11: must have at most 10 items",
                "validValues: Invalid value: \"1\": default value is not valid according to the requestPolicy",
            ],
        ),
        (
            json!({"default": "6", "validRange": {"min": "12", "max": "11", "step": "5"}}),
            &[
                "validRange.min: Invalid value: \"12\": min is larger than capacity value: 10",
                "validRange.min: Invalid value: \"6\": default is less than min: 12",
                "validRange.max: Invalid value: \"12\": min is larger than max: 11",
                "validRange.max: Invalid value: \"11\": max is larger than capacity value: 10",
                "validRange.step: Invalid value: \"5\": one step 17 is larger than capacity value: 10",
                "validRange.step: Invalid value: \"6\": value is not a multiple of a given step (5) from (12)",
                "validRange.step: Invalid value: \"11\": value is not a multiple of a given step (5) from (12)",
            ],
        ),
        (
            json!({"default": "13", "validRange": {"min": "1", "max": "12"}}),
            &[
                "validRange.max: Invalid value: \"12\": max is larger than capacity value: 10",
                "validRange.max: Invalid value: \"13\": default is more than max: 12",
            ],
        ),
    ] {
        let created = create(policy.clone()).await;
        if errors.is_empty() {
            created.is_done();
            continue;
        }
        assert_eq!(created.code, 422, "{policy}");
        let message = created.body["message"].as_str().unwrap();
        for error in errors {
            assert!(message.contains(error), "{message}");
        }
        let causes = created.body["details"]["causes"].as_array().unwrap();
        assert_eq!(causes.len(), errors.len(), "{message}");
    }
    // The default is always written.
    let created = create(json!({})).await;
    let capacity = &created.body["spec"]["devices"][0]["capacity"]["c"];
    assert_eq!(capacity["requestPolicy"], json!({"default": null}));
}

#[tokio::test]
async fn pointers_to_zero_values_are_kept() {
    let server = server().await;
    let exactly = json!({"deviceClassName": "c", "adminAccess": false,
        "tolerations": [{"operator": "Exists", "tolerationSeconds": 0}]});
    let claim = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}});
    let created = post(
        &server,
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
        claim,
    )
    .await;
    created.is_done();
    let exactly = &created.body["spec"]["devices"]["requests"][0]["exactly"];
    assert_eq!(exactly["adminAccess"], json!(false));
    assert_eq!(exactly["tolerations"][0]["tolerationSeconds"], json!(0));
    let source = json!({"secretName": "s", "shareName": "a", "secretNamespace": ""});
    let volume = json!({"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1"}, "accessModes": ["ReadWriteOnce"], "azureFile": source}});
    post(&server, "/api/v1/persistentvolumes", volume)
        .await
        .is_refused(422, "spec.azureFile.secretNamespace: Required value");
}

#[tokio::test]
async fn empty_lists_do_not_change_a_claim_template() {
    let server = server().await;
    let template = |metadata: Value| json!({"metadata": {"name": "t"}, "spec": {"metadata": metadata, "spec": {"devices": {}}}});
    let templates = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates";
    post(&server, templates, template(json!({}))).await.is_done();
    let change = json!({"spec": {"metadata": {"ownerReferences": []}}});
    let refused = merge(&server, &format!("{templates}/t"), change).await;
    refused.is_refused(422, "spec.metadata.ownerReferences: Forbidden: cannot be set");
    assert_eq!(refused.body["details"]["causes"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn attributes_of_a_review_are_printed_with_empty_texts() {
    let server = server().await;
    let spec =
        json!({"user": "u", "resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"path": "/a"}});
    post(
        &server,
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        json!({"spec": spec}),
    )
    .await
    .is_refused(
        422,
        "Invalid value: {\"Path\":\"/a\",\"Verb\":\"\"}: cannot be specified in combination with resourceAttributes",
    );
}

#[tokio::test]
async fn names_in_volumes_of_a_pod_are_checked() {
    let server = server().await;
    let service_account = json!({"metadata": {"name": "default"}});
    post(
        &server,
        "/api/v1/namespaces/default/serviceaccounts",
        service_account,
    )
    .await
    .is_done();
    let create = async |source: Value| {
        let mut volume = source;
        volume["name"] = "v".into();
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": [volume]}});
        post(&server, "/api/v1/namespaces/default/pods?dryRun=All", pod).await
    };
    let claim = |metadata: Value| {
        let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}});
        json!({"ephemeral": {"volumeClaimTemplate": {"metadata": metadata, "spec": spec}}})
    };
    create(claim(json!({"labels": {"a": "b"}}))).await.is_done();
    let path = "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata";
    for field in ["name", "generateName", "namespace", "resourceVersion"] {
        let why = format!("{path}.{field}: Forbidden: cannot be set");
        create(claim(json!({field: "x"}))).await.is_refused(422, &why);
    }
    let why = format!("{path}.deletionGracePeriodSeconds: Forbidden: cannot be set");
    create(claim(json!({"deletionGracePeriodSeconds": 0})))
        .await
        .is_refused(422, &why);
    let refused = create(claim(json!({"labels": {"a": "b c"}}))).await;
    assert_eq!(
        refused.body["details"]["causes"][0]["field"],
        format!("{path}.labels")
    );
    let refused = create(json!({"csi": {"driver": "d", "nodePublishSecretRef": {"name": "A b"}}})).await;
    assert_eq!(refused.code, 422);
    assert_eq!(
        refused.body["details"]["causes"][0]["field"],
        "spec.volumes[0].csi.name"
    );
}

#[tokio::test]
async fn names_and_sizes_are_checked_as_in_a_real_server() {
    let server = server().await;
    let create = async |path: &str, object: Value| {
        let mut object = object;
        object["metadata"] = json!({"name": "a"});
        post(&server, &format!("{path}?dryRun=All"), object).await
    };
    let classes = "/apis/networking.k8s.io/v1/ingressclasses";
    let class = |controller: &str| json!({"spec": {"controller": controller}});
    create(classes, class("example.com/a/b")).await.is_done();
    for (controller, why) in [
        ("/b", "must be a domain-prefixed path (such as \"acme.io/foo\")"),
        (
            "a.b/c d",
            "Invalid value: \"c d\": Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
        ),
        (
            &format!("a.b/{}", "x".repeat(300)),
            "Too long: may not be more than 250 bytes",
        ),
    ] {
        create(classes, class(controller)).await.is_refused(422, why);
    }
    let ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let backend = json!({"service": {"name": "s", "port": {"number": 1}}});
    let path = json!({"path": "a//b", "pathType": "Exact", "backend": backend});
    let refused = create(
        ingresses,
        json!({"spec": {"rules": [{"http": {"paths": [path]}}]}}),
    )
    .await;
    assert_eq!(refused.code, 422);
    assert_eq!(refused.body["details"]["causes"].as_array().unwrap().len(), 2);
    let scalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let described = json!({"kind": "Ingress", "name": "i", "apiVersion": "a/b/c"});
    let metric = json!({"type": "Object", "object": {"describedObject": described, "metric": {"name": "r"},
        "target": {"type": "Value", "value": "2k"}}});
    let target = json!({"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"});
    let spec = json!({"maxReplicas": 1, "scaleTargetRef": target, "metrics": [metric]});
    create(scalers, json!({"spec": spec})).await.is_refused(
        422,
        "Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
    );
    let capacity = json!({"storageClassName": "c", "maximumVolumeSize": "-1"});
    create(
        "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities",
        capacity,
    )
    .await
    .is_done();
    for (length, code) in [(256, 201), (257, 422)] {
        let driver = json!({"name": "d", "nodeID": "x".repeat(length), "topologyKeys": []});
        let node = create(
            "/apis/storage.k8s.io/v1/csinodes",
            json!({"spec": {"drivers": [driver]}}),
        )
        .await;
        assert_eq!(node.code, code, "{length}");
    }
    let refused = create(
        "/apis/storage.k8s.io/v1/storageclasses",
        json!({"provisioner": "Foo/b c"}),
    )
    .await;
    let message = refused.body["message"].as_str().unwrap();
    assert!(message.contains("Invalid value: \"foo/b c\": "), "{message}");
    let request = json!({"name": "r", "exactly": {"deviceClassName": "c"}});
    let devices = json!({"requests": [request], "constraints": [{"matchAttribute": "a/../b"}]});
    create(
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
        json!({"spec": {"devices": devices}}),
    )
    .await
    .is_done();
}

#[tokio::test]
async fn the_status_of_a_claim_needs_permission_for_admin_access() {
    let server = server().await;
    let claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
    let request = json!({"name": "r", "exactly": {"deviceClassName": "c"}});
    let claim = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}});
    post(&server, claims, claim).await.is_done();
    let allocate = async |changes: Value| {
        let mut result = json!({"request": "r", "driver": "d.example.com", "pool": "p", "device": "d"});
        result
            .as_object_mut()
            .unwrap()
            .extend(changes.as_object().unwrap().clone());
        let change = json!({"status": {"allocation": {"devices": {"results": [result]}}}});
        merge(&server, &format!("{claims}/c/status?dryRun=All"), change).await
    };
    let path = "status.allocation.devices.results[0]";
    let why = format!(
        "{path}.adminAccess: Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace"
    );
    allocate(json!({"adminAccess": true})).await.is_refused(422, &why);
    let refused = allocate(json!({"shareID": ""})).await;
    assert_eq!(
        refused.body["details"]["causes"][0]["field"],
        format!("{path}.shareID")
    );
    let label = json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}});
    merge(&server, "/api/v1/namespaces/default", label)
        .await
        .is_done();
    allocate(json!({"adminAccess": true})).await.is_done();
    let device = json!({"driver": "d.example.com", "pool": "p", "device": "d",
        "networkData": {"ips": ["10.0.0.1/24", "10.0.0.1/24"]}});
    let result = json!({"request": "r", "driver": "d.example.com", "pool": "p", "device": "d"});
    let status = json!({"allocation": {"devices": {"results": [result]}}, "devices": [device]});
    merge(&server, &format!("{claims}/c/status"), json!({"status": status}))
        .await
        .is_refused(
            422,
            "status.devices[0].networkData.ips[1]: Duplicate value: \"10.0.0.1/24\"",
        );
}

#[tokio::test]
async fn null_values_are_decoded_as_in_go() {
    let server = server().await;
    let config_map = json!({"metadata": {"name": "c"}, "binaryData": {"b": null}});
    let created = post(&server, &format!("{CONFIG_MAPS}?dryRun=All"), config_map).await;
    created.is_done();
    assert_eq!(created.body["binaryData"], json!({"b": ""}));
    let secret =
        json!({"metadata": {"name": "s"}, "type": "kubernetes.io/dockercfg", "data": {".dockercfg": null}});
    post(&server, "/api/v1/namespaces/default/secrets", secret)
        .await
        .is_refused(422, "unexpected end of JSON input");
    let version = json!({"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "items": null}}});
    let spec = json!({"group": "example.com", "scope": "Cluster", "names": {"plural": "as", "kind": "A"}, "versions": [version]});
    let definition = json!({"metadata": {"name": "as.example.com"}, "spec": spec});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let created = post(&server, definitions, definition).await;
    created.is_done();
    let schema = &created.body["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(schema, &json!({"type": "object"}));
    // Lists of values are a feature that is off.
    let device = json!({"name": "d", "attributes": {"a": {"int": 1, "ints": [1]}}});
    let created = post(&server, SLICES, slice(&device)).await;
    created.is_done();
    assert_eq!(
        created.body["spec"]["devices"][0]["attributes"],
        json!({"a": {"int": 1}})
    );
}
