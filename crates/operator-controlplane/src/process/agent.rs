//! Finds the pods that run as local processes, and runs them: [`Agent`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use operator_apiserver::client::{Client, EventType};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Processes;
use super::pod::Pod;
use crate::clock::Clock;
use crate::kind::POD;
use crate::object::Object;
use crate::recorder::Recorder;

/// The delay before another snapshot after the watch returned nothing.
const PAUSE: Duration = Duration::from_millis(200);

/// The part of simulated nodes that runs pods as processes.
pub(crate) struct Agent {
    processes: Processes,
    client: Client,
    recorder: Arc<Recorder>,
    clock: Clock,
    /// The number of nodes.
    nodes: usize,
    /// The running pods, by uid.
    pods: HashMap<String, watch::Sender<Arc<Value>>>,
    tasks: JoinSet<()>,
}

// === impl Agent ===

impl Agent {
    pub(crate) fn new(
        processes: Processes,
        client: &Client,
        recorder: &Arc<Recorder>,
        clock: &Clock,
        nodes: usize,
    ) -> Self {
        Self {
            processes,
            client: client.with_manager("kubelet"),
            recorder: recorder.clone(),
            clock: clock.clone(),
            nodes,
            pods: HashMap::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Runs pods until its task is dropped, which kills their processes.
    pub(crate) async fn run(mut self) {
        loop {
            let (revision, objects) = self.client.snapshot();
            let pods: Vec<Arc<Value>> = objects
                .into_iter()
                .filter(|(gvr, _)| POD.is(gvr))
                .map(|(_, pod)| pod)
                .collect();
            self.pods.retain(|uid, _| pods.iter().any(|pod| pod.uid() == uid));
            pods.iter().for_each(|pod| self.see(pod));
            let mut watch = self.client.watch(revision);
            while let Some(event) = watch.next().await {
                while self.tasks.try_join_next().is_some() {}
                if !POD.is(&event.gvr) {
                    continue;
                }
                match event.kind {
                    EventType::Deleted => drop(self.pods.remove(event.object.uid())),
                    _ => self.see(&event.object),
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn see(&mut self, pod: &Arc<Value>) {
        if let Some(known) = self.pods.get(pod.uid()) {
            known.send_replace(pod.clone());
            return;
        }
        let name = pod.text("/spec/nodeName");
        let number = name
            .strip_prefix("node-")
            .and_then(|number| number.parse::<usize>().ok());
        let node = number
            .and_then(|number| number.checked_sub(1))
            .filter(|node| *node < self.nodes);
        let Some(node) = node.filter(|_| self.processes.claims(pod)) else {
            return;
        };
        let (sender, latest) = watch::channel(pod.clone());
        self.pods.insert(pod.uid().to_owned(), sender);
        let pod = Pod {
            processes: self.processes.clone(),
            client: self.client.clone(),
            recorder: self.recorder.clone(),
            clock: self.clock.clone(),
            node,
            latest,
        };
        let running = Running::count(&self.processes);
        self.tasks.spawn(async move {
            pod.run().await;
            drop(running);
        });
    }
}

/// Counts a running pod until it is dropped.
struct Running(Processes);

impl Running {
    fn count(processes: &Processes) -> Self {
        processes.0.running.send_modify(|running| *running += 1);
        Self(processes.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0
            .0
            .running
            .send_modify(|running| *running = running.saturating_sub(1));
    }
}
