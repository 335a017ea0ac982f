//! `dev`: builds and runs the operator, and restarts it on every change of the source.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use operator_manifests::kustomize::build::Overrides;

use super::local::{self, World};
use super::scaffold::current_directory;
use super::webhooks::Webhooks;
use super::{deploy, manifests, render};
use crate::args::DevArgs;
use crate::failure::Failure;
use crate::process::api::Api;
use crate::process::cargo;
use crate::process::cluster::ClusterError;
use crate::process::objects::Objects;
use crate::process::operator::{self, Operator};
use crate::process::signal::Ends;
use crate::project::Project;
use crate::report::Report;

/// The interval for checking the source. A check reads the modification times of a few hundred files, which takes a
/// millisecond.
const LOOK: Duration = Duration::from_millis(200);

/// The time without changes before a build, because editors write several files at once.
const STILL: Duration = Duration::from_millis(150);

/// Files that affect a build, in addition to `src`.
const FILES: [&str; 4] = ["Cargo.toml", "Cargo.lock", "build.rs", "rust-toolchain.toml"];

/// Runs `operator-sdk dev` in the current directory.
pub(crate) fn dev(args: &DevArgs, report: &Report) -> Result<ExitCode, Failure> {
    local::check(&args.local)?;
    let project = Project::read(&current_directory()?)?;
    let selected = local::Selected::of(&args.local)?;
    local::check_conversions(&project, &args.local, report)?;
    super::block_on(async {
        let mut ends = Ends::catch().map_err(ClusterError::from)?;
        let world = World::open(&project, &args.local, selected, report).await?;
        let mut loop_ = Loop {
            api: world.api().await?,
            world: &world,
            args,
            report,
            running: None,
        };
        let outcome = loop_.turn(&mut ends).await;
        loop_.stop().await;
        world.close().await;
        outcome.map(|()| ExitCode::SUCCESS)
    })
}

/// The running operator and its webhook registrations.
struct Running {
    operator: Operator,
    webhooks: Option<Webhooks>,
}

struct Loop<'a> {
    api: Api,
    world: &'a World<'a>,
    args: &'a DevArgs,
    report: &'a Report,
    running: Option<Running>,
}

/// The event that ends a wait.
enum Event {
    Changed,
    Ended(String),
    Signal,
}

// === impl Loop ===

impl Loop<'_> {
    async fn turn(&mut self, ends: &mut Ends) -> Result<(), Failure> {
        let root = self.world.project.root.clone();
        loop {
            let mut seen = sources(&root);
            let outcome = self.build_and_start(ends).await;
            if let Ok(None) = outcome {
                return Ok(());
            }
            if let Err(failure) = outcome {
                self.report.failure(&failure);
                let still = if self.running.is_some() {
                    "the previous operator keeps running"
                } else {
                    "no operator is running"
                };
                self.report
                    .progress(&format!("dev: {still}; waiting for a change"));
            }
            // Cargo may have written it during the build.
            note(&root.join("Cargo.lock"), &mut seen);
            loop {
                match self.event(&root, &seen, ends).await {
                    Event::Changed => break,
                    Event::Signal => return Ok(()),
                    Event::Ended(how) => {
                        self.stop().await;
                        self.report.progress(&format!(
                            "dev: the operator stopped ({how}); waiting for a change"
                        ));
                    }
                }
            }
            self.report.progress("dev: the source has changed");
        }
    }

    async fn event(&mut self, root: &Path, seen: &Sources, ends: &mut Ends) -> Event {
        let ended = async {
            match &mut self.running {
                Some(running) => running.operator.wait().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = changed(root, seen) => Event::Changed,
            () = ends.next() => Event::Signal,
            status = ended => Event::Ended(status.map_or_else(|error| error.to_string(), |status| status.to_string())),
        }
    }

    /// Builds the new operator, installs its CRDs and then replaces the old operator. Returns `None` if a signal ended
    /// the build.
    async fn build_and_start(&mut self, ends: &mut Ends) -> Result<Option<()>, Failure> {
        let project = self.world.project;
        let options = local::build_options(&self.args.local);
        self.report.progress("dev: building");
        let Some(program) = cargo::build_until(&project.root, &options, ends.next()).await? else {
            return Ok(None);
        };
        manifests::generate_in(&project.root, false, &options, self.report)?;
        self.install().await?;
        self.stop().await;
        let mut webhooks = self.world.webhooks(&program, &self.args.local, self.report)?;
        let start = self.world.start(program, &self.args.local, webhooks.as_ref())?;
        let operator = Operator::start(&start)?;
        let mut registered = Ok(());
        if let Some(webhooks) = &mut webhooks {
            registered = webhooks.register(&self.api, self.report).await;
        }
        self.running = Some(Running { operator, webhooks });
        self.report.progress("dev: the operator is running");
        registered.map(Some)
    }

    /// Installs the current CRDs of the project.
    async fn install(&self) -> Result<(), Failure> {
        let project = self.world.project;
        if !project.root.join("config/crd/kustomization.yaml").is_file() {
            return Ok(());
        }
        let definitions = render::render(&project.root, "config/crd", &Overrides::default())?;
        deploy::bring(Objects::new(self.api.clone()), project, &definitions, self.report).await
    }

    async fn stop(&mut self) {
        let Some(mut running) = self.running.take() else {
            return;
        };
        if let Some(webhooks) = &mut running.webhooks
            && let Err(error) = webhooks.unregister(&self.api).await
        {
            self.report.progress(&format!("dev: {error}"));
        }
        running.operator.stop();
        match running.operator.wait().await {
            Ok(status) if operator::exit_code(status) == 0 => {}
            Ok(status) => self
                .report
                .progress(&format!("dev: the operator stopped ({status})")),
            Err(error) => self.report.progress(&format!("dev: {error}")),
        }
    }
}

/// Files with their modification times and sizes.
type Sources = BTreeMap<PathBuf, (SystemTime, u64)>;

/// Waits until the source differs from `seen` and has stopped changing.
async fn changed(root: &Path, seen: &Sources) {
    loop {
        tokio::time::sleep(LOOK).await;
        let mut now = sources(root);
        if now == *seen {
            continue;
        }
        loop {
            tokio::time::sleep(STILL).await;
            let later = sources(root);
            if later == now {
                return;
            }
            now = later;
        }
    }
}

fn sources(root: &Path) -> Sources {
    let mut found = Sources::new();
    for file in FILES {
        note(&root.join(file), &mut found);
    }
    walk(&root.join("src"), &mut found);
    found
}

fn walk(folder: &Path, found: &mut Sources) {
    let entries = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    for entry in entries {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&path, found);
        } else {
            note(&path, found);
        }
    }
}

fn note(path: &Path, found: &mut Sources) {
    if let Ok(metadata) = path.metadata() {
        let written = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        found.insert(path.to_owned(), (written, metadata.len()));
    }
}
