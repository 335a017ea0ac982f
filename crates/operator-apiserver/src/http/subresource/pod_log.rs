//! `pods/log`: the output of a container.
//!
//! Containers that run as local processes have real logs. The logs of a simulated pod are in its annotations:
//! `logs.operator-sdk.dev/CONTAINER` for one container, `operator-sdk.dev/logs` for all other containers. The time of
//! every line is the start time of the container.

use std::sync::Arc;
use std::time::SystemTime;

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::{object, time};
use bytes::Bytes;
use futures::stream;
use http::StatusCode;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::kubelet::{container_of, container_status, reachable_node};
use crate::http::call::{Answer, Call, Content};
use crate::http::verb::options;
use crate::registry::Registry;
use crate::registry::pod_logs::{Line, PodLog};
use crate::resource::Definition;
use crate::status::{self, NamedResource, Status};
use crate::store::Changes;
use builtin_kinds::tree::{at, text};

const MEDIA_TYPE: &str = "text/plain";

pub(super) fn serve(
    registry: &Arc<Registry>,
    call: &Call,
    definition: &Arc<Definition>,
) -> Result<Answer, Status> {
    let info = &call.info;
    let options = Options::read(call)?;
    let pod = registry
        .get(definition, &info.namespace, &info.name)?
        .value
        .clone();
    let container = container_of(&pod, call.query.text("container"))?;
    let node = text(&pod, &["spec", "nodeName"]);
    if node.is_empty() {
        // No container has started yet.
        return Ok(Answer::new(StatusCode::NO_CONTENT, MEDIA_TYPE, Bytes::new()));
    }
    reachable_node(registry, node)?;
    let started = check_state(&pod, &container, options.previous)?;
    let now = registry.clock.now();
    if let Some(log) = log_of_process(registry, &pod, &container, options.previous)? {
        return Ok(answer_of_process(registry, call, &options, log, now));
    }
    let text = log_of(&pod, &container);
    let lines = text.split_inclusive('\n').map(|line| (started.as_str(), line));
    let written = options.select(lines, now);
    let mut answer = Answer::new(StatusCode::OK, MEDIA_TYPE, Bytes::from(written));
    if options.follow
        && let Content::Whole(first) = &answer.content
    {
        let following = Following {
            changes: registry.store.subscribe(&definition.table, &definition.storage),
            key: definition.key(&info.namespace, &info.name),
            uid: object::uid(&pod).to_owned(),
            told: log_of(&pod, &container),
            first: Some(first.clone()),
            drain: call.drain.clone(),
            definition: definition.clone(),
            container,
            registry: registry.clone(),
        };
        answer.content = Content::Stream(following.body());
    }
    Ok(answer)
}

/// Returns the log of a container that runs as a local process: the log of the previous run if its process has not
/// started yet.
fn log_of_process(
    registry: &Registry,
    pod: &Value,
    container: &str,
    previous: bool,
) -> Result<Option<Arc<PodLog>>, Status> {
    let uid = object::uid(pod);
    let is_process = registry.pod_logs.get(uid, container, false).is_some();
    let log = registry.pod_logs.get(uid, container, previous);
    match log {
        None if is_process => Err(status::bad_request(format!(
            "previous terminated container {container:?} in pod {:?} not found",
            object::name(pod)
        ))),
        log => Ok(log),
    }
}

fn answer_of_process(
    registry: &Arc<Registry>,
    call: &Call,
    options: &Options,
    log: Arc<PodLog>,
    now: SystemTime,
) -> Answer {
    let (lines, next) = log.lines(0);
    let first = Bytes::from(options.select_lines(&lines, now));
    let mut answer = Answer::new(StatusCode::OK, MEDIA_TYPE, first.clone());
    if options.follow {
        let following = FollowingProcess {
            changed: log.subscribe(),
            log,
            next,
            timestamps: options.timestamps,
            first: Some(first),
            drain: call.drain.clone(),
            stop: registry.stop.clone(),
        };
        answer.content = Content::Stream(following.body());
    }
    answer
}

/// Returns the whole text of a container.
fn log_of(pod: &Value, container: &str) -> String {
    let annotation = |key: &str| {
        at(pod, &["metadata", "annotations", key])
            .as_str()
            .map(str::to_owned)
    };
    let mut log = annotation(&format!("logs.operator-sdk.dev/{container}"))
        .or_else(|| annotation("operator-sdk.dev/logs"))
        .unwrap_or_default();
    if !log.is_empty() && !log.ends_with('\n') {
        log.push('\n');
    }
    log
}

