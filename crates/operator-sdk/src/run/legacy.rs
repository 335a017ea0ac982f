//! The commands of operator-sdk 0.x, run as the equivalent commands of this version.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::{fs, io};

use clap::Parser;

use super::build::words;
use super::scaffold::{self, current_directory};
use crate::args::{
    AddArgs, AddCommand, Cli, Command as Today, CreateCommand, LocalArgs, ManifestsArgs, NewArgs,
    OldLocalArgs, OperatorType, PrintDepsArgs, TestCommand, TestLocalArgs, UpCommand,
};
use crate::failure::{Failure, Hinted};
use crate::plan::Plan;
use crate::process::temporary::TemporaryDirectory;
use crate::project::{Project, layout};
use crate::report::Report;

/// The domain of a project that was created without one.
const NO_DOMAIN: &str = "my.domain";

/// An error of running a legacy command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LegacyError {
    #[error("`{flag}` is not for operators in Rust: {reason}")]
    Flag {
        flag: &'static str,
        reason: &'static str,
        remedy: &'static str,
    },
    #[error("`--api-version {0}` is not of the form GROUP.DOMAIN/VERSION")]
    ApiVersion(String),
    #[error("the group {group} is not of the project's domain {domain}")]
    Domain { group: String, domain: String },
    #[error("the directory {0} exists and is not empty")]
    Directory(String),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot run {program}: {source}")]
    Start { program: String, source: io::Error },
    #[error("`{0}` failed")]
    Failed(String),
    #[error("`operator-sdk test cluster` was removed: it ran tests inside an image")]
    TestCluster,
    #[error("unknown command `{0}`")]
    Command(String),
}

impl Hinted for LegacyError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Flag { remedy, .. } => (*remedy).to_owned(),
            Self::ApiVersion(_) => "write it as in `--api-version=cache.example.com/v1alpha1`".to_owned(),
            Self::Domain { domain, .. } => format!("use a group such as cache.{domain}"),
            Self::Directory(_) => "choose another name, or remove the directory".to_owned(),
            Self::File { .. } => "check the path and your permissions".to_owned(),
            Self::Start { .. } => "install it, and check that it is in the PATH".to_owned(),
            Self::Failed(_) => "fix the errors above".to_owned(),
            Self::TestCluster => {
                "run the tests against a cluster with `operator-sdk test local --kubeconfig FILE`".to_owned()
            }
            Self::Command(_) => "this is a bug in operator-sdk; please report it".to_owned(),
        })
    }
}

/// Prints the current name of a command.
fn now(report: &Report, then: &str, now: &str) {
    report.progress(&format!("`operator-sdk {then}` is now `{now}`"));
}

