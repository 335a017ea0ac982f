//! The address of a webhook configuration or of a redirect: [`Target`].

use std::net::SocketAddr;

use apimachinery::object;
use serde_json::Value;

use super::Services;
use crate::store::Store;

/// The host and the path of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// True for TLS; only the server of a kubeconfig may use plain HTTP.
    pub(super) secure: bool,
    /// The host and the port as written in the URL.
    pub(super) authority: String,
    pub(super) host: String,
    pub(super) port: u16,
    /// The path, with the query in the case of a redirect.
    pub(super) path: String,
    /// The namespace and the name of the Service, if it is called.
    pub(super) service: Option<(String, String)>,
}

impl Target {
    /// Parses a `clientConfig`.
    pub(super) fn read(config: &Value) -> Self {
        match config.get("service").filter(|service| service.is_object()) {
            Some(service) => Self::of_service(service),
            None => Self::of_url(object::text(config, &["url"])).cleaned(),
        }
    }

    /// Returns the target of a kubeconfig's server, over HTTPS or HTTP.
    pub(super) fn of_server(url: &str) -> Result<Self, String> {
        if url.starts_with("https://") {
            return Ok(Self::of_url(url).cleaned());
        }
        let Some(rest) = url.strip_prefix("http://") else {
            return Err(format!(
                "unsupported server {url:?}: it needs http:// or https://"
            ));
        };
        let mut target = Self::of_url(rest).cleaned();
        if !target.authority.ends_with(&format!(":{}", target.port)) {
            target.port = 80;
        }
        target.secure = false;
        Ok(target)
    }

    /// Returns the target of an HTTPS URL, whose path is not changed.
    pub(super) fn of_https(url: &str) -> Self {
        Self::of_url(url)
    }

    /// Returns the URL of the call.
    pub(super) fn url(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.path)
    }

    fn of_url(url: &str) -> Self {
        let rest = url.strip_prefix("https://").unwrap_or(url);
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().unwrap_or(443)),
            _ => (authority, 443),
        };
        Self {
            secure: true,
            authority: authority.to_owned(),
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            path: path.to_owned(),
            service: None,
        }
    }

    fn of_service(service: &Value) -> Self {
        let namespace = object::text(service, &["namespace"]);
        let name = object::text(service, &["name"]);
        let port = service.get("port").and_then(Value::as_u64).unwrap_or(443);
        let host = format!("{name}.{namespace}.svc");
        Self {
            secure: true,
            authority: format!("{host}:{port}"),
            host,
            port: u16::try_from(port).unwrap_or(443),
            path: object::text(service, &["path"]).to_owned(),
            service: Some((namespace.to_owned(), name.to_owned())),
        }
        .cleaned()
    }

    fn cleaned(mut self) -> Self {
        self.path = clean(&self.path);
        self
    }

    /// Returns the target of a redirect from this target.
    ///
    /// # Errors
    /// Returns an error if the location is not an HTTPS URL.
    pub(super) fn redirected(&self, location: &str) -> Result<Self, String> {
        let location = location.split('#').next().unwrap_or_default();
        if location.starts_with("https://") {
            return Ok(Self::of_url(location));
        }
        if let Some(rest) = location.strip_prefix("//") {
            return Ok(Self::of_url(rest));
        }
        let (path, query) = match location.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (location, None),
        };
        if let Some((scheme, _)) = path.split_once("://") {
            return Err(format!("unsupported protocol scheme {scheme:?}"));
        }
        let own = self.path.split('?').next().unwrap_or_default();
        let path = match path {
            "" => own.to_owned(),
            path if path.starts_with('/') => path.to_owned(),
            path => {
                let folder = own.rsplit_once('/').map_or("", |(folder, _)| folder);
                clean(&format!("{folder}/{path}"))
            }
        };
        Ok(Self {
            path: query.map_or_else(|| path.clone(), |query| format!("{path}?{query}")),
            ..self.clone()
        })
    }

    /// Returns the host and port to connect to.
    pub(super) fn resolve(&self, services: &Services) -> Result<(String, u16), String> {
        let Some((namespace, name)) = &self.service else {
            return Ok((self.host.clone(), self.port));
        };
        if let Some(address) = services.routes.get(namespace, name) {
            return Ok((address.ip().to_string(), address.port()));
        }
        let key = format!("{namespace}/{name}");
        let Some(service) = services.store.get("services", &key) else {
            return Err(format!("service {name:?} not found"));
        };
        let service = &service.value;
        let ports = object::get(service, &["spec", "ports"]).and_then(Value::as_array);
        let mut ports = ports.into_iter().flatten();
        let Some(port) = ports.find(|port| port.get("port") == Some(&self.port.into())) else {
            return Err(format!(
                "no service port {} found for service {name:?}",
                self.port
            ));
        };
        if object::text(service, &["spec", "type"]) == "ExternalName" {
            let host = object::text(service, &["spec", "externalName"]);
            return Ok((host.to_owned(), self.port));
        }
        endpoint_of(services, namespace, name, object::text(port, &["name"]))
            .map(|found| (found.address.ip().to_string(), found.address.port()))
            .ok_or_else(|| format!("no endpoints available for service {name:?}"))
    }
}

/// Returns an absolute path without empty, `.` and `..` segments, as client-go joins the paths of its requests.
fn clean(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
}

/// An endpoint of a Service.
pub(crate) struct ServiceEndpoint {
    pub(crate) address: SocketAddr,
    /// True if a simulated node reports the pod as ready: nothing listens at the address.
    pub(crate) is_simulated: bool,
}

