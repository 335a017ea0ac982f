//! [`Plan`]: the faults of a run and the calls at which they are injected. A plan is data; its ID is a hash of it.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::call::Signature;

/// The faults of one run.
///
/// ```
/// use operator_chaos::Plan;
///
/// let plan: Plan = serde_json::from_str(
///     r#"{"faults": [{"at": {"call": "create configmaps default/a", "occurrence": 1}, "action": "crashAfterCommit"}]}"#,
/// )
/// .unwrap();
/// assert_eq!(
///     plan.to_string(),
///     "crash after the commit of the 1st `create configmaps default/a`, before its response"
/// );
/// assert_eq!(plan.id(), plan.clone().id());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The seed of generated names and of the schedule.
    #[serde(default)]
    pub seed: u64,
    /// If set, requests and watch events are delayed by the priorities of a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// The faults.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

/// An order of requests and watch events: probabilistic concurrency testing (PCT). Each kind of call and each watch has
/// a priority, drawn from the seed of the plan. Calls and watches with a low priority are delayed more. At a change
/// point, a kind of call or a watch gets the lowest priority.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    /// The numbers of the requests and watch events, from 1, at which a priority is lowered.
    #[serde(default)]
    pub change_points: Vec<u32>,
}

/// A fault and its position.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    /// The position.
    pub at: Point,
    /// The fault.
    pub action: Action,
}

/// A position in a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Point {
    /// A call of the operator. For a watch, the occurrence is the number of an event, from 1.
    Call {
        /// The call.
        call: Signature,
        /// The number of the call among those with this signature, from 1.
        occurrence: u32,
    },
    /// A bookmark of a watch.
    Bookmark {
        /// The watch.
        bookmark: Signature,
        /// The number of the bookmark, from 1.
        occurrence: u32,
    },
    /// The end of a workload step, when the cluster is idle. 0 is the time before the first step.
    Step {
        /// The number of the step, from 1.
        step: u32,
    },
}

/// A fault. Each fault can occur with a real API server, its network or a kubelet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// The operator crashes before the request reaches the server.
    CrashBefore,
    /// The server processes the request, and the operator crashes before it gets the response.
    CrashAfterCommit,
    /// The operator gets the response and crashes before its next request.
    CrashAfterResponse,
    /// The server responds with this status code and does nothing.
    Fail(u16),
    /// The server processes the request, but the client gets this status code. A proxy responds with 504, for example.
    FailAfterCommit(u16),
    /// The connection breaks before the request reaches the server.
    Reset,
    /// The server processes the request, and the connection breaks before the response.
    ResetAfterCommit,
    /// Another client adds an annotation to the object just before the request.
    ThirdPartyWrite,
    /// A user deletes the object just before the request, so that the server responds with 404 or creates the object
    /// anew.
    ThirdPartyDelete,
    /// Requests fail from this one on.
    Outage {
        /// The requests that fail, and their responses.
        cause: Cause,
        /// The duration in seconds of simulated time.
        seconds: u32,
    },
    /// The watch ends without an error after this event. The client opens it again.
    CutWatch,
    /// The watch ends with `410 Expired` instead of this event. The client lists again.
    ExpireWatch,
    /// This event, and later ones on the same connection, are delayed.
    HoldWatch {
        /// The delay in seconds of simulated time.
        seconds: u32,
        /// If true, the watch then ends with `410 Expired`, so that the client sees only the newest state.
        skip: bool,
    },
    /// The bookmark is not sent.
    DropBookmark,
    /// The bookmark, and later events on the same connection, are delayed.
    HoldBookmark {
        /// The delay in seconds of simulated time.
        seconds: u32,
    },
    /// The operator crashes and starts again.
    Restart,
    /// The operator crashes. After its restart, its lists of a resource that accept any version (`resourceVersion=0`)
    /// return an older state, like those of a stale API server, and the watches are delayed.
    RestartStale {
        /// The resource, such as `pods` or `deployments.apps`.
        resource: String,
        /// The number of changes of the resource that are missing in the lists.
        missing: u32,
        /// The delay of the watches in seconds.
        seconds: u32,
    },
    /// The instance of the operator can no longer reach its lease, but everything else, and a second instance starts.
    /// The first instance is killed after this time, unless it has exited before.
    LoseLease {
        /// The duration in seconds of simulated time.
        seconds: u32,
    },
    /// The clock of the API server and of the controllers is set.
    ClockJump {
        /// The difference in seconds.
        seconds: i32,
    },
    /// A pod is evicted: it is deleted, and its controller replaces it.
    EvictPod {
        /// The pod, such as `pods default/web-0`.
        object: String,
    },
    /// The containers of a pod crash. The kubelet restarts them later.
    CrashPod {
        /// The pod, such as `pods default/web-0`.
        object: String,
        /// The time until they run again, in seconds of simulated time.
        seconds: u32,
    },
    /// Pods do not start or become ready.
    HoldPods {
        /// The duration in seconds of simulated time.
        seconds: u32,
    },
    /// PersistentVolumeClaims stay pending.
    HoldVolumes {
        /// The duration in seconds of simulated time.
        seconds: u32,
    },
    /// A node is unreachable: its pods are not ready, are evicted after five minutes, and wait for another node.
    LoseNode {
        /// The name of the node.
        node: String,
        /// The duration in seconds of simulated time.
        seconds: u32,
    },
    /// A user deletes an object of the operator.
    DeleteChild {
        /// The object, such as `configmaps default/a`.
        object: String,
    },
    /// A user sets a field of an object of the operator back to an earlier value.
    EditChild {
        /// The object, such as `deployments.apps default/a`.
        object: String,
        /// The merge patch.
        patch: String,
    },
}

