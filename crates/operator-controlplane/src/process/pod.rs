//! One pod whose containers run as local processes: [`Pod`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use operator_apiserver::client::{Client, DeleteOptions, LogWriter, Patch};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::container::{Container, Start, State};
use super::environment::{self, Sources};
use super::sandbox::Sandbox;
use super::volume;
use super::{Processes, STOP_MAX};
use crate::clock::Clock;
use crate::controller::node::{self, ContainerView};
use crate::kind::{CONFIG_MAP, POD, SECRET};
use crate::object::Object;
use crate::plan::Note;
use crate::recorder::Recorder;

/// The interval at which the token of a pod is renewed. The token is valid for an hour.
const TOKEN_RENEWAL: Duration = Duration::from_secs(45 * 60);

/// The shared settings of a pod's containers.
pub(super) struct Shared {
    pub(super) processes: Processes,
    pub(super) client: Client,
    pub(super) recorder: Arc<Recorder>,
    pub(super) clock: Clock,
    /// The pod when it was started; its specification does not change.
    pod: Value,
    address: String,
    directory: PathBuf,
    kubeconfig: Option<PathBuf>,
    states: Mutex<Vec<Option<State>>>,
    changed: Notify,
}

// === impl Shared ===

impl Shared {
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn restart_policy(&self) -> &str {
        self.pod.text("/spec/restartPolicy")
    }

    /// Returns the name of the pod in messages, as kubelets write it.
    pub(super) fn pod_name(&self) -> String {
        format!(
            "pod={}_{}({})",
            self.pod.name(),
            self.pod.namespace(),
            self.pod.uid()
        )
    }

    pub(super) fn open_log(&self, container: &str) -> LogWriter {
        self.client.open_log(self.pod.uid(), container)
    }

    /// Updates the state of a container.
    pub(super) fn change(&self, index: usize, change: impl FnOnce(&mut State)) {
        let mut states = self.states.lock();
        if let Some(Some(state)) = states.get_mut(index) {
            change(state);
        }
        drop(states);
        self.changed.notify_one();
    }

    pub(super) async fn note(&self, reason: &'static str, message: String) {
        let note = Note::normal("kubelet", &POD, &self.pod, reason, message);
        self.recorder.record(&note).await;
    }

    pub(super) async fn warn(&self, reason: &'static str, message: String) {
        let note = Note::warning("kubelet", &POD, &self.pod, reason, message);
        self.recorder.record(&note).await;
    }

    /// Records the Event that a container was started.
    pub(super) async fn started(&self, container: &Value) {
        let name = container.text("/name");
        self.note("Created", format!("Created container: {name}")).await;
        self.note("Started", format!("Started container {name}")).await;
    }

    /// Returns the command of a container.
    ///
    /// # Errors
    /// Returns an error if its environment or a volume refers to an object that does not exist.
    pub(super) async fn prepare(&self, container: &Value) -> Result<Start, String> {
        let image = container.text("/image");
        let program = self.processes.find(image, self.pod.namespace());
        let program = program.ok_or_else(|| format!("no program is registered for the image {image:?}"))?;
        let mut data = BTreeMap::new();
        for (kind, name) in environment::references(container) {
            if let Some(found) = self.data(kind, &name).await {
                let entries = found.into_iter();
                let texts = entries.map(|(key, value)| (key, String::from_utf8_lossy(&value).into_owned()));
                data.insert((kind, name), texts.collect());
            }
        }
        let sources = Sources {
            pod: &self.pod,
            address: &self.address,
            data: &data,
        };
        let mut own = sources.environment(container)?;
        let mut arguments = sources.arguments(container, &program.arguments, &own);
        for mount in volume::mounts(&self.pod, container) {
            let data = match self.data(mount.kind, mount.object).await {
                Some(data) => data,
                None if mount.is_optional => BTreeMap::new(),
                None => return Err(format!("{} {:?} not found", mount.kind, mount.object)),
            };
            mount.write(&self.directory, &data)?;
            let texts = arguments.iter_mut().chain(own.values_mut());
            texts.for_each(|text| *text = mount.translate(&self.directory, text));
        }
        let mut environment = BTreeMap::from([("HOSTNAME".to_owned(), self.pod.name().to_owned())]);
        if let Some(kubeconfig) = &self.kubeconfig {
            environment.insert("KUBECONFIG".to_owned(), kubeconfig.display().to_string());
        }
        environment.extend(own);
        Ok(Start {
            program: program.path,
            arguments,
            environment,
            directory: self.directory.clone(),
        })
    }