/// Checks that a container has a log; returns its start.
fn check_state(pod: &Value, container: &str, previous: bool) -> Result<String, Status> {
    let name = object::name(pod);
    let refused = |why: String| Err(status::bad_request(why));
    let Some(found) = container_status(pod, container) else {
        return refused(format!(
            "container {container:?} in pod {name:?} is not available"
        ));
    };
    let last = at(found, &["lastState", "terminated"]);
    if previous && !last.is_object() {
        return refused(format!(
            "previous terminated container {container:?} in pod {name:?} not found"
        ));
    }
    let state = at(found, &["state"]);
    let running = ["running", "terminated"].map(|field| at(state, &[field]));
    let current = running.into_iter().find(|state| state.is_object());
    match current
        .filter(|_| !previous)
        .or(Some(last).filter(|last| last.is_object()))
    {
        Some(state) => Ok(text(state, &["startedAt"]).to_owned()),
        None => match text(state, &["waiting", "reason"]) {
            "" => refused(format!(
                "container {container:?} in pod {name:?} is waiting to start - no logs yet"
            )),
            reason => refused(format!(
                "container {container:?} in pod {name:?} is waiting to start: {reason}"
            )),
        },
    }
}

// === options ===

#[derive(Debug, Default)]
struct Options {
    follow: bool,
    previous: bool,
    timestamps: bool,
    tail_lines: Option<i64>,
    limit_bytes: Option<i64>,
    since_seconds: Option<i64>,
    since_time: Option<jiff::Timestamp>,
}

/// Parses the value of `sinceTime`. Empty values are the zero time.
fn since_time(text: &str) -> Result<jiff::Timestamp, Status> {
    if matches!(text, "" | "null") {
        return Ok(jiff::Timestamp::MIN);
    }
    let time::Timestamp { seconds, nanos } = time::parse_rfc3339(text).map_err(status::bad_request)?.time;
    let nanos = i32::try_from(nanos).unwrap_or_default();
    let limit = if seconds < 0 {
        jiff::Timestamp::MIN
    } else {
        jiff::Timestamp::MAX
    };
    Ok(jiff::Timestamp::new(seconds, nanos).unwrap_or(limit))
}

impl Options {
    fn read(call: &Call) -> Result<Self, Status> {
        let query = &call.query;
        let number = |name: &str| options::integer(call, name);
        // In the order in which the API server reports malformed values.
        let options = Self {
            follow: query.flag("follow"),
            previous: query.flag("previous"),
            since_seconds: number("sinceSeconds")?,
            since_time: query.get("sinceTime").map(since_time).transpose()?,
            timestamps: query.flag("timestamps"),
            tail_lines: number("tailLines")?,
            limit_bytes: number("limitBytes")?,
        };
        let mut errors = options.faults();
        if query.get("stream").is_some() {
            errors.push(Error::forbidden(Path::new("stream"), "may not be specified"));
        }
        if errors.is_empty() {
            return Ok(options);
        }
        let subject = NamedResource {
            group: String::new(),
            resource: "podlogoptions".to_owned(),
            kind: "PodLogOptions".to_owned(),
        };
        Err(status::invalid(&subject, &call.info.name, &errors))
    }

    fn faults(&self) -> ErrorList {
        let mut errors = ErrorList::new();
        let mut least = |field: &str, value: Option<i64>, least: i64, why: &str| {
            if let Some(value) = value.filter(|value| *value < least) {
                errors.push(Error::invalid(Path::new(field), value.into(), why));
            }
        };
        least(
            "tailLines",
            self.tail_lines,
            0,
            "must be greater than or equal to 0",
        );
        least("limitBytes", self.limit_bytes, 1, "must be greater than 0");
        if self.since_time.is_none() {
            least("sinceSeconds", self.since_seconds, 1, "must be greater than 0");
        } else if self.since_seconds.is_some() {
            let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(Error::forbidden(Path::new("[]"), why));
        }
        errors
    }

    /// Returns the requested lines of the log of a process.
    fn select_lines(&self, lines: &[Line], now: SystemTime) -> String {
        let lines: Vec<_> = lines
            .iter()
            .map(|line| (nanoseconds(line.written), String::from_utf8_lossy(&line.text)))
            .collect();
        let lines = lines
            .iter()
            .map(|(written, text)| (written.as_str(), text.as_ref()));
        self.select(lines, now)
    }

