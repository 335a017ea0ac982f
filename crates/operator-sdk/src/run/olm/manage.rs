//! `olm install`, `olm status` and `olm uninstall`.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use operator_manifests::kustomize::order;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{GLOBAL, OlmError, api, signals};
use crate::args::{ClusterArgs, OlmCommand, OlmInstallArgs, OlmStatusArgs, OlmUninstallArgs};
use crate::failure::Failure;
use crate::process::api::ApplyOptions;
use crate::process::download;
use crate::process::objects::{Objects, text};
use crate::process::signal::INTERRUPTED;
use crate::report::Report;

/// Runs `operator-sdk olm`.
pub(crate) fn manage(command: &OlmCommand, report: &Report) -> Result<ExitCode, Failure> {
    crate::run::block_on(async {
        let mut ends = signals()?;
        let work = async {
            match command {
                OlmCommand::Install(args) => install(args, report).await,
                OlmCommand::Status(args) => status(args, report).await,
                OlmCommand::Uninstall(args) => uninstall(args, report).await,
            }
        };
        tokio::select! {
            outcome = work => outcome.map(|()| ExitCode::SUCCESS),
            () = ends.next() => {
                report.progress(match command {
                    OlmCommand::Install(_) => {
                        "Interrupted: remove the created objects with `operator-sdk olm uninstall`."
                    }
                    OlmCommand::Status(_) => "Interrupted",
                    OlmCommand::Uninstall(_) => {
                        "Interrupted: the remaining objects are kept. The command can be run again."
                    }
                });
                Ok(ExitCode::from(INTERRUPTED))
            }
        }
    })
}

async fn objects(cluster: &ClusterArgs) -> Result<Objects, Failure> {
    Ok(Objects::new(api(cluster).await?))
}

fn fault(message: String, hint: &'static str) -> Failure {
    OlmError::Manage(message, hint).into()
}

/// Returns the objects of a file, or of the YAML files of a directory, in dependency order.
fn read(path: &Path) -> Result<Vec<Value>, Failure> {
    const HINT: &str = "give the directory with crds.yaml and olm.yaml of a release of OLM";
    let unreadable = |reason: String| fault(format!("cannot read {}: {reason}", path.display()), HINT);
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        let entries = std::fs::read_dir(path).map_err(|error| unreadable(error.to_string()))?;
        files = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|file| {
            file.extension()
                .is_some_and(|extension| extension == "yaml" || extension == "yml")
        });
        files.sort();
    }
    let sources = files.iter().map(std::fs::read_to_string);
    let sources: Result<Vec<String>, _> = sources.collect();
    let sources = sources.map_err(|error| unreadable(error.to_string()))?;
    parsed(&sources).map_err(unreadable)
}

/// Returns the objects of files in dependency order.
fn parsed(sources: &[String]) -> Result<Vec<Value>, String> {
    let mut objects = Vec::new();
    for source in sources {
        let documents = apimachinery::yaml::documents(source).map_err(|error| error.to_string())?;
        let values = documents.into_iter().map(|document| document.value);
        objects.extend(values.filter(Value::is_object));
    }
    if objects.is_empty() {
        return Err("no objects".to_owned());
    }
    order::sort_objects(&mut objects);
    Ok(objects)
}

/// Downloads the manifests of a release.
async fn download(args: &OlmInstallArgs, report: &Report) -> Result<Vec<Value>, Failure> {
    let releases = args.releases.trim_end_matches('/');
    let release = match args.version.trim_start_matches('v') {
        "latest" => format!("{releases}/latest/download"),
        version => format!("{releases}/download/v{version}"),
    };
    let mut sources = Vec::new();
    for file in ["crds.yaml", "olm.yaml"] {
        let url = format!("{release}/{file}");
        report.progress(&format!("Downloading {url}"));
        let source = download::text(&url).await?;
        report.progress(&format!("  Downloaded {} kB", source.len().div_ceil(1000)));
        sources.push(source);
    }
    parsed(&sources).map_err(|reason| {
        fault(
            format!("the files of {release} are not manifests: {reason}"),
            "check the address of `--releases`",
        )
    })
}

