//! Tests the steps of the tutorial: a Deployment starts on a simulated node, is scaled, updated and deleted.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of these tests fail as the tests do"
)]

use std::sync::Arc;
use std::time::Duration;

use operator_apiserver::ApiServer;
use operator_apiserver::client::{Client, DeleteOptions, EventType, Gvr, Patch};
use operator_controlplane::{ControlPlane, Delays, Options};
use serde_json::{Value, json};

const NAMESPACE: &str = "default";

struct Stage {
    client: Client,
    _control_plane: ControlPlane,
}

fn stage(options: Options) -> Stage {
    let server = ApiServer::builder().build().unwrap();
    let client = server.client();
    Stage {
        _control_plane: ControlPlane::start(&client, options),
        client,
    }
}

fn gvr(group: &str, resource: &str) -> Gvr {
    Gvr::new(group, "v1", resource)
}

fn deployment(replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]},
            },
        },
    })
}

impl Stage {
    /// Waits until the objects of a resource satisfy a condition. Prints them if that takes too long.
    async fn eventually(&self, gvr: &Gvr, wanted: impl Fn(&[Arc<Value>]) -> bool) -> Vec<Arc<Value>> {
        self.eventually_in(NAMESPACE, gvr, wanted).await
    }

    /// Like [`Stage::eventually`], in a namespace or in the cluster (`""`).
    async fn eventually_in(
        &self,
        namespace: &str,
        gvr: &Gvr,
        wanted: impl Fn(&[Arc<Value>]) -> bool,
    ) -> Vec<Arc<Value>> {
        let (revision, _) = self.client.snapshot();
        let mut watch = self.client.watch(revision);
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        loop {
            let items = self.client.list(gvr, namespace, "").await.unwrap().items;
            if wanted(&items) {
                return items;
            }
            let event = tokio::time::timeout_at(deadline, watch.next()).await;
            assert!(event.is_ok(), "not reached: {items:#?}");
        }
    }

    async fn patch(&self, patch: Value) {
        let patch = Patch::Merge(patch);
        let deployments = gvr("apps", "deployments");
        self.client
            .patch(&deployments, NAMESPACE, "web", None, patch)
            .await
            .unwrap();
    }

    async fn available(&self, replicas: i64) {
        let is_up = |items: &[Arc<Value>]| {
            let status = &items[0]["status"];
            status["availableReplicas"] == replicas
                && status["replicas"] == replicas
                && status["updatedReplicas"] == replicas
                && status["observedGeneration"] == items[0]["metadata"]["generation"]
        };
        self.eventually(&gvr("apps", "deployments"), is_up).await;
    }
}

#[tokio::test]
async fn a_deployment_starts_scales_rolls_out_and_is_deleted() {
    let stage = stage(Options::default());
    let deployments = gvr("apps", "deployments");
    stage
        .client
        .create(&deployments, NAMESPACE, deployment(3))
        .await
        .unwrap();
    stage.available(3).await;
    let pods = stage
        .client
        .list(&gvr("", "pods"), NAMESPACE, "app=web")
        .await
        .unwrap()
        .items;
    for pod in &pods {
        assert_eq!(pod["status"]["phase"], "Running");
        assert_eq!(pod["spec"]["nodeName"], "node-1");
    }
    stage.patch(json!({"spec": {"replicas": 4}})).await;
    stage.available(4).await;
    let image =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "example.com/c:2"}]}}}});
    stage.patch(image).await;
    stage.available(4).await;
    stage
        .client
        .delete(&deployments, NAMESPACE, "web", DeleteOptions::default())
        .await
        .unwrap();
    stage
        .eventually(&gvr("apps", "replicasets"), <[_]>::is_empty)
        .await;
    stage.eventually(&gvr("", "pods"), <[_]>::is_empty).await;
}

