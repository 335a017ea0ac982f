//! Runs one scenario on one server: sends requests, reads watches, captures variables, and collects the responses.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use regex::Regex;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};
use tower::{Service, ServiceExt};

use crate::normalise;
use crate::scenario::{Ordered, Step, Variables};
use crate::wire;

/// Headers that are compared.
const HEADERS: [&str; 6] = [
    "content-type",
    "warning",
    "retry-after",
    "vary",
    "allow",
    "location",
];

/// The time after which a response counts as missing.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// An API server that handles requests in-process, like the argument of `kube::Client::new`.
pub trait ApiService:
    Service<Request<Full<Bytes>>, Response = Response<Self::Body>, Future: Send> + Clone + Send + Sync + 'static
{
    /// The body of the responses.
    type Body: http_body::Body<Data = Bytes, Error: std::fmt::Debug> + Send + Unpin + 'static;
}

impl<S, B> ApiService for S
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>, Future: Send> + Clone + Send + Sync + 'static,
    B: http_body::Body<Data = Bytes, Error: std::fmt::Debug> + Send + Unpin + 'static,
{
    type Body = B;
}

/// The time that a scenario has paused. A server whose clock only advances by it returns the same times in every run,
/// however slow the machine is.
#[derive(Clone, Debug, Default)]
pub struct Pauses(Arc<AtomicU64>);

impl Pauses {
    /// Returns the sum of the pauses so far.
    pub fn total(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn add(&self, pause: Duration) {
        let millis = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

pub(crate) struct Session<S> {
    server: S,
    pauses: Pauses,
    variables: Variables,
    watches: BTreeMap<String, mpsc::UnboundedReceiver<Value>>,
    /// The tasks that read watches; they end with the session.
    readers: JoinSet<()>,
}

impl<S: ApiService> Session<S> {
    /// Creates the namespace of the scenario. Names contain the name of the scenario, so that scenarios can share a
    /// server.
    pub(crate) async fn start(server: S, scenario: &str) -> Self {
        let digest = Sha256::digest(scenario.as_bytes());
        let hash: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let namespace = format!("c-{hash}");
        let group = format!("g{hash}.example.com");
        let variables = Variables::from([("ns".to_owned(), namespace.clone()), ("group".to_owned(), group)]);
        let session = Self::with_variables(server, variables);
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let step = Step {
            method: Some("POST".to_owned()),
            path: Some("/api/v1/namespaces".to_owned()),
            body_text: Some(body.to_string()),
            headers: BTreeMap::from([("Content-Type".to_owned(), "application/json".to_owned())]),
            ..Step::default()
        };
        session.send("POST", &step).await;
        session
    }

    /// Uses existing names and an existing namespace.
    pub(crate) fn with_variables(server: S, variables: Variables) -> Self {
        Self {
            server,
            pauses: Pauses::default(),
            variables,
            watches: BTreeMap::new(),
            readers: JoinSet::new(),
        }
    }

    /// Adds the pauses of the scenario to a sum.
    pub(crate) fn count_pauses(mut self, pauses: Pauses) -> Self {
        self.pauses = pauses;
        self
    }

    pub(crate) fn variables(&self) -> &Variables {
        &self.variables
    }

    pub(crate) async fn run(&mut self, steps: &[Step]) -> Vec<Value> {
        let mut answers = Vec::new();
        for step in steps {
            answers.push(self.step(step).await);
        }
        answers
    }

    pub(crate) async fn step(&mut self, step: &Step) -> Value {
        match (&step.watch, &step.events, &step.method) {
            (Some(name), _, _) => self.open_watch(name, step).await,
            (None, Some(name), _) => self.read_events(name, step).await,
            (None, None, Some(method)) => self.request(method, step).await,
            (None, None, None) => {
                // The pause is a part of the scenario: it advances the clock to another second.
                self.pause(Duration::from_secs_f64(step.seconds.unwrap_or_default()))
                    .await;
                json!({})
            }
        }
    }

    async fn pause(&self, pause: Duration) {
        self.pauses.add(pause);
        sleep(pause).await;
    }

    async fn request(&mut self, method: &str, step: &Step) -> Value {
        let answer = match &step.retry {
            None => self.send(method, step).await,
            Some(retry) => {
                let wanted = self.substitute_value(&retry.equals);
                let end = Instant::now() + Duration::from_secs_f64(retry.seconds.unwrap_or(10.0));
                loop {
                    let answer = self.send(method, step).await;
                    if normalise::dig(&answer["body"], &retry.until) == wanted || Instant::now() > end {
                        break answer;
                    }
                    self.pause(Duration::from_millis(20)).await;
                }
            }
        };
        for (variable, path) in &step.capture {
            let value = match normalise::dig(&answer["body"], path) {
                Value::String(text) => text,
                other => other.to_string(),
            };
            self.variables.insert(variable.clone(), value);
        }
        answer
    }

    async fn send(&self, method: &str, step: &Step) -> Value {
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, self.exchange(method, step)).await;
        answer.unwrap_or_else(|_| json!({"error": "no complete response within the time limit"}))
    }

    async fn exchange(&self, method: &str, step: &Step) -> Value {
        let response = match self.call(method, step, &self.url(step)).await {
            Ok(response) => response,
            Err(error) => return json!({"error": error}),
        };
        let status = response.status().as_u16();
        let mut headers = Map::new();
        for name in HEADERS {
            let values: Vec<Value> = response
                .headers()
                .get_all(name)
                .iter()
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned().into())
                .collect();
            if !values.is_empty() {
                headers.insert(name.to_owned(), Value::Array(values));
            }
        }
        let bytes = match response.into_body().collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return json!({"error": format!("{error:?}")}),
        };
        // Over the network, a response to HEAD has no body, even if the service returns one.
        let bytes = if method == "HEAD" { Bytes::new() } else { bytes };
        let mut answer = json!({"status": status, "headers": headers});
        match (serde_json::from_slice::<Value>(&bytes), wire::tree(&bytes)) {
            (Ok(body), _) => answer["body"] = body,
            (Err(_), Some(tree)) => answer["protobuf"] = tree,
            (Err(_), None) => answer["text"] = String::from_utf8_lossy(&bytes).into(),
        }
        answer
    }