/// Rejects the first flag of a table that is given.
fn refuse(flags: &[(&'static str, bool, &'static str, &'static str)]) -> Result<(), LegacyError> {
    match flags.iter().find(|(_, given, _, _)| *given) {
        Some((flag, _, reason, remedy)) => Err(LegacyError::Flag { flag, reason, remedy }),
        None => Ok(()),
    }
}

// === new ===

/// Runs `operator-sdk new NAME` in the current directory.
pub(crate) fn new(args: &NewArgs, report: &Report) -> Result<(), Failure> {
    const HELM: &str = "this tool creates operators in Rust only";
    const ELSEWHERE: &str = "use operator-sdk 1.x for Ansible and Helm operators";
    refuse(&[
        (
            "--type=ansible",
            args.type_ == OperatorType::Ansible,
            HELM,
            ELSEWHERE,
        ),
        ("--type=helm", args.type_ == OperatorType::Helm, HELM, ELSEWHERE),
        ("--generate-playbook", args.generate_playbook, HELM, ELSEWHERE),
        ("--helm-chart", args.helm_chart.is_some(), HELM, ELSEWHERE),
        (
            "--helm-chart-repo",
            args.helm_chart_repo.is_some(),
            HELM,
            ELSEWHERE,
        ),
        (
            "--helm-chart-version",
            args.helm_chart_version.is_some(),
            HELM,
            ELSEWHERE,
        ),
        (
            "--dep-manager",
            args.dep_manager.is_some(),
            "cargo is the only dependency manager",
            "omit it",
        ),
        (
            "--cluster-scoped",
            args.cluster_scoped,
            "an operator watches the whole cluster by default",
            "omit it; for cluster-scoped kinds use `create api --namespaced=false`",
        ),
    ])?;
    let api = args.api_version.as_deref().map(split).transpose()?;
    let domain = args
        .domain
        .clone()
        .or_else(|| api.as_ref().map(|api| api.domain.clone()));
    let header = header(args.header_file.as_deref())?;
    let (root, is_new) = make_directory(&args.name)?;
    let mut init = vec!["init".into(), "--project-name".into(), OsString::from(&args.name)];
    let given = [
        ("--domain", domain.map(OsString::from)),
        ("--repo", args.repo.clone().map(OsString::from)),
        ("--sdk-path", args.sdk_path.clone().map(PathBuf::into_os_string)),
        ("--license-file", header),
    ];
    for (flag, value) in given {
        init.extend(value.into_iter().flat_map(|value| [flag.into(), value]));
    }
    now(
        report,
        "new",
        &format!("mkdir {0} && cd {0} && operator-sdk {1}", args.name, shown(&init)),
    );
    if let Err(failure) = do_in(&root, init, report) {
        if is_new {
            // Only an empty directory can be removed.
            let _ = fs::remove_dir(&root);
        }
        return Err(failure);
    }
    if let (Some(api_version), Some(kind)) = (&args.api_version, &args.kind) {
        create(&root, api_version, kind, &[], report)?;
    }
    if args.vendor {
        vendor(&root, report)?;
    }
    if args.git_init {
        run(&root, "git", &["init", "--quiet"], Stdio::inherit())?;
    }
    report.line(&format!(
        "Next: cd {} && operator-sdk create api --group GROUP --version v1alpha1 --kind KIND",
        args.name
    ));
    Ok(())
}

/// Returns an absolute path, which is also valid in another directory.
fn header(file: Option<&Path>) -> Result<Option<OsString>, LegacyError> {
    let Some(path) = file else { return Ok(None) };
    let whole = path.canonicalize().map_err(|source| LegacyError::File {
        path: path.to_owned(),
        source,
    })?;
    Ok(Some(whole.into_os_string()))
}

/// Returns an empty directory, and true if it did not exist before.
fn make_directory(name: &str) -> Result<(PathBuf, bool), Failure> {
    crate::names::check_project(name)?;
    let root = current_directory()?.join(name);
    let failed = |source| LegacyError::File {
        path: root.clone(),
        source,
    };
    let is_new = !root.exists();
    fs::create_dir_all(&root).map_err(failed)?;
    if fs::read_dir(&root).map_err(failed)?.next().is_some() {
        return Err(LegacyError::Directory(name.to_owned()).into());
    }
    Ok((root, is_new))
}

/// Runs `cargo vendor` and writes the configuration that it prints.
fn vendor(root: &Path, report: &Report) -> Result<(), Failure> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let configuration = run(root, &cargo, &["vendor", "--quiet"], Stdio::inherit())?;
    let folder = root.join(".cargo");
    let path = folder.join("config.toml");
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&path, configuration))
        .map_err(|source| LegacyError::File { path, source })?;
    report.line(" create vendor, .cargo/config.toml");
    Ok(())
}

/// Runs a program and returns its output.
fn run(root: &Path, program: &str, arguments: &[&str], errors: Stdio) -> Result<Vec<u8>, LegacyError> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .stdin(Stdio::null())
        .stderr(errors)
        .output()
        .map_err(|source| LegacyError::Start {
            program: program.to_owned(),
            source,
        })?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(LegacyError::Failed(format!("{program} {}", arguments.join(" "))))
    }
}

// === add ===

/// Runs `operator-sdk add …` in the current directory.
pub(crate) fn add(command: &AddCommand, report: &Report) -> Result<(), Failure> {
    let root = current_directory()?;
    let (args, then, more) = match command {
        AddCommand::Api(args) => (args, "add api", "--controller=false"),
        AddCommand::Controller(args) => (args, "add controller", "--resource=false"),
        AddCommand::Crd(args) => (args, "add crd", "--controller=false"),
    };
    check_add(args)?;
    let api = split(&args.api_version)?;
    let today = create_command(&api, &args.kind, &[more]);
    now(report, then, &format!("operator-sdk {}", shown(&today)));
    create(&root, &args.api_version, &args.kind, &[more], report)
}

fn check_add(args: &AddArgs) -> Result<(), LegacyError> {
    refuse(&[
        (
            "--custom-api-import",
            args.custom_api_import.is_some(),
            "it is the import path of a Go package",
            "name the module of the type with `create api --external-api-path`",
        ),
        (
            "--header-file",
            args.header_file.is_some(),
            "the header of new files is in hack/boilerplate.rs.txt",
            "write it to that file, and omit the flag",
        ),
    ])
}

