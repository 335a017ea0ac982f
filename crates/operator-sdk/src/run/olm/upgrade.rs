//! `run bundle-upgrade`: adds a bundle to the catalog of `run bundle`, and upgrades the operator.

use std::collections::BTreeSet;
use std::io::Read;
use std::process::ExitCode;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;
use operator_olm::catalog::{Catalog, Entry, validate};
use serde_json::{Value, json};

use super::install::{
    CHANNEL, INJECTED, POD_NAME, Source, approve, injected, programs, start_pod, succeeded,
};
use super::process::{Built, LocalProject};
use super::session::{CATALOG_SOURCE, CONFIG_MAP, CSV, POD, SUBSCRIPTION, Session, V1ALPHA1};
use super::{OlmError, api, config_maps_of, registry, signals, undone_on_failure};
use crate::args::RunBundleUpgradeArgs;
use crate::failure::Failure;
use crate::process::objects::text;
use crate::process::signal::INTERRUPTED;
use crate::report::Report;

/// The maximum decompressed size of a part of a catalog, in bytes.
const PART_MAX: u64 = 64 << 20;

/// Runs `operator-sdk run bundle-upgrade`.
pub(crate) fn run_bundle_upgrade(args: &RunBundleUpgradeArgs, report: &Report) -> Result<ExitCode, Failure> {
    let source = Source::read(&args.bundle, args.insecure)?;
    let project = LocalProject::find(&args.program, &source)?;
    crate::run::block_on(async {
        let mut ends = signals()?;
        let programs = programs(&args.olm.cluster)?;
        let program = match project.filter(|_| programs.is_some()) {
            Some(project) => match project.build(&source, &mut ends).await? {
                Built::Program(program) => Some(program),
                Built::Interrupted => return Ok(ExitCode::from(INTERRUPTED)),
            },
            None => None,
        };
        let api = api(&args.olm.cluster).await?;
        let namespace = args.olm.namespace.as_deref();
        let mut session = Session::open(api, &[V1ALPHA1], namespace, args.olm.timeout, report).await?;
        if let Some((program, directory)) = program.as_ref().zip(programs.as_deref()) {
            program.register(directory, &session.namespace)?;
        }
        undone_on_failure(&mut session, &mut ends, async |session| {
            upgrade(session, args, &source).await
        })
        .await
    })
}

async fn upgrade(
    session: &mut Session<'_>,
    args: &RunBundleUpgradeArgs,
    source: &Source,
) -> Result<(), Failure> {
    let report = session.report;
    let csv = source.rendered.name.clone();
    let package = &source.rendered.package;
    let subscriptions = session.list(SUBSCRIPTION).await?;
    let subscription = subscriptions
        .iter()
        .find(|known| text(known, "/spec/name") == package)
        .ok_or_else(|| OlmError::NoSubscription(package.clone()))?;
    let name = text(subscription, "/metadata/name");
    let namespace = &session.namespace;
    report.progress(&format!(
        "Found existing subscription with name {name} and namespace {namespace}"
    ));
    let catalog_name = text(subscription, "/spec/source");
    let foreign = || OlmError::ForeignCatalog(catalog_name.to_owned());
    let catalog_source = session
        .get(CATALOG_SOURCE, catalog_name)
        .await?
        .ok_or_else(foreign)?;
    let annotations = &catalog_source["metadata"]["annotations"];
    if annotations[INJECTED].is_null() {
        return Err(foreign().into());
    }
    report.progress(&format!(
        "Found existing catalog source with name {catalog_name} and namespace {namespace}"
    ));
    let owned = config_maps(session, &catalog_source).await?;
    let mut catalog = read(&owned)?;
    append(&mut catalog, source)?;
    report.progress("Generated a valid Upgraded File-Based Catalog");

    let parts = config_maps_of(&catalog, &catalog_source)?;
    write(session, &parts, &owned).await?;
    let pod = start_pod(session, &catalog_source, parts.len(), &csv, &args.registry).await?;
    let names: Vec<String> = catalog.bundles.iter().map(|bundle| bundle.name.clone()).collect();
    let old_pod = text(&catalog_source, &pointer(POD_NAME)).to_owned();
    let patch = json!({
        "metadata": {"annotations": {
            INJECTED: injected(&names), POD_NAME: text(&pod, "/metadata/name"),
        }},
        "spec": {"address": registry::address(&pod)},
    });
    let before = json!({
        "metadata": {"annotations": {INJECTED: annotations[INJECTED], POD_NAME: annotations[POD_NAME]}},
        "spec": {"address": catalog_source["spec"]["address"]},
    });
    session
        .patch(CATALOG_SOURCE, catalog_name, &patch, before)
        .await?;
    report.progress(&format!(
        "Updated catalog source {catalog_name} with address and annotations"
    ));
    let patch = json!({"spec": {"startingCSV": csv}});
    let before = json!({"spec": {"startingCSV": subscription["spec"]["startingCSV"]}});
    session.patch(SUBSCRIPTION, name, &patch, before).await?;
    let plan = text(subscription, "/status/installPlanRef/name");
    approve(session, name, plan).await?;
    // From here on, the cluster upgrades the operator, so the catalog must be kept.
    session.keep();
    let old = session.delete(POD, &old_pod).await;
    match old {
        Ok(true) => report.progress(&format!("Deleted previous registry pod with name {old_pod:?}")),
        Ok(false) => {}
        Err(error) => report.warning(
            &format!("old registry pod {old_pod:?} failed to delete ({error}), requires manual cleanup"),
            None,
        ),
    }
    succeeded(session, name, &csv).await?;
    session
        .gone(CSV, text(subscription, "/status/installedCSV"))
        .await?;
    report.line(&format!("Successfully upgraded to {csv:?}"));
    Ok(())
}