/// Returns the first ready endpoint of a Service with the named port, from its Endpoints or its EndpointSlices.
pub(crate) fn endpoint_of(
    services: &Services,
    namespace: &str,
    service: &str,
    port: &str,
) -> Option<ServiceEndpoint> {
    let endpoints = services.store.get("endpoints", &format!("{namespace}/{service}"));
    let found = endpoints.and_then(|endpoints| endpoint(&endpoints.value, port));
    let found = found.or_else(|| {
        let slices = services
            .store
            .list("endpointslices.discovery.k8s.io", &format!("{namespace}/"))
            .objects;
        let label = ["metadata", "labels", "kubernetes.io/service-name"];
        let mut own = slices
            .iter()
            .filter(|slice| object::text(&slice.value, &label) == service);
        own.find_map(|slice| slice_endpoint(&slice.value, port))
    })?;
    let ip = found.ip.parse().ok()?;
    let address = services.pods.resolve(SocketAddr::new(ip, found.port));
    let runs_here = address.ip() != ip;
    Some(ServiceEndpoint {
        address,
        is_simulated: !runs_here && is_simulated(&services.store, namespace, &found.pod),
    })
}

/// Returns true if a pod is on a simulated node.
fn is_simulated(store: &Store, namespace: &str, pod: &str) -> bool {
    if pod.is_empty() {
        return false;
    }
    let pod = store.get("pods", &format!("{namespace}/{pod}"));
    let node = pod.and_then(|pod| store.get("nodes", object::text(&pod.value, &["spec", "nodeName"])));
    node.is_some_and(|node| {
        let runtime = object::text(&node.value, &["status", "nodeInfo", "containerRuntimeVersion"]);
        runtime.starts_with("simulated://")
    })
}

/// An entry of Endpoints or of an EndpointSlice.
struct Entry {
    ip: String,
    port: u16,
    /// The name of the pod; empty for other targets.
    pod: String,
}

impl Entry {
    fn new(ip: &str, ports: &Value, name: &str, target: Option<&Value>) -> Option<Self> {
        let mut ports = ports.as_array()?.iter();
        let port = ports.find(|port| object::text(port, &["name"]) == name)?;
        let pod = target.filter(|target| object::text(target, &["kind"]) == "Pod");
        Some(Self {
            ip: ip.to_owned(),
            port: u16::try_from(port.get("port")?.as_u64()?).ok()?,
            pod: pod.map_or("", |pod| object::text(pod, &["name"])).to_owned(),
        })
    }
}

/// Returns the first ready endpoint of a slice, with the port of a name.
fn slice_endpoint(slice: &Value, name: &str) -> Option<Entry> {
    let endpoints = slice.get("endpoints")?.as_array()?;
    let ready = |endpoint: &&Value| endpoint.pointer("/conditions/ready") != Some(&Value::Bool(false));
    let endpoint = endpoints.iter().find(ready)?;
    let address = endpoint.pointer("/addresses/0")?.as_str()?;
    Entry::new(address, slice.get("ports")?, name, endpoint.get("targetRef"))
}

/// Returns the first ready address of Endpoints, with the port of a name.
fn endpoint(endpoints: &Value, name: &str) -> Option<Entry> {
    let subsets = endpoints.get("subsets")?.as_array()?;
    subsets.iter().find_map(|subset| {
        let address = subset.get("addresses")?.get(0)?;
        let ip = object::text(address, &["ip"]);
        Entry::new(ip, subset.get("ports")?, name, address.get("targetRef"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_url_or_a_service_names_host_port_and_path() {
        for (config, authority, host, port, path) in [
            (
                json!({"url": "https://hook.example.com/a/b"}),
                "hook.example.com",
                "hook.example.com",
                443,
                "/a/b",
            ),
            (
                json!({"url": "https://[::1]:9443"}),
                "[::1]:9443",
                "::1",
                9443,
                "/",
            ),
            (
                json!({"url": "https://a:1//failing/./x/../y/"}),
                "a:1",
                "a",
                1,
                "/failing/y",
            ),
            (
                json!({"service": {"namespace": "n", "name": "s", "path": "/x", "port": 8443}}),
                "s.n.svc:8443",
                "s.n.svc",
                8443,
                "/x",
            ),
            (
                json!({"service": {"namespace": "n", "name": "s", "path": "//x/"}}),
                "s.n.svc:443",
                "s.n.svc",
                443,
                "/x",
            ),
        ] {
            let target = Target::read(&config);
            assert_eq!(
                (
                    target.authority.as_str(),
                    target.host.as_str(),
                    target.port,
                    target.path.as_str()
                ),
                (authority, host, port, path)
            );
        }
    }

    #[test]
    fn a_redirect_is_resolved_against_the_url_before_it() {
        let base = Target::read(&json!({"url": "https://a:1/b/c"}));
        for (location, authority, path) in [
            ("/x?y=z", "a:1", "/x?y=z"),
            ("d", "a:1", "/b/d"),
            ("../e", "a:1", "/e"),
            ("https://f/g//h", "f", "/g//h"),
            ("//i:2/j", "i:2", "/j"),
        ] {
            let target = base.redirected(location).unwrap();
            assert_eq!(
                (target.authority.as_str(), target.path.as_str()),
                (authority, path)
            );
        }
        assert!(base.redirected("http://a/").is_err());
    }
}