    /// Returns the requested lines; `lines` are texts with their times.
    fn select<'a>(&self, lines: impl Iterator<Item = (&'a str, &'a str)>, now: SystemTime) -> String {
        let lines: Vec<_> = lines
            .filter(|(written, _)| !self.is_before(written, now))
            .collect();
        let skipped = self.tail_lines.map_or(0, |tail| {
            let tail = usize::try_from(tail).unwrap_or(usize::MAX);
            lines.len().saturating_sub(tail)
        });
        let mut selected: String = lines
            .into_iter()
            .skip(skipped)
            .map(|(written, line)| match self.timestamps {
                true => format!("{written} {line}"),
                false => line.to_owned(),
            })
            .collect();
        if let Some(limit) = self.limit_bytes.and_then(|limit| usize::try_from(limit).ok()) {
            let end = (0..=limit.min(selected.len()))
                .rev()
                .find(|end| selected.is_char_boundary(*end));
            selected.truncate(end.unwrap_or_default());
        }
        selected
    }

    /// Returns true if the line is older than the requested time.
    fn is_before(&self, written: &str, now: SystemTime) -> bool {
        let Ok(written) = written.parse::<jiff::Timestamp>() else {
            return false;
        };
        let age = self.since_seconds.map(jiff::SignedDuration::from_secs);
        let now = jiff::Timestamp::try_from(now).ok();
        let since = self.since_time.or_else(|| now?.checked_sub(age?).ok());
        since.is_some_and(|since| written < since)
    }
}

// === following ===

/// A log that is followed until its pod ends.
struct Following {
    registry: Arc<Registry>,
    definition: Arc<Definition>,
    changes: Changes,
    key: String,
    uid: String,
    container: String,
    /// The log that was already sent.
    told: String,
    first: Option<Bytes>,
    drain: CancellationToken,
}

impl Following {
    fn body(self) -> crate::http::call::Body {
        let frames = stream::unfold(self, |mut following| async move {
            let bytes = following.next().await?;
            Some((Ok(Frame::data(bytes)), following))
        });
        StreamBody::new(frames).boxed_unsync()
    }

    /// Returns the text written since the last call; `None` when the container, its pod, or the server has ended.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take().filter(|first| !first.is_empty()) {
            return Some(first);
        }
        loop {
            self.changes.mark_seen();
            let live = self.registry.store.get(&self.definition.table, &self.key);
            let pod = live.filter(|live| object::uid(&live.value) == self.uid)?;
            let log = log_of(&pod.value, &self.container);
            if let Some(more) = log
                .strip_prefix(self.told.as_str())
                .filter(|more| !more.is_empty())
            {
                let more = Bytes::from(more.to_owned());
                self.told = log;
                return Some(more);
            }
            if has_ended(&pod.value, &self.container) {
                return None;
            }
            let stop = self.registry.stop.clone();
            tokio::select! {
                changed = self.changes.changed() => changed.ok()?,
                () = self.drain.cancelled() => return None,
                () = stop.cancelled() => return None,
            }
        }
    }
}

/// A log of a process that is followed until the container ends.
struct FollowingProcess {
    log: Arc<PodLog>,
    changed: watch::Receiver<(usize, bool)>,
    /// The number of the next line.
    next: usize,
    timestamps: bool,
    first: Option<Bytes>,
    drain: CancellationToken,
    stop: CancellationToken,
}

impl FollowingProcess {
    fn body(self) -> crate::http::call::Body {
        let frames = stream::unfold(self, |mut following| async move {
            let bytes = following.next().await?;
            Some((Ok(Frame::data(bytes)), following))
        });
        StreamBody::new(frames).boxed_unsync()
    }

    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take().filter(|first| !first.is_empty()) {
            return Some(first);
        }
        loop {
            let has_ended = self.changed.borrow_and_update().1;
            let (lines, next) = self.log.lines(self.next);
            if !lines.is_empty() {
                self.next = next;
                let options = Options {
                    timestamps: self.timestamps,
                    ..Options::default()
                };
                return Some(options.select_lines(&lines, SystemTime::now()).into());
            }
            if has_ended {
                return None;
            }
            tokio::select! {
                changed = self.changed.changed() => changed.ok()?,
                () = self.drain.cancelled() => return None,
                () = self.stop.cancelled() => return None,
            }
        }
    }
}

/// Formats a time as kubelets write it at the start of a line.
fn nanoseconds(time: SystemTime) -> String {
    let time = jiff::Timestamp::try_from(time).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    time.strftime("%Y-%m-%dT%H:%M:%S.%9fZ").to_string()
}

fn has_ended(pod: &Value, container: &str) -> bool {
    let of_container =
        container_status(pod, container).is_some_and(|found| at(found, &["state", "terminated"]).is_object());
    of_container || matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed")
}
