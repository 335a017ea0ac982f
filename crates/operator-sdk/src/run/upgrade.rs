//! `upgrade`: merges the scaffold of an earlier version, the scaffold of this version, and the user's files.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::scaffold::{current_directory, default_source, finish, sdk_at};
use super::texts;
use crate::apply;
use crate::args::UpgradeArgs;
use crate::failure::{Failure, Hinted};
use crate::file;
use crate::merge::{self, Sides};
use crate::plan::Plan;
use crate::plan::sdk::{self, SdkSource};
use crate::process::temporary::TemporaryDirectory;
use crate::project::{Project, layout};
use crate::record::{self, Record, RecordError};
use crate::report::Report;

/// Files that are generated from the source or by cargo, which are not part of the scaffold.
const GENERATED: [&str; 5] = [
    ".cargo/",
    "Cargo.lock",
    "config/crd/bases/",
    "config/rbac/role.yaml",
    "config/webhook/manifests.yaml",
];

/// The variable that is set for replayed commands, which are not recorded.
const REPLAY: &str = "OPERATOR_SDK_REPLAY";

#[derive(Debug, thiserror::Error)]
pub(crate) enum UpgradeError {
    #[error("the project has no record of its scaffold: {} is missing", record::PATH)]
    NoRecord,
    #[error("{0}")]
    Record(#[from] RecordError),
    #[error("cannot create the scaffold of this version: `{command}` failed: {reason}")]
    Replay { command: String, reason: String },
    #[error("the project has changes that are not committed: {0}")]
    Uncommitted(String),
    #[error("the project was created by version {0}, and this is version {1}")]
    Newer(String, &'static str),
}

impl Hinted for UpgradeError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoRecord | Self::Record(_) => {
                "restore it from version control; without it, scaffold a new project and compare by hand"
                    .to_owned()
            }
            Self::Replay { .. } => format!(
                "the commands are in {}: correct the one that no longer works",
                record::PATH
            ),
            Self::Uncommitted(_) => {
                "commit them first, so that the upgrade can be reviewed and undone, or use `--force`"
                    .to_owned()
            }
            Self::Newer(..) => "use that version, or a later one".to_owned(),
        })
    }
}

/// Commands that scaffold files.
const SCAFFOLDING: [&str; 4] = ["init", "create", "edit", "delete"];

/// Checks that a scaffolding command can be added to the record, before it runs.
pub(crate) fn check_record(line: &[OsString]) -> Result<(), Failure> {
    let scaffolds = line
        .first()
        .and_then(|word| word.to_str())
        .is_some_and(|word| word == "add" || SCAFFOLDING.contains(&word));
    if scaffolds && std::env::var_os(REPLAY).is_none() {
        recorded(&current_directory()?)?;
    }
    Ok(())
}

/// Returns the PROJECT file of the current directory, if there is one.
pub(crate) fn project_text() -> Option<String> {
    file::read_text(Path::new(layout::PROJECT)).ok()
}

/// Records the command line if it scaffolds files. `before` is the previous PROJECT file.
pub(crate) fn remember(line: &[OsString], before: Option<&str>, report: &Report) -> Result<(), Failure> {
    let words: Option<Vec<String>> = line.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    let words = words.unwrap_or_default();
    let scaffolds = words
        .first()
        .is_some_and(|word| SCAFFOLDING.contains(&word.as_str()));
    if !scaffolds || words.iter().any(|word| word == "--dry-run") {
        return Ok(());
    }
    // The user may have declined the confirmation.
    if words.first().is_some_and(|word| word == "delete") && project_text().as_deref() == before {
        return Ok(());
    }
    remember_in(&current_directory()?, &words, report)
}

/// Records a command line in `root`, with the scaffolded files.
pub(crate) fn remember_in(root: &Path, words: &[String], report: &Report) -> Result<(), Failure> {
    if std::env::var_os(REPLAY).is_some() {
        return Ok(());
    }
    let begins = words.first().is_some_and(|word| word == "init");
    let mut record = match recorded(root)? {
        Some(record) => record,
        None if begins => Record::default(),
        // A project without a record does not get one, because it would be incomplete.
        None => return Ok(()),
    };
    let mut words = portable(&absolute(root, words));
    if words == ["edit"] {
        return Ok(());
    }
    if words.first().is_some_and(|word| word == "delete") {
        words.push("--yes".to_owned());
    }
    record.commands.push(words);
    record.commands = named(root, record.commands);
    // The command itself has succeeded.
    if let Err(failure) = keep(root, record) {
        report.progress(&format!(
            "warning: this command is not recorded for `upgrade`: {}",
            failure.message
        ));
    }
    Ok(())
}

/// Changes the domain in the record, as if the project had been created with it.
pub(crate) fn set_domain(root: &Path, domain: &str) -> Result<(), Failure> {
    let Some(mut record) = recorded(root)? else {
        return Ok(());
    };
    if let Some(init) = record.commands.first_mut() {
        init.extend(["--domain".to_owned(), domain.to_owned()]);
    }
    keep(root, record)
}