    /// Reads a ConfigMap or a Secret.
    async fn data(&self, kind: &'static str, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        let is_secret = kind == environment::SECRET;
        let gvr = if is_secret { &SECRET.gvr } else { &CONFIG_MAP.gvr };
        let object = self.client.get(gvr, self.pod.namespace(), name).await.ok()?;
        let decode = |(key, value): (&str, &str)| {
            let value = BASE64_STANDARD.decode(value).unwrap_or_default();
            (key.to_owned(), value)
        };
        let mut entries: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        if is_secret {
            entries.extend(object.texts("/data").into_iter().map(decode));
        } else {
            let texts = object.texts("/data").into_iter();
            entries.extend(texts.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec())));
            entries.extend(object.texts("/binaryData").into_iter().map(decode));
        }
        Some(entries)
    }
}

/// A pod with its containers.
pub(super) struct Pod {
    pub(super) processes: Processes,
    pub(super) client: Client,
    pub(super) recorder: Arc<Recorder>,
    pub(super) clock: Clock,
    /// The index of the node.
    pub(super) node: usize,
    /// The live pod; the channel closes when the pod is removed.
    pub(super) latest: watch::Receiver<Arc<Value>>,
}

// === impl Pod ===

impl Pod {
    /// Runs the pod until it is removed or finished, or the control plane stops.
    pub(super) async fn run(mut self) {
        let pod = Value::clone(&self.latest.borrow());
        if matches!(pod.text("/status/phase"), "Succeeded" | "Failed") && !pod.is_terminating() {
            // The pod only waits for its deletion.
            return self.delete_when_deleted(&pod).await;
        }
        let Some(sandbox) = self.sandbox(&pod).await else {
            return self.delete_when_deleted(&pod).await;
        };
        self.client.remove_logs(pod.uid());
        let containers = pod.items("/spec/containers");
        let states = containers.iter().map(|container| {
            let is_process = self
                .processes
                .find(container.text("/image"), pod.namespace())
                .is_some();
            let statuses = pod.items("/status/containerStatuses").iter();
            let mut statuses = statuses.filter(|status| status.text("/name") == container.text("/name"));
            is_process.then(|| State::after(statuses.next()))
        });
        let states: Vec<Option<State>> = states.collect();
        let (stop, stopped) = watch::channel(None);
        let seconds = pod.int("/spec/terminationGracePeriodSeconds").unwrap_or(30);
        let grace = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        let shared = Arc::new(Shared {
            processes: self.processes.clone(),
            client: self.client.clone(),
            recorder: self.recorder.clone(),
            clock: self.clock.clone(),
            address: sandbox.0.local_ip.to_string(),
            directory: sandbox.0.directory.clone(),
            kubeconfig: sandbox.1,
            states: Mutex::new(states.clone()),
            changed: Notify::new(),
            pod: self.with_host(&pod),
        });
        let mut running = JoinSet::new();
        for (index, spec) in containers
            .iter()
            .enumerate()
            .filter(|(index, _)| states[*index].is_some())
        {
            let container = Container {
                shared: shared.clone(),
                index,
                spec: spec.clone(),
                address: shared.address.clone(),
                stop: stopped.clone(),
                grace,
            };
            running.spawn(container.run());
        }
        let sandbox = sandbox.0;
        let mut stopping = self.processes.0.stopping.subscribe();
        let mut renewal = tokio::time::interval(TOKEN_RENEWAL);
        renewal.reset();
        let (mut has_ended, mut is_gone) = (false, false);
        loop {
            let latest = self.latest.borrow_and_update().clone();
            if latest.is_terminating() {
                let seconds = latest.int("/metadata/deletionGracePeriodSeconds").unwrap_or(0);
                let grace = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
                stop.send_if_modified(|known| known.replace(grace) != Some(grace));
            }
            if *stopping.borrow_and_update() {
                stop.send_if_modified(|known| known.replace(grace.min(STOP_MAX)).is_none());
            }
            self.report(&shared, &latest, &sandbox).await;
            if has_ended {
                break;
            }
            tokio::select! {
                ended = running.join_next() => has_ended = ended.is_none() || running.is_empty(),
                () = shared.changed.notified() => {}
                changed = self.latest.changed(), if !is_gone => if changed.is_err() {
                    // The pod was deleted without a grace period: the end of the processes is not awaited.
                    is_gone = true;
                    stop.send_replace(Some(Duration::ZERO));
                },
                _ = stopping.changed() => {}
                _ = renewal.tick() => {
                    if let Err(why) = sandbox.write_credentials(&self.processes, &pod).await {
                        tracing::warn!(pod = pod.name(), why, "cannot renew the token of a pod");
                    }
                }
            }
        }
        drop(sandbox);
        if is_gone || *stopping.borrow() {
            self.client.remove_logs(pod.uid());
            return;
        }
        // A finished pod keeps its logs until it is deleted.
        self.delete_when_deleted(&pod).await;
    }

