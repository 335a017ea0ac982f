//! Applies objects in dependency order.

use std::collections::BTreeSet;
use std::time::Duration;

use operator_manifests::{diff, render};
use serde_json::{Value, json};

use super::ready::{self, Readiness};
use super::{DeployError, LABEL};
use crate::failure::Failure;
use crate::process::api::ApplyOptions;
use crate::process::objects::{Change, Effect, Objects, Place, name_of, plain, text};
use crate::report::Report;

/// The time limit for a new kind to be served.
const ESTABLISHED: Duration = Duration::from_secs(30);

pub(super) struct Rollout<'a> {
    objects: Objects,
    report: &'a Report,
    project: String,
    how: ApplyOptions,
    diff: bool,
}

// === impl Rollout ===

impl<'a> Rollout<'a> {
    pub(super) fn new(
        objects: Objects,
        report: &'a Report,
        project: &str,
        how: ApplyOptions,
        diff: bool,
    ) -> Self {
        Self {
            objects,
            report,
            project: project.to_owned(),
            how,
            diff,
        }
    }

    /// Applies all objects. If a kind is not served, an error is returned before anything is written.
    pub(super) async fn apply(&mut self, objects: &[Value]) -> Result<(), Failure> {
        if let Some(error) = self.not_served(objects).await? {
            return Err(error.into());
        }
        let mut new_namespaces = BTreeSet::new();
        for object in objects {
            let object = self.labelled(object).await?;
            let in_new = new_namespaces.contains(text(&object, "/metadata/namespace"));
            let change = self.apply_one(&object, in_new).await?;
            if self.how.dry_run && change.effect == Effect::Created && text(&object, "/kind") == "Namespace" {
                new_namespaces.insert(text(&object, "/metadata/name").to_owned());
            }
            self.tell(&object, &change);
        }
        Ok(())
    }

    /// Returns an error if the cluster does not serve the kind of an object, and no object defines that kind.
    pub(super) async fn not_served(&mut self, objects: &[Value]) -> Result<Option<DeployError>, Failure> {
        let brought: BTreeSet<(String, String)> = objects.iter().flat_map(kinds_of_definition).collect();
        for object in objects {
            let kind = (group_of(object).to_owned(), text(object, "/kind").to_owned());
            if !brought.contains(&kind) && self.objects.place(object).await?.is_none() {
                return Ok(Some(not_served(object)));
            }
        }
        Ok(None)
    }

    async fn apply_one(&mut self, object: &Value, in_new_namespace: bool) -> Result<Change, Failure> {
        let place = self.objects.place(object).await?;
        let unasked = || Change {
            effect: Effect::Created,
            before: None,
            after: object.clone(),
        };
        match place {
            // The server cannot validate more, because the namespace or the kind is created only in a real run.
            _ if self.how.dry_run && (in_new_namespace || place.is_none()) => Ok(unasked()),
            None => Err(not_served(object).into()),
            Some(place) => {
                let change = self.objects.apply(&place, object, self.how).await?;
                if text(object, "/kind") == "CustomResourceDefinition" && !self.how.dry_run {
                    self.established(&place).await?;
                }
                Ok(change)
            }
        }
    }

    async fn established(&self, place: &Place) -> Result<(), Failure> {
        let seen = self.objects.api().follow(&place.collection, &place.name, |crd| {
            let conditions = crd
                .and_then(|crd| crd.pointer("/status/conditions"))
                .and_then(Value::as_array);
            let mut conditions = conditions.into_iter().flatten();
            conditions
                .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
                .then_some(())
        });
        match tokio::time::timeout(ESTABLISHED, seen).await {
            Ok(seen) => Ok(seen?),
            Err(_) => Err(DeployError::Timeout {
                what: format!("{} is not served", place.name),
                seconds: ESTABLISHED.as_secs(),
                state: "its condition Established is not True".to_owned(),
                hint: "check its conditions with `kubectl describe crd`",
            }
            .into()),
        }
    }