/// The cause of an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cause {
    /// The admission webhook of the call's resource is unavailable: its writes get 500.
    Webhook,
    /// The permission for the verb and the resource of the call is revoked: it gets 403.
    Permission,
    /// The API server cannot be reached: every request fails.
    Server,
}

// === impl Plan ===

impl Plan {
    /// Creates a plan with one fault.
    pub fn single(seed: u64, at: Point, action: Action) -> Self {
        Self {
            seed,
            schedule: None,
            faults: vec![Fault { at, action }],
        }
    }

    /// Returns the step after which the operator is restarted, if that is the first fault.
    pub(crate) fn restart(&self) -> Option<u32> {
        match self.faults.first() {
            Some(Fault {
                at: Point::Step { step },
                action: Action::Restart,
            }) => Some(*step),
            _ => None,
        }
    }

    /// Returns the ID: 12 hexadecimal digits of a hash over the plan.
    pub fn id(&self) -> String {
        let json = serde_json::to_vec(self).unwrap_or_default();
        let hash = Sha256::digest(&json);
        hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = self.faults.iter().map(Fault::to_string).collect();
        if let Some(schedule) = &self.schedule {
            let points: Vec<String> = schedule.change_points.iter().map(u32::to_string).collect();
            let points = match points.is_empty() {
                true => String::new(),
                false => format!(", with changes at events {}", points.join(", ")),
            };
            parts.push(format!(
                "delay requests and watch events by priorities (seed {}{points})",
                self.seed
            ));
        }
        if parts.is_empty() {
            parts.push("no fault".to_owned());
        }
        formatter.write_str(&parts.join("; then "))
    }
}

// === impl Action ===

impl Action {
    /// Returns the kind of the fault, without its position and its times.
    pub(crate) fn kind(&self) -> String {
        let text = format!("{self:?}");
        let cut = match self {
            // The cause is its first field.
            Self::Outage { cause, .. } => return format!("Outage({cause:?})"),
            _ => text.split([' ', '{']).next(),
        };
        cut.unwrap_or_default().to_owned()
    }

    /// Returns true if the fault can continue while the operator works.
    pub(crate) fn lasts(&self) -> bool {
        match self {
            Self::Outage { .. }
            | Self::HoldWatch { .. }
            | Self::HoldBookmark { .. }
            | Self::RestartStale { .. }
            | Self::LoseLease { .. }
            | Self::CrashPod { .. }
            | Self::HoldPods { .. }
            | Self::HoldVolumes { .. }
            | Self::LoseNode { .. } => true,
            Self::CrashBefore
            | Self::CrashAfterCommit
            | Self::CrashAfterResponse
            | Self::Fail(_)
            | Self::FailAfterCommit(_)
            | Self::Reset
            | Self::ResetAfterCommit
            | Self::ThirdPartyWrite
            | Self::ThirdPartyDelete
            | Self::CutWatch
            | Self::ExpireWatch
            | Self::DropBookmark
            | Self::Restart
            | Self::ClockJump { .. }
            | Self::EvictPod { .. }
            | Self::DeleteChild { .. }
            | Self::EditChild { .. } => false,
        }
    }
}

