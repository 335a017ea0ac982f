//! `run bundle-upgrade --olm-version v1`: adds a bundle to the catalog of an extension, which OLM v1 then upgrades.

use serde_json::{Value, json};

use super::super::content::{append, config_maps, read, write};
use super::super::install::Source;
use super::super::session::{Resource, Session, cluster};
use super::super::{OlmError, parts_of};
use super::push::{Target, pull_catalog, push_bundle, push_catalog};
use super::{CATALOG, NAME, find, installed, served};
use crate::args::RunBundleUpgradeArgs;
use crate::failure::Failure;
use crate::process::objects::text;

/// The ConfigMaps of the catalogs of an embedded control plane.
const PART: Resource = cluster("/api/v1/namespaces/olmv1-system", "configmaps", "configmap");

/// Makes the namespace of the extension of a package that of the session.
pub(in super::super) async fn enter_namespace(
    session: &mut Session<'_>,
    package: &str,
) -> Result<(), Failure> {
    let extension = extension(session, package).await?;
    text(&extension, "/spec/namespace").clone_into(&mut session.namespace);
    Ok(())
}

async fn extension(session: &Session<'_>, package: &str) -> Result<Value, Failure> {
    let found = find(session, package).await?;
    Ok(found.ok_or_else(|| OlmError::NoExtension(package.to_owned()))?)
}

/// Upgrades the extension of a package to a bundle.
pub(in super::super) async fn upgrade(
    session: &mut Session<'_>,
    args: &RunBundleUpgradeArgs,
    source: &Source,
) -> Result<(), Failure> {
    let report = session.report;
    let csv = source.rendered.name.clone();
    let extension = extension(session, &source.rendered.package).await?;
    let name = text(&extension, "/metadata/name");
    report.progress(&format!("Found existing ClusterExtension with name {name}"));
    let label = format!(
        "/spec/source/catalog/selector/matchLabels/{}",
        NAME.replace('/', "~1")
    );
    let catalog_name = text(&extension, &label);
    let foreign = || OlmError::ForeignCatalog(catalog_name.to_owned());
    let catalog_object = session.get(CATALOG, catalog_name).await?.ok_or_else(foreign)?;
    report.progress(&format!("Found existing ClusterCatalog with name {catalog_name}"));
    let before = text(&catalog_object, "/status/resolvedSource/image/ref");
    let image = text(&catalog_object, "/spec/source/image/ref");
    let owned = config_maps(session, PART, &catalog_object).await?;
    if owned.is_empty() {
        let repository = args.push_to.as_deref().ok_or(OlmError::NeedsRegistry)?;
        let target = Target {
            repository,
            bundle: &args.bundle,
            insecure: args.insecure,
            report,
        };
        let mut catalog = pull_catalog(image, args.insecure).await?;
        if catalog.packages.is_empty() {
            return Err(foreign().into());
        }
        append(&mut catalog, push_bundle(&target, source).await?)?;
        report.progress("Generated a valid Upgraded File-Based Catalog");
        let pushed = push_catalog(&target, &catalog, &csv).await?;
        let patch = |image: &str| json!({"spec": {"source": {"image": {"ref": image}}}});
        session
            .patch(CATALOG, catalog_name, &patch(&pushed), patch(image))
            .await?;
    } else {
        let mut catalog = read(&owned)?;
        append(&mut catalog, source.rendered.clone())?;
        report.progress("Generated a valid Upgraded File-Based Catalog");
        let parts = parts_of(&catalog, &catalog_object, super::SYSTEM)?;
        write(session, PART, &parts, &owned).await?;
    }
    report.progress(&format!("Updated ClusterCatalog: {catalog_name}"));
    served(session, catalog_name, before).await?;
    installed(session, name, &csv).await?;
    session.keep();
    report.line(&format!("Successfully upgraded to {csv:?}"));
    Ok(())
}