/// The parts of an API version such as `cache.example.com/v1alpha1`.
struct ApiVersion {
    group: String,
    domain: String,
    version: String,
}

fn split(text: &str) -> Result<ApiVersion, LegacyError> {
    let parts = text.split_once('/').and_then(|(whole, version)| {
        whole
            .split_once('.')
            .map(|(group, domain)| (group, domain, version))
    });
    match parts {
        Some((group, domain, version)) if !group.is_empty() && !domain.is_empty() && !version.is_empty() => {
            Ok(ApiVersion {
                group: group.to_owned(),
                domain: domain.to_owned(),
                version: version.to_owned(),
            })
        }
        _ => Err(LegacyError::ApiVersion(text.to_owned())),
    }
}

fn create_command(api: &ApiVersion, kind: &str, more: &[&str]) -> Vec<OsString> {
    let words = [
        "create",
        "api",
        "--group",
        &api.group,
        "--version",
        &api.version,
        "--kind",
        kind,
    ];
    words.iter().chain(more).map(OsString::from).collect()
}

fn create(root: &Path, api_version: &str, kind: &str, more: &[&str], report: &Report) -> Result<(), Failure> {
    let mut api = split(api_version)?;
    adopt_domain(root, &mut api, report)?;
    do_in(root, create_command(&api, kind, more), report)
}

/// Sets the domain of a project that was created by `new` to the domain of its first group. Later groups must be in
/// that domain or a subdomain.
fn adopt_domain(root: &Path, api: &mut ApiVersion, report: &Report) -> Result<(), Failure> {
    let project = Project::read(root)?;
    let ours = project.config.domain.clone();
    if ours == api.domain {
        return Ok(());
    }
    if project.config.resources.is_empty() && ours == NO_DOMAIN {
        crate::names::check_domain(&api.domain)?;
        let mut config = project.config.clone();
        config.domain.clone_from(&api.domain);
        let mut plan = Plan::default();
        plan.put(
            layout::PROJECT,
            project.tree.get(layout::PROJECT),
            config.render(),
        );
        scaffold::finish(root, &plan, false, report)?;
        return super::upgrade::set_domain(root, &api.domain);
    }
    let whole = format!("{}.{}", api.group, api.domain);
    match whole.strip_suffix(&format!(".{ours}")) {
        Some(group) => {
            api.group = group.to_owned();
            api.domain = ours;
            Ok(())
        }
        None => Err(LegacyError::Domain {
            group: whole,
            domain: ours,
        }
        .into()),
    }
}

/// Runs a current command in a directory.
fn do_in(root: &Path, words: Vec<OsString>, report: &Report) -> Result<(), Failure> {
    let line = shown(&words);
    let kept: Vec<String> = words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let parsed = Cli::try_parse_from(std::iter::once(OsString::from("operator-sdk")).chain(words));
    let applied = match parsed.map(|cli| cli.command) {
        Ok(Today::Init(args)) => scaffold::init_in(root, &args)?,
        Ok(Today::Create(CreateCommand::Api(args))) => scaffold::create_api_in(root, &args)?,
        _ => return Err(LegacyError::Command(line).into()),
    };
    report.applied(&applied);
    super::upgrade::remember_in(root, &kept, report)
}

fn shown(words: &[OsString]) -> String {
    let texts: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    texts.join(" ")
}

// === generate, up, test, print-deps ===

/// Runs `operator-sdk generate k8s`, which prints that Rust types need no generated code.
pub(crate) fn generate_k8s(report: &Report) -> Result<(), Failure> {
    Project::read(&current_directory()?)?;
    report.line("Nothing to generate: `#[derive(Clone)]` on a Rust type replaces zz_generated.deepcopy.go.");
    Ok(())
}

/// Runs `operator-sdk generate openapi`, which generates the CRDs, because they contain the schemas.
pub(crate) fn generate_openapi(args: &ManifestsArgs, report: &Report) -> Result<(), Failure> {
    now(report, "generate openapi", "operator-sdk generate manifests");
    super::manifests::generate(args, report)
}

/// Runs `operator-sdk up local`.
pub(crate) fn up(command: &UpCommand, report: &Report) -> Result<ExitCode, Failure> {
    let UpCommand::Local(args) = command;
    now(report, "up local", "operator-sdk run local");
    super::local::local(args, report)
}

