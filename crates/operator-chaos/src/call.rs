//! [`Call`], a call of the operator, and [`Signature`], which identifies it in other runs.

use std::collections::BTreeMap;
use std::fmt;

use apimachinery::object;
use http::{HeaderMap, Method, Uri, header};
use operator_apiserver::RequestInfo;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Identifies calls across runs: verb, resource, and object, such as `update statefulsets.apps/status default/db`.
/// The random suffix of a generated name is `*`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Signature(String);

/// A call that was read from a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) verb: String,
    /// The group, version and plural of the resource.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    /// The name of the object. Empty if the server generates it.
    pub(crate) name: String,
    /// The object or the scope, with generated names canonicalized.
    pub(crate) target: String,
    /// True if the request accepts a state that is older than the newest (`resourceVersion=0`).
    pub(crate) accepts_any_version: bool,
    /// True for a watch that begins at a version that the client has seen.
    pub(crate) continues: bool,
}

/// The labels with the hash at the end of the names of ReplicaSets and ControllerRevisions. It depends on how often such a
/// name was taken, as by the ReplicaSet of a Deployment with the same name that was deleted.
const HASH_LABELS: [&str; 3] = [
    "pod-template-hash",
    "controller.kubernetes.io/hash",
    "controller-revision-hash",
];

/// The beginning of the name of the volume that the API server adds to pods for their token.
const TOKEN_VOLUME: &str = "kube-api-access-";

/// The generated names and hashes of a run, and the canonical form of each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    generated: BTreeMap<String, String>,
}

// === impl Signature ===

impl Signature {
    /// Creates a signature from its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the verb.
    pub fn verb(&self) -> &str {
        self.0.split(' ').next().unwrap_or_default()
    }

    /// Returns the resource, such as `deployments.apps/status`.
    pub fn resource(&self) -> &str {
        self.0.split(' ').nth(1).unwrap_or_default()
    }

