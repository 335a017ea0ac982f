//! [`Api`], a client of an API server: JSON objects by path, and the tables that kubectl prints.

use std::path::{Path, PathBuf};

use futures::TryStreamExt;
use http::{HeaderValue, StatusCode};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::core::WatchEvent;
use operator_connection::{Connection, ConnectionError};
use serde_json::Value;

use crate::failure::Hinted;
use crate::report::Report;

/// The media type of tables.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// The field manager of this tool.
const FIELD_MANAGER: &str = "operator-sdk";

/// The delay between two watches of one object.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

const USER_AGENT: &str = concat!("operator-sdk/", env!("CARGO_PKG_VERSION"));

/// Options of an apply.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ApplyOptions {
    /// Validate only, without writing.
    pub(crate) dry_run: bool,
    /// Take ownership of fields of other managers.
    pub(crate) force: bool,
}

#[derive(Clone)]
pub(crate) struct Api {
    client: kube::Client,
    /// The address of the server, for messages.
    server: String,
}

/// An error of a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    #[error("the kubeconfig {} cannot be used: {reason}", path.display())]
    Kubeconfig { path: PathBuf, reason: String },
    #[error("no cluster is configured: {0}")]
    NoCluster(String),
    #[error("the kubeconfig has no context {name:?}")]
    NoContext { name: String, known: Vec<String> },
    #[error("{0}")]
    Refused(String),
    #[error("{object} has fields that other managers own: {reason}")]
    Conflict { object: String, reason: String },
    #[error("cannot reach the API server {server}: {reason}")]
    Unreachable { server: String, reason: String },
}

impl Hinted for ApiError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Kubeconfig { .. } => "use another file with `--kubeconfig`".to_owned(),
            Self::NoCluster(_) => {
                "give a kubeconfig with `--kubeconfig`, or start a control plane with `operator-sdk cluster up`"
                    .to_owned()
            }
            Self::NoContext { known, .. } if known.is_empty() => {
                "add a context with `kubectl config set-context`".to_owned()
            }
            Self::NoContext { known, .. } => format!("use one of its contexts: {}", known.join(", ")),
            Self::Refused(_) => "check the object in the request".to_owned(),
            Self::Conflict { .. } => "take ownership of these fields with `--force-conflicts`".to_owned(),
            Self::Unreachable { .. } => {
                "check that the cluster is running, and check the address and the certificates in the kubeconfig".to_owned()
            }
        })
    }
}

// === impl Api ===

impl Api {
    /// Connects to the current cluster of a kubeconfig. Requests are retried while the server starts.
    pub(crate) async fn connect(kubeconfig: &Path) -> Result<Self, ApiError> {
        let config = configuration(Some(kubeconfig), &KubeConfigOptions::default()).await?;
        Self::with(config)
    }

    /// Connects to the cluster of a kubeconfig and one of its contexts. With `None`, the kubeconfig is `KUBECONFIG`, or
    /// the file in the home directory.
    pub(crate) async fn infer(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Self, ApiError> {
        let options = KubeConfigOptions {
            context: context.map(str::to_owned),
            ..KubeConfigOptions::default()
        };
        let mut config = configuration(kubeconfig, &options).await?;
        // An unreachable cluster is reported immediately.
        config.default_retry = false;
        Self::with(config)
    }

    fn with(config: kube::Config) -> Result<Self, ApiError> {
        let server = config.cluster_url.to_string();
        let failed = |error: ConnectionError| ApiError::Unreachable {
            server: server.clone(),
            reason: cause(&error),
        };
        let connection = Connection::new(config, HeaderValue::from_static(USER_AGENT)).map_err(failed)?;
        let client = connection.client_with_warnings(|warning| Report::new().warning(warning, None));
        Ok(Self { client, server })
    }

    /// Returns the namespace of the context.
    pub(crate) fn namespace(&self) -> &str {
        self.client.default_namespace()
    }

    /// Applies an object server-side and returns the result.
    pub(crate) async fn apply(
        &self,
        path: &str,
        object: &Value,
        how: ApplyOptions,
    ) -> Result<Value, ApiError> {
        let dry_run = if how.dry_run { "&dryRun=All" } else { "" };
        let path = format!("{path}?fieldManager={FIELD_MANAGER}&force={}{dry_run}", how.force);
        let form = Some("application/apply-patch+yaml");
        let answer = self
            .send("PATCH", &path, form, object.to_string().into_bytes())
            .await;
        answer.map_err(|error| match error {
            kube::Error::Api(status) if status.code == 409 && status.reason == "Conflict" => {
                ApiError::Conflict {
                    object: object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
                    reason: status.message.clone(),
                }
            }
            other => self.described(other),
        })
    }

    /// Deletes the object at a path and its dependents. Returns false if it did not exist.
    pub(crate) async fn remove(&self, path: &str) -> Result<bool, ApiError> {
        let options = serde_json::json!({"propagationPolicy": "Background"}).to_string();
        match self
            .send("DELETE", path, Some("application/json"), options.into_bytes())
            .await
        {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == StatusCode::NOT_FOUND.as_u16() => Ok(false),
            Err(error) => Err(self.described(error)),
        }
    }

    /// Watches one object of a collection until `check` returns a value. It is called with `None` while the object does
    /// not exist. The caller sets a time limit.
    pub(crate) async fn follow<T>(
        &self,
        collection: &str,
        name: &str,
        mut check: impl FnMut(Option<&Value>) -> Option<T>,
    ) -> Result<T, ApiError> {
        let selected = format!("{collection}?fieldSelector=metadata.name%3D{name}");
        loop {
            let list = self.get(&selected).await?.unwrap_or_default();
            if let Some(done) = check(list.pointer("/items/0")) {
                return Ok(done);
            }
            let watched = self.watch(&selected, &list, |event| match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => check(Some(object)),
                WatchEvent::Deleted(_) => check(None),
                WatchEvent::Bookmark(_) | WatchEvent::Error(_) => None,
            });
            if let Some(done) = watched.await? {
                return Ok(done);
            }
        }
    }