/// Returns the objects that every release has.
fn parts(namespace: &str) -> Vec<Value> {
    let crds = [
        "catalogsources",
        "clusterserviceversions",
        "installplans",
        "olmconfigs",
        "operatorconditions",
        "operatorgroups",
        "operators",
        "subscriptions",
    ];
    let object = |api_version: &str, kind: &str, namespace: &str, name: &str| {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = namespace.into();
        }
        object
    };
    let mut all: Vec<Value> = crds
        .iter()
        .map(|plural| {
            let name = format!("{plural}.operators.coreos.com");
            object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", &name)
        })
        .collect();
    let alpha = "operators.coreos.com/v1alpha1";
    let stable = "operators.coreos.com/v1";
    all.extend([
        object("v1", "Namespace", "", namespace),
        object("v1", "Namespace", "", "operators"),
        object("apps/v1", "Deployment", namespace, "olm-operator"),
        object("apps/v1", "Deployment", namespace, "catalog-operator"),
        object(stable, "OLMConfig", "", "cluster"),
        object(stable, "OperatorGroup", "operators", "global-operators"),
        object(stable, "OperatorGroup", namespace, "olm-operators"),
        object(alpha, "ClusterServiceVersion", namespace, "packageserver"),
    ]);
    all
}

fn is_definition(object: &Value) -> bool {
    text(object, "/kind") == "CustomResourceDefinition"
}

/// Returns the installed object, or the reason why it is missing.
async fn found(objects: &mut Objects, object: &Value) -> Result<Option<Value>, Failure> {
    let Some(place) = objects.place(object).await? else {
        return Ok(None);
    };
    Ok(objects.api().get(&place.path()).await?)
}

async fn install(args: &OlmInstallArgs, report: &Report) -> Result<(), Failure> {
    let mut objects = objects(&args.cluster).await?;
    // An installed OLM is found without the manifests of a release, which may have to be downloaded.
    report.progress("Checking for existing OLM CRDs");
    absent(&mut objects, &parts(GLOBAL)).await?;
    let manifests = match &args.manifests {
        Some(path) => read(path)?,
        None => download(args, report).await?,
    };
    absent(&mut objects, &manifests).await?;
    let deadline = Instant::now() + args.timeout;
    let (definitions, others): (Vec<&Value>, Vec<&Value>) =
        manifests.iter().partition(|object| is_definition(object));
    report.progress("Installing OLM CRDs...");
    for definition in &definitions {
        create(&mut objects, definition, report).await?;
    }
    for definition in &definitions {
        wait(&mut objects, definition, deadline, args.timeout, |object| {
            let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
            let mut conditions = conditions.into_iter().flatten();
            match conditions.any(|found| found["type"] == "Established" && found["status"] == "True") {
                true => Ok(()),
                false => Err("not established".to_owned()),
            }
        })
        .await?;
    }
    report.progress("Creating OLM resources...");
    for object in &others {
        create(&mut objects, object, report).await?;
    }
    for deployment in others
        .iter()
        .filter(|object| text(object, "/kind") == "Deployment")
    {
        let name = text(deployment, "/metadata/name");
        report.progress(&format!("Waiting for deployment/{name} rollout to complete"));
        wait(&mut objects, deployment, deadline, args.timeout, |object| {
            let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
            let wanted = number("/spec/replicas");
            match number("/status/availableReplicas") {
                available if available >= wanted => Ok(()),
                available => Err(format!("{available} of {wanted} replicas are available")),
            }
        })
        .await?;
        report.progress(&format!("  Deployment {name:?} successfully rolled out"));
    }
    for csv in others
        .iter()
        .filter(|object| text(object, "/kind") == "ClusterServiceVersion")
    {
        let name = text(csv, "/metadata/name");
        report.progress(&format!(
            "Waiting for clusterserviceversion/{name} to reach 'Succeeded' phase"
        ));
        wait(&mut objects, csv, deadline, args.timeout, |object| {
            match text(object, "/status/phase") {
                "Succeeded" => Ok(()),
                phase => Err(format!("phase {phase:?}: {}", text(object, "/status/message"))),
            }
        })
        .await?;
    }
    let version = version(&mut objects, &manifests).await?.unwrap_or_default();
    table(&mut objects, &manifests, report).await?;
    report.progress(&format!("Successfully installed OLM version {version:?}"));
    Ok(())
}

