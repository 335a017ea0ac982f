//! Builds a project's operator with cargo.

mod cache;
mod messages;
mod shared;

use std::ffi::OsString;
use std::io::{self, BufReader};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use operator_controlplane::ProcessGroup;
use tokio::io::AsyncReadExt;

use self::cache::Cache;
use self::messages::Messages;
use self::shared::Shared;
use crate::failure::Hinted;
use crate::project::layout::{OPTIONAL_SDK_CRATES, SDK_CRATES};
use crate::report::Report;

/// The CPU time of the first build of a scaffolded project, in seconds.
const DEBUG_SECONDS: usize = 160;
const RELEASE_SECONDS: usize = 280;

/// The time that cargo has to end after this process was killed.
const GRACE: Duration = Duration::from_secs(5);

/// Options of a build.
#[derive(Clone, Debug, Default)]
pub(crate) struct BuildOptions {
    /// Build an optimized program.
    pub(crate) release: bool,
    /// The target directory. `None` is cargo's default.
    pub(crate) target_dir: Option<PathBuf>,
    /// The compiler target. `None` is this machine, with the same build cache as other builds.
    pub(crate) target: Option<String>,
    /// Compiler flags in addition to `RUSTFLAGS`.
    pub(crate) flags: Vec<String>,
    /// The test target to build instead of the program.
    pub(crate) test: Option<String>,
    /// More arguments for `cargo build`.
    pub(crate) arguments: Vec<String>,
}

/// An error of building an operator.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    #[error("cannot run {program}: {source}")]
    Start { program: String, source: io::Error },
    #[error("the operator does not build")]
    Failed,
    #[error("cannot find the SDK's crates of Cargo.toml and .cargo/config.toml: {0}")]
    NoSdk(String),
    #[error("the project has no binary target")]
    NoProgram,
    #[error("`{program} manifests` failed: {reason}")]
    Manifests { program: String, reason: String },
}

impl Hinted for BuildError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Start { .. } => "install Rust from https://rustup.rs, and check that `cargo --version` works".to_owned(),
            Self::Failed => "fix the compiler errors above".to_owned(),
            Self::NoSdk(_) => {
                "set a checkout of the SDK with `operator-sdk edit --sdk-path DIR`, a repository with `--sdk-git URL --sdk-rev REV`, or the published crates with `--sdk-registry`"
                    .to_owned()
            }
            Self::NoProgram => "restore src/main.rs as `init` wrote it".to_owned(),
            Self::Manifests { .. } => {
                "its `manifests` command prints the manifests of `operator()` of src/lib.rs; run it by hand for details".to_owned()
            }
        })
    }
}

/// A build of the project in `root`, and the directories that it uses.
struct Build<'a> {
    root: &'a Path,
    cache: Option<Cache>,
    /// True if the project is compiled again because its target directory had the build of another project.
    is_repeated: bool,
}

/// Builds the project in `root`, with cargo's progress on standard error, and returns the path of the program.
pub(crate) fn build(root: &Path, options: &BuildOptions) -> Result<PathBuf, BuildError> {
    let mut build = Build::prepare(root, options);
    loop {
        let mut child = command(root, options).spawn().map_err(cannot_start)?;
        let output = child.stdout.take().map(BufReader::new);
        let messages = output.map(|output| Messages::read(root, options.test.is_some(), output));
        let status = child.wait().map_err(cannot_start)?;
        if let Some(program) = build.finish(status, messages.unwrap_or_default())? {
            return Ok(program);
        }
    }
}

/// Builds the project like [`build`], but returns `None` if `end` completes first. Cargo and the compilers are then
/// stopped.
pub(crate) async fn build_until(
    root: &Path,
    options: &BuildOptions,
    end: impl Future<Output = ()>,
) -> Result<Option<PathBuf>, BuildError> {
    let mut build = Build::prepare(root, options);
    let mut end = std::pin::pin!(end);
    loop {
        let Some((status, messages)) = run_until(root, options, end.as_mut()).await? else {
            return Ok(None);
        };
        if let Some(program) = build.finish(status, messages)? {
            return Ok(Some(program));
        }
    }
}

