//! The commands of Operator Lifecycle Manager: `run bundle`, `run bundle-upgrade`, `cleanup` and `olm`.

mod cleanup;
mod content;
mod extract;
mod install;
mod local;
mod manage;
mod mode;
mod process;
mod registry;
mod session;
mod upgrade;
mod v1;

use std::path::Path;
use std::process::ExitCode;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use operator_apiserver::client::Gvr;
use operator_olm::catalog::{Catalog, parts};
use serde_json::{Value, json};
use tokio::time::Instant;

use self::session::Session;
use super::catalog::{CatalogError, load};
use crate::failure::{Failure, Hinted};
use crate::process::api::{Api, ApiError};
use crate::process::cluster::{Cluster, ClusterError};
use crate::process::objects::{holders, text};
use crate::process::signal::{Ends, INTERRUPTED};

pub(crate) use cleanup::cleanup;
pub(crate) use extract::extract;
pub(crate) use install::{Source, run_bundle};
pub(crate) use local::{LocalOperator, start};
pub(crate) use manage::manage;
pub(crate) use registry::fault as pod_fault;
pub(crate) use upgrade::run_bundle_upgrade;

/// The namespace of Operator Lifecycle Manager, whose catalogs serve all namespaces.
const GLOBAL: &str = "olm";

/// The path of the API of OLM v1.
const ROOT_V1: &str = "/apis/olm.operatorframework.io/v1";

/// An error of installing, upgrading or deleting an operator.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OlmError {
    #[error("the cluster has no Operator Lifecycle Manager")]
    NotInstalled,
    #[error("{0:?} is neither a bundle directory nor the name of an image")]
    NoBundle(String),
    #[error("the bundle {place} cannot be rendered: {reason}")]
    Render { place: String, reason: String },
    #[error("the current directory is not the project of the operator {0:?}")]
    NoProject(String),
    #[error("{0}")]
    Mode(String),
    #[error("{word} {name:?} exists in namespace {namespace:?}")]
    Exists {
        word: &'static str,
        name: String,
        namespace: String,
    },
    #[error("more than one operator group in namespace {namespace}: {names}")]
    Groups { namespace: String, names: String },
    #[error("existing operatorgroup {name:?} is not compatible with install mode {mode:?}")]
    Group { name: String, mode: String },
    #[error("{goal} not reached after {seconds} s{causes}")]
    Timeout {
        goal: String,
        seconds: u64,
        causes: String,
    },
    #[error("install plan {name:?} failed: {message}")]
    Plan { name: String, message: String },
    #[error("csv failed: reason: {reason:?}, message: {message:?}{causes}")]
    Csv {
        reason: String,
        message: String,
        causes: String,
    },
    #[error("{word} {name:?} is not deleted after {seconds} s{causes}")]
    NotDeleted {
        word: String,
        name: String,
        seconds: u64,
        causes: String,
    },
    #[error("subscription {name:?} failed: {message}")]
    Unpack { name: String, message: String },
    #[error("{word} {name:?} cannot proceed: {message}{causes}")]
    Blocked {
        word: &'static str,
        name: String,
        message: String,
        causes: String,
    },
    #[error("the operator crashed {count} times: pod {pod:?} exited with code {code}{output}")]
    Crashed {
        count: i64,
        pod: String,
        code: i64,
        output: String,
    },
    #[error("OLM v1 pulls the bundle and its catalog from a registry")]
    NeedsRegistry,
    #[error("OLM v1 deletes the CRDs of an operator together with it")]
    KeepsNothing,
    #[error("subscription for package {0:?} not found")]
    NoSubscription(String),
    #[error("configmap {name:?} does not exist in namespace {namespace:?}")]
    NoConfigMap { name: String, namespace: String },
    #[error("clusterextension for package {0:?} not found")]
    NoExtension(String),
    #[error("catalog source {0:?} was not created by `run bundle`")]
    ForeignCatalog(String),
    #[error("bundle {0:?} already exists in the catalog")]
    HasBundle(String),
    #[error("the catalog is invalid with this bundle: {0}")]
    Catalog(String),
    #[error("{0}")]
    Manage(String, &'static str),
}