    async fn call(&self, method: &str, step: &Step, url: &str) -> Result<Response<S::Body>, String> {
        let mut request = Request::builder().method(method).uri(url);
        let mut headers = BTreeMap::from([("Accept".to_owned(), "application/json".to_owned())]);
        headers.extend(
            step.headers
                .iter()
                .map(|(name, value)| (name.clone(), self.substitute(value))),
        );
        if step.body.is_some() {
            headers
                .entry("Content-Type".to_owned())
                .or_insert_with(|| "application/json".to_owned());
        }
        if let Some(user) = &step.user {
            headers.insert("Impersonate-User".to_owned(), self.substitute(user));
        }
        for (name, value) in &headers {
            request = request.header(name, value);
        }
        for group in &step.groups {
            request = request.header("Impersonate-Group", self.substitute(group));
        }
        let request = request
            .body(Full::new(self.body(step)))
            .map_err(|error| error.to_string())?;
        self.server
            .clone()
            .oneshot(request)
            .await
            .map_err(|_| "the service failed".to_owned())
    }

    fn body(&self, step: &Step) -> Bytes {
        let text = step
            .body
            .as_ref()
            .map(|body| self.substitute_ordered(body).to_string());
        match (
            text.or_else(|| step.body_text.as_deref().map(|text| self.substitute(text))),
            &step.body_b64,
        ) {
            (Some(text), _) => Bytes::from(text),
            (None, Some(encoded)) => base64::engine::general_purpose::STANDARD
                .decode(encoded)
                .unwrap_or_default()
                .into(),
            (None, None) => Bytes::new(),
        }
    }

    async fn open_watch(&mut self, name: &str, step: &Step) -> Value {
        let url = self.url(step);
        let url = format!("{url}{}watch=true", if url.contains('?') { '&' } else { '?' });
        let (sender, receiver) = mpsc::unbounded_channel();
        self.watches.insert(name.to_owned(), receiver);
        let response = match self.call("GET", step, &url).await {
            Ok(response) => response,
            Err(error) => return json!({"watch_status": error}),
        };
        let status = response.status().as_u16();
        self.readers
            .spawn(read_watch(status, response.into_body(), sender));
        json!({"watch_status": status})
    }