/// Runs one build, or stops it if `end` completes first.
async fn run_until(
    root: &Path,
    options: &BuildOptions,
    end: impl Future<Output = ()>,
) -> Result<Option<(ExitStatus, Messages)>, BuildError> {
    let mut command = tokio::process::Command::from(command(root, options));
    // Ctrl-C reaches only this process, which sends one signal to the group.
    let group = ProcessGroup::start(GRACE).map_err(cannot_start)?;
    let mut child = group.spawn(&mut command).map_err(cannot_start)?;
    let mut output = child.stdout.take();
    let mut messages = Vec::new();
    let finished = async {
        if let Some(output) = &mut output {
            output.read_to_end(&mut messages).await?;
        }
        child.wait().await
    };
    let status = tokio::select! {
        status = finished => Some(status.map_err(cannot_start)?),
        () = end => None,
    };
    let Some(status) = status else {
        group.terminate();
        let _ = child.wait().await;
        return Ok(None);
    };
    let messages = Messages::read(root, options.test.is_some(), messages.as_slice());
    Ok(Some((status, messages)))
}

// === impl Build ===

impl<'a> Build<'a> {
    fn prepare(root: &'a Path, options: &BuildOptions) -> Self {
        let cache = Cache::of(root, options);
        let compiles_all = cache.as_ref().is_some_and(|cache| !cache.fill());
        // If the SDK is missing, cargo reports the crate that it cannot find instead.
        if compiles_all && missing_sdk(root).is_none() {
            announce(options);
        }
        Self {
            root,
            cache,
            is_repeated: false,
        }
    }

    /// Returns the program, or `None` if cargo must run again because it considered the program of another project as up to
    /// date.
    fn finish(&mut self, status: ExitStatus, messages: Messages) -> Result<Option<PathBuf>, BuildError> {
        if !status.success() {
            return Err(missing_sdk(self.root).map_or(BuildError::Failed, BuildError::NoSdk));
        }
        if let Some(cache) = &self.cache {
            cache.keep(&messages);
        }
        let program = messages.program.ok_or(BuildError::NoProgram)?;
        if let Some(shared) = Shared::of(self.root, &program) {
            if messages.reused && !self.is_repeated && shared.is_of_another() {
                shared.invalidate();
                self.is_repeated = true;
                return Ok(None);
            }
            shared.record();
        }
        Ok(Some(program))
    }
}

/// Prints the estimated time to compile the dependencies of a project for the first time.
fn announce(options: &BuildOptions) {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let seconds = if options.release {
        RELEASE_SECONDS
    } else {
        DEBUG_SECONDS
    };
    // The dependencies limit the parallelism, so more cores do not help.
    let estimate = (seconds / cores.min(4)).div_ceil(10) * 10;
    Report::new().progress(&format!(
        "The first build compiles the dependencies, in about {estimate} s on {cores} cores; other projects will reuse them."
    ));
}

