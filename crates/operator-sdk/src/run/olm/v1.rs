//! OLM v1: `run bundle --olm-version v1`, and the cleanup of the objects that it created.

mod push;
mod upgrade;

use serde_json::{Value, json};

use self::push::{Target, push_bundle, push_catalog, tag};
use super::install::{CHANNEL, Source};
use super::mode::InstallMode;
use super::session::{DEFINITION, DEPLOYMENT, POD, Resource, Session, cluster};
use super::{OlmError, ROOT_V1, parts_of, registry};
use crate::args::{CleanupArgs, RunBundleArgs};
use crate::failure::Failure;
use crate::process::objects::text;
use crate::run::crd::counted;

pub(super) use upgrade::{enter_namespace, upgrade};

const CATALOG: Resource = cluster(ROOT_V1, "clustercatalogs", "clustercatalog");
const EXTENSION: Resource = cluster(ROOT_V1, "clusterextensions", "clusterextension");
const SYSTEM: &str = "olmv1-system";
/// The label by which an extension selects its catalog.
const NAME: &str = "olm.operatorframework.io/metadata.name";
/// The labels of the objects of an extension.
const OWNER_KIND: &str = "olm.operatorframework.io/owner-kind";
const OWNER_NAME: &str = "olm.operatorframework.io/owner-name";
/// The registry in the names of images that do not exist in any registry.
const NO_REGISTRY: &str = "operator-sdk.invalid";

/// Installs a bundle with a ClusterCatalog and a ClusterExtension.
pub(super) async fn install(
    session: &mut Session<'_>,
    source: &Source,
    mode: &InstallMode,
    args: &RunBundleArgs,
    is_embedded: bool,
) -> Result<(), Failure> {
    let package = source.rendered.package.clone();
    let csv = source.rendered.name.clone();
    let report = session.report;
    let config = settings(mode, &session.namespace)?;
    if let Some(known) = find(session, &package).await? {
        return Err(OlmError::Exists {
            word: EXTENSION.word,
            name: text(&known, "/metadata/name").to_owned(),
            namespace: session.namespace.clone(),
        }
        .into());
    }
    report.progress(&format!("Creating a File-Based Catalog of the bundle {csv:?}"));
    let name = format!("{package}-catalog");
    let (catalog, image) = match (&args.push_to, is_embedded) {
        (Some(repository), _) => {
            let target = Target {
                repository,
                bundle: &args.bundle,
                insecure: args.insecure,
                report,
            };
            let mut catalog = source.catalog();
            catalog.bundles = vec![push_bundle(&target, source).await?];
            let image = push_catalog(&target, &catalog, &csv).await?;
            (catalog, image)
        }
        (None, true) => (source.catalog(), format!("{NO_REGISTRY}/{name}:{}", tag(&csv))),
        (None, false) => return Err(OlmError::NeedsRegistry.into()),
    };
    operator_olm::catalog::validate(&catalog).map_err(OlmError::Catalog)?;
    report.progress("Generated a valid File-Based Catalog");
    let object = json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": name},
        "spec": {"source": {"type": "Image", "image": {"ref": image}}},
    });
    let created = session.create(CATALOG, &object).await?;
    if args.push_to.is_none() {
        let path = format!("/api/v1/namespaces/{SYSTEM}/configmaps");
        for part in parts_of(&catalog, &created, SYSTEM)? {
            session.api.create(&path, &part).await?;
        }
    }
    report.progress(&format!("Created ClusterCatalog: {name}"));
    served(session, &name, "").await?;
    let mut spec = json!({
        "namespace": session.namespace,
        "source": {"sourceType": "Catalog", "catalog": {
            "packageName": package, "channels": [CHANNEL], "selector": {"matchLabels": {NAME: name}},
        }},
    });
    if let Some(inline) = config {
        spec["config"] = json!({"configType": "Inline", "inline": inline});
    }
    if needs_account(session).await? {
        spec["serviceAccount"] = json!({"name": args.registry.service_account});
    }
    let object = json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": package},
        "spec": spec,
    });
    session.create(EXTENSION, &object).await?;
    report.progress(&format!("Created ClusterExtension: {package}"));
    installed(session, &package, &csv).await?;
    session.keep();
    Ok(())
}

/// Returns the settings of an extension for an install mode.
fn settings(mode: &InstallMode, namespace: &str) -> Result<Option<Value>, OlmError> {
    match (mode.name.as_str(), mode.targets.as_slice()) {
        ("AllNamespaces", _) => Ok(None),
        ("MultiNamespace", _) => Err(OlmError::Mode(
            "OLM v1 does not support install mode \"MultiNamespace\"".to_owned(),
        )),
        (_, [target]) => Ok(Some(json!({"watchNamespace": target}))),
        _ => Ok(Some(json!({"watchNamespace": namespace}))),
    }
}

