//! The actions of the operator's user, with checks in the API after each step.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::QuickstartError;
use crate::failure::Failure;
use crate::process::api::{Api, ApiError};
use crate::process::operator::Operator;
use crate::report::Report;

const MEMCACHEDS: &str = "/apis/cache.example.com/v1alpha1/namespaces/default/memcacheds";
const MEMCACHED: &str = "/apis/cache.example.com/v1alpha1/namespaces/default/memcacheds/memcached-sample";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/memcached-sample";
const SELECTOR: &str = "labelSelector=app.kubernetes.io%2Finstance%3Dmemcached-sample";
const SAMPLE: &str = "config/samples/cache_v1alpha1_memcached.yaml";

/// The time limit of a step.
const PATIENCE: Duration = Duration::from_secs(60);
/// The polling interval.
const PAUSE: Duration = Duration::from_millis(20);

pub(super) struct Walk<'a> {
    api: Api,
    operator: &'a mut Operator,
    log: PathBuf,
    report: &'a Report,
}

/// A condition to wait for: its description, and a check in the API.
struct Sight<'a> {
    what: &'a str,
    path: &'a str,
    seen: &'a dyn Fn(Option<&Value>) -> bool,
}

// === impl Walk ===

impl<'a> Walk<'a> {
    pub(super) async fn new(
        kubeconfig: &Path,
        operator: &'a mut Operator,
        log: &Path,
        report: &'a Report,
    ) -> Result<Self, ApiError> {
        Ok(Self {
            api: Api::connect(kubeconfig).await?,
            operator,
            log: log.to_owned(),
            report,
        })
    }

    pub(super) async fn walk(mut self, directory: &Path) -> Result<(), Failure> {
        self.apply_sample(directory).await?;
        self.instances(3).await?;
        self.show_status().await?;
        self.scale(4).await?;
        self.instances(4).await?;
        self.refuses(json!(0), "0").await?;
        self.refuses(json!("three"), "\"three\"").await?;
        self.delete().await
    }

    async fn apply_sample(&mut self, directory: &Path) -> Result<(), Failure> {
        self.report.command(&format!("kubectl apply -f {SAMPLE}"));
        let text = std::fs::read_to_string(directory.join(SAMPLE)).unwrap_or_default();
        let sample: Value =
            serde_saphyr::from_str(&text).map_err(|error| ApiError::Refused(format!("{SAMPLE}: {error}")))?;
        self.api.create(MEMCACHEDS, &sample).await?;
        self.report
            .line("memcached.cache.example.com/memcached-sample created");
        Ok(())
    }

    /// Checks that the Deployment has its replicas, the pods run, and the status is updated.
    async fn instances(&mut self, size: i64) -> Result<(), Failure> {
        let ready = move |deployment: Option<&Value>| {
            deployment.is_some_and(|deployment| {
                let status = &deployment["status"];
                deployment["spec"]["replicas"] == size
                    && [
                        "replicas",
                        "readyReplicas",
                        "availableReplicas",
                        "updatedReplicas",
                    ]
                    .iter()
                    .all(|field| status[*field] == size)
            })
        };
        let what = format!("the Deployment to be {size}/{size}");
        self.sees(Sight {
            what: &what,
            path: DEPLOYMENT,
            seen: &ready,
        })
        .await?;
        self.report.command("kubectl get deployment memcached-sample");
        self.report.text(&self.api.table(DEPLOYMENT).await?);

        let pods = format!("/api/v1/namespaces/default/pods?{SELECTOR}");
        let running = move |list: Option<&Value>| {
            let items = list
                .and_then(|list| list["items"].as_array())
                .map(Vec::as_slice)
                .unwrap_or_default();
            let running = items
                .iter()
                .filter(|pod| pod["status"]["phase"] == "Running")
                .count();
            i64::try_from(items.len()) == Ok(size) && running == items.len()
        };
        let what = format!("{size} pods to run");
        self.sees(Sight {
            what: &what,
            path: &pods,
            seen: &running,
        })
        .await?;
        self.report
            .command("kubectl get pods -l app.kubernetes.io/instance=memcached-sample");
        self.report.text(&self.api.table(&pods).await?);

        let available = move |object: Option<&Value>| {
            object.is_some_and(|object| {
                let nodes = object["status"]["nodes"].as_array().map_or(0, Vec::len);
                i64::try_from(nodes) == Ok(size)
                    && condition(object, "Available") == "True"
                    && condition(object, "Progressing") == "False"
                    && condition(object, "Degraded") == "False"
            })
        };
        let what = format!("the status to report {size} available instances");
        self.sees(Sight {
            what: &what,
            path: MEMCACHED,
            seen: &available,
        })
        .await
    }