    /// Watches all objects of a collection until `check` returns a value for one of them. The caller sets a time limit.
    pub(crate) async fn find<T>(
        &self,
        collection: &str,
        mut check: impl FnMut(&Value) -> Option<T>,
    ) -> Result<T, ApiError> {
        let selected = format!("{collection}?");
        loop {
            let list = self.get(&selected).await?.unwrap_or_default();
            let mut items = list["items"].as_array().into_iter().flatten();
            if let Some(found) = items.find_map(&mut check) {
                return Ok(found);
            }
            let watched = self.watch(&selected, &list, |event| match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => check(object),
                _ => None,
            });
            if let Some(found) = watched.await? {
                return Ok(found);
            }
        }
    }

    /// Watches the objects of a list until `check` returns a value. Returns `None` if the watch ends or fails; the caller
    /// then gets a new list.
    async fn watch<T>(
        &self,
        selected: &str,
        list: &Value,
        mut check: impl FnMut(&WatchEvent<Value>) -> Option<T>,
    ) -> Result<Option<T>, ApiError> {
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or("0");
        let request = http::Request::get(format!("{selected}&watch=true&resourceVersion={version}"))
            .body(Vec::new())
            .map_err(|error| ApiError::Refused(error.to_string()))?;
        let events = self
            .client
            .request_events::<Value>(request)
            .await
            .map_err(|error| self.described(error))?;
        let mut events = std::pin::pin!(events);
        while let Ok(Some(event)) = events.try_next().await {
            if matches!(event, WatchEvent::Error(_)) {
                break;
            }
            if let Some(done) = check(&event) {
                return Ok(Some(done));
            }
        }
        // Limits the rate even if every watch ends immediately.
        tokio::time::sleep(PAUSE).await;
        Ok(None)
    }

    /// Returns the object at a path, or `None` if it does not exist.
    pub(crate) async fn get(&self, path: &str) -> Result<Option<Value>, ApiError> {
        match self.send("GET", path, None, Vec::new()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            answer => Ok(Some(answer.map_err(|error| self.described(error))?)),
        }
    }

    /// Returns the response to a request as text, such as the log of a pod.
    pub(crate) async fn text(&self, path: &str) -> Result<String, ApiError> {
        let request = http::Request::get(path).body(Vec::new());
        let request = request.map_err(|error| ApiError::Refused(error.to_string()))?;
        let answer = self.client.request_text(request).await;
        answer.map_err(|error| self.described(error))
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) -> Result<Value, ApiError> {
        let body = object.to_string().into_bytes();
        self.send("POST", path, Some("application/json"), body)
            .await
            .map_err(|error| self.described(error))
    }

    pub(crate) async fn merge_patch(&self, path: &str, patch: &Value) -> Result<Value, ApiError> {
        let body = patch.to_string().into_bytes();
        let form = Some("application/merge-patch+json");
        self.send("PATCH", path, form, body)
            .await
            .map_err(|error| self.described(error))
    }

    pub(crate) async fn replace(&self, path: &str, object: &Value) -> Result<Value, ApiError> {
        let body = object.to_string().into_bytes();
        self.send("PUT", path, Some("application/json"), body)
            .await
            .map_err(|error| self.described(error))
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<(), ApiError> {
        self.send("DELETE", path, None, Vec::new())
            .await
            .map_err(|error| self.described(error))?;
        Ok(())
    }

    /// Returns the object or list at a path as `kubectl get` prints it.
    pub(crate) async fn table(&self, path: &str) -> Result<String, ApiError> {
        let request = http::Request::get(path).header("accept", TABLE);
        let request = request
            .body(Vec::new())
            .map_err(|error| ApiError::Refused(error.to_string()))?;
        let table: Value = self
            .client
            .request(request)
            .await
            .map_err(|error| self.described(error))?;
        Ok(print_table(&table))
    }

    /// Returns the server's message, or the cause of a failed connection.
    fn described(&self, error: kube::Error) -> ApiError {
        match error {
            kube::Error::Api(status) => ApiError::Refused(status.message.clone()),
            other => ApiError::Unreachable {
                server: self.server.clone(),
                reason: cause(&other),
            },
        }
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        form: Option<&str>,
        body: Vec<u8>,
    ) -> Result<Value, kube::Error> {
        let mut request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("accept", "application/json");
        if let Some(form) = form {
            request = request.header("content-type", form);
        }
        let request = request.body(body).map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }
}