impl Hinted for OlmError {
    fn hint(&self) -> Option<String> {
        Some(
            match self {
                Self::NotInstalled => {
                    "install it with `operator-sdk olm install`, start a cluster with `operator-sdk cluster up --olm`, \
                     or use `--embedded`"
                }
                Self::NoBundle(_) => "give the directory that `operator-sdk generate bundle` wrote, or a bundle image",
                Self::Render { .. } => "check the bundle with `operator-sdk bundle validate`",
                Self::NoProject(_) => "run the command in the directory of the operator's project",
                Self::Mode(_) => "choose another mode with `--install-mode`",
                Self::Exists { .. } => {
                    "upgrade the operator with `operator-sdk run bundle-upgrade`, or delete it with `operator-sdk cleanup`"
                }
                Self::Groups { .. } => "delete all but one with `kubectl delete operatorgroup`",
                Self::Group { .. } => {
                    "omit `--install-mode`, or use another namespace with `--namespace`"
                }
                Self::Timeout { .. } => "allow more time with `--timeout`",
                Self::Plan { .. } => "check the steps with `kubectl get installplan -o yaml`",
                Self::Csv { .. } => {
                    "check the bundle with `operator-sdk bundle validate`, and the pods of the operator with `kubectl logs`"
                }
                Self::NotDeleted { .. } => {
                    "the controller that owns the finalizers must run; remove them only if it will never run again"
                }
                Self::Unpack { .. } => "check that the cluster can pull the image of the bundle, and the log of the Job that unpacks it",
                Self::Blocked { .. } => "check the bundle with `operator-sdk bundle validate --select-optional name=olmv1`",
                Self::Crashed { .. } => "run the operator with `operator-sdk run local --embedded`, and check its log",
                Self::NeedsRegistry => {
                    "name a repository that you can push to and that the cluster can pull from with `--push-to`"
                }
                Self::KeepsNothing => "omit `--delete-all=false`, or add `--delete-crds`",
                Self::NoConfigMap { .. } => "create it first: the command only fills it",
                Self::NoExtension(_) => "install the operator with `operator-sdk run bundle --olm-version v1` first",
                Self::NoSubscription(_) => {
                    "install the operator with `operator-sdk run bundle` first; an operator of OLM v1 needs `--olm-version v1`"
                }
                Self::ForeignCatalog(_) => {
                    "publish the new version in that catalog; OLM upgrades the operator itself"
                }
                Self::HasBundle(_) => {
                    "give the bundle a new version with `operator-sdk generate bundle --version`"
                }
                Self::Catalog(_) => "check `replaces` and the version of the ClusterServiceVersion",
                Self::Manage(_, hint) => hint,
            }
            .to_owned(),
        )
    }

    fn is_tree(&self) -> bool {
        matches!(self, Self::Catalog(_))
    }
}

impl OlmError {
    /// Adds known causes to the error.
    fn with_causes(mut self, found: &[String]) -> Self {
        if let Self::NotDeleted { causes, .. }
        | Self::Timeout { causes, .. }
        | Self::Csv { causes, .. }
        | Self::Blocked { causes, .. } = &mut self
            && !found.is_empty()
        {
            *causes = format!(": {}", found.join("; "));
        }
        self
    }
}

/// Waits until an object of a collection is deleted. Returns the error, with what blocks the deletion, if the object still
/// exists at the deadline, which is that of a time limit in seconds.
async fn not_deleted(
    api: &Api,
    (collection, name): (&str, &str),
    word: &str,
    deadline: Instant,
    seconds: u64,
) -> Result<Option<OlmError>, ApiError> {
    let mut left = Value::Null;
    let gone = api.follow(collection, name, |object| {
        left = object.cloned().unwrap_or_default();
        object.is_none().then_some(())
    });
    if let Ok(gone) = tokio::time::timeout_at(deadline, gone).await {
        return gone.map(|()| None);
    }
    let error = OlmError::NotDeleted {
        word: word.to_owned(),
        name: name.to_owned(),
        seconds,
        causes: String::new(),
    };
    Ok(Some(error.with_causes(&holders(api, &left).await)))
}