/// Returns true if ClusterExtensions in the cluster need a service account, as in early releases of OLM v1.
async fn needs_account(session: &Session<'_>) -> Result<bool, Failure> {
    let definition = session
        .get(DEFINITION, "clusterextensions.olm.operatorframework.io")
        .await?;
    let required = definition.as_ref().and_then(|definition| {
        definition.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec/required")
    });
    let mut required = required.and_then(Value::as_array).into_iter().flatten();
    Ok(required.any(|field| field == "serviceAccount"))
}

/// Returns the condition of a type: status, reason and message.
fn condition<'a>(object: &'a Value, kind: &str) -> (&'a str, &'a str, &'a str) {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    match conditions.find(|condition| text(condition, "/type") == kind) {
        Some(found) => (
            text(found, "/status"),
            text(found, "/reason"),
            text(found, "/message"),
        ),
        None => ("", "", ""),
    }
}

/// Waits until a catalog is served whose resolved image is not `before`.
async fn served(session: &Session<'_>, name: &str, before: &str) -> Result<(), Failure> {
    let report = session.report;
    let goal = format!("condition Serving of the ClusterCatalog {name:?}");
    let mut told = String::new();
    let outcome = session
        .until(CATALOG, name, &goal, |catalog| {
            let catalog = catalog?;
            let (_, reason, message) = condition(catalog, "Progressing");
            if !["", "Succeeded"].contains(&reason) && message != told {
                report.progress(&format!("  ClusterCatalog {name:?}: {reason}: {message}"));
                message.clone_into(&mut told);
            }
            match condition(catalog, "Progressing").0 {
                "False" => Some(Err(OlmError::Blocked {
                    word: CATALOG.word,
                    name: name.to_owned(),
                    message: message.to_owned(),
                    causes: String::new(),
                })),
                _ => {
                    let is_new =
                        before.is_empty() || text(catalog, "/status/resolvedSource/image/ref") != before;
                    (is_new && condition(catalog, "Serving").0 == "True").then_some(Ok(()))
                }
            }
        })
        .await;
    match outcome {
        Ok(outcome) => Ok(outcome?),
        Err(_) if session.is_over() => Err(session.timeout(&goal, &[told])),
        Err(failure) => Err(failure),
    }
}

/// Waits until an extension has a bundle.
async fn installed(session: &Session<'_>, name: &str, bundle: &str) -> Result<(), Failure> {
    let report = session.report;
    report.progress(&format!(
        "Waiting for ClusterExtension {name:?} to install bundle {bundle:?}"
    ));
    let goal = format!("bundle {bundle:?} of the ClusterExtension {name:?}");
    let mut told = String::new();
    let outcome = session
        .until(EXTENSION, name, &goal, |extension| {
            let extension = extension?;
            let (state, reason, message) = condition(extension, "Progressing");
            if !["", "Succeeded"].contains(&reason) && message != told {
                report.progress(&format!("  ClusterExtension {name:?}: {reason}: {message}"));
                message.clone_into(&mut told);
            }
            if state == "False" {
                return Some(Err(OlmError::Blocked {
                    word: EXTENSION.word,
                    name: name.to_owned(),
                    message: message.to_owned(),
                    causes: String::new(),
                }));
            }
            let is_installed = text(extension, "/status/install/bundle/name") == bundle
                && condition(extension, "Installed").0 == "True"
                && reason == "Succeeded";
            is_installed.then_some(Ok(()))
        })
        .await;
    match outcome {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.with_causes(&causes(session, name).await?).into()),
        Err(_) if session.is_over() => {
            let mut known = vec![told];
            known.extend(causes(session, name).await?);
            Err(session.timeout(&goal, &known))
        }
        Err(failure) => Err(failure),
    }
}

/// Returns the reasons why the pods of an extension do not run.
async fn causes(session: &Session<'_>, extension: &str) -> Result<Vec<String>, Failure> {
    let deployments = session.list(DEPLOYMENT).await?;
    let own = deployments
        .iter()
        .filter(|deployment| is_of(deployment, extension));
    let pods = session.list(POD).await?;
    let mut causes = Vec::new();
    for deployment in own {
        let prefix = format!("{}-", text(deployment, "/metadata/name"));
        let of_deployment = pods
            .iter()
            .filter(|pod| text(pod, "/metadata/name").starts_with(&prefix));
        causes.extend(of_deployment.filter_map(|pod| {
            let fault = registry::fault(pod)?;
            Some(format!("pod {} has error: {fault}", text(pod, "/metadata/name")))
        }));
    }
    Ok(causes)
}