/// Runs `operator-sdk run --local`.
pub(crate) fn run_local(args: &OldLocalArgs, report: &Report) -> Result<ExitCode, Failure> {
    now(report, "run --local", "operator-sdk run local");
    let args = LocalArgs {
        embedded: args.embedded,
        watch_namespace: args.watch_namespace.clone(),
        kubeconfig: args.kubeconfig.clone(),
        operator_flags: args.operator_flags.clone(),
        ..LocalArgs::default()
    };
    super::local::local(&args, report)
}

/// Runs `operator-sdk test …` in the current directory.
pub(crate) fn test(command: &TestCommand, report: &Report) -> Result<ExitCode, Failure> {
    let TestCommand::Local(args) = command else {
        return Err(LegacyError::TestCluster.into());
    };
    check_test(args)?;
    let project = Project::read(&current_directory()?)?;
    now(report, "test local", "cargo test");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(&cargo);
    command.arg("test").current_dir(&project.root);
    command.args(words(args.cargo_test_flags.as_deref().unwrap_or_default())?);
    if let Some(kubeconfig) = &args.kubeconfig {
        let kubeconfig = kubeconfig.canonicalize().map_err(|source| LegacyError::File {
            path: kubeconfig.clone(),
            source,
        })?;
        command
            .env("USE_EXISTING_CLUSTER", "true")
            .env("KUBECONFIG", kubeconfig);
    }
    let status = command.status().map_err(|source| LegacyError::Start {
        program: cargo,
        source,
    })?;
    Ok(ExitCode::from(crate::process::operator::exit_code(status)))
}

fn check_test(args: &TestLocalArgs) -> Result<(), LegacyError> {
    const OWN: &str = "each test has its own control plane";
    const AWAY: &str = "omit it";
    const IN_TEST: &str = "a test creates the objects that it needs in its control plane";
    let other_directory = args.directory.as_ref().is_some_and(|directory| {
        !["tests", "test/e2e"]
            .iter()
            .any(|usual| directory.ends_with(usual))
    });
    refuse(&[
        (
            "--go-test-flags",
            args.go_test_flags.is_some(),
            "cargo runs the tests",
            "use `--cargo-test-flags`",
        ),
        (
            "--molecule-test-flags",
            args.molecule_test_flags.is_some(),
            "Molecule is for Ansible",
            AWAY,
        ),
        ("--namespace", args.namespace.is_some(), OWN, AWAY),
        (
            "--operator-namespace",
            args.operator_namespace.is_some(),
            OWN,
            AWAY,
        ),
        (
            "--image",
            args.image.is_some(),
            "the operator runs inside the test",
            "deploy the image with `operator-sdk deploy --image`",
        ),
        ("--global-manifest", args.global_manifest.is_some(), IN_TEST, AWAY),
        (
            "--namespaced-manifest",
            args.namespaced_manifest.is_some(),
            IN_TEST,
            AWAY,
        ),
        (
            "--debug",
            args.debug,
            "the operator runs inside the test",
            "set RUST_LOG=debug",
        ),
        (
            "the directory",
            other_directory,
            "cargo finds tests in `tests`",
            "omit it, or choose a test with `--cargo-test-flags \"--test NAME\"`",
        ),
    ])
}

/// Runs `operator-sdk print-deps`.
pub(crate) fn print_deps(args: &PrintDepsArgs, report: &Report) -> Result<(), Failure> {
    refuse(&[(
        "--dep-manager",
        args.dep_manager.is_some(),
        "cargo is the only dependency manager",
        "omit it",
    )])?;
    let temporary = TemporaryDirectory::create()?;
    let folder = temporary.directory("my-operator")?;
    let mut init: Vec<OsString> = vec!["operator-sdk".into(), "init".into()];
    if let Some(path) = &args.sdk_path {
        init.extend(["--sdk-path".into(), path.clone().into_os_string()]);
    }
    let Ok(Today::Init(init)) = Cli::try_parse_from(init).map(|cli| cli.command) else {
        return Err(LegacyError::Command("init".to_owned()).into());
    };
    scaffold::init_in(&folder, &init)?;
    let path = folder.join("Cargo.toml");
    let text = fs::read_to_string(&path).map_err(|source| LegacyError::File { path, source })?;
    if args.as_file {
        report.text(&text);
        return Ok(());
    }
    let document: toml_edit::DocumentMut = text.parse().unwrap_or_default();
    for table in ["dependencies", "dev-dependencies"] {
        for (name, item) in document
            .get(table)
            .and_then(toml_edit::Item::as_table_like)
            .into_iter()
            .flat_map(|t| t.iter())
        {
            report.line(format!("{name} = {}", item.to_string().trim()).trim());
        }
    }
    Ok(())
}