/// Checks that none of the definitions in a list is installed.
async fn absent(objects: &mut Objects, list: &[Value]) -> Result<(), Failure> {
    for definition in list.iter().filter(|object| is_definition(object)) {
        if found(objects, definition).await?.is_some() {
            return Err(fault(
                "detected existing OLM resources: OLM must be completely uninstalled before installation"
                    .to_owned(),
                "check them with `operator-sdk olm status`, or remove them with `operator-sdk olm uninstall`",
            ));
        }
    }
    Ok(())
}

async fn create(objects: &mut Objects, object: &Value, report: &Report) -> Result<(), Failure> {
    let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
    report.progress(&format!("  Creating {kind} {name:?}"));
    let Some(place) = objects.place(object).await? else {
        return Err(fault(
            format!(
                "the cluster does not serve {kind} of {}",
                text(object, "/apiVersion")
            ),
            "install the CRDs of the release with crds.yaml in the directory of `--manifests`",
        ));
    };
    // CRDs exceed the size limit of the annotation of client-side apply, so they are created with server-side apply.
    objects.apply(&place, object, ApplyOptions::default()).await?;
    report.progress(&format!("  {kind} {name:?} created"));
    Ok(())
}

/// Waits until `check` accepts an object. The error contains the last reason for a rejection.
async fn wait(
    objects: &mut Objects,
    object: &Value,
    deadline: Instant,
    timeout: Duration,
    check: impl Fn(&Value) -> Result<(), String>,
) -> Result<(), Failure> {
    let Some(place) = objects.place(object).await? else {
        return Ok(());
    };
    let mut last = "does not exist".to_owned();
    let followed = objects
        .api()
        .follow(&place.collection, &place.name, |found| match found.map(&check) {
            None => None,
            Some(Ok(())) => Some(()),
            Some(Err(reason)) => {
                last = reason;
                None
            }
        });
    match tokio::time::timeout_at(deadline, followed).await {
        Ok(followed) => Ok(followed?),
        Err(_) => Err(OlmError::Timeout {
            goal: format!("{} {:?}", text(object, "/kind"), place.name),
            seconds: timeout.as_secs(),
            causes: format!(": {last}"),
        }
        .into()),
    }
}

/// Returns the version of the installed package server.
async fn version(objects: &mut Objects, all: &[Value]) -> Result<Option<String>, Failure> {
    for csv in all
        .iter()
        .filter(|object| text(object, "/kind") == "ClusterServiceVersion")
    {
        if let Some(found) = found(objects, csv).await? {
            let label = text(&found, "/metadata/labels/olm.version");
            return Ok(Some(label.trim_start_matches('v').to_owned()));
        }
    }
    Ok(None)
}

/// Prints the table of the objects, and returns the missing ones.
async fn table(objects: &mut Objects, all: &[Value], report: &Report) -> Result<Vec<String>, Failure> {
    let mut rows = vec![["NAME", "NAMESPACE", "KIND", "STATUS"].map(str::to_owned)];
    let mut missing = Vec::new();
    let (definitions, others): (Vec<&Value>, Vec<&Value>) =
        all.iter().partition(|object| is_definition(object));
    for object in definitions.into_iter().chain(others) {
        let kind = text(object, "/kind");
        let name = text(object, "/metadata/name");
        let status = match found(objects, object).await? {
            Some(_) => "Installed".to_owned(),
            None => format!("{} {name:?} not found", kind.to_lowercase()),
        };
        if status != "Installed" {
            missing.push(format!("{kind} {name:?}"));
        }
        let namespace = text(object, "/metadata/namespace").to_owned();
        rows.push([name.to_owned(), namespace, kind.to_owned(), status]);
    }
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or(0).max(8)
    };
    let widths = [width(0), width(1), width(2)];
    for [name, namespace, kind, status] in &rows {
        let [first, second, third] = widths;
        report.line(&format!(
            "{name:first$}    {namespace:second$}    {kind:third$}    {status}"
        ));
    }
    Ok(missing)
}

