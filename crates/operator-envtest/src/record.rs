//! [`Recorder`] records the requests of operators under test, which `operator-sdk rbac check` compares with the roles.
//!
//! Only requests with the `User-Agent` of a manager are recorded, not those of the test. New requests are written at
//! once, so that a failed test, or an environment that is never dropped, loses nothing.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use http::header::USER_AGENT;
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use kube::Client;
use kube::client::Body;
use operator_apiserver::RequestInfo;
use serde::{Deserialize, Serialize};

/// The variable with the directory of the records; `off` disables them.
const VARIABLE: &str = "OPERATOR_SDK_RBAC_RECORD";
/// The file that marks the project of an operator.
const PROJECT: &str = "PROJECT";
/// The directory of the records in a project.
const DIRECTORY: &str = "target/operator-sdk/rbac";
/// The prefix of the user agent of a manager.
const RUNTIME: &str = "operator-runtime/";
/// Maximum number of object names for each verb and resource. Further ones are not recorded separately.
const NAMES: usize = 32;
/// Discovery paths, which every client may read.
const DISCOVERY: [&str; 8] = [
    "api", "apis", "healthz", "livez", "openapi", "openid", "readyz", "version",
];

/// A request with the attributes of authorization.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AccessRequest {
    pub(crate) verb: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) subresource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) path: String,
}

/// The file of one test.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Record {
    /// The process that wrote the file. Another process replaces it.
    process: u32,
    requested: BTreeSet<AccessRequest>,
}

/// Collects the requests and writes them to the file of the test.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    file: Arc<PathBuf>,
    requested: Arc<Mutex<BTreeSet<AccessRequest>>>,
}

/// Returns the default directory of records: the one in the variable, or that in the target directory of the tested
/// project. `None` for tests outside a project.
pub(crate) fn directory() -> Option<PathBuf> {
    directory_of(
        std::env::var(VARIABLE).ok().as_deref(),
        Path::new(PROJECT).is_file(),
    )
}

fn directory_of(variable: Option<&str>, is_project: bool) -> Option<PathBuf> {
    match variable {
        Some("off" | "0") => None,
        Some(directory) if !directory.is_empty() => Some(directory.into()),
        _ => is_project.then(|| DIRECTORY.into()),
    }
}

/// Returns a client that sends its requests through `client` and records those of managers.
pub(crate) fn recorded(client: Client, recorder: Recorder) -> Client {
    let namespace = client.default_namespace().to_owned();
    let recording = tower::service_fn(move |request: Request<Body>| {
        let (client, recorder) = (client.clone(), recorder.clone());
        let requested = is_operator(request.headers()).then(|| request_of(request.method(), request.uri()));
        async move {
            let requested = requested.flatten();
            if let Some(requested) = &requested {
                recorder.add(requested.clone());
            }
            let response = client.send(request).await;
            let created = response
                .as_ref()
                .is_ok_and(|response| response.status() == StatusCode::CREATED);
            if let Some(requested) = requested.filter(|_| created) {
                // The server also requires this permission if an apply or an update creates an object.
                recorder.add(AccessRequest {
                    verb: "create".to_owned(),
                    ..requested
                });
            }
            response
        }
    });
    Client::new(recording, namespace)
}

fn is_operator(headers: &HeaderMap) -> bool {
    let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok());
    agent.is_some_and(|agent| agent.contains(RUNTIME))
}

/// Returns the RBAC rule that a request needs, or `None` if every client may send it.
pub(crate) fn request_of(method: &Method, uri: &Uri) -> Option<AccessRequest> {
    let info = RequestInfo::of(method, uri);
    if info.verb.is_empty() || is_discovery(&info) {
        return None;
    }
    let name = info.authorized_name().to_owned();
    Some(AccessRequest {
        verb: info.verb.to_owned(),
        group: info.group,
        resource: info.resource,
        subresource: info.subresource,
        namespace: info.namespace,
        name,
        path: if info.is_resource {
            String::new()
        } else {
            info.path
        },
    })
}

fn is_discovery(info: &RequestInfo) -> bool {
    let first = info.path.split('/').find(|part| !part.is_empty());
    !info.is_resource && first.is_some_and(|first| DISCOVERY.contains(&first))
}

// === impl Recorder ===

impl Recorder {
    /// Returns the recorder of the test that runs in this thread.
    pub(crate) fn new(directory: &Path) -> Self {
        let program = std::env::current_exe().ok();
        let stem = program.as_deref().and_then(Path::file_stem).unwrap_or_default();
        let thread = std::thread::current();
        let file = directory
            .join(without_hash(&stem.to_string_lossy()))
            .join(format!("{}.json", file_name(thread.name().unwrap_or("test"))));
        Self {
            file: Arc::new(file),
            requested: Arc::default(),
        }
    }