// === impl Fault ===

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = &self.at;
        match &self.action {
            Action::CrashBefore => write!(formatter, "crash before {at}"),
            Action::CrashAfterCommit => {
                write!(formatter, "crash after the commit of {at}, before its response")
            }
            Action::CrashAfterResponse => write!(formatter, "crash after the response of {at}"),
            Action::Fail(code) => write!(formatter, "answer {at} with {code}, without effect"),
            Action::FailAfterCommit(code) => write!(formatter, "carry out {at}, but answer with {code}"),
            Action::Reset => write!(formatter, "break the connection before {at} reaches the server"),
            Action::ResetAfterCommit => {
                write!(
                    formatter,
                    "carry out {at}, but break the connection before the response"
                )
            }
            Action::ThirdPartyWrite => {
                write!(formatter, "another client changes the object just before {at}")
            }
            Action::ThirdPartyDelete => write!(formatter, "a user deletes the object just before {at}"),
            Action::Outage { cause, seconds } => write!(formatter, "{cause} for {seconds} s from {at} on"),
            Action::DropBookmark => write!(formatter, "omit {at}"),
            Action::HoldBookmark { seconds } => {
                write!(formatter, "deliver {at} and later events {seconds} s late")
            }
            Action::LoseLease { seconds } => write!(
                formatter,
                "start a second instance after {at}, while the first cannot reach its lease for {seconds} s"
            ),
            Action::ClockJump { seconds } => {
                write!(
                    formatter,
                    "set the clock of the API server by {seconds:+} s after {at}"
                )
            }
            Action::EvictPod { object } => write!(formatter, "evict {object} after {at}"),
            Action::CrashPod { object, seconds } => {
                write!(formatter, "let {object} crash for {seconds} s after {at}")
            }
            Action::HoldPods { seconds } => {
                write!(formatter, "let no pod become ready for {seconds} s after {at}")
            }
            Action::HoldVolumes { seconds } => {
                write!(formatter, "let claims stay pending for {seconds} s after {at}")
            }
            Action::LoseNode { node, seconds } => {
                write!(formatter, "make {node} unreachable for {seconds} s after {at}")
            }
            Action::DeleteChild { object } => write!(formatter, "a user deletes {object} after {at}"),
            Action::EditChild { object, patch } => {
                write!(formatter, "a user patches {object} with {patch} after {at}")
            }
            Action::CutWatch => write!(formatter, "end the watch after {at}"),
            Action::ExpireWatch => write!(formatter, "end the watch with 410 in place of {at}"),
            Action::HoldWatch { seconds, skip: false } => {
                write!(formatter, "deliver {at} and later events {seconds} s late")
            }
            Action::HoldWatch { seconds, skip: true } => write!(
                formatter,
                "hold back {at} and later events for {seconds} s, then end the watch with 410"
            ),
            Action::Restart => write!(formatter, "restart the operator after {at}"),
            Action::RestartStale {
                resource,
                missing,
                seconds,
            } => {
                let changes = match missing {
                    1 => "change".to_owned(),
                    missing => format!("{missing} changes"),
                };
                write!(
                    formatter,
                    "restart the operator after {at} against an API server whose {resource} lack the last {changes} for {seconds} s"
                )
            }
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Webhook => "the admission webhook is down",
            Self::Permission => "the permission is revoked",
            Self::Server => "the API server cannot be reached",
        })
    }
}

impl fmt::Display for Point {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call { call, occurrence } if call.verb() == "watch" => {
                write!(formatter, "the {} event of `{call}`", ordinal(*occurrence))
            }
            Self::Call { call, occurrence } => write!(formatter, "the {} `{call}`", ordinal(*occurrence)),
            Self::Bookmark { bookmark, occurrence } => {
                write!(formatter, "the {} bookmark of `{bookmark}`", ordinal(*occurrence))
            }
            Self::Step { step: 0 } => write!(formatter, "the start"),
            Self::Step { step } => write!(formatter, "workload step {step}"),
        }
    }
}

fn ordinal(number: u32) -> String {
    let suffix = match (number % 10, number % 100) {
        (1, last) if last != 11 => "st",
        (2, last) if last != 12 => "nd",
        (3, last) if last != 13 => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_depends_on_the_plan_alone() {
        let at = Point::Step { step: 1 };
        let plan = Plan::single(1, at.clone(), Action::Restart);
        let json = serde_json::to_string(&plan).unwrap_or_default();
        let read: Plan = serde_json::from_str(&json).unwrap_or_default();
        assert_eq!((&read, read.id()), (&plan, plan.id()));
        assert_ne!(plan.id(), Plan::single(2, at, Action::Restart).id());
        assert_eq!(plan.id().len(), 12);
    }

    #[test]
    fn kinds_have_no_times() {
        let outage = Action::Outage {
            cause: Cause::Webhook,
            seconds: 3,
        };
        assert_eq!(outage.kind(), "Outage(Webhook)");
        assert_eq!(Action::Fail(404).kind(), "Fail(404)");
        assert_eq!(Action::HoldPods { seconds: 3 }.kind(), "HoldPods");
    }

    #[test]
    fn ordinals_are_english() {
        let all = [1, 2, 3, 4, 11, 12, 13, 21, 102, 111].map(ordinal);
        assert_eq!(all.join(" "), "1st 2nd 3rd 4th 11th 12th 13th 21st 102nd 111th");
    }
}
