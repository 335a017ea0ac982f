//! Tests that each fault can occur with a real API server. The responses that the client sees are compared with
//! recordings of kube-apiserver (`crates/operator-apiserver/tests/recorded`, `tests/recorded`), and with the embedded
//! server where it behaves the same without faults. `refusal.rs` compares the error responses.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{AsyncBufReadExt, TryStreamExt};
use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use operator_chaos::{Action, Cause, Chaos, Plan, Point, Signature, Workload};
use serde_json::{Value, json};

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;
/// The lines that each watch of a probe received, in order. A watch that ends has the line `closed`.
type Seen = Arc<Mutex<Vec<Value>>>;

const PATH: &str = "/api/v1/namespaces/default/configmaps";
const WATCH: &str = "watch configmaps default";

/// Returns the events of a recorded watch.
fn recorded(name: &str, step: &str) -> Vec<Value> {
    let path = format!(
        "{}/../operator-apiserver/tests/recorded/list-watch/{name}.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(path).unwrap();
    let scenario: Value = serde_json::from_str(&text).unwrap();
    let steps = scenario["steps"].as_array().unwrap().iter();
    let events = steps.filter(|it| it["events"] == step).flat_map(|it| {
        let events = it["expect"]["events"].as_array();
        events.cloned().unwrap_or_default()
    });
    events.collect()
}

/// Watches ConfigMaps like a reflector: repeatedly, from the last version that it saw, and from a new list after 410.
async fn probe(client: Client, query: &'static str, seen: Seen) -> Outcome {
    let note = |line: Value| seen.lock().unwrap().push(line);
    loop {
        let list: Value = client.request(Request::get(PATH).body(Vec::new())?).await?;
        let mut version = list["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        note(json!({"listed": version}));
        loop {
            let uri = format!("{PATH}?watch=true&allowWatchBookmarks=true&resourceVersion={version}{query}");
            let request = Request::get(uri).body(Vec::new())?;
            let Ok(stream) = client.request_stream(request).await else {
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            };
            let mut lines = stream.lines();
            let mut is_expired = false;
            while let Ok(Some(line)) = lines.try_next().await {
                let line: Value = serde_json::from_str(&line)?;
                is_expired = line["object"]["code"] == 410;
                if let Some(next) = line
                    .pointer("/object/metadata/resourceVersion")
                    .and_then(Value::as_str)
                {
                    version = next.to_owned();
                }
                note(line);
            }
            note(json!("closed"));
            if is_expired {
                break;
            }
        }
    }
}

/// Returns the lines that the probe receives in a run with one fault.
fn watch_under(at: Point, action: Action) -> Vec<Value> {
    let seen: Seen = Arc::default();
    let object = |size: i32| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"size": size.to_string()}});
    let shared = seen.clone();
    let chaos = Chaos::new(move |client| probe(client, "", shared.clone()));
    let workload = Workload::new().apply(object(1)).apply(object(2)).apply(object(3));
    let report = chaos
        .workload(workload)
        .replay(&Plan::single(1, at, action))
        .unwrap();
    report.assert_clean();
    // The two runs without faults precede the run of the plan.
    let lines = std::mem::take(&mut *seen.lock().unwrap());
    let mut starts = lines.iter().enumerate().filter(|(index, line)| {
        let is_list = line.get("listed").is_some();
        is_list && (*index == 0 || lines[index - 1]["object"]["code"] != 410 && lines[index - 1] != "closed")
    });
    let last = starts.next_back().map_or(0, |(index, _)| index);
    lines[last..].to_vec()
}

fn event(occurrence: u32) -> Point {
    Point::Call {
        call: Signature::new(WATCH),
        occurrence,
    }
}

/// Returns the sizes of the object `a` in the events, and the other lines.
fn shape(lines: &[Value]) -> Vec<String> {
    let shown = lines.iter().filter_map(|line| {
        let object = &line["object"];
        match line["type"].as_str() {
            Some("BOOKMARK") => None,
            Some("ERROR") => Some(format!("ERROR {} {}", object["code"], object["reason"].as_str()?)),
            Some(kind) => (object["metadata"]["name"] == "a")
                .then(|| format!("{kind} {}", object["data"]["size"].as_str().unwrap_or_default())),
            None if line == "closed" => Some("closed".to_owned()),
            None => Some("listed".to_owned()),
        }
    });
    shown.collect()
}

#[test]
fn an_expired_watch_is_closed_and_its_successor_gets_the_recorded_410() {
    let recorded = recorded("watch-rv-expired", "w");
    assert_eq!(recorded.len(), 2, "an error, and the end: {recorded:?}");
    assert_eq!(recorded[1], "closed");
    // The events of the probe: kube-root-ca.crt already exists, and the second event is that of the second step.
    let lines = watch_under(event(2), Action::ExpireWatch);
    assert_eq!(
        shape(&lines),
        [
            "listed",
            "ADDED 1",
            "closed",
            "ERROR 410 Expired",
            "closed",
            "listed",
            "MODIFIED 3"
        ],
        "{lines:?}"
    );
    let error = lines.iter().find(|line| line["type"] == "ERROR").unwrap();
    let mut error = error.clone();
    // The message contains revisions, which the recording does not compare either.
    let message = error["object"].as_object_mut().unwrap().remove("message");
    assert!(message.is_some_and(|message| {
        message
            .as_str()
            .unwrap_or_default()
            .starts_with("too old resource version")
    }));
    assert_eq!(error, recorded[0]);
}

