//! The dependencies of a project on the crates of the SDK.
//!
//! Cargo.toml, which is committed, contains a version or a git revision, never a path of a machine. A checkout of the
//! SDK replaces the version through a `[patch]` in `.cargo/config.toml`, which git ignores.

use toml_edit::{DocumentMut, InlineTable, Item, Table, Value};

use super::draft::Draft;
use super::{Plan, PlanError};
use crate::project::layout::{OPTIONAL_SDK_CRATES, SDK_CRATES};
use crate::project::{Project, Tree, layout};

/// The cargo configuration of one checkout of a project.
pub(crate) const CONFIG: &str = ".cargo/config.toml";

/// Excludes the configuration from version control if the project's .gitignore does not.
const IGNORE: &str = ".cargo/.gitignore";

const HEADER: &str = "\
# Written by operator-sdk for this machine; git ignores it. The SDK's crates come from a checkout instead of the registry.
# Change it with `operator-sdk edit --sdk-path`, `--sdk-git` or `--sdk-registry`.
";

/// The source of the SDK's crates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SdkSource {
    /// The registry, at the minor version of this tool.
    Registry,
    /// The directory with the crates of a checkout, on this machine only.
    Path(String),
    /// A revision of a git repository.
    Git { url: String, rev: String },
}

// === impl SdkSource ===

impl SdkSource {
    /// Returns the requirement of a crate in the form of Cargo.toml.
    pub(crate) fn requirement(&self) -> String {
        match self {
            Self::Registry | Self::Path(_) => Value::from(version()).to_string(),
            Self::Git { url, rev } => {
                let mut table = InlineTable::new();
                table.insert("git", url.into());
                table.insert("rev", rev.into());
                table.to_string()
            }
        }
    }

    /// Returns the requirement of a crate that only a feature of the project needs.
    pub(crate) fn optional_requirement(&self) -> String {
        let mut table = InlineTable::new();
        match self {
            Self::Registry | Self::Path(_) => drop(table.insert("version", version().into())),
            Self::Git { url, rev } => {
                table.insert("git", url.into());
                table.insert("rev", rev.into());
            }
        }
        table.insert("optional", true.into());
        table.to_string()
    }
}

/// Returns the minor version of this tool: `0.1`.
fn version() -> &'static str {
    concat!(
        env!("CARGO_PKG_VERSION_MAJOR"),
        ".",
        env!("CARGO_PKG_VERSION_MINOR")
    )
}

/// Returns the crates of the SDK that a project may depend on.
fn all_crates() -> impl Iterator<Item = &'static str> {
    SDK_CRATES.into_iter().chain(OPTIONAL_SDK_CRATES)
}

/// Returns the crates that a checkout replaces. Cargo warns about an unused patch and records it in Cargo.lock, so an
/// optional crate is patched only if Cargo.toml names it.
fn patched(manifest: &str) -> Vec<&'static str> {
    let document: DocumentMut = manifest.parse().unwrap_or_default();
    let is_named = |krate: &&str| {
        let tables = ["dependencies", "dev-dependencies"];
        tables.iter().any(|table| {
            let table = document.get(table).and_then(Item::as_table_like);
            table.is_some_and(|table| table.contains_key(krate))
        })
    };
    SDK_CRATES
        .into_iter()
        .chain(OPTIONAL_SDK_CRATES.into_iter().filter(is_named))
        .collect()
}

/// Returns the directory of the SDK's crates if Cargo.toml contains it as a path, as earlier versions wrote it.
pub(crate) fn path_in_manifest(manifest: &str) -> Option<String> {
    let document: DocumentMut = manifest.parse().ok()?;
    let dependency = document.get("dependencies")?.get(SDK_CRATES[0])?;
    let path = dependency.get("path")?.as_str()?;
    Some(
        path.strip_suffix(&format!("/{}", SDK_CRATES[0]))
            .unwrap_or(path)
            .to_owned(),
    )
}