#[tokio::test]
async fn controllers_stop_creating_pods_in_a_full_cluster() {
    let stage = stage(Options {
        max_pods: 20,
        ..Options::default()
    });
    stage
        .client
        .create(
            &gvr("apps", "deployments"),
            NAMESPACE,
            deployment(i32::MAX.into()),
        )
        .await
        .unwrap();
    let is_reported = |sets: &[Arc<Value>]| {
        let conditions = sets
            .iter()
            .flat_map(|set| set["status"]["conditions"].as_array())
            .flatten();
        let mut messages = conditions.filter_map(|condition| condition["message"].as_str());
        messages.any(|message| message.starts_with("the simulated cluster is full: it has 20 pods"))
    };
    stage.eventually(&gvr("apps", "replicasets"), is_reported).await;
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {
            "completions": i32::MAX, "parallelism": i32::MAX,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "example.com/c:1"}]}},
        },
    });
    stage
        .client
        .create(&gvr("batch", "jobs"), NAMESPACE, job)
        .await
        .unwrap();
    let is_refused = |events: &[Arc<Value>]| {
        events.iter().any(|event| {
            event["reason"] == "FailedCreate"
                && event["involvedObject"]["kind"] == "Job"
                && event["message"]
                    .as_str()
                    .is_some_and(|text| text.contains("the simulated cluster is full"))
        })
    };
    stage.eventually(&gvr("", "events"), is_refused).await;
    let pods = stage.client.list(&gvr("", "pods"), NAMESPACE, "").await.unwrap();
    assert_eq!(pods.items.len(), 20);
    stage.patch(json!({"spec": {"replicas": 2}})).await;
    stage.available(2).await;
}

#[tokio::test]
async fn events_report_the_steps() {
    let stage = stage(Options {
        container_events: true,
        ..Options::default()
    });
    stage
        .client
        .create(&gvr("apps", "deployments"), NAMESPACE, deployment(1))
        .await
        .unwrap();
    let expected = [
        "ScalingReplicaSet",
        "SuccessfulCreate",
        "Scheduled",
        "Pulled",
        "Created",
        "Started",
    ];
    let has_all = |events: &[Arc<Value>]| {
        let is_told = |reason: &str| events.iter().any(|event| event["reason"] == reason);
        expected.iter().all(|reason| is_told(reason))
    };
    stage.eventually(&gvr("", "events"), has_all).await;
}

#[tokio::test]
async fn claims_of_a_stateful_set_are_bound() {
    let stage = stage(Options::default());
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "replicas": 2, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]},
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }],
        },
    });
    stage
        .client
        .create(&gvr("apps", "statefulsets"), NAMESPACE, set)
        .await
        .unwrap();
    let is_up = |sets: &[Arc<Value>]| sets[0]["status"]["availableReplicas"] == 2;
    stage.eventually(&gvr("apps", "statefulsets"), is_up).await;
    let is_bound = |claims: &[Arc<Value>]| {
        claims.len() == 2 && claims.iter().all(|claim| claim["status"]["phase"] == "Bound")
    };
    stage
        .eventually(&gvr("", "persistentvolumeclaims"), is_bound)
        .await;
}

#[tokio::test]
async fn a_job_completes_and_is_deleted() {
    let stage = stage(Options::default());
    let jobs = gvr("batch", "jobs");
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {
            "completions": 3, "parallelism": 2, "ttlSecondsAfterFinished": 1,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "example.com/c:1"}]}},
        },
    });
    stage.client.create(&jobs, NAMESPACE, job).await.unwrap();
    let is_complete = |jobs: &[Arc<Value>]| {
        jobs.iter()
            .any(|job| job["status"]["succeeded"] == 3 && job["status"]["completionTime"].is_string())
    };
    stage.eventually(&jobs, is_complete).await;
    stage.eventually(&jobs, <[_]>::is_empty).await;
    stage.eventually(&gvr("", "pods"), <[_]>::is_empty).await;
}

#[tokio::test]
async fn a_service_gets_the_endpoints_of_its_pods() {
    let stage = stage(Options::default());
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    });
    stage
        .client
        .create(&gvr("", "services"), NAMESPACE, service)
        .await
        .unwrap();
    stage
        .client
        .create(&gvr("apps", "deployments"), NAMESPACE, deployment(2))
        .await
        .unwrap();
    let has_two = |slices: &[Arc<Value>]| {
        let ready = slices
            .iter()
            .flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
        ready
            .filter(|endpoint| endpoint["conditions"]["ready"] == true)
            .count()
            == 2
    };
    stage
        .eventually(&gvr("discovery.k8s.io", "endpointslices"), has_two)
        .await;
}

#[tokio::test]
async fn a_settled_control_plane_writes_nothing() {
    let stage = stage(Options::default());
    stage
        .client
        .create(&gvr("apps", "deployments"), NAMESPACE, deployment(2))
        .await
        .unwrap();
    stage.available(2).await;
    let is_quiet = async {
        let mut last = 0;
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let (revision, _) = stage.client.snapshot();
            if revision == last {
                return;
            }
            last = revision;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), is_quiet)
        .await
        .expect("the writes never end");
}

