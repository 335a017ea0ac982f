//! Controllers and simulated nodes for the embedded Kubernetes API server.
//!
//! The crate replaces kube-controller-manager, kube-scheduler and kubelets, as far as operators can observe them. For
//! example, it empties terminating namespaces, collects garbage, creates ReplicaSets and Pods for Deployments, and
//! reports Pods as Ready without running them.
//!
//! Every controller is a pure function from a shared index of all objects to a plan of writes; one engine feeds the
//! index, calls the functions and executes the plans. Nothing polls: an idle control plane uses no CPU.
//! ```
//! use operator_apiserver::ApiServer;
//! use operator_controlplane::{ControlPlane, Options};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::builder().build()?;
//! // The controllers run until the value is dropped.
//! let control_plane = ControlPlane::start(&server.client(), Options::default());
//! # drop(control_plane);
//! # Ok(())
//! # }
//! ```

mod claim;
mod clock;
mod controller;
mod engine;
mod hash;
mod history;
mod hold;
mod kind;
mod object;
mod objects;
#[cfg(feature = "olm")]
pub mod olm;
mod owner;
mod plan;
mod pod;
mod process;
mod process_group;
mod queue;
mod recorder;
mod selector;
#[cfg(test)]
mod testing;

use std::collections::BTreeMap;
use std::sync::Arc;

use operator_apiserver::CertificateSigner;
use operator_apiserver::client::{Client, Gvr};
use tokio::task::JoinSet;

pub use crate::clock::Clock;
pub use crate::controller::node::Delays;
pub use crate::hold::Holds;
pub use crate::process::{Processes, ProcessesError, Program, register};
pub use crate::process_group::ProcessGroup;

use crate::engine::{Cache, Controller, Runner, Subscriber, feed};
use crate::objects::{Key, Objects};
use crate::process::Agent;
use crate::queue::Queue;
use crate::recorder::Recorder;

/// The set of controllers that run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Controllers {
    /// All controllers.
    #[default]
    All,
    /// Only ClusterRole aggregation, without which the default roles would be empty. Otherwise only the API server
    /// runs, as in controller-runtime's envtest.
    None,
}

/// Options of a [`ControlPlane`].
#[derive(Clone, Debug)]
pub struct Options {
    /// The controllers to run. Default: all.
    pub controllers: Controllers,
    /// The number of simulated nodes, named `node-1` and so on. With nodes, a scheduler runs too; without nodes, pods
    /// stay Pending until a test binds them. Default: 1. At most 128 nodes have their own addresses.
    pub nodes: usize,
    /// The durations of the phases of a simulated pod. Default: no delay.
    pub delays: Delays,
    /// The phases that a test blocks. Default: none.
    pub holds: Holds,
    /// The number of pods in the cluster at which controllers stop creating more. It protects the process from a Job or
    /// a Deployment with billions of pods. Their owners report a FailedCreate Event, as for any rejected create, and
    /// retry. Pods that clients create are not limited. Default: 10,000.
    pub max_pods: usize,
    /// True if nodes record the Events Pulled, Created and Started for each container. Default: false.
    pub container_events: bool,
    /// The server's CA certificate in PEM, which is published in each namespace. Default: empty.
    pub root_ca: String,
    /// Signs the certificates of approved CertificateSigningRequests; see
    /// [`Listener::certificate_signer`](operator_apiserver::Listener::certificate_signer). Default: none, so that their
    /// status has no certificate.
    pub signer: Option<CertificateSigner>,
    /// True if Operator Lifecycle Manager runs; its CRDs are then installed when the control plane starts. Needs all
    /// controllers. Default: false.
    #[cfg(feature = "olm")]
    pub olm: bool,
    /// Runs pods as local processes if programs are registered for their images. Needs nodes. Default: `None`; every
    /// pod is simulated.
    pub processes: Option<Processes>,
    /// The clock of the controllers. Default: the system clock.
    pub clock: Clock,
    /// The state of other controllers with the same options, on a server from whose snapshot this server started. These
    /// controllers then do not reconcile all objects when they start. Default: `None`.
    pub resume: Option<Checkpoint>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            controllers: Controllers::All,
            nodes: 1,
            delays: Delays::default(),
            holds: Holds::default(),
            max_pods: 10_000,
            container_events: false,
            root_ca: String::new(),
            signer: None,
            #[cfg(feature = "olm")]
            olm: false,
            processes: None,
            clock: Clock::default(),
            resume: None,
        }
    }
}

/// The state of running controllers: their index of all objects, and the keys that they have not finished. Clones share it.
#[derive(Clone, Debug)]
pub struct Checkpoint(Arc<State>);

#[derive(Debug)]
struct State {
    objects: Objects,
    /// The unfinished keys by the name of the controller.
    pending: BTreeMap<&'static str, Vec<Key>>,
}