    fn add(&self, requested: AccessRequest) {
        let Ok(mut all) = self.requested.lock() else {
            return;
        };
        let mut requested = requested;
        let alike = |there: &&AccessRequest| {
            (&there.verb, &there.group, &there.resource, &there.subresource)
                == (
                    &requested.verb,
                    &requested.group,
                    &requested.resource,
                    &requested.subresource,
                )
        };
        if !all.contains(&requested) && all.iter().filter(alike).count() >= NAMES {
            requested.name.clear();
        }
        if !all.insert(requested) {
            return;
        }
        if let Err(error) = self.write(&all) {
            tracing::warn!(file = %self.file.display(), %error, "Failed to record the requests of the operator");
        }
    }

    /// Merges the requests with those of other environments of the same test in this process, and replaces older
    /// records.
    fn write(&self, requested: &BTreeSet<AccessRequest>) -> io::Result<()> {
        let process = std::process::id();
        let there = std::fs::read(&*self.file).unwrap_or_default();
        let there: Record = serde_json::from_slice(&there).unwrap_or_default();
        let mut record = Record {
            process,
            requested: requested.clone(),
        };
        if there.process == process {
            record.requested.extend(there.requested);
        }
        if let Some(folder) = self.file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let new = self.file.with_extension("json.new");
        std::fs::write(&new, serde_json::to_vec_pretty(&record)?)?;
        std::fs::rename(new, &*self.file)
    }
}

/// Returns the name of a program without cargo's hash.
fn without_hash(stem: &str) -> &str {
    let hash = |text: &str| text.len() == 16 && text.chars().all(|c| c.is_ascii_hexdigit());
    match stem.rsplit_once('-') {
        Some((name, end)) if hash(end) => name,
        _ => stem,
    }
}

fn file_name(test: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' {
            c
        } else {
            '-'
        }
    };
    test.replace("::", ".")
        .chars()
        .map(|c| if c == '.' { c } else { plain(c) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(method: &Method, uri: &str) -> Option<String> {
        let requested = request_of(method, &uri.parse().unwrap())?;
        let AccessRequest {
            verb,
            group,
            resource,
            subresource,
            namespace,
            name,
            path,
        } = requested;
        Some(format!(
            "{verb} {group}/{resource}/{subresource} {namespace}/{name}{path}"
        ))
    }

    #[test]
    fn requests_have_rbac_attributes() {
        let pods = "/api/v1/namespaces/default/pods";
        let cases = [
            (Method::GET, pods.to_owned(), "list /pods/ default/"),
            (Method::GET, format!("{pods}?watch=1"), "watch /pods/ default/"),
            (
                Method::GET,
                format!("{pods}?fieldSelector=metadata.name%3Da&watch=true"),
                "watch /pods/ default/a",
            ),
            (
                Method::GET,
                format!("{pods}?fieldSelector=metadata.name%3Da"),
                "list /pods/ default/a",
            ),
            (Method::GET, format!("{pods}/a/log"), "get /pods/log default/a"),
            (
                Method::DELETE,
                pods.to_owned(),
                "deletecollection /pods/ default/",
            ),
            (Method::DELETE, format!("{pods}/a"), "delete /pods/ default/a"),
            (
                Method::PUT,
                "/apis/apps/v1/namespaces/x/deployments/a".to_owned(),
                "update apps/deployments/ x/a",
            ),
            (
                Method::GET,
                "/api/v1/namespaces/x".to_owned(),
                "get /namespaces/ x/x",
            ),
            (
                Method::PATCH,
                "/api/v1/namespaces/x/status".to_owned(),
                "patch /namespaces/status x/x",
            ),
            (
                Method::POST,
                "/apis/rbac.authorization.k8s.io/v1/clusterroles".to_owned(),
                "create rbac.authorization.k8s.io/clusterroles/ /",
            ),
            (
                Method::GET,
                "/api/v1/watch/namespaces/default/pods".to_owned(),
                "watch /pods/ default/",
            ),
            (Method::GET, "/metrics".to_owned(), "get // //metrics"),
        ];
        for (method, uri, wanted) in cases {
            assert_eq!(said(&method, &uri).as_deref(), Some(wanted), "{uri}");
        }
        for free in ["/api", "/apis/apps/v1", "/version", "/openapi/v3/apis/apps/v1"] {
            assert_eq!(said(&Method::GET, free), None, "{free}");
        }
    }

    #[test]
    fn variable_overrides_the_directory_of_records() {
        assert_eq!(directory_of(None, false), None);
        assert_eq!(directory_of(None, true), Some(DIRECTORY.into()));
        assert_eq!(directory_of(Some("off"), true), None);
        assert_eq!(
            directory_of(Some("/tmp/records"), false),
            Some("/tmp/records".into())
        );
    }

    #[test]
    fn files_are_named_by_the_test() {
        assert_eq!(
            without_hash("memcached_controller-0123456789abcdef"),
            "memcached_controller"
        );
        assert_eq!(without_hash("my-operator"), "my-operator");
        assert_eq!(file_name("tests::a b/c"), "tests.a-b-c");
    }
}
