//! [`Trace`], the record of one run.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::call::Signature;

/// The client that caused a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Actor {
    Operator,
    User,
    ThirdParty,
    /// The controllers of Kubernetes and the nodes.
    Cluster,
}

/// The kind of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Added,
    Modified,
    Deleted,
}

/// An event of a run.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A step of the workload begins. Steps are counted from 1.
    Step { number: u32, text: String },
    /// All steps are complete. The run waits for the end state.
    Rest,
    /// The operator starts, for the first time or again.
    Start { life: u32 },
    /// The operator crashes because of a fault.
    Crash,
    /// A fault is injected.
    Fault { text: String },
    /// A call ended. The code is 0 if there was no response.
    Call {
        signature: Signature,
        occurrence: u32,
        code: u16,
        /// True if the call changed an object.
        effective: bool,
        accepts_any_version: bool,
        /// True if a fault sent the response instead of the server.
        is_refused: bool,
    },
    /// A watch delivered an event to the operator.
    Delivery {
        signature: Signature,
        /// The number of the event among those of this signature, from 1.
        occurrence: u32,
        text: String,
    },
    /// A watch delivered a bookmark to the operator.
    Bookmark {
        signature: Signature,
        /// The number of the bookmark among those of this signature, from 1.
        occurrence: u32,
        /// True if it ends the initial events.
        ends_initial: bool,
    },
    /// The server committed a change.
    Commit {
        actor: Actor,
        kind: Kind,
        key: String,
        object: Arc<Value>,
        old: Option<Arc<Value>>,
    },
    /// The operator is replaced by another version.
    Upgrade { version: String },
    /// An instance that had lost its lease exited.
    FormerEnded { life: u32 },
    /// The operator exited by itself.
    Ended { reason: String },
    /// The operator is restarted at the end, to check that it writes nothing.
    IdempotenceCheck,
}

/// The events of a run with their simulated times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    pub(crate) events: Vec<(Duration, Event)>,
}

/// The number of commits of one kind by actor.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) operator: u32,
    pub(crate) third_party: u32,
    pub(crate) others: u32,
}

impl Counts {
    pub(crate) fn all(self) -> u32 {
        self.operator + self.third_party + self.others
    }
}

// === impl Trace ===

impl Trace {
    /// Adds an event.
    pub(crate) fn push(&mut self, at: Duration, event: Event) {
        self.events.push((at, event));
    }

    /// Returns the events without times.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().map(|(_, event)| event)
    }

    /// Returns the lines that two runs of the same plan must have in common: the writes of the operator in order, with
    /// the responses, and the changes that they made.
    pub(crate) fn essence(&self) -> Vec<String> {
        let line = |event: &Event| match event {
            Event::Call {
                signature,
                code,
                effective,
                ..
            } if signature.is_write() => Some(format!("{signature} {code} {effective}")),
            Event::Step { text, .. } => Some(text.clone()),
            Event::Crash => Some("crash".to_owned()),
            _ => None,
        };
        self.iter().filter_map(line).collect()
    }

    /// Returns a hash of the essence, which is the same on every machine.
    pub(crate) fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for event in self.iter() {
            match event {
                Event::Call {
                    signature,
                    code,
                    effective,
                    ..
                } if signature.is_write() => (signature.as_str(), code, effective).hash(&mut hasher),
                Event::Step { text, .. } => text.hash(&mut hasher),
                Event::Crash => "crash".hash(&mut hasher),
                _ => {}
            }
        }
        hasher.finish()
    }

    /// Returns the number of the last step that began.
    pub(crate) fn last_step(&self) -> Option<u32> {
        let mut latest_first = self.events.iter().rev();
        latest_first.find_map(|(_, event)| match event {
            Event::Step { number, .. } => Some(*number),
            _ => None,
        })
    }

    /// Returns the number of additions or deletions by object, until the end of a step or else of the run.
    pub(crate) fn counts(&self, wanted: Kind, step: Option<u32>) -> BTreeMap<String, Counts> {
        let is_later = |event: &Event| match event {
            Event::Step { number, .. } => step.is_some_and(|step| *number > step),
            Event::Rest => step.is_some(),
            _ => false,
        };
        let mut counts: BTreeMap<String, Counts> = BTreeMap::new();
        for event in self.iter().take_while(|event| !is_later(event)) {
            match event {
                Event::Commit { actor, kind, key, .. } if *kind == wanted => {
                    let count = counts.entry(key.clone()).or_default();
                    match actor {
                        Actor::Operator => count.operator += 1,
                        Actor::ThirdParty => count.third_party += 1,
                        Actor::User | Actor::Cluster => count.others += 1,
                    }
                }
                _ => {}
            }
        }
        counts
    }

    /// Returns the number of calls of the operator, except for watches.
    pub(crate) fn calls(&self) -> usize {
        let is_call =
            |event: &&Event| matches!(event, Event::Call { signature, .. } if signature.verb() != "watch");
        self.iter().filter(is_call).count()
    }

    /// Returns the timeline.
    pub(crate) fn timeline(&self) -> Timeline {
        let mut timeline = Timeline::default();
        for (at, event) in &self.events {
            let Some(text) = line(event) else { continue };
            match event {
                Event::Call { signature, .. } if signature.is_write() => {
                    timeline
                        .writes
                        .push((timeline.lines.len(), signature.to_string()));
                }
                Event::Step { text, .. } => timeline.writes.push((timeline.lines.len(), text.clone())),
                _ => {}
            }
            timeline
                .lines
                .push(format!("{:>9.3} s  {text}", at.as_secs_f64()));
        }
        timeline
    }
}

