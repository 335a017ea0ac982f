//! `run local`: runs the project's operator on this machine until a signal.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::build::words;
use super::legacy::LegacyError;
use super::scaffold::current_directory;
use super::webhooks::Webhooks;
use crate::args::{LocalArgs, RunArgs, RunCommand};
use crate::failure::Failure;
use crate::plan::{self, PlanError};
use crate::process::api::{self, Api};
use crate::process::cargo::{self, BuildOptions};
use crate::process::cluster::{Cluster, ClusterError, ClusterOptions};
use crate::process::operator::{self, Operator, Start};
use crate::process::signal::{Ends, INTERRUPTED};
use crate::process::temporary::TemporaryDirectory;
use crate::project::{Project, Resource, layout};
use crate::report::Report;

/// The operator's flags for the addresses of its servers.
const WEBHOOK_PORT: &str = "--webhook-port";
const PROBES: &str = "--health-probe-bind-address";

/// Runs `operator-sdk run local` in the current directory.
pub(crate) fn local(args: &LocalArgs, report: &Report) -> Result<ExitCode, Failure> {
    check(args)?;
    let project = Project::read(&current_directory()?)?;
    let selected = Selected::of(args)?;
    check_conversions(&project, args, report)?;
    super::block_on(async {
        let mut ends = Ends::catch().map_err(ClusterError::from)?;
        let built = cargo::build_until(&project.root, &build_options(args), ends.next()).await?;
        let Some(program) = built else {
            return Ok(ExitCode::from(INTERRUPTED));
        };
        let world = World::open(&project, args, selected, report).await?;
        let outcome = world.run(program, args, &mut ends, report).await;
        world.close().await;
        outcome
    })
}

/// Runs `operator-sdk run` in the current directory.
pub(crate) fn run_command(args: &RunArgs, report: &Report) -> Result<ExitCode, Failure> {
    match &args.command {
        Some(RunCommand::Local(args)) => local(args, report),
        Some(RunCommand::Bundle(args)) => super::olm::run_bundle(args, report),
        Some(RunCommand::BundleUpgrade(args)) => super::olm::run_bundle_upgrade(args, report),
        None => super::legacy::run_local(&args.old, report),
    }
}

/// Rejects flags of Go tools.
pub(crate) fn check(args: &LocalArgs) -> Result<(), LegacyError> {
    let refused = |flag, reason, remedy| Err(LegacyError::Flag { flag, reason, remedy });
    if args.go_ldflags.is_some() {
        return refused(
            "--go-ldflags",
            "cargo links it",
            "set RUSTFLAGS, or write .cargo/config.toml",
        );
    }
    if args.enable_delve {
        let remedy = "build it with `cargo build`, and start it under rust-gdb or rust-lldb";
        return refused("--enable-delve", "Delve is a debugger for Go programs", remedy);
    }
    Ok(())
}

/// Checks that the conversion webhook is available. Without it, the API server would drop fields that exist only in
/// another version.
pub(crate) fn check_conversions(project: &Project, args: &LocalArgs, report: &Report) -> Result<(), Failure> {
    plan::manifests::check_conversions(&project.config)?;
    let converts = |resource: &&Resource| resource.webhooks.as_ref().is_some_and(|all| all.conversion);
    let Some(hub) = project.config.resources.iter().find(converts) else {
        return Ok(());
    };
    if with_webhooks(project, args) {
        return Ok(());
    }
    if args.embedded {
        return Err(PlanError::Usage(
            format!(
                "the versions of {} need the conversion webhook; without it, fields would be lost",
                hub.kind
            ),
            "omit `--enable-webhooks=false`",
        )
        .into());
    }
    report.warning(
        &format!(
            "the versions of {} need the conversion webhook, which the cluster cannot reach on this machine",
            hub.kind
        ),
        Some("use `--enable-webhooks`, and `--webhook-host` if the cluster is not on this machine"),
    );
    Ok(())
}

