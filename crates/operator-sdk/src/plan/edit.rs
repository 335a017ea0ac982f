//! `edit`: changes project settings.

use super::draft::Draft;
use super::init::Head;
use super::sdk::{self, SdkSource};
use super::{Plan, PlanError, config, create_webhook, manifests};
use crate::args::EditArgs;
use crate::project::{Project, layout};

/// Plans the files. `head` is the new header of source files, if it changes.
///
/// `source` is the new source of the SDK's crates, if it changes.
pub(crate) fn plan(
    args: &EditArgs,
    project: &Project,
    head: Option<&Head>,
    source: Option<&SdkSource>,
) -> Result<Plan, PlanError> {
    let mut draft = Draft::new(&project.tree, args.force);
    let mut changed = project.config.clone();
    if args.multigroup == Some(true) && !changed.multigroup {
        changed
            .resources
            .iter_mut()
            .for_each(|resource| resource.flat = true);
    }
    changed.multigroup = args.multigroup.unwrap_or(changed.multigroup);
    if !changed.multigroup {
        changed
            .resources
            .iter_mut()
            .for_each(|resource| resource.flat = false);
    }
    changed.namespaced = args.namespaced.unwrap_or(changed.namespaced);
    check_groups(args, project)?;
    let before = config::operator(&project.config, &project.tree)?;
    let mut after = config::with_config(&before, &changed);
    after.metrics = args.metrics.unwrap_or(before.metrics);
    after.prometheus = args.prometheus.unwrap_or(before.prometheus && after.metrics);
    after.network_policy = args.network_policy.unwrap_or(before.network_policy);
    after.cert_manager = args.cert_manager.unwrap_or(before.cert_manager);
    if after.prometheus && !after.metrics {
        return Err(PlanError::Usage(
            "`--prometheus` needs metrics, and the operator serves none".to_owned(),
            "enable them with `--metrics`",
        ));
    }
    config::change(&mut draft, Some(&before), &after)?;
    if changed.namespaced != project.config.namespaced {
        let mut rules = draft
            .get(layout::ROLE)
            .map_or_else(|| Ok(Vec::new()), manifests::rules_of)?;
        if !changed.namespaced {
            create_webhook::widen(&mut rules);
        }
        draft.put(layout::ROLE, manifests::role(&rules, changed.namespaced));
    }
    if after.manages_certificates() != before.manages_certificates() {
        create_webhook::set_certificates(&mut draft, after.manages_certificates())?;
        create_webhook::write_role(&mut draft, &changed, after.manages_certificates())?;
    }
    if let Some(head) = head {
        draft.put(layout::BOILERPLATE, head.boilerplate()?);
    }
    if let Some(source) = source {
        sdk::change(&mut draft, project, source)?;
    }
    draft.put(layout::PROJECT, changed.render());
    Ok(draft.plan)
}

/// Rejects the change back to a single group, because kinds are already in directories by group.
fn check_groups(args: &EditArgs, project: &Project) -> Result<(), PlanError> {
    let grouped = project.config.resources.iter().any(|resource| !resource.flat);
    if args.multigroup == Some(false) && project.config.multigroup && grouped {
        return Err(PlanError::Usage(
            "the project has kinds in directories by group".to_owned(),
            "move their files and remove `multigroup` from PROJECT, or keep `--multigroup`",
        ));
    }
    Ok(())
}
