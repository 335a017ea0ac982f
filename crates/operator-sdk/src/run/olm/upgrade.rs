//! `run bundle-upgrade`: adds a bundle to the catalog of `run bundle`, and upgrades the operator.

use std::process::ExitCode;

use serde_json::json;

use super::content::{append, config_maps, read, write};
use super::install::{INJECTED, POD_NAME, Source, approve, injected, programs, start_pod, succeeded};
use super::process::{Built, LocalProject};
use super::session::{CATALOG_SOURCE, CONFIG_MAP, CSV, POD, SUBSCRIPTION, Session, V1ALPHA1};
use super::{OlmError, ROOT_V1, api, config_maps_of, registry, signals, undone_on_failure, v1};
use crate::args::{OlmVersionArg, RunBundleUpgradeArgs};
use crate::failure::Failure;
use crate::process::objects::text;
use crate::process::signal::INTERRUPTED;
use crate::report::Report;

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
        let root = match args.olm_version {
            OlmVersionArg::V0 => V1ALPHA1,
            OlmVersionArg::V1 => ROOT_V1,
        };
        let mut session = Session::open(api, &[root], namespace, args.olm.timeout, report).await?;
        if args.olm_version == OlmVersionArg::V1 {
            v1::enter_namespace(&mut session, &source.rendered.package).await?;
        }
        if let Some((program, directory)) = program.as_ref().zip(programs.as_deref()) {
            program.register(directory, &session.namespace)?;
        }
        undone_on_failure(&mut session, &mut ends, async |session| match args.olm_version {
            OlmVersionArg::V0 => upgrade(session, args, &source).await,
            OlmVersionArg::V1 => v1::upgrade(session, args, &source).await,
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
    let owned = config_maps(session, CONFIG_MAP, &catalog_source).await?;
    let mut catalog = read(&owned)?;
    append(&mut catalog, source.rendered.clone())?;
    report.progress("Generated a valid Upgraded File-Based Catalog");

    let parts = config_maps_of(&catalog, &catalog_source)?;
    write(session, CONFIG_MAP, &parts, &owned).await?;
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