/// Connects to the cluster of a command.
async fn api(cluster: &crate::args::ClusterArgs) -> Result<Api, Failure> {
    Ok(Api::infer(cluster.kubeconfig.as_deref(), cluster.context.as_deref()).await?)
}

/// Runs a part of a command, which is rolled back after a failure or a signal.
async fn undone_on_failure<'a>(
    session: &mut Session<'a>,
    ends: &mut Ends,
    work: impl AsyncFnOnce(&mut Session<'a>) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    let outcome = tokio::select! {
        outcome = work(session) => Some(outcome),
        () = ends.next() => None,
    };
    match outcome {
        Some(Ok(())) => Ok(ExitCode::SUCCESS),
        Some(Err(failure)) => {
            session.undo().await;
            Err(failure)
        }
        None => {
            session.report.progress("Interrupted");
            session.undo().await;
            Ok(ExitCode::from(INTERRUPTED))
        }
    }
}

fn signals() -> Result<Ends, Failure> {
    Ok(Ends::catch().map_err(ClusterError::from)?)
}

/// Offers a file-based catalog in an embedded cluster to all namespaces.
pub(crate) async fn add_catalog(cluster: &Cluster, directory: &Path) -> Result<(), Failure> {
    let catalog = load(directory)?;
    let path = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().to_lowercase().replace(['_', ' '], "-"))
        .unwrap_or_else(|| "catalog".to_owned());
    let sources = Gvr::new("operators.coreos.com", "v1alpha1", "catalogsources");
    let source = json!({
        "metadata": {"name": name},
        "spec": {
            "sourceType": "grpc", "displayName": name, "publisher": "operator-sdk",
            "address": format!("{name}.{GLOBAL}.svc:50051"),
        },
    });
    let config_maps = Gvr::new("", "v1", "configmaps");
    // A cluster with a data directory may contain an earlier version of the catalog.
    cluster.delete(&sources, GLOBAL, &name).await;
    for index in 1.. {
        if !cluster
            .delete(&config_maps, GLOBAL, &part_name(&name, index))
            .await
        {
            break;
        }
    }
    let created = cluster.create(&sources, GLOBAL, source).await?;
    for config_map in config_maps_of(&catalog, &created)? {
        cluster.create(&config_maps, GLOBAL, config_map).await?;
    }
    Ok(())
}

/// Returns the name of the ConfigMap with a part of a catalog. Parts are numbered from one.
fn part_name(catalog: &str, index: usize) -> String {
    format!("{catalog}-configmap-partition-{index}")
}

/// Returns the ConfigMaps of a catalog, owned by its CatalogSource.
pub(crate) fn config_maps_of(catalog: &Catalog, source: &Value) -> Result<Vec<Value>, CatalogError> {
    let owner = ("operators.coreos.com/v1alpha1", "CatalogSource");
    let namespace = text(source, "/metadata/namespace");
    owned_parts(catalog, source, owner, namespace)
}

/// Returns the ConfigMaps of a catalog of OLM v1, owned by its ClusterCatalog.
fn parts_of(catalog: &Catalog, owner: &Value, namespace: &str) -> Result<Vec<Value>, CatalogError> {
    let kind = ("olm.operatorframework.io/v1", "ClusterCatalog");
    owned_parts(catalog, owner, kind, namespace)
}

fn owned_parts(
    catalog: &Catalog,
    owner: &Value,
    (api_version, kind): (&str, &str),
    namespace: &str,
) -> Result<Vec<Value>, CatalogError> {
    let name = text(owner, "/metadata/name");
    let parts = parts(catalog).map_err(|error| CatalogError::Load {
        path: name.to_owned(),
        reason: error.to_string(),
    })?;
    let owner = json!({
        "apiVersion": api_version, "kind": kind, "name": name, "uid": owner["metadata"]["uid"], "controller": true,
        "blockOwnerDeletion": true,
    });
    let config_map = |(index, part): (usize, Vec<u8>)| {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": part_name(name, index + 1),
                "namespace": namespace,
                "annotations": {"olm.contentEncoding": "gzip+base64"},
                "ownerReferences": [owner],
            },
            "binaryData": {"extraFBC": BASE64_STANDARD.encode(part)},
        })
    };
    Ok(parts.into_iter().enumerate().map(config_map).collect())
}
