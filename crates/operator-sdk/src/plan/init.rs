//! `init`: the files of a new project.

use std::collections::BTreeMap;

use operator_manifests::config::Operator;
use serde_json::json;

use super::draft::Draft;
use super::sdk::{self, SdkSource};
use super::{Plan, PlanError, manifests};
use crate::args::{InitArgs, License};
use crate::lock;
use crate::names;
use crate::project::{Config, Tree, layout};
use crate::template::{self, ProjectValues};

/// The inputs of `init` other than its arguments, which the caller determines.
pub(crate) struct Surroundings {
    /// The name of the directory.
    pub(crate) directory: String,
    /// The source of the SDK for the project.
    pub(crate) sdk: SdkSource,
    /// The header of source files.
    pub(crate) head: Head,
}

/// Paths in the project, and their templates.
const FILES: [(&str, &str); 12] = [
    (layout::CARGO, "project/manifest.toml"),
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
    (".github/workflows/test.yml", "project/test.yml"),
];

/// Files that a repository often has before it becomes a project. The user's files are kept.
const KEPT: [&str; 2] = ["README.md", ".gitignore"];

/// The direct dependencies of a new project, including optional ones and dev-dependencies. They must be the same as in
/// `templates/project/manifest.toml`.
pub(crate) const DEPENDENCIES: [&str; 11] = [
    "clap",
    "k8s-openapi",
    "kube",
    "operator-chaos",
    "operator-envtest",
    "operator-runtime",
    "schemars",
    "serde",
    "serde_json",
    "tokio",
    "tracing",
];

/// The initial version of a new project.
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
    check_free_text("--repo", args.repo.as_deref())?;
    let values = values_of(&name, args, around)?;
    let mut config = Config::new(&args.domain, &name, args.repo.as_deref());
    (config.multigroup, config.namespaced) = (args.multigroup, args.namespaced);
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for (path, template) in FILES {
        files.insert(path.to_owned(), template::render(template, &values)?);
    }
    files.insert(layout::BOILERPLATE.to_owned(), around.head.boilerplate()?);
    files.insert(layout::PROJECT.to_owned(), config.render());
    files.insert(layout::ROLE.to_owned(), manifests::role(&[], args.namespaced));
    let lock = match &around.sdk {
        SdkSource::Registry => lock::derive(&name, VERSION, &DEPENDENCIES, false),
        SdkSource::Path(_) => lock::derive(&name, VERSION, &DEPENDENCIES, true),
        // Cargo resolves the revision.
        SdkSource::Git { .. } => None,
    };
    if let Some(text) = lock {
        files.insert("Cargo.lock".to_owned(), text);
    }
    files.extend(config_files(&config)?);
    let mut plan = written(files, tree)?;
    sdk::direct(&mut plan, tree, &around.sdk)?;
    Ok(plan)
}

/// Returns the complete `config/` tree of a project without kinds.
fn config_files(config: &Config) -> Result<BTreeMap<String, String>, PlanError> {
    let empty = Tree::default();
    let mut draft = Draft::new(&empty, true);
    let operator = Operator {
        metrics: true,
        ..super::config::operator(config, &empty)?
    };
    super::config::change(&mut draft, None, &operator)?;
    let files = draft.plan.changes.into_iter();
    Ok(files
        .filter_map(|change| Some((change.path, change.after?)))
        .collect())
}

fn written(files: BTreeMap<String, String>, tree: &Tree) -> Result<Plan, PlanError> {
    let mut plan = Plan::default();
    let mut in_the_way = Vec::new();
    for (path, text) in files {
        match tree.get(&path) {
            None => plan.put(&path, None, text),
            Some(_) if KEPT.contains(&path.as_str()) => plan.kept.push(path),
            Some(_) => in_the_way.push(path),
        }
    }
    if in_the_way.is_empty() {
        Ok(plan)
    } else {
        Err(PlanError::InTheWay(in_the_way))
    }
}

/// Checks text for a comment or a quoted value, which must be one line.
fn check_free_text(flag: &str, text: Option<&str>) -> Result<(), PlanError> {
    match text {
        Some(text) if text.trim().is_empty() || text.chars().any(char::is_control) => Err(PlanError::Usage(
            format!("the text of `{flag}` is empty or has line breaks"),
            "give one line of text, or omit the flag",
        )),
        _ => Ok(()),
    }
}

fn values_of(name: &str, args: &InitArgs, around: &Surroundings) -> Result<ProjectValues, PlanError> {
    Ok(ProjectValues {
        project_name: name.to_owned(),
        crate_name: name.replace('-', "_"),
        domain: args.domain.clone(),
        repo: args.repo.clone(),
        license: args.license == License::Apache2 && args.license_file.is_none(),
        header: template::header(&around.head.boilerplate()?),
        sdk: around.sdk.requirement(),
        optional_sdk: around.sdk.optional_requirement(),
        rust_version: env!("CARGO_PKG_RUST_VERSION"),
    })
}

/// The header of source files.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) owner: Option<String>,
    pub(crate) license: License,
    /// The year of the copyright line.
    pub(crate) year: i64,
    /// The text of a file that replaces the generated header.
    pub(crate) file: Option<String>,
}

// === impl Head ===

impl Head {
    /// Returns the text of `hack/boilerplate.rs.txt`, which consists of Rust comments.
    pub(crate) fn boilerplate(&self) -> Result<String, PlanError> {
        check_free_text("--owner", self.owner.as_deref())?;
        let Some(text) = &self.file else {
            let values = json!({
                "owner": self.owner,
                "license": self.license == License::Apache2,
                "year": self.year,
            });
            return Ok(template::render("project/boilerplate.rs.txt", &values)?);
        };
        let is_comment =
            |text: &str| crate::source::syntax::parse(text).is_ok_and(|file| file.items.is_empty());
        let commented: String = text
            .lines()
            .map(|line| format!("{}\n", format!("// {line}").trim_end()))
            .collect();
        Ok(if is_comment(text) { text.clone() } else { commented })
    }
}