/// Waits until an object exists that a controller creates. Never returns if no controller creates it.
pub async fn created(client: &Client, gvr: &Gvr, namespace: &str, name: &str) {
    let (revision, _) = client.snapshot();
    let mut changes = client.watch(revision);
    while client.get(gvr, namespace, name).await.is_err() {
        if changes.next().await.is_none() {
            return;
        }
    }
}

/// The running controllers. They stop when the value is dropped.
#[derive(Debug)]
#[must_use = "the controllers stop when this is dropped"]
pub struct ControlPlane {
    tasks: JoinSet<()>,
    processes: Option<Processes>,
    cache: Arc<Cache>,
    /// The queues by the name of the controller.
    queues: BTreeMap<&'static str, Arc<Queue>>,
}

impl ControlPlane {
    /// Starts controllers and nodes for a server.
    ///
    /// # Panics
    /// Panics outside a tokio runtime.
    pub fn start(client: &Client, options: Options) -> Self {
        let mut tasks = JoinSet::new();
        let resumed = options.resume.clone();
        let objects = resumed.as_ref().map(|Checkpoint(state)| state.objects.clone());
        let cache = Cache::new(objects.unwrap_or_default());
        let recorder = Arc::new(Recorder::new(client.clone(), options.clock.clone()));
        let mut subscribers = Vec::new();
        let mut queues = BTreeMap::new();
        let clock = options.clock.clone();
        let max_pods = options.max_pods;
        let has_nodes = options.controllers == Controllers::All && options.nodes > 0;
        let processes = options.processes.clone().filter(|_| has_nodes);
        if let Some(processes) = processes.clone() {
            let agent = Agent::new(processes, client, &recorder, &clock, options.nodes);
            tasks.spawn(agent.run());
        }
        #[cfg(feature = "olm")]
        let has_olm = options.olm && options.controllers == Controllers::All;
        #[cfg_attr(not(feature = "olm"), expect(unused_mut, reason = "OLM adds its controllers"))]
        let mut all = controllers(options);
        #[cfg(feature = "olm")]
        if has_olm {
            all.extend(olm::start(&mut tasks, &cache));
        }
        for controller in all {
            let queue = Arc::new(Queue::default());
            let pending = resumed
                .as_ref()
                .and_then(|Checkpoint(state)| state.pending.get(controller.name));
            let keys = controller.initial.iter().chain(pending.into_iter().flatten());
            keys.cloned().for_each(|key| queue.add(key));
            queues.insert(controller.name, queue.clone());
            subscribers.push(Subscriber {
                keys: controller.keys,
                queue: queue.clone(),
            });
            let runner = Runner::new(controller, queue, &cache, client, &clock, &recorder, max_pods);
            tasks.spawn(runner.run());
        }
        if !subscribers.is_empty() {
            tasks.spawn(feed(client.clone(), cache.clone(), subscribers));
        }
        Self {
            tasks,
            processes,
            cache,
            queues,
        }
    }

    /// Returns the state of the controllers, with which others can start; see [`Options::resume`].
    pub fn checkpoint(&self) -> Checkpoint {
        let queues = self.queues.iter();
        Checkpoint(Arc::new(State {
            objects: self.cache.objects.read().clone(),
            pending: queues.map(|(name, queue)| (*name, queue.pending())).collect(),
        }))
    }

    /// Stops all controllers, and waits until they have stopped. Call it before the server stops. Processes of pods get
    /// SIGTERM, and SIGKILL after ten seconds; if the value is dropped instead, they are killed at once.
    pub async fn shutdown(mut self) {
        if let Some(processes) = &self.processes {
            processes.stop().await;
        }
        self.tasks.shutdown().await;
    }
}

fn controllers(options: Options) -> Vec<Controller> {
    if options.controllers == Controllers::None {
        return vec![controller::cluster_role::controller()];
    }
    let mut controllers = vec![
        controller::namespace::controller(),
        controller::garbage::controller(),
        controller::service_account::controller(options.root_ca),
        controller::deployment::controller(),
        controller::replica_set::controller(),
        controller::replica_set::replication_controller(),
        controller::stateful_set::controller(),
        controller::daemon_set::controller(),
        controller::job::controller(),
        controller::cron_job::controller(),
        controller::ttl::controller(),
        controller::endpoints::controller(),
        controller::endpoint_slice::controller(),
        controller::disruption::controller(),
        controller::volume::controller(options.nodes > 0, options.holds.clone()),
        controller::quota::controller(),
        controller::node_lifecycle::controller(),
        controller::cluster_role::controller(),
        controller::certificate_approval::controller(),
    ];
    controllers.extend(options.signer.map(controller::certificate::controller));
    if options.nodes > 0 {
        controllers.push(controller::scheduler::controller());
        controllers.push(controller::node::controller(
            options.nodes,
            options.delays,
            options.holds,
            options.container_events,
            match options.processes {
                Some(processes) => Box::new(move |pod| processes.claims(pod)),
                None => Box::new(|_| false),
            },
        ));
    }
    controllers
}
