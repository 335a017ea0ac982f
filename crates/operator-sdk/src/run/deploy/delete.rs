//! Deletes the objects of a deployment, and waits until they are gone.

use std::time::Duration;

use operator_manifests::kustomize::order;
use serde_json::Value;

use super::{DeployError, LABEL, identities, identity};
use crate::args::DeleteCrdsArgs;
use crate::failure::Failure;
use crate::process::objects::{Objects, Place, holders, name_of, served_version, text};
use crate::report::Report;
use crate::run::prompt;

/// Kinds of deployed objects. Objects of other kinds are found only if the rendered tree contains an object of the
/// kind.
const KINDS: [(&str, &str); 22] = [
    ("v1", "Namespace"),
    ("v1", "ServiceAccount"),
    ("v1", "Service"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("policy/v1", "PodDisruptionBudget"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
    (
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
    ),
    ("monitoring.coreos.com/v1", "ServiceMonitor"),
    ("monitoring.coreos.com/v1", "PrometheusRule"),
    ("cert-manager.io/v1", "Issuer"),
    ("cert-manager.io/v1", "Certificate"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
];

/// Namespaces of the cluster itself, which are never deleted.
const KEPT_NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

pub(super) struct Removal<'a> {
    pub(super) objects: Objects,
    pub(super) report: &'a Report,
    pub(super) project: String,
    pub(super) dry_run: bool,
    pub(super) timeout: Duration,
}

// === impl Removal ===

impl Removal<'_> {
    /// Returns the objects with the label of the project, except those in the namespaces of other deployments.
    async fn labelled(&mut self, rendered: &[Value]) -> Result<Vec<Value>, Failure> {
        let mut kinds: Vec<(String, String)> = KINDS
            .iter()
            .map(|(version, kind)| ((*version).to_owned(), (*kind).to_owned()))
            .collect();
        for object in rendered {
            let kind = (
                text(object, "/apiVersion").to_owned(),
                text(object, "/kind").to_owned(),
            );
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let mut found = Vec::new();
        for (api_version, kind) in &kinds {
            found.extend(
                self.objects
                    .labelled(api_version, kind, LABEL, &self.project)
                    .await?,
            );
        }
        let namespaces: Vec<&str> = rendered
            .iter()
            .map(|object| text(object, "/metadata/namespace"))
            .collect();
        found.retain(|object| {
            let namespace = text(object, "/metadata/namespace");
            namespace.is_empty() || namespaces.contains(&namespace)
        });
        Ok(found)
    }

    /// Returns the objects of an earlier deployment that are no longer in the tree. Objects whose deletion also deletes
    /// others are never included.
    pub(super) async fn left_over(&mut self, rendered: &[Value]) -> Result<Vec<Value>, Failure> {
        let there = identities(rendered);
        let mut left = self.labelled(rendered).await?;
        left.retain(|object| {
            !there.contains(&identity(object))
                && !["Namespace", "CustomResourceDefinition"].contains(&text(object, "/kind"))
        });
        order::sort_objects(&mut left);
        left.reverse();
        Ok(left)
    }

    async fn exists(&mut self, object: &Value) -> Result<bool, Failure> {
        let Some(place) = self.objects.place(object).await? else {
            return Ok(false);
        };
        Ok(self.objects.api().get(&place.path()).await?.is_some())
    }

    /// Returns the objects of the tree and all objects with the label of the project, in deletion order. Namespaces are
    /// included only if a deployment created them.
    pub(super) async fn everything(&mut self, rendered: &[Value]) -> Result<Vec<Value>, Failure> {
        let labelled = self.labelled(rendered).await?;
        let ours = identities(&labelled);
        let named: Vec<&str> = rendered
            .iter()
            .filter(|object| text(object, "/kind") == "Namespace")
            .map(|object| text(object, "/metadata/name"))
            .collect();
        let mut all: Vec<Value> = Vec::new();
        for object in rendered.iter().chain(&labelled) {
            if all.iter().any(|there| identity(there) == identity(object)) {
                continue;
            }
            if text(object, "/kind") == "Namespace" {
                let name = text(object, "/metadata/name");
                if !ours.contains(&identity(object)) || KEPT_NAMESPACES.contains(&name) {
                    let outcome = if self.exists(object).await? {
                        "is kept: it was not created by a deployment of this project"
                    } else {
                        "not found"
                    };
                    self.report.progress(&format!("{} {outcome}", name_of(object)));
                    continue;
                }
                // The namespace of another deployment of this project.
                if !named.contains(&name) {
                    continue;
                }
            }
            all.push(object.clone());
        }
        order::sort_objects(&mut all);
        all.reverse();
        Ok(all)
    }

    /// Reports the objects that are deleted with CRDs, and asks for confirmation on a terminal.
    pub(super) async fn confirmed(
        &mut self,
        definitions: &[Value],
        args: DeleteCrdsArgs,
        hint: Option<&str>,
    ) -> Result<bool, Failure> {
        let mut counts = Vec::new();
        for definition in definitions {
            let kind = text(definition, "/spec/names/kind");
            let count = match served_version(definition) {
                Some(api_version) => self.objects.all(&api_version, kind).await?.len(),
                None => 0,
            };
            if count > 0 {
                counts.push(format!("{count} {kind}"));
            }
        }
        if counts.is_empty() {
            return Ok(true);
        }
        let verb = if self.dry_run { "would be" } else { "are" };
        let all = counts.join(", ");
        self.report
            .warning(&format!("with their CRDs {verb} deleted: {all}"), hint);
        if self.dry_run || args.yes || !prompt::is_possible() {
            return Ok(true);
        }
        let confirmed = prompt::confirm("Delete them", false)?;
        if !confirmed {
            self.report.line("Nothing was deleted.");
        }
        Ok(confirmed)
    }

    /// Deletes the objects in order, then waits until all of them are gone.
    pub(super) async fn delete(&mut self, objects: &[Value]) -> Result<(), Failure> {
        let mut gone = Vec::new();
        for object in objects {
            let Some(place) = self.objects.place(object).await? else {
                self.report.line(&format!("{} not found", name_of(object)));
                continue;
            };
            let word = if self.dry_run {
                let there = self.objects.api().get(&place.path()).await?;
                there.map_or("not found", |_| "deleted (dry run)")
            } else if self.objects.api().remove(&place.path()).await? {
                gone.push((object, place));
                "deleted"
            } else {
                "not found"
            };
            self.report.line(&format!("{} {word}", name_of(object)));
        }
        if self.timeout.is_zero() {
            return Ok(());
        }
        let deadline = tokio::time::Instant::now() + self.timeout;
        for (object, place) in gone {
            self.wait_gone(object, &place, deadline).await?;
        }
        Ok(())
    }

    async fn wait_gone(
        &mut self,
        object: &Value,
        place: &Place,
        deadline: tokio::time::Instant,
    ) -> Result<(), Failure> {
        let name = name_of(object);
        let mut told = false;
        let gone = self
            .objects
            .api()
            .follow(&place.collection, &place.name, |there| {
                if there.is_some() && !told {
                    self.report.progress(&format!("waiting until {name} is gone"));
                    told = true;
                }
                there.is_none().then_some(())
            });
        match tokio::time::timeout_at(deadline, gone).await {
            Ok(gone) => Ok(gone?),
            Err(_) => Err(DeployError::Timeout {
                what: format!("{name} is not deleted"),
                seconds: self.timeout.as_secs(),
                state: self.state(place).await,
                hint: "the operator that owns these finalizers must run to complete them: check its log, or remove the finalizers by hand",
            }
            .into()),
        }
    }

    /// Returns the reasons why an object still exists.
    async fn state(&self, place: &Place) -> String {
        let api = self.objects.api();
        let found = api.get(&place.path()).await.ok().flatten();
        let held = holders(api, &found.unwrap_or_default()).await;
        match held.as_slice() {
            [] => "it still exists".to_owned(),
            held => held.join("; "),
        }
    }
}
