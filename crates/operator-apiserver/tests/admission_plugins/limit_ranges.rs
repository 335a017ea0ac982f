//! Tests of LimitRanger.

use operator_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::asking::post;
use crate::{HERE, pod, server};

async fn limit(server: &ApiServer, limits: Value) {
    let made = json!({"metadata": {"name": "l"}, "spec": {"limits": limits}});
    post(server, &format!("{HERE}/limitranges"), made).await.is_done();
}

#[tokio::test]
async fn containers_get_defaults_of_limit_ranges_and_an_annotation() {
    let server = server().await;
    let defaults = json!({"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "100m"}});
    limit(&server, json!([defaults])).await;
    let mut made = pod("a", &json!({"limits": {"memory": "64Mi"}}));
    made["spec"]["initContainers"] = json!([{"name": "i", "image": "i"}]);
    let made = post(&server, &format!("{HERE}/pods"), made).await.body;
    let resources = &made["spec"]["containers"][0]["resources"];
    assert_eq!(
        *resources,
        json!({"limits": {"cpu": "1", "memory": "64Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}})
    );
    assert_eq!(
        made["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c; cpu, memory request for init container i; cpu, memory limit for init container i"
    );
    assert_eq!(made["status"]["qosClass"], "Burstable");
}

#[tokio::test]
async fn pods_and_claims_stay_within_the_bounds() {
    let server = server().await;
    limit(
        &server,
        json!([
            {"type": "Container", "min": {"cpu": "100m"}, "max": {"memory": "1Gi"}, "maxLimitRequestRatio": {"cpu": "2"}},
            {"type": "Pod", "max": {"cpu": "3"}},
            {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}},
        ]),
    )
    .await;
    let pods = format!("{HERE}/pods");
    let cases = [
        (
            json!({"requests": {"cpu": "50m"}, "limits": {"cpu": "50m", "memory": "2Gi"}}),
            "[minimum cpu usage per Container is 100m, but request is 50m, maximum memory usage per Container is 1Gi, but limit is 2Gi]",
        ),
        (
            json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2500m", "memory": "1Gi"}}),
            "pods \"a\" is forbidden: cpu max limit to request ratio per Container is 2, but provided ratio is 2.500000",
        ),
        (
            json!({"requests": {"cpu": "2"}, "limits": {"cpu": "4", "memory": "1Gi"}}),
            "pods \"a\" is forbidden: maximum cpu usage per Pod is 3, but limit is 4",
        ),
    ];
    for (resources, why) in cases {
        post(&server, &pods, pod("a", &resources))
            .await
            .is_refused(403, why);
    }
    let fits = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}});
    post(&server, &pods, pod("a", &fits)).await.is_done();
    let claims = format!("{HERE}/persistentvolumeclaims");
    let claim = |size: &str| json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}});
    post(&server, &claims, claim("3Gi")).await.is_refused(
        403,
        "persistentvolumeclaims \"c\" is forbidden: maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi",
    );
    post(&server, &claims, claim("1Mi")).await.is_refused(
        403,
        "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi",
    );
    post(&server, &claims, claim("1Gi")).await.is_done();
}

#[tokio::test]
async fn limit_ranges_are_validated() {
    let server = server().await;
    let cases = [
        (
            json!({"type": "Container", "maxLimitRequestRatio": {"pods": "1"}}),
            "spec.limits[0].maxLimitRequestRatio[pods]: Invalid value: \"pods\": must be a standard resource for containers",
        ),
        (
            json!({"type": "Container", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}}),
            "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"3\": ratio 3 is greater than max/min = 2.000000",
        ),
        (
            json!({"type": "Container", "default": {"example.com/gpu": "2"}, "defaultRequest": {"example.com/gpu": "1"}}),
            "spec.limits[0].defaultRequest[example.com/gpu]: Invalid value: \"1\": default value 2 must equal to defaultRequest value 1 in example.com/gpu",
        ),
    ];
    for (limit, why) in cases {
        let made = json!({"metadata": {"name": "bad"}, "spec": {"limits": [limit]}});
        let refused = post(&server, &format!("{HERE}/limitranges"), made).await;
        refused.is_refused(422, &format!("LimitRange \"bad\" is invalid: {why}"));
    }
}