/// Returns true if the cluster calls the operator's webhooks on this machine.
fn with_webhooks(project: &Project, args: &LocalArgs) -> bool {
    let has_webhooks = || project.config.resources.iter().any(Resource::has_webhooks);
    let default = || args.embedded && has_webhooks();
    args.webhooks.enable_webhooks.unwrap_or_else(default)
}

/// The existing cluster that `--kubeconfig` and `--context` select. Empty with `--embedded`.
#[derive(Default)]
pub(crate) struct Selected {
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
    /// The value of `KUBECONFIG` for the operator. `None` inherits it.
    variable: Option<OsString>,
    /// The directory of the file that selects the context.
    _directory: Option<TemporaryDirectory>,
}

// === impl Selected ===

impl Selected {
    pub(crate) fn of(args: &LocalArgs) -> Result<Self, Failure> {
        if args.embedded {
            return Ok(Self::default());
        }
        let named = args.kubeconfig.as_deref();
        let Some(context) = args.context.as_deref() else {
            return Ok(Self {
                variable: operator::kubeconfig(named, None)?,
                kubeconfig: args.kubeconfig.clone(),
                ..Self::default()
            });
        };
        let directory = TemporaryDirectory::create()?;
        let variable = operator::kubeconfig(named, Some((context, directory.path())))?;
        api::check_context(named, context)?;
        Ok(Self {
            kubeconfig: args.kubeconfig.clone(),
            context: args.context.clone(),
            variable,
            _directory: Some(directory),
        })
    }
}

pub(crate) fn build_options(args: &LocalArgs) -> BuildOptions {
    BuildOptions {
        release: args.release,
        ..BuildOptions::default()
    }
}

/// The cluster of an operator on this machine.
pub(crate) struct World<'a> {
    pub(crate) project: &'a Project,
    cluster: Option<Cluster>,
    selected: Selected,
}

// === impl World ===

impl<'a> World<'a> {
    pub(crate) async fn open(
        project: &'a Project,
        args: &LocalArgs,
        selected: Selected,
        report: &Report,
    ) -> Result<Self, Failure> {
        if !args.embedded {
            return Ok(Self {
                project,
                cluster: None,
                selected,
            });
        }
        let cluster = embedded(&project.root, args, report).await?;
        let kubeconfig = absolute(cluster.kubeconfig());
        Ok(Self {
            project,
            cluster: Some(cluster),
            selected: Selected {
                variable: Some(kubeconfig.clone().into_os_string()),
                kubeconfig: Some(kubeconfig),
                ..Selected::default()
            },
        })
    }

    pub(crate) async fn close(self) {
        if let Some(cluster) = self.cluster {
            cluster.shutdown().await;
        }
    }

    pub(crate) async fn api(&self) -> Result<Api, Failure> {
        let Selected {
            kubeconfig, context, ..
        } = &self.selected;
        Ok(Api::infer(kubeconfig.as_deref(), context.as_deref()).await?)
    }

    /// Returns the options for starting the operator.
    pub(crate) fn start(
        &self,
        program: PathBuf,
        args: &LocalArgs,
        webhooks: Option<&Webhooks>,
    ) -> Result<Start, Failure> {
        let text = args.operator_flags.as_deref().unwrap_or_default();
        let mut arguments: Vec<OsString> = words(text)?.into_iter().map(OsString::from).collect();
        arguments.extend(args.arguments.iter().cloned());
        match webhooks {
            Some(webhooks) => arguments.extend(webhooks.arguments().into_iter().map(OsString::from)),
            // No client calls these servers. Port 0 allows several operators on one machine.
            None if self.has_webhooks() && !names(&arguments, WEBHOOK_PORT) => {
                arguments.push(format!("{WEBHOOK_PORT}=0").into());
            }
            None => {}
        }
        // Several embedded control planes, each with its operator, may run on one machine.
        if args.embedded && !names(&arguments, PROBES) {
            arguments.push(format!("{PROBES}=127.0.0.1:0").into());
        }
        let enabled = if webhooks.is_some() { "true" } else { "false" };
        let mut environment = vec![("ENABLE_WEBHOOKS".to_owned(), enabled.to_owned())];
        if std::env::var_os("OPERATOR_NAME").is_none() {
            environment.push((
                "OPERATOR_NAME".to_owned(),
                self.project.config.project_name.clone(),
            ));
        }
        Ok(Start {
            program,
            directory: self.project.root.clone(),
            kubeconfig: self.selected.variable.clone(),
            watch_namespace: args.watch_namespace.clone(),
            arguments,
            environment,
            log: None,
        })
    }

