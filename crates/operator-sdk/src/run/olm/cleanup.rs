//! `cleanup`: deletes an operator with its Subscription and its catalog.

use std::process::ExitCode;

use serde_json::Value;

use super::install::GROUP;
use super::session::{
    CATALOG_SOURCE, CSV, DEFINITION, OPERATOR_GROUP, Resource, SUBSCRIPTION, Session, V1ALPHA1,
};
use super::{ROOT_V1, api, signals, v1};
use crate::args::CleanupArgs;
use crate::failure::Failure;
use crate::process::objects::text;
use crate::process::signal::INTERRUPTED;
use crate::report::Report;
use crate::run::crd::counted;

/// Runs `operator-sdk cleanup`.
pub(crate) fn cleanup(args: &CleanupArgs, report: &Report) -> Result<ExitCode, Failure> {
    crate::run::block_on(async {
        let api = api(&args.olm.cluster).await?;
        let mut ends = signals()?;
        let namespace = args.olm.namespace.as_deref();
        let session = Session::open(api, &[V1ALPHA1, ROOT_V1], namespace, args.olm.timeout, report).await?;
        tokio::select! {
            outcome = clean(&session, args) => outcome.map(|()| ExitCode::SUCCESS),
            () = ends.next() => {
                report.progress("Interrupted: the remaining objects are kept. The command can be run again.");
                Ok(ExitCode::from(INTERRUPTED))
            }
        }
    })
}

/// The objects of an operator.
#[derive(Default)]
struct Parts {
    subscription: String,
    csv: String,
    catalog: String,
    definitions: Vec<String>,
}

async fn clean(session: &Session<'_>, args: &CleanupArgs) -> Result<(), Failure> {
    let report = session.report;
    let package = &args.package;
    let parts = find(session, package).await?;
    if parts.subscription.is_empty() && parts.csv.is_empty() && parts.catalog.is_empty() {
        if let Some(extension) = v1::find(session, package).await? {
            return v1::clean(session, args, &extension).await;
        }
        report.warning(&format!("Cleanup operator: package {package:?} not found"), None);
        return Ok(());
    }
    // CRDs are deleted while the operator runs, so that it completes the finalizers of their objects.
    let delete_definitions = args.delete_all || args.delete_crds;
    let mut order: Vec<(Resource, &str, bool)> = vec![(SUBSCRIPTION, &parts.subscription, false)];
    if delete_definitions {
        order.extend(
            parts
                .definitions
                .iter()
                .map(|name| (DEFINITION, name.as_str(), true)),
        );
    }
    order.push((CSV, &parts.csv, true));
    order.push((CATALOG_SOURCE, &parts.catalog, true));
    let others = session.list(SUBSCRIPTION).await?;
    let is_last = !others
        .iter()
        .any(|known| text(known, "/metadata/name") != parts.subscription);
    let delete_group = is_last && (args.delete_all || args.delete_operator_groups);
    if !args.dry_run {
        let group = delete_group.then_some((OPERATOR_GROUP, GROUP, false));
        let all: Vec<(Resource, &str, bool)> = order.iter().copied().chain(group).collect();
        announce(session, &all).await?;
    }
    for (resource, name, is_awaited) in order {
        delete(session, args, resource, name, is_awaited).await?;
    }
    if !delete_definitions && !parts.definitions.is_empty() {
        report.progress("Skipping CRD deletion");
    }
    if !(args.delete_all || args.delete_operator_groups) {
        report.progress("Skipping Operator Groups deletion");
    } else if delete_group {
        delete(session, args, OPERATOR_GROUP, GROUP, false).await?;
    }
    if !args.dry_run {
        report.line(&format!("Operator {package:?} uninstalled"));
    }
    Ok(())
}

/// Prints what will be deleted, with the number of the objects that are lost with their definitions.
async fn announce(session: &Session<'_>, order: &[(Resource, &str, bool)]) -> Result<(), Failure> {
    session.report.progress("Deleting:");
    for (resource, name, _) in order {
        let Some(object) = session.get(*resource, name).await? else {
            continue;
        };
        let word = resource.word;
        let objects = if word == DEFINITION.word {
            let count = v1::objects_of(session, &object).await?.len();
            format!(" with {}", counted(count, "object"))
        } else {
            String::new()
        };
        session.report.progress(&format!("  {word} {name:?}{objects}"));
    }
    Ok(())
}

async fn delete(
    session: &Session<'_>,
    args: &CleanupArgs,
    resource: Resource,
    name: &str,
    is_awaited: bool,
) -> Result<(), Failure> {
    if session.get(resource, name).await?.is_none() {
        return Ok(());
    }
    let word = resource.word;
    if args.dry_run {
        session.report.line(&format!("{word} {name:?} deleted (dry run)"));
        return Ok(());
    }
    session.delete(resource, name).await?;
    if is_awaited {
        session.gone(resource, name).await?;
    }
    session.report.line(&format!("{word} {name:?} deleted"));
    Ok(())
}

async fn find(session: &Session<'_>, package: &str) -> Result<Parts, Failure> {
    let subscriptions = session.list(SUBSCRIPTION).await?;
    let found = subscriptions
        .iter()
        .find(|known| text(known, "/spec/name") == package);
    let mut parts = Parts::default();
    let mut catalog = format!("{package}-catalog");
    if let Some(found) = found {
        text(found, "/metadata/name").clone_into(&mut parts.subscription);
        // A catalog of another namespace also serves other operators.
        catalog = match text(found, "/spec/sourceNamespace") == session.namespace {
            true => text(found, "/spec/source").to_owned(),
            false => String::new(),
        };
        let installed = text(found, "/status/installedCSV");
        let name = match installed {
            "" => text(found, "/spec/startingCSV"),
            installed => installed,
        };
        if let Some(csv) = session.get(CSV, name).await? {
            name.clone_into(&mut parts.csv);
            let owned = csv
                .pointer("/spec/customresourcedefinitions/owned")
                .and_then(Value::as_array);
            parts.definitions = owned
                .into_iter()
                .flatten()
                .map(|owned| text(owned, "/name").to_owned())
                .collect();
        }
    }
    if session.get(CATALOG_SOURCE, &catalog).await?.is_some() {
        parts.catalog = catalog;
    }
    Ok(parts)
}