/// Returns the directory of local programs if the cluster is an embedded control plane on this machine.
pub(crate) fn processes_directory(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<Option<PathBuf>, ApiError> {
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    let file = kubeconfig_of(kubeconfig, &options)?;
    let name = context.or(file.current_context.as_deref()).unwrap_or_default();
    let context = file.contexts.iter().find(|context| context.name == name);
    let cluster = context.and_then(|context| Some(&context.context.as_ref()?.cluster));
    let cluster = file.clusters.iter().find(|entry| Some(&entry.name) == cluster);
    let extensions = cluster.and_then(|entry| entry.cluster.as_ref()?.extensions.as_ref());
    let mut extensions = extensions.into_iter().flatten();
    let ours = extensions.find(|extension| extension.name == super::cluster::PROCESSES);
    let directory = ours.and_then(|extension| extension.extension.get("directory")?.as_str());
    Ok(directory.map(PathBuf::from).filter(|path| path.is_dir()))
}

/// Checks that the kubeconfig has a context.
pub(crate) fn check_context(kubeconfig: Option<&Path>, name: &str) -> Result<(), ApiError> {
    let options = KubeConfigOptions {
        context: Some(name.to_owned()),
        ..KubeConfigOptions::default()
    };
    kubeconfig_of(kubeconfig, &options).map(drop)
}

async fn configuration(path: Option<&Path>, options: &KubeConfigOptions) -> Result<kube::Config, ApiError> {
    let file = kubeconfig_of(path, options)?;
    kube::Config::from_custom_kubeconfig(file, options)
        .await
        .map_err(|error| unusable(path, &error))
}

/// Reads the kubeconfig, which must contain the context of the options.
fn kubeconfig_of(path: Option<&Path>, options: &KubeConfigOptions) -> Result<Kubeconfig, ApiError> {
    let file = match path {
        Some(path) => Kubeconfig::read_from(path),
        None => operator_connection::kubeconfig(),
    };
    let file = file.map_err(|error| unusable(path, &error))?;
    if let Some(name) = &options.context
        && file.contexts.iter().all(|context| context.name != *name)
    {
        return Err(ApiError::NoContext {
            name: name.clone(),
            known: file.contexts.into_iter().map(|context| context.name).collect(),
        });
    }
    Ok(file)
}

fn unusable(path: Option<&Path>, error: &KubeconfigError) -> ApiError {
    let reason = apimachinery::yaml::summary(&cause(error)).replacen(": error: ", ": ", 1);
    let environment = std::env::var_os("KUBECONFIG").filter(|files| !files.is_empty());
    let path = path
        .map(Path::to_owned)
        .or_else(|| environment.map(PathBuf::from));
    match path {
        Some(path) => ApiError::Kubeconfig { path, reason },
        None => ApiError::NoCluster(reason),
    }
}

/// Returns the innermost cause of an error, which contains the reason. The outer errors only say that a request failed.
fn cause(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let texts = causes.map(ToString::to_string).filter(|text| !text.is_empty());
    texts.last().unwrap_or_default()
}

/// Prints columns of priority 0, separated by three spaces, with headers in upper case.
fn print_table(table: &Value) -> String {
    let empty = Vec::new();
    let columns = table["columnDefinitions"].as_array().unwrap_or(&empty);
    let shown: Vec<usize> = (0..columns.len())
        .filter(|index| columns[*index]["priority"] == 0)
        .collect();
    let header = shown
        .iter()
        .map(|index| cell(&columns[*index]["name"]).to_uppercase())
        .collect();
    let rows = table["rows"].as_array().unwrap_or(&empty).iter();
    let rows = rows.map(|row| shown.iter().map(|index| cell(&row["cells"][*index])).collect());
    let lines: Vec<Vec<String>> = std::iter::once(header).chain(rows).collect();
    let width = |column: usize| {
        lines
            .iter()
            .map(|line| line[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..shown.len()).map(width).collect();
    lines
        .iter()
        .map(|line| {
            let padded: Vec<String> = line
                .iter()
                .zip(&widths)
                .map(|(text, width)| format!("{text:width$}"))
                .collect();
            padded.join("   ").trim_end().to_owned() + "\n"
        })
        .collect()
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<none>".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_prints_as_kubectl_prints_it() {
        let table = json!({
            "columnDefinitions": [
                {"name": "Name", "priority": 0},
                {"name": "Ready", "priority": 0},
                {"name": "Images", "priority": 1},
                {"name": "Age", "priority": 0},
            ],
            "rows": [{"cells": ["memcached-sample", "3/3", "memcached", "5s"]}, {"cells": ["a", "0/1", "b", null]}],
        });
        let expected = "NAME               READY   AGE\nmemcached-sample   3/3     5s\na                  0/1     <none>\n";
        assert_eq!(print_table(&table), expected);
    }
}