fn recorded(root: &Path) -> Result<Option<Record>, UpgradeError> {
    Ok(Record::read(root)?)
}

/// Adds the project name to `init`, because its default is the name of the directory, which may differ in a clone.
fn named(root: &Path, mut commands: Vec<Vec<String>>) -> Vec<Vec<String>> {
    const FLAG: &str = "--project-name";
    let Some(init) = commands
        .first_mut()
        .filter(|words| words.first().is_some_and(|word| word == "init"))
    else {
        return commands;
    };
    let is_named = init
        .iter()
        .any(|word| word == FLAG || word.starts_with("--project-name="));
    if !is_named && let Ok(project) = Project::read(root) {
        init.push(format!("{FLAG}={}", project.config.project_name));
    }
    commands
}

fn keep(root: &Path, mut record: Record) -> Result<(), Failure> {
    record.files = scaffold(root, &record.commands)?;
    env!("CARGO_PKG_VERSION").clone_into(&mut record.version);
    let mut plan = Plan::default();
    change_record(&mut plan, root, &record)?;
    apply::apply(root, &plan)?;
    Ok(())
}

/// Adds the changes of the files of the record to a plan.
fn change_record(plan: &mut Plan, root: &Path, record: &Record) -> Result<(), UpgradeError> {
    let before = record::on_disk(root)?;
    let after = record.render();
    for path in before.keys().filter(|path| !after.contains_key(*path)) {
        plan.remove(path, before.get(path).map(String::as_str));
    }
    for (path, text) in after {
        plan.put(&path, before.get(&path).map(String::as_str), text);
    }
    Ok(())
}

/// Removes the path of the SDK on this machine, because the record is committed.
fn portable(words: &[String]) -> Vec<String> {
    let mut out = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--sdk-path" => drop(words.next()),
            path if path.starts_with("--sdk-path=") => {}
            _ => out.push(word.clone()),
        }
    }
    out
}

/// Makes paths absolute, so that the command can run in another directory.
fn absolute(root: &Path, words: &[String]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for word in words {
        let word = match word.strip_prefix("--license-file=") {
            Some(file) => format!("--license-file={}", root.join(file).display()),
            None if out.last().is_some_and(|flag| flag == "--license-file") => {
                root.join(word).display().to_string()
            }
            None => word.clone(),
        };
        out.push(word);
    }
    out
}

/// Returns the files that this version writes for the commands, in a directory with the project's name.
fn scaffold(root: &Path, commands: &[Vec<String>]) -> Result<BTreeMap<String, String>, Failure> {
    let whole = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let name = whole
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let temporary = TemporaryDirectory::create()?;
    let scratch = temporary.directory(&name)?;
    for words in commands {
        replay(&scratch, words)?;
    }
    let mut files = texts::of(&scratch);
    files.retain(|path, _| !is_generated(path));
    Ok(files)
}

fn replay(directory: &Path, words: &[String]) -> Result<(), UpgradeError> {
    let failed = |reason: String| UpgradeError::Replay {
        command: format!("operator-sdk {}", words.join(" ")),
        reason,
    };
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let output = Command::new(program)
        .args(words)
        .current_dir(directory)
        .env(REPLAY, "1")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().next().unwrap_or_default();
    Err(failed(line.strip_prefix("error: ").unwrap_or(line).to_owned()))
}

fn is_generated(path: &str) -> bool {
    GENERATED
        .iter()
        .any(|generated| path == *generated || (generated.ends_with('/') && path.starts_with(generated)))
}

/// Runs `operator-sdk upgrade` in the current directory.
pub(crate) fn upgrade(args: &UpgradeArgs, report: &Report) -> Result<(), Failure> {
    let project = Project::read(&current_directory()?)?;
    let root = &project.root;
    let mut record = recorded(root)?.ok_or(UpgradeError::NoRecord)?;
    record.commands = named(root, record.commands);
    let current = env!("CARGO_PKG_VERSION");
    if is_newer(&record.version, current) {
        return Err(UpgradeError::Newer(record.version, current).into());
    }
    let theirs = scaffold(root, &record.commands)?;
    let mut outcome = merged(root, &record, &theirs)?;
    keep_checkout(&mut outcome.plan, &project)?;
    if outcome.plan.is_empty() {
        report.line(&format!(
            "No changes: the project matches the scaffold of version {current}."
        ));
        return Ok(());
    }
    if !args.force && !args.dry_run {
        committed(root)?;
    }
    let fresh = Record {
        version: current.to_owned(),
        commands: record.commands.clone(),
        files: theirs,
    };
    if !args.dry_run {
        change_record(&mut outcome.plan, root, &fresh)?;
    }
    finish(root, &outcome.plan, args.dry_run, report)?;
    for path in &outcome.removed {
        report.line(&format!(
            "`{path}` is not scaffolded any more; delete it if you do not need it"
        ));
    }
    for (path, count) in &outcome.conflicts {
        report.line(&format!(
            "conflict in {path}: {count} to resolve, between the marks <<<<<<< and >>>>>>>"
        ));
    }
    if !args.dry_run {
        report
            .line("Next: review the changes (git diff), then operator-sdk generate manifests && cargo test");
    }
    Ok(())
}