    fn has_webhooks(&self) -> bool {
        let resources = &self.project.config.resources;
        resources.iter().any(Resource::has_webhooks)
    }

    async fn run(
        &self,
        program: PathBuf,
        args: &LocalArgs,
        ends: &mut Ends,
        report: &Report,
    ) -> Result<ExitCode, Failure> {
        let mut webhooks = self.webhooks(&program, args, report)?;
        let start = self.start(program, args, webhooks.as_ref())?;
        let Some(webhooks) = &mut webhooks else {
            return run(Operator::start(&start)?, ends).await;
        };
        let api = self.api().await?;
        let mut operator = Operator::start(&start)?;
        let registered = tokio::select! {
            registered = webhooks.register(&api, report) => registered,
            status = operator.wait() => {
                let status = status.map_err(ClusterError::from)?;
                return Ok(ExitCode::from(operator::exit_code(status)));
            }
            () = ends.next() => {
                operator.stop();
                Ok(())
            }
        };
        let outcome = match registered {
            Ok(()) => run(operator, ends).await,
            Err(failure) => {
                operator.stop();
                let _ = operator.wait().await;
                Err(failure)
            }
        };
        webhooks.unregister(&api).await?;
        outcome
    }

    pub(crate) fn webhooks(
        &self,
        program: &Path,
        args: &LocalArgs,
        report: &Report,
    ) -> Result<Option<Webhooks>, Failure> {
        if !with_webhooks(self.project, args) {
            return Ok(None);
        }
        let described = cargo::manifests(program)?;
        let host = args.webhooks.webhook_host.as_deref();
        let webhooks = Webhooks::prepare(&self.project.config.project_name, host, &described)?;
        if webhooks.is_none() {
            report.progress("The operator has no webhooks: `--enable-webhooks` has no effect.");
        }
        if let Some(webhooks) = webhooks.as_ref().filter(|_| self.cluster.is_none()) {
            report.progress(&webhooks.requirement());
        }
        Ok(webhooks)
    }
}

/// Returns true if a flag is among the arguments.
fn names(arguments: &[OsString], flag: &str) -> bool {
    let is_it = |argument: &OsString| argument.to_str().is_some_and(|text| text.starts_with(flag));
    arguments.iter().any(is_it)
}

async fn embedded(root: &Path, args: &LocalArgs, report: &Report) -> Result<Cluster, Failure> {
    let cluster = Cluster::start(&ClusterOptions {
        port: None,
        data_directory: None,
        fsync: false,
        controllers: true,
        nodes: 1,
        olm: false,
        kubeconfig: args.kubeconfig.clone(),
        audit: None,
    })
    .await?;
    let names = cluster.install(&root.join(layout::CRD_BASES)).await?;
    report.line(&super::cluster::ready_line(&cluster));
    for name in names {
        report.line(&format!(
            "customresourcedefinition.apiextensions.k8s.io/{name} created"
        ));
    }
    Ok(cluster)
}

/// Returns an absolute path, because the operator's working directory is that of the project.
fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Waits until the operator ends. Signals are forwarded to it.
async fn run(mut operator: Operator, ends: &mut Ends) -> Result<ExitCode, Failure> {
    loop {
        tokio::select! {
            status = operator.wait() => {
                let status = status.map_err(ClusterError::from)?;
                return Ok(ExitCode::from(operator::exit_code(status)));
            }
            () = ends.next() => operator.stop(),
        }
    }
}