#[test]
fn a_watch_that_is_held_back_and_expires_coalesces_events() {
    let lines = watch_under(
        event(1),
        Action::HoldWatch {
            seconds: 30,
            skip: true,
        },
    );
    // The list shows the last of three changes, and no event shows the others.
    assert_eq!(
        shape(&lines),
        ["listed", "closed", "ERROR 410 Expired", "closed", "listed"],
        "{lines:?}"
    );
}

#[test]
fn a_watch_that_is_cut_or_late_keeps_the_order_of_events() {
    for action in [
        Action::CutWatch,
        Action::HoldWatch {
            seconds: 30,
            skip: false,
        },
    ] {
        let lines = watch_under(event(1), action);
        let changes: Vec<String> = shape(&lines)
            .into_iter()
            .filter(|line| line.contains('D'))
            .collect();
        assert_eq!(changes, ["ADDED 1", "MODIFIED 2", "MODIFIED 3"], "{lines:?}");
    }
}

#[test]
fn bookmarks_can_be_late_or_missing_but_not_invented() {
    let shapes = recorded("watch-bookmark-shape", "w");
    let bookmark = |occurrence| Point::Bookmark {
        bookmark: Signature::new(WATCH),
        occurrence,
    };
    let count = |lines: &[Value]| lines.iter().filter(|line| line["type"] == "BOOKMARK").count();
    let all = watch_under(bookmark(99), Action::DropBookmark);
    let fewer = watch_under(bookmark(1), Action::DropBookmark);
    let late = watch_under(bookmark(1), Action::HoldBookmark { seconds: 5 });
    assert!(count(&all) > 0, "{all:?}");
    assert_eq!(count(&fewer) + 1, count(&all), "{all:?}\n{fewer:?}");
    // The run waits for the delayed bookmark, and may therefore see another one.
    assert!(count(&late) >= count(&all), "{all:?}\n{late:?}");
    // The embedded server sends bookmarks of the recorded form.
    let keys = |line: &Value| -> Vec<String> {
        let fields = line["object"].as_object().into_iter().flatten();
        fields
            .map(|(name, _)| name.clone())
            .filter(|name| name != "data")
            .collect()
    };
    let found = all.iter().find(|line| line["type"] == "BOOKMARK").unwrap();
    if let Some(recorded) = shapes.iter().find(|line| line["type"] == "BOOKMARK") {
        let mut expected = keys(recorded);
        expected.retain(|name| ["apiVersion", "kind", "metadata"].contains(&name.as_str()));
        assert!(expected.iter().all(|name| keys(found).contains(name)), "{found}");
    }
}

/// Writes one object until it exists, and records the errors.
async fn writer(client: Client, errors: Arc<Mutex<Vec<String>>>) -> Outcome {
    let configs: Api<ConfigMap> = Api::default_namespaced(client);
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}});
    let apply = PatchParams::apply("test").force();
    while let Err(error) = configs.patch("made", &apply, &Patch::Apply(&object)).await {
        errors.lock().unwrap().push(match error {
            kube::Error::Api(status) => format!("{} {}", status.code, status.reason),
            _ => "no response".to_owned(),
        });
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    std::future::pending().await
}

#[test]
fn clients_see_the_errors_and_recover() {
    let cases = [
        (Action::Fail(404), "404"),
        (Action::Fail(429), "429"),
        (Action::Fail(500), "500"),
        (Action::Fail(503), "503 ServiceUnavailable"),
        (Action::Fail(504), "504 Timeout"),
        (Action::FailAfterCommit(504), "504 Timeout"),
        (Action::Reset, "no response"),
        (Action::ResetAfterCommit, "no response"),
        (
            Action::Outage {
                cause: Cause::Permission,
                seconds: 5,
            },
            "403 Forbidden",
        ),
        (
            Action::Outage {
                cause: Cause::Webhook,
                seconds: 5,
            },
            "500 InternalError",
        ),
        (
            Action::Outage {
                cause: Cause::Server,
                seconds: 5,
            },
            "no response",
        ),
    ];
    for (action, expected) in cases {
        let errors: Arc<Mutex<Vec<String>>> = Arc::default();
        let shared = errors.clone();
        let chaos = Chaos::new(move |client| writer(client, shared.clone())).workload(Workload::new());
        let call = Signature::new("apply configmaps default/made");
        let plan = Plan::single(1, Point::Call { call, occurrence: 1 }, action.clone());
        chaos.replay(&plan).unwrap().assert_clean();
        let errors = errors.lock().unwrap();
        assert!(
            errors.first().is_some_and(|error| error.starts_with(expected)),
            "{action:?}: {errors:?}"
        );
        let lasts = matches!(action, Action::Outage { .. });
        assert_eq!(errors.len() > 1, lasts, "{action:?}: {errors:?}");
    }
}