/// The lines of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    pub(crate) lines: Vec<String>,
    /// The writes of the operator and the steps of the user, with the numbers of their lines, from 0.
    writes: Vec<(usize, String)>,
}

/// The first write that differs from the run without faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Divergence {
    /// The write, or `the end`.
    pub(crate) write: String,
    /// The number of the line of the write, from 0.
    pub(crate) line: Option<usize>,
}

/// Returns the first write of a run that differs from the reference.
pub(crate) fn first_divergence(reference: &Timeline, found: &Timeline) -> Option<Divergence> {
    let length = reference.writes.len().max(found.writes.len());
    (0..length).find_map(|index| {
        let expected = reference.writes.get(index).map(|(_, write)| write);
        let write = found.writes.get(index);
        (write.map(|(_, write)| write) != expected).then(|| Divergence {
            write: write.map_or_else(|| "the end".to_owned(), |(_, write)| write.clone()),
            line: write.map(|(line, _)| *line),
        })
    })
}

/// Returns the text of an event in a timeline, or `None` for events that are not shown.
pub(crate) fn line(event: &Event) -> Option<String> {
    Some(match event {
        Event::Step { number, text } => format!("step {number}: {text}"),
        Event::Rest => "the workload has ended".to_owned(),
        Event::Start { life: 1 } => "the operator starts".to_owned(),
        Event::Start { .. } => "the operator starts again".to_owned(),
        Event::Crash => "the operator crashes".to_owned(),
        Event::Fault { text } => format!("FAULT {text}"),
        Event::Call {
            signature,
            code,
            effective,
            ..
        } if signature.is_write() => {
            let effect = if *effective { "" } else { ", no change" };
            match code {
                0 => format!("operator: {signature} → no response{effect}"),
                code => format!("operator: {signature} → {code}{effect}"),
            }
        }
        Event::Call { signature, code, .. } if *code >= 400 || *code == 0 => {
            format!("operator: {signature} → {code}")
        }
        Event::Call { .. } | Event::Bookmark { .. } => return None,
        Event::Delivery { signature, text, .. } => format!("operator gets {text} ({signature})"),
        Event::Commit {
            actor,
            kind,
            key,
            object,
            old,
        } => {
            let actor = match actor {
                Actor::Operator => "  by the operator",
                Actor::User => "  by the user",
                Actor::ThirdParty => "  by another client",
                Actor::Cluster => "  by the cluster",
            };
            let what = match kind {
                Kind::Added => "created",
                Kind::Modified => "changed",
                Kind::Deleted => "deleted",
            };
            let changed = old.as_ref().filter(|_| *kind == Kind::Modified);
            let changed = changed.map(|old| {
                let all = crate::state::changes(old, object);
                let shown: Vec<String> = all.iter().take(3).map(shown).collect();
                let more = all.len().saturating_sub(3);
                let more = if more > 0 {
                    format!(" and {more} more")
                } else {
                    String::new()
                };
                format!(": {}{more}", shown.join(", "))
            });
            format!("{actor}: {key} {what}{}", changed.unwrap_or_default())
        }
        Event::Upgrade { version } => format!("the operator is replaced by version {version}"),
        Event::FormerEnded { life } => format!("instance {life} of the operator has ended"),
        Event::Ended { reason } => format!("the operator ended: {reason}"),
        Event::IdempotenceCheck => "the operator is restarted at rest".to_owned(),
    })
}

/// Formats a difference as `field before → after`.
pub(crate) fn shown(difference: &crate::state::Difference) -> String {
    let text = |value: &Option<Value>| {
        let text = value.as_ref().map_or("nothing".to_owned(), Value::to_string);
        match text.chars().count() {
            0..=60 => text,
            _ => format!("{}…", text.chars().take(60).collect::<String>()),
        }
    };
    let field = match difference.field.as_str() {
        "" => "object",
        field => field,
    };
    format!(
        "{field} {} → {}",
        text(&difference.expected),
        text(&difference.found)
    )
}