/// Adds the files that select a checkout, or no checkout, to the plan of a new project.
pub(crate) fn direct(plan: &mut Plan, tree: &Tree, source: &SdkSource) -> Result<(), PlanError> {
    let before = tree.get(CONFIG);
    let manifest = plan
        .planned(layout::CARGO)
        .flatten()
        .or_else(|| tree.get(layout::CARGO));
    let after = configuration(before, source, &patched(manifest.unwrap_or_default()))?;
    if after.as_deref() == before {
        return Ok(());
    }
    let ignored = plan
        .planned(".gitignore")
        .flatten()
        .or_else(|| tree.get(".gitignore"))
        .is_some_and(|text| text.lines().any(|line| line.trim() == format!("/{CONFIG}")));
    if !ignored && tree.get(IGNORE).is_none() && matches!(source, SdkSource::Path(_)) {
        plan.put(IGNORE, None, "/config.toml\n/.gitignore\n".to_owned());
    }
    match after {
        Some(text) => plan.put(CONFIG, before, text),
        None => plan.remove(CONFIG, before),
    }
    Ok(())
}

/// Plans the change of a project to another source of the SDK's crates.
pub(crate) fn change(draft: &mut Draft<'_>, project: &Project, source: &SdkSource) -> Result<(), PlanError> {
    direct(&mut draft.plan, &project.tree, source)?;
    let text = project.tree.get(layout::CARGO).unwrap_or_default();
    let mut document = parse(layout::CARGO, text)?;
    let requirement: Value = source
        .requirement()
        .parse()
        .map_err(|error: toml_edit::TomlError| edit_error(layout::CARGO, &error))?;
    for name in ["dependencies", "dev-dependencies"] {
        let Some(table) = document.get_mut(name).and_then(Item::as_table_like_mut) else {
            continue;
        };
        for krate in all_crates() {
            if let Some(item) = table.get_mut(krate) {
                set_requirement(item, &requirement);
            }
        }
    }
    draft.put(layout::CARGO, document.to_string());
    Ok(())
}

/// Replaces the source of a dependency. Its features and other keys are kept.
fn set_requirement(item: &mut Item, requirement: &Value) {
    const SOURCES: [&str; 6] = ["version", "path", "git", "rev", "branch", "tag"];
    let Some(table) = item.as_table_like_mut() else {
        *item = Item::Value(requirement.clone());
        return;
    };
    for key in SOURCES {
        table.remove(key);
    }
    if table.is_empty() {
        *item = Item::Value(requirement.clone());
        return;
    }
    // The source comes first, as in the output of `init`.
    let rest: Vec<(String, Item)> = table
        .iter()
        .map(|(key, item)| (key.to_owned(), item.clone()))
        .collect();
    table.clear();
    match requirement.as_inline_table() {
        Some(git) => git
            .iter()
            .for_each(|(key, value)| drop(table.insert(key, Item::Value(value.clone())))),
        None => drop(table.insert("version", Item::Value(requirement.clone()))),
    }
    for (key, item) in rest {
        table.insert(&key, item);
    }
}

/// Returns cargo's configuration for a source, or `None` if it would be empty.
fn configuration(
    before: Option<&str>,
    source: &SdkSource,
    crates: &[&str],
) -> Result<Option<String>, PlanError> {
    let mut document = parse(CONFIG, before.unwrap_or_default())?;
    let has_patch = document.get("patch").is_some();
    if let SdkSource::Path(path) = source {
        let patch = table(document.as_table_mut(), "patch")?;
        patch.set_implicit(true);
        let registry = table(patch, "crates-io")?;
        for krate in crates {
            let mut entry = InlineTable::new();
            entry.insert("path", format!("{path}/{krate}").into());
            registry.insert(krate, Item::Value(entry.into()));
        }
    } else if has_patch {
        let patch = table(document.as_table_mut(), "patch")?;
        let registry = table(patch, "crates-io")?;
        all_crates().for_each(|krate| drop(registry.remove(krate)));
        if registry.is_empty() {
            patch.remove("crates-io");
        }
        if patch.is_empty() {
            document.remove("patch");
        }
    }
    let text = document.to_string();
    if text.trim_start_matches(HEADER).trim().is_empty() {
        return Ok(None);
    }
    Ok(Some(match before {
        None => format!("{HEADER}{text}"),
        Some(_) => text,
    }))
}