fn all(args: &OlmStatusArgs) -> Result<Vec<Value>, Failure> {
    match &args.manifests {
        Some(path) => read(path),
        None => Ok(parts(&args.olm_namespace)),
    }
}

async fn checked_version(
    objects: &mut Objects,
    all: &[Value],
    wanted: Option<&str>,
) -> Result<String, Failure> {
    let Some(installed) = version(objects, all).await? else {
        return Err(fault(
            "no existing installation found".to_owned(),
            "install OLM with `operator-sdk olm install`, or start a cluster with `operator-sdk cluster up --olm`",
        ));
    };
    if let Some(wanted) = wanted.filter(|wanted| wanted.trim_start_matches('v') != installed) {
        return Err(fault(
            format!("mismatched installed version {installed:?} vs. supplied version {wanted:?}"),
            "omit `--version`",
        ));
    }
    Ok(installed)
}

async fn status(args: &OlmStatusArgs, report: &Report) -> Result<(), Failure> {
    let all = all(args)?;
    let mut objects = objects(&args.cluster).await?;
    let version = checked_version(&mut objects, &all, args.version.as_deref()).await?;
    let missing = table(&mut objects, &all, report).await?;
    if !missing.is_empty() {
        return Err(fault(
            format!("the OLM installation has resource errors: {}", missing.join(", ")),
            "reinstall OLM with `operator-sdk olm uninstall` and `operator-sdk olm install`",
        ));
    }
    report.progress(&format!("Successfully got OLM status for version {version:?}"));
    Ok(())
}

async fn uninstall(args: &OlmUninstallArgs, report: &Report) -> Result<(), Failure> {
    let all = all(&args.status)?;
    let mut objects = objects(&args.status.cluster).await?;
    let deadline = Instant::now() + args.timeout;
    let installed = match checked_version(&mut objects, &all, args.status.version.as_deref()).await {
        Ok(version) => format!(" version {version:?}"),
        Err(failure) => {
            // A partially deleted installation has no package server. The remaining objects are deleted anyway.
            let mut left = false;
            for object in &all {
                left |= found(&mut objects, object).await?.is_some();
            }
            if !left || args.status.version.is_some() {
                return Err(failure);
            }
            String::new()
        }
    };
    match installed.as_str() {
        "" => report.progress("Uninstalling the remaining resources"),
        installed => report.progress(&format!("Uninstalling resources for{installed}")),
    }
    // Custom resources and CRDs are deleted first, while the controllers of OLM still run. Namespaces are deleted last.
    let mut order: Vec<&Value> = all.iter().collect();
    order.sort_by_key(|object| match text(object, "/kind") {
        "ClusterServiceVersion" | "CatalogSource" | "Subscription" | "OperatorGroup" | "OLMConfig" => 0,
        "CustomResourceDefinition" => 1,
        "Namespace" => 3,
        _ => 2,
    });
    for (index, object) in order.iter().enumerate() {
        let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
        report.progress(&format!("  Deleting {kind} {name:?}"));
        let place = objects.place(object).await?;
        let removed = match &place {
            Some(place) => objects.api().remove(&place.path()).await?,
            None => false,
        };
        let Some(place) = place.filter(|_| removed) else {
            report.progress(&format!("    {kind} {name:?} does not exist"));
            continue;
        };
        let at = (place.collection.as_str(), place.name.as_str());
        let left = super::not_deleted(objects.api(), at, kind, deadline, args.timeout.as_secs()).await?;
        if let Some(error) = left {
            remaining(&mut objects, order.get(index..).unwrap_or_default(), report).await?;
            return Err(error.into());
        }
    }
    report.line(&format!("Successfully uninstalled OLM{installed}"));
    Ok(())
}

/// Prints the objects that an incomplete deletion leaves in the cluster.
async fn remaining(objects: &mut Objects, list: &[&Value], report: &Report) -> Result<(), Failure> {
    let mut left = Vec::new();
    for object in list {
        if found(objects, object).await?.is_some() {
            let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
            left.push(format!("{kind} {name:?}"));
        }
    }
    report.progress(&format!(
        "OLM is partially uninstalled. Run the command again to delete the remaining objects: {}",
        left.join(", ")
    ));
    Ok(())
}