    async fn show_status(&mut self) -> Result<(), Failure> {
        self.report.command("kubectl get memcached memcached-sample");
        self.report.text(&self.api.table(MEMCACHED).await?);
        self.report
            .command("kubectl get memcached memcached-sample -o jsonpath={.status}");
        let object = self.api.get(MEMCACHED).await?.unwrap_or_default();
        self.report
            .text(&operator_manifests::render::yaml(&object["status"]));
        Ok(())
    }

    async fn scale(&mut self, size: i64) -> Result<(), Failure> {
        let patch = json!({"spec": {"size": size}});
        self.report.command(&patch_command(&patch));
        self.api.merge_patch(MEMCACHED, &patch).await?;
        self.report
            .line("memcached.cache.example.com/memcached-sample patched");
        Ok(())
    }

    /// Checks that the API server rejects an invalid size with a message about the field.
    async fn refuses(&mut self, size: Value, shown: &str) -> Result<(), Failure> {
        let patch = json!({"spec": {"size": size}});
        self.report.command(&patch_command(&patch));
        let size = shown.to_owned();
        match self.api.merge_patch(MEMCACHED, &patch).await {
            Err(ApiError::Refused(message)) if message.contains("spec.size") => {
                self.report.line(&message);
                Ok(())
            }
            Err(ApiError::Refused(message)) => Err(QuickstartError::Unclear { size, message }.into()),
            Err(other) => Err(other.into()),
            Ok(_) => Err(QuickstartError::Accepted(size).into()),
        }
    }

    /// Deletes the custom resource, and checks that all owned objects are deleted.
    async fn delete(&mut self) -> Result<(), Failure> {
        self.report.command("kubectl delete memcached memcached-sample");
        self.api.delete(MEMCACHED).await?;
        let gone = |object: Option<&Value>| object.is_none();
        self.sees(Sight {
            what: "the custom resource to be gone",
            path: MEMCACHED,
            seen: &gone,
        })
        .await?;
        self.report
            .line("memcached.cache.example.com \"memcached-sample\" deleted");
        let empty = |list: Option<&Value>| {
            list.is_some_and(|list| list["items"].as_array().is_none_or(Vec::is_empty))
        };
        for (what, path) in [
            (
                "the Deployment to be gone",
                "/apis/apps/v1/namespaces/default/deployments",
            ),
            (
                "the ReplicaSets to be gone",
                "/apis/apps/v1/namespaces/default/replicasets",
            ),
            ("the pods to be gone", "/api/v1/namespaces/default/pods"),
        ] {
            self.sees(Sight {
                what,
                path,
                seen: &empty,
            })
            .await?;
        }
        self.report.command("kubectl get deployments,replicasets,pods");
        self.report.line("No resources found in default namespace.");
        Ok(())
    }

    /// Waits until the condition is true in the API. Fails if the operator stops.
    async fn sees(&mut self, sight: Sight<'_>) -> Result<(), Failure> {
        let api = self.api.clone();
        let look = async {
            loop {
                if (sight.seen)(api.get(sight.path).await?.as_ref()) {
                    return Ok::<(), ApiError>(());
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        let what = sight.what.to_owned();
        let log = self.log.clone();
        tokio::select! {
            seen = look => Ok(seen?),
            status = self.operator.wait() => {
                let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
                Err(QuickstartError::OperatorEnded { what, status, log }.into())
            }
            () = tokio::time::sleep(PATIENCE) => {
                Err(QuickstartError::Timeout { what, seconds: PATIENCE.as_secs(), log }.into())
            }
        }
    }
}

fn patch_command(patch: &Value) -> String {
    format!("kubectl patch memcached memcached-sample --type merge -p '{patch}'")
}

/// Returns the status of a condition. Empty if the condition does not exist.
fn condition<'v>(object: &'v Value, type_: &str) -> &'v str {
    let conditions = object["status"]["conditions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let condition = conditions.iter().find(|condition| condition["type"] == type_);
    condition
        .and_then(|condition| condition["status"].as_str())
        .unwrap_or_default()
}
