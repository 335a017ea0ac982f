//! [`Operator`], the controllers, webhooks, CRDs and the `main` function of an operator.

use std::fmt;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use kube::CustomResourceExt;
use schemars::JsonSchema;

use crate::controller::Controller;
use crate::error::Result;
use crate::manager::{Args, Manager, ManagerOptions};
use crate::manifests::Manifests;
use crate::object::Object;
use crate::webhook::Webhook;

/// An operator: its parts and the program that runs them.
///
/// [`Operator::main`] is the whole `main` function: it parses the command line, sets up logging, and runs a [`Manager`]
/// until a signal stops it. With the argument `manifests` it prints the custom resource definitions, permissions and
/// webhooks that the operator needs, for `operator-sdk generate manifests`.
///
/// ```no_run
/// # use std::process::ExitCode;
/// use std::sync::Arc;
/// use k8s_openapi::api::apps::v1::Deployment;
/// use operator_runtime::prelude::*;
///
/// async fn reconcile(deployment: Arc<Deployment>, ctx: Context<Deployment>) -> Result<Action> {
///     Ok(Action::done())
/// }
///
/// fn main() -> ExitCode {
///     Operator::new("deployment-watcher").controller(Controller::new(reconcile)).main()
/// }
/// ```
#[must_use = "call `main`, or `add_to` in a test"]
pub struct Operator {
    name: &'static str,
    version: Option<&'static str>,
    changes: Vec<Change>,
    parts: Vec<Part>,
    manifests: Manifests,
    manages_certificates: bool,
}

/// Changes the options of the manager.
type Change = Box<dyn FnOnce(&mut ManagerOptions)>;

/// Adds a part of the operator to a manager.
type Part = Box<dyn FnOnce(&Manager) -> Result<()>>;

/// Runs this operator: its controllers, its webhooks and its servers.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    manager: Args,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Print the CRDs, permissions and webhooks of this operator as JSON
    Manifests,
}

// === impl Operator ===

impl Operator {
    /// Creates an operator. The name is the field manager of its writes, the source of its events, and the name of its
    /// Lease; usually `env!("CARGO_PKG_NAME")`.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            version: None,
            changes: Vec::new(),
            parts: Vec::new(),
            manifests: Manifests::default(),
            manages_certificates: false,
        }
    }

    /// Sets the version that `--version` prints; usually `env!("CARGO_PKG_VERSION")`.
    pub fn version(mut self, version: &'static str) -> Self {
        self.version = Some(version);
        self
    }

    /// Adds a controller. The manifests contain the rules that it needs:
    ///
    /// | use of a kind | rules |
    /// |---|---|
    /// | primary kind, `owns`, `watches` | `get;list;watch` |
    /// | primary kind that the operator defines, with a status | `get;update;patch` of `/status` |
    /// | primary kind | `update` of `/finalizers`, for owner references that block deletion |
    /// | `owns` | `create;update;patch;delete` |
    /// | any controller | `create;patch` of events |
    ///
    /// [`Controller::rules`] and [`#[rbac]`](crate::rbac) add others.
    pub fn controller<K: 'static>(self, controller: Controller<K>) -> Self {
        self.part(move |manager| {
            manager.add_controller(controller)?;
            Ok(())
        })
    }

    /// Adds the webhooks of a kind.
    pub fn webhook<K: Object>(mut self, webhook: Webhook<K>) -> Self {
        self.manifests = self.manifests.webhook(&webhook);
        self.part(move |manager| Ok(manager.add_webhook(webhook)?))
    }

    /// Adds the CustomResourceDefinition of a kind to the manifests. The versions of one kind are merged into one
    /// definition. If the derive of kube panics because a field has no structural schema, the manifests contain a
    /// problem, which `operator-sdk generate manifests` reports.
    pub fn crd<K: CustomResourceExt + JsonSchema>(mut self) -> Self {
        self.manifests = self.manifests.crd::<K>();
        self
    }

    /// Adds the permissions for [`ManagedCertificates`](crate::certificates::ManagedCertificates) to the manifests: to
    /// write a Secret in the namespace `system`, which is that of the operator in scaffolds, and the `caBundle` of
    /// webhook configurations and of CRDs with conversions.
    pub fn managed_certificates(mut self) -> Self {
        self.manages_certificates = true;
        self
    }

    /// Adds other parts to the manager: runnables, health checks, clusters, indexes.
    ///
    /// The function is also called to derive the manifests, with a manager that has no cluster and never runs.
    pub fn part(mut self, add: impl FnOnce(&Manager) -> Result<()> + 'static) -> Self {
        self.parts.push(Box::new(add));
        self
    }

    /// Changes the options of the manager, after those of the command line are applied.
    pub fn manager(mut self, change: impl FnOnce(&mut ManagerOptions) + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// Adds all parts to an existing manager, such as that of a test.
    ///
    /// # Errors
    /// Returns an error if a part cannot be added, for example because two controllers have the same name.
    pub fn add_to(self, manager: &Manager) -> Result<()> {
        self.parts.into_iter().try_for_each(|add| add(manager))
    }

    /// Returns the manifests as indented JSON, in the form that [`manifests`](crate::manifests) describes. The operator
    /// prints them with the argument `manifests`.
    pub fn manifests(self) -> String {
        let parts = self.parts;
        let manifests = self
            .manifests
            .controllers(|manager| parts.into_iter().try_for_each(|add| add(manager)));
        let manifests = match self.manages_certificates {
            true => manifests.managed_certificates(),
            false => manifests,
        };
        manifests.to_json()
    }

    /// Runs the operator until a signal stops it or a part fails.
    ///
    /// # Errors
    /// Returns an error if the manager cannot be built, a part cannot be added, or a part fails.
    pub async fn run(mut self, args: &Args) -> Result<()> {
        let mut options = ManagerOptions::from(args);
        for change in std::mem::take(&mut self.changes) {
            change(&mut options);
        }
        let manager = Manager::new(self.name, options).await?;
        self.add_to(&manager)?;
        manager.run().await
    }

    /// Runs the program: parses the command line, and runs the operator on one thread, or prints its manifests.
    ///
    /// One thread is enough for an operator that mostly waits for the API server, and saves memory and CPU time. Move
    /// blocking calls and long computations into `tokio::task::spawn_blocking`, or call [`Operator::run`] from a
    /// `#[tokio::main]` function of your own.
    pub fn main(self) -> ExitCode {
        // Errors of the command line, `--help` and `--version` end the process here.
        let command = Cli::command().name(self.name);
        let command = match self.version {
            Some(version) => command.version(version),
            None => command,
        };
        let cli = Cli::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit());
        if let Some(Command::Manifests) = cli.command {
            println!("{}", self.manifests());
            return ExitCode::SUCCESS;
        }
        cli.manager.init_logging();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let ended = match runtime {
            Ok(runtime) => runtime.block_on(self.run(&cli.manager)),
            Err(error) => Err(error.into()),
        };
        match ended {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                tracing::error!(%error, "operator stopped");
                ExitCode::FAILURE
            }
        }
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut operator = formatter.debug_struct("Operator");
        operator.field("name", &self.name).finish_non_exhaustive()
    }
}
