//! `init`: the files of a new project.

use super::{Plan, PlanError};
use crate::args::{InitArgs, License};
use crate::lock;
use crate::names;
use crate::project::{Config, Tree, layout};
use crate::template::{self, ProjectValues, SdkSource};

/// What `init` needs beside its arguments; all of it is the caller's to find out.
pub(crate) struct Surroundings {
    /// The name of the directory.
    pub(crate) directory: String,
    /// How the project depends on the SDK.
    pub(crate) sdk: SdkSource,
    /// For the copyright line.
    pub(crate) year: i64,
}

/// Path in the project, and template.
const FILES: [(&str, &str); 22] = [
    ("Cargo.toml", "project/Cargo.toml"),
    ("Dockerfile", "project/Dockerfile"),
    ("Makefile", "project/Makefile"),
    ("README.md", "project/README.md"),
    (".dockerignore", "project/dockerignore"),
    (".gitignore", "project/gitignore"),
    ("rustfmt.toml", "project/rustfmt.toml"),
    ("src/main.rs", "project/main.rs"),
    (layout::LIB, "project/lib.rs"),
    (layout::API, "project/api.rs"),
    (layout::CONTROLLER, "project/controller.rs"),
    (layout::BOILERPLATE, "project/boilerplate.rs.txt"),
    (layout::DEFAULT_KUSTOMIZATION, "config/default_kustomization.yaml"),
    (
        "config/manager/kustomization.yaml",
        "config/manager_kustomization.yaml",
    ),
    ("config/manager/manager.yaml", "config/manager.yaml"),
    (layout::RBAC_KUSTOMIZATION, "config/rbac_kustomization.yaml"),
    ("config/rbac/role_binding.yaml", "config/role_binding.yaml"),
    ("config/rbac/service_account.yaml", "config/service_account.yaml"),
    (
        "config/rbac/leader_election_role.yaml",
        "config/leader_election_role.yaml",
    ),
    (
        "config/rbac/leader_election_role_binding.yaml",
        "config/leader_election_role_binding.yaml",
    ),
    (layout::ROLE, ""),
    (layout::PROJECT, ""),
];

/// Files that a repository has before it becomes a project; the user's stay.
const KEPT: [&str; 2] = ["README.md", ".gitignore"];

/// The direct dependencies of a new project, for tests too; `templates/project/Cargo.toml` says the same.
pub(crate) const DEPENDENCIES: [&str; 10] = [
    "clap",
    "k8s-openapi",
    "kube",
    "operator-envtest",
    "operator-runtime",
    "schemars",
    "serde",
    "serde_json",
    "tokio",
    "tracing",
];

/// The version that a new project starts with.
const VERSION: &str = "0.0.1";

pub(crate) fn plan(args: &InitArgs, tree: &Tree, around: &Surroundings) -> Result<Plan, PlanError> {
    if tree.get(layout::PROJECT).is_some() {
        return Err(PlanError::AlreadyProject);
    }
    let name = args
        .project_name
        .clone()
        .unwrap_or_else(|| around.directory.clone());
    names::check_project(&name)?;
    names::check_domain(&args.domain)?;
    check_free_text("--owner", args.owner.as_deref())?;
    check_free_text("--repo", args.repo.as_deref())?;
    let values = values_of(&name, args, around)?;
    let config = Config::new(&args.domain, &name, args.repo.as_deref());
    let mut plan = Plan::default();
    for (path, template) in FILES {
        let text = match path {
            layout::PROJECT => config.render(),
            layout::ROLE => super::manifests::role(&[]),
            _ => template::render(template, &values)?,
        };
        put(&mut plan, tree, path, text);
    }
    let by_path = matches!(around.sdk, SdkSource::Path(_));
    if let Some(text) = lock::derive(&name, VERSION, &DEPENDENCIES, by_path) {
        put(&mut plan, tree, "Cargo.lock", text);
    }
    let in_the_way: Vec<String> = plan
        .changes
        .iter()
        .filter(|change| change.before.is_some())
        .map(|change| change.path.clone())
        .collect();
    if in_the_way.is_empty() {
        Ok(plan)
    } else {
        Err(PlanError::InTheWay(in_the_way))
    }
}

fn put(plan: &mut Plan, tree: &Tree, path: &str, text: String) {
    let before = tree.get(path);
    if before.is_some() && KEPT.contains(&path) {
        plan.kept.push(path.to_owned());
    } else {
        plan.put(path, before, text);
    }
}

/// Text that goes into a comment or a quoted value: one line of it.
fn check_free_text(flag: &str, text: Option<&str>) -> Result<(), PlanError> {
    match text {
        Some(text) if text.trim().is_empty() || text.chars().any(char::is_control) => Err(PlanError::Usage(
            format!("the text of `{flag}` is empty or has line breaks"),
            "give one line of text, or leave the flag away",
        )),
        _ => Ok(()),
    }
}

fn values_of(name: &str, args: &InitArgs, around: &Surroundings) -> Result<ProjectValues, PlanError> {
    let mut values = ProjectValues {
        project_name: name.to_owned(),
        crate_name: name.replace('-', "_"),
        domain: args.domain.clone(),
        repo: args.repo.clone(),
        owner: args.owner.clone(),
        license: args.license == License::Apache2,
        year: around.year,
        header: String::new(),
        sdk_path: match &around.sdk {
            SdkSource::Path(path) => Some(path.clone()),
            SdkSource::Version => None,
        },
        sdk_version: env!("CARGO_PKG_VERSION"),
        rust_version: env!("CARGO_PKG_RUST_VERSION"),
    };
    values.header = template::header(&template::render("project/boilerplate.rs.txt", &values)?);
    Ok(values)
}