fn pointer(annotation: &str) -> String {
    format!("/metadata/annotations/{}", annotation.replace('/', "~1"))
}

/// Returns the ConfigMaps of a catalog, by name.
async fn config_maps(session: &Session<'_>, source: &Value) -> Result<Vec<Value>, Failure> {
    let mut owned = session.list(CONFIG_MAP).await?;
    owned.retain(|config_map| {
        let owners = config_map
            .pointer("/metadata/ownerReferences")
            .and_then(Value::as_array);
        owners
            .into_iter()
            .flatten()
            .any(|owner| owner["uid"] == source["metadata"]["uid"])
    });
    owned.sort_by_key(|config_map| text(config_map, "/metadata/name").to_owned());
    Ok(owned)
}

fn read(config_maps: &[Value]) -> Result<Catalog, OlmError> {
    let mut catalog = Catalog::default();
    for config_map in config_maps {
        let name = text(config_map, "/metadata/name");
        let failed = |reason: String| OlmError::Catalog(format!("configmap {name}: {reason}"));
        let bytes = BASE64_STANDARD
            .decode(text(config_map, "/binaryData/extraFBC"))
            .map_err(|error| failed(error.to_string()))?;
        let mut part = String::new();
        GzDecoder::new(bytes.as_slice())
            .take(PART_MAX)
            .read_to_string(&mut part)
            .map_err(|error| failed(error.to_string()))?;
        catalog.merge(Catalog::load(&part).map_err(failed)?);
    }
    Ok(catalog)
}

/// Adds a bundle that replaces the head of the channel.
fn append(catalog: &mut Catalog, source: &Source) -> Result<(), OlmError> {
    let bundle = source.rendered.clone();
    if catalog.bundles.iter().any(|known| known.name == bundle.name) {
        return Err(OlmError::HasBundle(bundle.name));
    }
    let index = validate(catalog).map_err(OlmError::Catalog)?;
    let heads = index.packages.get(&bundle.package).map(|package| &package.heads);
    let head = heads.and_then(|heads| heads.get(CHANNEL)).cloned();
    let channel = catalog
        .channels
        .iter_mut()
        .find(|channel| channel.package == bundle.package && channel.name == CHANNEL);
    if let Some(channel) = channel {
        channel.entries.get_or_insert_default().push(Entry {
            name: bundle.name.clone(),
            replaces: head.unwrap_or_default(),
            ..Entry::default()
        });
    }
    catalog.bundles.push(bundle);
    validate(catalog).map_err(OlmError::Catalog)?;
    Ok(())
}

/// Replaces the existing parts of a catalog.
async fn write(session: &mut Session<'_>, parts: &[Value], owned: &[Value]) -> Result<(), Failure> {
    let names: BTreeSet<&str> = owned
        .iter()
        .map(|config_map| text(config_map, "/metadata/name"))
        .collect();
    for part in parts {
        let name = text(part, "/metadata/name");
        if !names.contains(name) {
            session.create(CONFIG_MAP, part).await?;
            continue;
        }
        let before = owned.iter().find(|known| text(known, "/metadata/name") == name);
        let before = before.map_or(Value::Null, |known| known["binaryData"].clone());
        session
            .patch(
                CONFIG_MAP,
                name,
                &json!({"binaryData": part["binaryData"]}),
                json!({"binaryData": before}),
            )
            .await?;
    }
    Ok(())
}