    /// Waits until the pod is being deleted; returns false if the control plane stops before that.
    async fn deletion(&mut self) -> bool {
        let mut stopping = self.processes.0.stopping.subscribe();
        tokio::select! {
            _ = self.latest.wait_for(|pod| pod.is_terminating()) => true,
            _ = stopping.wait_for(|stopping| *stopping) => false,
        }
    }

    /// Removes a pod without processes when it is being deleted.
    async fn delete_when_deleted(&mut self, pod: &Value) {
        if self.deletion().await {
            self.delete(pod).await;
        }
    }

    /// Allocates the address and the credentials, with retries. Returns `None` if the pod is being deleted, or the
    /// control plane stops.
    async fn sandbox(&mut self, pod: &Value) -> Option<(Sandbox, Option<PathBuf>)> {
        loop {
            let address = |number| node::pod_address(self.node, number);
            let made = match Sandbox::create(&self.processes, &self.client, pod, address) {
                Ok(sandbox) => {
                    let written = sandbox.write_credentials(&self.processes, pod).await;
                    written.map(|kubeconfig| (sandbox, kubeconfig))
                }
                Err(error) => Err(error),
            };
            match made {
                Ok(made) => return Some(made),
                Err(message) => {
                    let note = Note::warning("kubelet", &POD, pod, "FailedCreatePodSandBox", message);
                    self.recorder.record(&note).await;
                }
            }
            if tokio::time::timeout(Duration::from_secs(5), self.deletion())
                .await
                .is_ok()
            {
                return None;
            }
        }
    }

    /// Returns the pod with the address of its host, because a variable may refer to it.
    fn with_host(&self, pod: &Value) -> Value {
        let mut pod = pod.clone();
        crate::object::set(&mut pod, &["status", "hostIP"], node::address(self.node).into());
        pod
    }

    /// Writes the status of the pod, if it has changed.
    async fn report(&self, shared: &Shared, latest: &Value, sandbox: &Sandbox) {
        let states = shared.states.lock().clone();
        let containers = latest.items("/spec/containers").iter().zip(&states);
        let views = containers.map(|(container, state)| match state {
            Some(state) => ContainerView {
                status: state.status(container),
                is_ready: state.is_ready(),
                has_run: state.has_run(),
                exit_code: state.exit_code(),
            },
            None => ContainerView::simulated(latest, container, shared.now()),
        });
        let views: Vec<ContainerView> = views.collect();
        let host = node::address(self.node);
        let status = node::of_containers(latest, &host, &sandbox.pod_ip.to_string(), &views, shared.now());
        if latest.get("status") == Some(&status) {
            return;
        }
        let patch = Patch::Merge(json!({"metadata": {"uid": latest.uid()}, "status": status}));
        let written = self
            .client
            .patch(&POD.gvr, latest.namespace(), latest.name(), Some("status"), patch)
            .await;
        if let Err(status) = written {
            tracing::debug!(pod = latest.name(), %status, "cannot write the status of a pod");
        }
    }

    /// Removes a pod whose processes have ended.
    async fn delete(&self, pod: &Value) {
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            uid: Some(pod.uid().to_owned()),
            ..DeleteOptions::default()
        };
        let deleted = self
            .client
            .delete(&POD.gvr, pod.namespace(), pod.name(), options)
            .await;
        if let Err(status) = deleted {
            tracing::debug!(pod = pod.name(), %status, "cannot remove a pod");
        }
        self.client.remove_logs(pod.uid());
    }
}