    /// Returns the object with the label of the project. A namespace gets the label only if this deployment creates it.
    /// It is then deleted with the deployment.
    async fn labelled(&mut self, object: &Value) -> Result<Value, Failure> {
        let mut object = object.clone();
        let is_ours = match (text(&object, "/kind"), self.objects.place(&object).await?) {
            ("Namespace", Some(place)) => {
                let there = self.objects.api().get(&place.path()).await?;
                there.is_none_or(|there| there["metadata"]["labels"][LABEL] == self.project.as_str())
            }
            _ => true,
        };
        if is_ours {
            let labels = &mut object["metadata"]["labels"];
            if !labels.is_object() {
                *labels = json!({});
            }
            labels[LABEL] = json!(self.project);
        }
        Ok(object)
    }

    fn tell(&self, object: &Value, change: &Change) {
        if self.diff {
            let yaml = |object: &Value| render::yaml(&plain(object));
            let before = change.before.as_ref().map(yaml).unwrap_or_default();
            self.report
                .text(&diff::unified(&name_of(object), &before, &yaml(&change.after)));
            return;
        }
        let dry = if self.how.dry_run { " (dry run)" } else { "" };
        self.report
            .line(&format!("{} {}{dry}", name_of(object), change.effect.word()));
    }

    /// Waits until the workloads among the objects are available.
    pub(super) async fn wait(&mut self, objects: &[Value], timeout: Duration) -> Result<(), Failure> {
        if self.how.dry_run || timeout.is_zero() {
            return Ok(());
        }
        let deadline = tokio::time::Instant::now() + timeout;
        for object in objects {
            if !ready::is_workload(object) {
                continue;
            }
            let Some(place) = self.objects.place(object).await? else {
                continue;
            };
            self.wait_for(object, &place, deadline, timeout).await?;
        }
        Ok(())
    }

    async fn wait_for(
        &self,
        object: &Value,
        place: &Place,
        deadline: tokio::time::Instant,
        timeout: Duration,
    ) -> Result<(), Failure> {
        let name = name_of(object);
        let mut state = "it does not exist".to_owned();
        let seen = self
            .objects
            .api()
            .follow(&place.collection, &place.name, |there| {
                match there.map_or(
                    Readiness::Waiting("it does not exist".to_owned()),
                    ready::readiness,
                ) {
                    Readiness::Ready => Some(Ok(())),
                    Readiness::Failed(reason) => Some(Err(reason)),
                    Readiness::Waiting(now) => {
                        if now != state {
                            self.report.progress(&format!("waiting for {name}: {now}"));
                            state = now;
                        }
                        None
                    }
                }
            });
        let outcome = tokio::time::timeout_at(deadline, seen).await;
        match outcome {
            Ok(outcome) => match outcome? {
                Ok(()) => {
                    self.report.line(&format!("{name} is available"));
                    Ok(())
                }
                Err(reason) => {
                    let pods = ready::pods_of(self.objects.api(), object).await;
                    Err(DeployError::Failed(name, join(&reason, &pods)).into())
                }
            },
            Err(_) => {
                let pods = ready::pods_of(self.objects.api(), object).await;
                Err(DeployError::Timeout {
                    what: format!("{name} is not available"),
                    seconds: timeout.as_secs(),
                    state: join(&state, &pods),
                    hint: "check its pods with `kubectl describe`, or allow more time with `--timeout`",
                }
                .into())
            }
        }
    }
}

fn join(state: &str, pods: &str) -> String {
    if pods.is_empty() {
        state.to_owned()
    } else {
        format!("{state}; {pods}")
    }
}

fn not_served(object: &Value) -> DeployError {
    DeployError::NotServed {
        api_version: text(object, "/apiVersion").to_owned(),
        kind: text(object, "/kind").to_owned(),
    }
}

fn group_of(object: &Value) -> &str {
    text(object, "/apiVersion")
        .split_once('/')
        .map_or("", |(group, _)| group)
}

/// Returns the kinds that a CustomResourceDefinition defines.
fn kinds_of_definition(object: &Value) -> Option<(String, String)> {
    let is_definition = text(object, "/kind") == "CustomResourceDefinition";
    is_definition.then(|| {
        (
            text(object, "/spec/group").to_owned(),
            text(object, "/spec/names/kind").to_owned(),
        )
    })
}