#[tokio::test]
async fn a_namespace_takes_its_contents_with_it() {
    let stage = stage(Options::default());
    let namespaces = gvr("", "namespaces");
    let (revision, _) = stage.client.snapshot();
    let mut watch = stage.client.watch(revision);
    stage
        .client
        .create(
            &namespaces,
            "",
            json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes"]}}),
        )
        .await
        .unwrap();
    stage
        .client
        .create(&gvr("apps", "deployments"), "n", deployment(1))
        .await
        .unwrap();
    let mut is_deleted = false;
    let gone = async {
        while let Some(event) = watch.next().await {
            if event.gvr.resource == "pods" && event.object["status"]["phase"] == "Running" && !is_deleted {
                is_deleted = true;
                let options = DeleteOptions::default();
                stage.client.delete(&namespaces, "", "n", options).await.unwrap();
            }
            let is_namespace = event.gvr.resource == "namespaces" && event.object["metadata"]["name"] == "n";
            if is_namespace && event.kind == EventType::Deleted {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone)
        .await
        .expect("the namespace stays");
    let left = stage.client.snapshot().1;
    assert!(
        left.iter()
            .all(|(_, object)| object["metadata"]["namespace"] != "n"),
        "{left:#?}"
    );
}

#[tokio::test]
async fn without_controllers_only_the_rules_of_roles_are_gathered() {
    let stage = stage(Options {
        controllers: operator_controlplane::Controllers::None,
        ..Options::default()
    });
    let client = &stage.client;
    client
        .create(&gvr("apps", "deployments"), NAMESPACE, deployment(1))
        .await
        .unwrap();
    let roles = gvr("rbac.authorization.k8s.io", "clusterroles");
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    for role in [
        json!({"metadata": {"name": "part", "labels": {"gathered": "yes"}}, "rules": rules}),
        json!({"metadata": {"name": "whole"}, "rules": [],
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"gathered": "yes"}}]}}),
    ] {
        client.create(&roles, "", role).await.unwrap();
    }
    let is_gathered = |items: &[Arc<Value>]| {
        let whole = |role: &&Arc<Value>| role["metadata"]["name"] == "whole";
        items
            .iter()
            .find(whole)
            .is_some_and(|role| role["rules"] == rules)
    };
    stage.eventually_in("", &roles, is_gathered).await;
    // The Deployment already existed, so a controller would have acted by now.
    let replica_sets = client
        .list(&gvr("apps", "replicasets"), NAMESPACE, "")
        .await
        .unwrap();
    assert!(replica_sets.items.is_empty(), "{replica_sets:?}");
}

#[tokio::test]
async fn controllers_continue_from_a_checkpoint() {
    let delays = Delays {
        start: Duration::from_millis(200),
        ..Delays::default()
    };
    let options = || Options {
        delays,
        ..Options::default()
    };
    let server = ApiServer::builder().build().unwrap();
    let first = Stage {
        client: server.client(),
        _control_plane: ControlPlane::start(&server.client(), options()),
    };
    let (pods, deployments) = (gvr("", "pods"), gvr("apps", "deployments"));
    operator_controlplane::created(&first.client, &gvr("", "serviceaccounts"), NAMESPACE, "default").await;
    first
        .client
        .create(&deployments, NAMESPACE, deployment(1))
        .await
        .unwrap();
    let is_in = |pod: &Value, phase: &str| pod["status"]["phase"] == phase;
    first
        .eventually(&pods, |pods| {
            pods.iter().any(|pod| pod["status"].get("startTime").is_some())
        })
        .await;

    // The node waits to start the pod.
    let (snapshot, checkpoint) = (server.snapshot(), first._control_plane.checkpoint());
    drop(first);
    let server = ApiServer::builder().snapshot(&snapshot).build().unwrap();
    let second = Stage {
        client: server.client(),
        _control_plane: ControlPlane::start(
            &server.client(),
            Options {
                resume: Some(checkpoint),
                ..options()
            },
        ),
    };
    second
        .eventually(&pods, |pods| pods.iter().any(|pod| is_in(pod, "Running")))
        .await;
    second.patch(json!({"spec": {"replicas": 2}})).await;
    second
        .eventually(&pods, |pods| {
            pods.iter().filter(|pod| is_in(pod, "Running")).count() == 2
        })
        .await;
}