    /// Returns true if the verb changes objects.
    pub fn is_write(&self) -> bool {
        !matches!(self.verb(), "get" | "list" | "watch" | "head" | "")
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

// === impl Call ===

impl Call {
    /// Parses a request. Returns `None` for a path that does not belong to a resource, such as `/version`.
    pub(crate) fn of(
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: &[u8],
        names: &Names,
    ) -> Option<Self> {
        let info = RequestInfo::of(method, uri);
        if !info.is_resource {
            return None;
        }
        let mut verb = info.verb.to_owned();
        let content_type = headers
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        if verb == "patch" && content_type.contains("apply-patch") {
            verb = "apply".to_owned();
        }
        let mut name = info.name.clone();
        let mut shown = names.canonical_of(&info.resource, &name).to_owned();
        if verb == "create" && name.is_empty() {
            let object: Value = serde_json::from_slice(body).unwrap_or_default();
            let text = |pointer: &str| {
                object
                    .pointer(pointer)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            };
            name = text("/metadata/name").to_owned();
            shown = match name.is_empty() {
                true => format!("{}*", text("/metadata/generateName")),
                false => names.canonical_of(&info.resource, &name),
            };
        }
        let target = match (info.namespace.as_str(), shown.as_str()) {
            ("", shown) => shown.to_owned(),
            (namespace, "") => namespace.to_owned(),
            (namespace, shown) => format!("{namespace}/{shown}"),
        };
        let query = uri.query().unwrap_or_default();
        Some(Self {
            verb,
            group: info.group,
            version: info.version,
            resource: info.resource,
            subresource: info.subresource,
            namespace: info.namespace,
            name,
            target,
            accepts_any_version: query.split('&').any(|part| part == "resourceVersion=0"),
            continues: query.split('&').any(|part| {
                let version = part.strip_prefix("resourceVersion=");
                version.is_some_and(|version| !matches!(version, "" | "0"))
            }),
        })
    }

    /// Returns the signature.
    pub(crate) fn signature(&self) -> Signature {
        let mut text = format!("{} {}", self.verb, qualified(&self.resource, &self.group));
        if !self.subresource.is_empty() {
            text = format!("{text}/{}", self.subresource);
        }
        if !self.target.is_empty() {
            text = format!("{text} {}", self.target);
        }
        Signature(text)
    }
}

/// Returns a resource with its group, such as `pods` or `deployments.apps`.
pub(crate) fn qualified(resource: &str, group: &str) -> String {
    match group {
        "" => resource.to_owned(),
        group => format!("{resource}.{group}"),
    }
}

// === impl Names ===

impl Names {
    /// Records the generated names of an object: its own, and that of the volume with a pod's token.
    pub(crate) fn learn(&mut self, object: &Value) {
        let volumes = object.pointer("/spec/volumes").and_then(Value::as_array);
        for volume in volumes.into_iter().flatten() {
            let name = volume.get("name").and_then(Value::as_str);
            if let Some(name) = name.filter(|name| name.starts_with(TOKEN_VOLUME)) {
                self.generated.insert(name.to_owned(), format!("{TOKEN_VOLUME}*"));
            }
        }
        let text = |field: &str| object::meta(object, field).and_then(Value::as_str);
        let Some(name) = text("name") else {
            return;
        };
        if let Some(base) = text("generateName")
            && name.starts_with(base)
        {
            let canonical = match base.strip_suffix('-') {
                Some(owner) => format!("{}-*", self.canonical(owner)),
                None => format!("{base}*"),
            };
            self.generated.insert(name.to_owned(), canonical);
            return;
        }
        let labels = object::meta(object, "labels");
        let hashes = HASH_LABELS
            .iter()
            .filter_map(|label| labels?.get(label)?.as_str());
        for hash in hashes {
            if let Some(base) = name.strip_suffix(hash).filter(|base| base.ends_with('-')) {
                self.generated.insert(name.to_owned(), format!("{base}*"));
                self.generated.insert(hash.to_owned(), "*".to_owned());
            }
        }
    }

    /// Returns the canonical form of a name: the base and `*` if it was generated, otherwise the name itself.
    pub(crate) fn canonical<'a>(&'a self, name: &'a str) -> &'a str {
        self.generated.get(name).map_or(name, String::as_str)
    }

    /// Returns the canonical form of the name of an object. Clients name an Event after its object, followed by a
    /// random number or the time as hexadecimal digits.
    fn canonical_of(&self, resource: &str, name: &str) -> String {
        let parts = name.rsplit_once('.').filter(|_| resource == "events");
        let is_number = |text: &str| text.len() >= 6 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match parts.filter(|(_, number)| is_number(number)) {
            Some((object, _)) => format!("{}.*", self.canonical(object)),
            None => self.canonical(name).to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn signature(method: &Method, uri: &str, body: &str) -> String {
        let uri = uri.parse().unwrap_or_default();
        let call = Call::of(
            method,
            &uri,
            &HeaderMap::new(),
            body.as_bytes(),
            &Names::default(),
        );
        call.map(|call| call.signature().to_string()).unwrap_or_default()
    }

    #[test]
    fn the_hash_in_the_name_of_a_replica_set_is_generated() {
        let mut names = Names::default();
        let labels = json!({"pod-template-hash": "75bfdfc894", "app": "web"});
        names.learn(&json!({"metadata": {"name": "web-75bfdfc894", "labels": labels}}));
        names.learn(&json!({"metadata": {
            "name": "web-75bfdfc894-abcde", "generateName": "web-75bfdfc894-", "labels": labels,
        }}));
        let canonical =
            ["web-75bfdfc894", "web-75bfdfc894-abcde", "75bfdfc894", "web"].map(|name| names.canonical(name));
        assert_eq!(canonical, ["web-*", "web-*-*", "*", "web"]);
    }

    #[test]
    fn the_name_of_the_volume_with_a_token_is_generated() {
        let mut names = Names::default();
        let volumes = json!([{"name": "data"}, {"name": "kube-api-access-k7cmj", "projected": {}}]);
        names.learn(&json!({
            "metadata": {"name": "web-0", "generateName": "web-"}, "spec": {"volumes": volumes},
        }));
        let canonical = ["data", "kube-api-access-k7cmj", "web-0"].map(|name| names.canonical(name));
        assert_eq!(canonical, ["data", "kube-api-access-*", "web-*"]);
    }

    #[test]
    fn signatures_name_verb_resource_and_object() {
        let path = "/apis/apps/v1/namespaces/default/statefulsets";
        let put = signature(&Method::PUT, &format!("{path}/db/status"), "");
        assert_eq!(put, "update statefulsets.apps/status default/db");
        let named = signature(&Method::POST, path, r#"{"metadata":{"name":"db"}}"#);
        assert_eq!(named, "create statefulsets.apps default/db");
        let generated = signature(&Method::POST, path, r#"{"metadata":{"generateName":"db-"}}"#);
        assert_eq!(generated, "create statefulsets.apps default/db-*");
        let events = "/apis/events.k8s.io/v1/namespaces/default/events";
        let event = signature(
            &Method::POST,
            events,
            r#"{"metadata":{"name":"db.17f3a2b9c1d0e4f5"}}"#,
        );
        assert_eq!(event, "create events.events.k8s.io default/db.*");
        assert_eq!(
            signature(&Method::GET, "/api/v1/pods?watch=true", ""),
            "watch pods"
        );
        assert_eq!(signature(&Method::GET, "/version", ""), "");
    }
}