fn is_of(object: &Value, extension: &str) -> bool {
    let labels = &object["metadata"]["labels"];
    labels[OWNER_KIND] == "ClusterExtension" && labels[OWNER_NAME] == extension
}

/// Returns the ClusterExtension of a package. Clusters without OLM v1 have none.
pub(super) async fn find(session: &Session<'_>, package: &str) -> Result<Option<Value>, Failure> {
    let extensions = session.list(EXTENSION).await?;
    let mut extensions = extensions.into_iter();
    Ok(extensions.find(|known| text(known, "/spec/source/catalog/packageName") == package))
}

/// Deletes a ClusterExtension with its CRDs and their objects, and the catalog of `run bundle`.
pub(super) async fn clean(
    session: &Session<'_>,
    args: &CleanupArgs,
    extension: &Value,
) -> Result<(), Failure> {
    let report = session.report;
    if !(args.delete_all || args.delete_crds) {
        return Err(OlmError::KeepsNothing.into());
    }
    let name = text(extension, "/metadata/name");
    let definitions = session.list(DEFINITION).await?;
    let own: Vec<&Value> = definitions
        .iter()
        .filter(|definition| is_of(definition, name))
        .collect();
    if !args.dry_run {
        report.progress("Deleting:");
        report.progress(&format!("  {} {name:?}", EXTENSION.word));
        for definition in &own {
            let count = objects_of(session, definition).await?.len();
            let name = text(definition, "/metadata/name");
            let objects = counted(count, "object");
            report.progress(&format!("  {} {name:?} with {objects}", DEFINITION.word));
        }
    }
    // The operator still runs, so that it completes the finalizers of the objects.
    for definition in &own {
        objects(session, args, definition).await?;
    }
    let mut order: Vec<(Resource, String)> = vec![(EXTENSION, name.to_owned())];
    if args.dry_run {
        order.extend(
            own.iter()
                .map(|definition| (DEFINITION, text(definition, "/metadata/name").to_owned())),
        );
    }
    let catalog = format!("{}-catalog", args.package);
    if session.get(CATALOG, &catalog).await?.is_some() {
        order.push((CATALOG, catalog));
    }
    for (resource, name) in order {
        let word = resource.word;
        if args.dry_run {
            report.line(&format!("{word} {name:?} deleted (dry run)"));
            continue;
        }
        session.delete(resource, &name).await?;
        session.gone(resource, &name).await?;
        report.line(&format!("{word} {name:?} deleted"));
        if resource.word == EXTENSION.word {
            for definition in &own {
                let name = text(definition, "/metadata/name");
                session.gone(DEFINITION, name).await?;
                report.line(&format!("{} {name:?} deleted", DEFINITION.word));
            }
        }
    }
    if !args.dry_run {
        report.line(&format!("Operator {:?} uninstalled", args.package));
    }
    Ok(())
}

/// Returns the path of the API of a CRD, if it is served.
fn root_of(definition: &Value) -> Option<String> {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    let mut versions = versions.into_iter().flatten();
    let version = versions.find(|version| version["served"] == true)?;
    let group = text(definition, "/spec/group");
    Some(format!("/apis/{group}/{}", text(version, "/name")))
}

/// Returns all objects of a CRD.
pub(super) async fn objects_of(session: &Session<'_>, definition: &Value) -> Result<Vec<Value>, Failure> {
    let Some(root) = root_of(definition) else {
        return Ok(Vec::new());
    };
    let plural = text(definition, "/spec/names/plural");
    let list = session.api.get(&format!("{root}/{plural}")).await?;
    let list = list.unwrap_or_default();
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

/// Deletes all objects of a CRD, and waits until they are gone.
async fn objects(session: &Session<'_>, args: &CleanupArgs, definition: &Value) -> Result<(), Failure> {
    let items = objects_of(session, definition).await?;
    let root = root_of(definition).unwrap_or_default();
    let plural = text(definition, "/spec/names/plural");
    let mut deleted = Vec::new();
    for object in &items {
        let name = text(object, "/metadata/name");
        let collection = match text(object, "/metadata/namespace") {
            "" => format!("{root}/{plural}"),
            namespace => format!("{root}/namespaces/{namespace}/{plural}"),
        };
        let word = text(definition, "/spec/names/singular");
        if args.dry_run {
            session.report.line(&format!("{word} {name:?} deleted (dry run)"));
            continue;
        }
        session.api.remove(&format!("{collection}/{name}")).await?;
        deleted.push((collection, name, word.to_owned()));
    }
    for (collection, name, word) in deleted {
        session.gone_from(&collection, name, &word).await?;
        session.report.line(&format!("{word} {name:?} deleted"));
    }
    Ok(())
}