/// Configures cargo, as `init` does, for the checkout that Cargo.toml named by path; Cargo.toml then contains a
/// version. If cargo's configuration already contains a checkout, it also replaces the crates that this version adds to
/// Cargo.toml.
fn keep_checkout(plan: &mut Plan, project: &Project) -> Result<(), Failure> {
    let manifest = project.tree.get(layout::CARGO).unwrap_or_default();
    let planned = plan.planned(layout::CARGO).flatten();
    let Some(path) = sdk::path_in_manifest(manifest) else {
        let patched = project.tree.get(sdk::CONFIG).and_then(sdk::patched_path);
        return match patched {
            Some(path) => Ok(sdk::direct(plan, &project.tree, &SdkSource::Path(path))?),
            None => Ok(()),
        };
    };
    if planned.is_none_or(|planned| sdk::path_in_manifest(planned).is_some()) {
        return Ok(());
    }
    let source = sdk_at(&project.root.join(path)).unwrap_or_else(default_source);
    Ok(sdk::direct(plan, &project.tree, &source)?)
}

/// The result of an upgrade for a tree.
#[derive(Default)]
struct Outcome {
    plan: Plan,
    conflicts: Vec<(String, usize)>,
    removed: Vec<String>,
}

fn merged(root: &Path, record: &Record, theirs: &BTreeMap<String, String>) -> Result<Outcome, UpgradeError> {
    let mut outcome = Outcome::default();
    let sides = Sides {
        ours: "yours",
        theirs: concat!("operator-sdk ", env!("CARGO_PKG_VERSION")),
    };
    for (path, new) in theirs {
        let base = record.files.get(path);
        if base == Some(new) {
            continue;
        }
        let ours = read(&root.join(path))?;
        let after = match (base, &ours) {
            _ if path == layout::PROJECT => project_file(ours.as_deref().unwrap_or_default(), new),
            // For a new file: an existing file of the user is merged with it.
            (None, Some(ours)) => merge::merge("", ours, new, sides),
            (None, None) => whole(new),
            // The user has deleted the file.
            (Some(_), None) => continue,
            (Some(base), Some(ours)) => merge::merge(base, ours, new, sides),
        };
        if after.conflicts > 0 {
            outcome.conflicts.push((path.clone(), after.conflicts));
        }
        outcome.plan.put(path, ours.as_deref(), after.text);
    }
    let gone = record
        .files
        .keys()
        .filter(|path| !theirs.contains_key(*path) && root.join(path).exists());
    outcome.removed = gone.cloned().collect();
    Ok(outcome)
}

fn whole(text: &str) -> merge::Merged {
    merge::Merged {
        text: text.to_owned(),
        conflicts: 0,
    }
}

/// Merges PROJECT. Its content is the result of the user's commands, so only the version of the tool is updated.
fn project_file(ours: &str, theirs: &str) -> merge::Merged {
    let is_version = |line: &&str| line.starts_with("cliVersion:");
    let version = theirs.lines().find(is_version);
    let lines = ours
        .lines()
        .map(|line| version.filter(|_| is_version(&line)).unwrap_or(line));
    whole(&lines.map(|line| format!("{line}\n")).collect::<String>())
}

fn read(path: &Path) -> Result<Option<String>, UpgradeError> {
    match file::read_text(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(RecordError::Read {
            path: PathBuf::from(path),
            source,
        }
        .into()),
    }
}

/// Checks that all files are committed, if the project is in a repository.
fn committed(root: &Path) -> Result<(), UpgradeError> {
    let output = Command::new("git")
        .args(["status", "--porcelain", "--", "."])
        .current_dir(root)
        .stdin(Stdio::null())
        .output();
    let Ok(output) = output else { return Ok(()) };
    let text = String::from_utf8_lossy(&output.stdout);
    let changed: Vec<&str> = text.lines().filter_map(|line| line.get(3..)).collect();
    if !output.status.success() || changed.is_empty() {
        return Ok(());
    }
    let shown = changed.iter().take(3).copied().collect::<Vec<_>>().join(", ");
    Err(UpgradeError::Uncommitted(shown))
}

/// Returns true if a version is newer than another. Parts are compared as numbers.
fn is_newer(version: &str, than: &str) -> bool {
    let numbers = |text: &str| -> Vec<u64> {
        text.split(['.', '-'])
            .map_while(|part| part.parse().ok())
            .collect()
    };
    numbers(version) > numbers(than)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert!(is_newer("0.10.0", "0.9.3"));
        assert!(!is_newer("0.1.0", "0.1.0"));
        assert!(!is_newer("0.1.0", "1.0.0"));
    }

    #[test]
    fn a_project_file_gets_the_version_alone() {
        let merged = project_file(
            "cliVersion: 0.1.0\nresources: mine\n",
            "cliVersion: 0.2.0\nresources: theirs\n",
        );
        assert_eq!(merged.text, "cliVersion: 0.2.0\nresources: mine\n");
    }
}