/// Returns the reason why cargo cannot resolve the dependencies, if the SDK's crates are the cause.
fn missing_sdk(root: &Path) -> Option<String> {
    let output = cargo_in(root)
        .args(["metadata", "--format-version=1", "--quiet"])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    if output.status.success() {
        return None;
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines = text.lines().map(|line| line.trim().trim_start_matches("error: "));
    let is_about = |line: &&str| {
        let mut names = SDK_CRATES.iter().chain(&OPTIONAL_SDK_CRATES);
        names.any(|name| line.contains(name))
    };
    let mut about = lines.filter(is_about);
    about.next().map(str::to_owned)
}

fn cannot_start(source: io::Error) -> BuildError {
    BuildError::Start {
        program: cargo().to_string_lossy().into_owned(),
        source,
    }
}

/// Returns the cargo program. If cargo started this tool, both use the same toolchain.
fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn command(root: &Path, options: &BuildOptions) -> Command {
    let mut command = cargo_in(root);
    match &options.test {
        Some(name) => command.args(["test", "--no-run", "--test", name]),
        None => command.arg("build"),
    };
    command
        .arg("--message-format=json-render-diagnostics")
        .args(options.release.then_some("--release"))
        .args(options.target.iter().flat_map(|target| ["--target", target]))
        .args(&options.arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    if let Some(target_dir) = &options.target_dir {
        command.env("CARGO_TARGET_DIR", target_dir);
    }
    if !options.flags.is_empty() {
        let outer = std::env::var("RUSTFLAGS").unwrap_or_default();
        let all = format!("{outer} {}", options.flags.join(" "));
        command.env("RUSTFLAGS", all.trim());
    }
    command
}

/// Runs the tests of the project in `root`, which record the operator's requests in `records`. Returns true if they
/// pass. Their output goes to standard error.
pub(crate) fn test(root: &Path, records: &Path, arguments: &[OsString]) -> Result<bool, BuildError> {
    let mut command = cargo_in(root);
    command
        .arg("test")
        .args(arguments)
        .env("OPERATOR_SDK_RBAC_RECORD", records)
        .stdin(Stdio::null())
        .stdout(io::stderr());
    let status = command.status().map_err(cannot_start)?;
    Ok(status.success())
}

/// Returns a cargo command in a project.
fn cargo_in(root: &Path) -> Command {
    let mut command = Command::new(cargo());
    command.current_dir(root);
    forget_outer_package(&mut command);
    command
}

/// Returns true if the toolchain has the standard library of a musl target and a C compiler for it, which `ring` needs.
pub(crate) fn builds_for_musl(target: &str) -> bool {
    let says = |arguments: &[&str]| {
        let output = Command::new("rustc")
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .ok()?;
        String::from_utf8(output.stdout).ok()
    };
    let folder = says(&["--print", "target-libdir", "--target", target]);
    if !folder.is_some_and(|folder| Path::new(folder.trim()).is_dir()) {
        return false;
    }
    let is_host =
        says(&["-vV"]).is_some_and(|text| text.lines().any(|line| line == format!("host: {target}")));
    // The variables and programs that the crate `cc` uses.
    let variables = [
        format!("CC_{target}"),
        format!("CC_{}", target.replace('-', "_")),
        "TARGET_CC".to_owned(),
        "CC".to_owned(),
    ];
    let architecture = target.split('-').next().unwrap_or_default();
    let programs = [format!("{architecture}-linux-musl-gcc"), "musl-gcc".to_owned()];
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates =
        std::env::split_paths(&folders).flat_map(|folder| programs.iter().map(move |name| folder.join(name)));
    is_host
        || variables.iter().any(|name| std::env::var_os(name).is_some())
        || candidates.any(|path| path.is_file())
}

/// Removes cargo's variables about this tool's own package. If these variables change, build scripts such as ring's run
/// again, and their dependants are recompiled.
fn forget_outer_package(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let described = name.to_str().is_some_and(|name| {
            ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
                || ["CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE", "OUT_DIR"].contains(&name)
        });
        if described {
            command.env_remove(name);
        }
    }
}

/// Runs the built operator's `manifests` command and returns its JSON.
pub(crate) fn manifests(program: &Path) -> Result<String, BuildError> {
    let name = program
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let failed = |reason: String| BuildError::Manifests {
        program: name.clone(),
        reason,
    };
    let output = Command::new(program)
        .arg("manifests")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(output.status.to_string()));
    }
    String::from_utf8(output.stdout).map_err(|_| failed("its output is not UTF-8".to_owned()))
}

/// Returns the target directory of this program, if it still exists.
///
/// A project built into it reuses the compiled dependencies of this tool.
pub(crate) fn own_target_dir() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let profile = program.parent()?;
    let target = profile.parent()?;
    let is_target = ["debug", "release"].iter().any(|name| profile.ends_with(name))
        && (target.join(".rustc_info.json").is_file() || target.join("CACHEDIR.TAG").is_file());
    is_target.then(|| target.to_owned())
}

/// Returns true if this program is an optimized build.
pub(crate) fn own_build_is_release() -> bool {
    !cfg!(debug_assertions)
}