/// Returns the directory of the checkout's crates in a project's cargo configuration.
pub(crate) fn patched_path(config: &str) -> Option<String> {
    let document: DocumentMut = config.parse().ok()?;
    let entry = document.get("patch")?.get("crates-io")?.get(SDK_CRATES[0])?;
    let path = entry.get("path")?.as_str()?;
    Some(
        path.strip_suffix(&format!("/{}", SDK_CRATES[0]))
            .unwrap_or(path)
            .to_owned(),
    )
}

fn table<'a>(parent: &'a mut Table, name: &str) -> Result<&'a mut Table, PlanError> {
    let wrong = || PlanError::Edit {
        path: CONFIG.to_owned(),
        reason: format!("`{name}` is not a table"),
        remedy: "write it as `[patch.crates-io]`".to_owned(),
    };
    let item = parent.entry(name).or_insert_with(|| Item::Table(Table::new()));
    item.as_table_mut().ok_or_else(wrong)
}

fn parse(path: &str, text: &str) -> Result<DocumentMut, PlanError> {
    text.parse()
        .map_err(|error: toml_edit::TomlError| edit_error(path, &error))
}

fn edit_error(path: &str, error: &toml_edit::TomlError) -> PlanError {
    PlanError::Edit {
        path: path.to_owned(),
        reason: error.message().to_owned(),
        remedy: "correct its syntax".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_of_the_user_keeps_everything_else() {
        let path = SdkSource::Path("/sdk/crates".to_owned());
        let mine = "# mine\n[build]\njobs = 1\n\n[patch.crates-io]\nserde = { path = \"../serde\" }\n";
        let with = configuration(Some(mine), &path, &SDK_CRATES).unwrap().unwrap();
        assert!(with.starts_with(mine), "{with}");
        assert_eq!(patched_path(&with).as_deref(), Some("/sdk/crates"));
        let without = configuration(Some(&with), &SdkSource::Registry, &SDK_CRATES).unwrap();
        assert_eq!(without.as_deref(), Some(mine));

        let own = configuration(None, &path, &SDK_CRATES).unwrap().unwrap();
        assert_eq!(
            own,
            format!(
                "{HEADER}[patch.crates-io]\noperator-runtime = {{ path = \"/sdk/crates/operator-runtime\" }}\n\
                 operator-envtest = {{ path = \"/sdk/crates/operator-envtest\" }}\n"
            )
        );
        assert_eq!(
            configuration(Some(&own), &SdkSource::Registry, &SDK_CRATES).unwrap(),
            None
        );
        assert_eq!(
            configuration(None, &SdkSource::Registry, &SDK_CRATES).unwrap(),
            None
        );
        assert!(configuration(Some("patch = 1\n"), &path, &SDK_CRATES).is_err());
    }

    #[test]
    fn an_optional_crate_is_patched_if_the_project_names_it() {
        assert_eq!(
            patched("[dependencies]\noperator-runtime = \"0.1\"\n"),
            SDK_CRATES
        );
        let optional = patched("[dependencies]\noperator-chaos = { version = \"0.1\", optional = true }\n");
        assert_eq!(
            optional,
            ["operator-runtime", "operator-envtest", "operator-chaos"]
        );
        let more = patched("[dependencies]\noperator-lib = { version = \"0.1\" }\n");
        assert_eq!(more, ["operator-runtime", "operator-envtest", "operator-lib"]);
    }

    #[test]
    fn the_features_of_a_dependency_stay() {
        let git = SdkSource::Git {
            url: "https://example.com/sdk".to_owned(),
            rev: "abc".to_owned(),
        };
        let set = |dependency: &str, source: &SdkSource| {
            let mut document: DocumentMut = format!("d = {dependency}\n").parse().unwrap();
            set_requirement(&mut document["d"], &source.requirement().parse().unwrap());
            document.to_string()
        };
        assert_eq!(
            set("\"0.1\"", &git),
            "d = { git = \"https://example.com/sdk\", rev = \"abc\" }\n"
        );
        assert_eq!(set("{ path = \"/x\" }", &SdkSource::Registry), "d = \"0.1\"\n");
        let featured = set("{ path = \"/x\", features = [\"a\"] }", &SdkSource::Registry);
        assert!(
            featured.contains("features = [\"a\"]") && featured.contains("version = \"0.1\""),
            "{featured}"
        );
    }
}