    async fn read_events(&mut self, name: &str, step: &Step) -> Value {
        let mut events = Vec::new();
        let end = Instant::now() + Duration::from_secs_f64(step.seconds.unwrap_or(5.0));
        if let Some(receiver) = self.watches.get_mut(name) {
            while events.len() < step.count {
                let silent = step
                    .quiet
                    .map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
                let until = silent.map_or(end, |silent| silent.min(end));
                let Ok(Some(event)) = timeout_at(until, receiver.recv()).await else {
                    break;
                };
                // A real server sends bookmarks at any time.
                if step.quiet.is_some() && is_periodic_bookmark(&event) {
                    continue;
                }
                let closed = event == "closed";
                events.push(event);
                if closed {
                    break;
                }
            }
        }
        json!({"events": events})
    }

    fn url(&self, step: &Step) -> String {
        let path = self.substitute(step.path.as_deref().unwrap_or_default());
        let mut pairs = Vec::new();
        for (name, value) in &step.query {
            let values = match value {
                Value::Array(values) => values.clone(),
                single => vec![single.clone()],
            };
            for value in values {
                let text = match &value {
                    Value::String(text) => self.substitute(text),
                    Value::Bool(true) => "True".to_owned(),
                    Value::Bool(false) => "False".to_owned(),
                    other => other.to_string(),
                };
                pairs.push(format!("{}={}", quote(name), quote(&text)));
            }
        }
        if pairs.is_empty() {
            path
        } else {
            format!("{path}?{}", pairs.join("&"))
        }
    }

    fn substitute(&self, text: &str) -> String {
        static VARIABLE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\$\{(\w+)\}").ok());
        let Some(pattern) = VARIABLE.as_ref() else {
            return text.to_owned();
        };
        pattern
            .replace_all(text, |found: &regex::Captures<'_>| {
                self.variables
                    .get(&found[1])
                    .cloned()
                    .unwrap_or_else(|| found[0].to_owned())
            })
            .into_owned()
    }

    fn substitute_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.substitute(text).into(),
            other => other.clone(),
        }
    }

    fn substitute_ordered(&self, body: &Ordered) -> Ordered {
        match body {
            Ordered::Scalar(value) => Ordered::Scalar(self.substitute_value(value)),
            Ordered::Array(items) => {
                Ordered::Array(items.iter().map(|item| self.substitute_ordered(item)).collect())
            }
            Ordered::Object(fields) => Ordered::Object(
                fields
                    .iter()
                    .map(|(name, value)| (self.substitute(name), self.substitute_ordered(value)))
                    .collect(),
            ),
        }
    }
}

/// Returns true for a bookmark that does not end the initial events.
fn is_periodic_bookmark(event: &Value) -> bool {
    let annotation = event.pointer("/object/metadata/annotations/k8s.io~1initial-events-end");
    event["type"] == "BOOKMARK" && annotation.is_none()
}

/// Sends the events of a watch, one JSON object for each line, and `"closed"` at the end.
async fn read_watch<B>(status: u16, mut body: B, sender: mpsc::UnboundedSender<Value>)
where
    B: http_body::Body<Data = Bytes> + Send + Unpin,
{
    if status != 200 {
        let bytes = body
            .collect()
            .await
            .map(|body| body.to_bytes())
            .unwrap_or_default();
        let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let _ = sender.send(json!({"status": status, "body": body}));
        return;
    }
    let mut pending = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        pending.extend_from_slice(&data);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            if let Ok(event) = serde_json::from_slice::<Value>(&line)
                && sender.send(event).is_err()
            {
                return;
            }
        }
    }
    let _ = sender.send("closed".into());
}

/// Encodes form data, like Python's `quote_plus`.
fn quote(text: &str) -> String {
    let mut quoted = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => {
                quoted.push(char::from(byte));
            }
            b' ' => quoted.push('+'),
            other => quoted.push_str(&format!("%{other:02X}")),
        }
    }
    quoted
}
