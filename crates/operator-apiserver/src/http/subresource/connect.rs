//! `pods/exec`, `pods/attach`, `pods/portforward` and the proxies: connections through a node. Requests are checked as
//! in the API server and then rejected, because nothing runs on a simulated node.

use std::net::IpAddr;
use std::sync::Arc;

use apimachinery::object;
use http::header::{CONNECTION, UPGRADE};
use serde_json::{Value, json};

use super::kubelet::{container_of, reachable_node};
use crate::admission::{self, Operation};
use crate::http::call::{Answer, Call};
use crate::http::handler::Handler;
use crate::http::verb;
use crate::identity::authz;
use crate::registry::Registry;
use crate::resource::Definition;
use crate::status::{self, Status};
use builtin_kinds::tree::{at, list, text};

/// Serves a request for a connection to a pod.
pub(super) async fn serve(
    handler: &Handler,
    call: &Call,
    definition: &Arc<Definition>,
) -> Result<Answer, Status> {
    let registry = &*handler.registry;
    let options = options(call);
    admit(registry, call, definition, options.clone()).await?;
    if handler
        .gates
        .is_enabled("AuthorizePodWebsocketUpgradeCreatePermission")
    {
        check_right_to_create(registry, call, definition).await?;
    }
    let pod = registry
        .get(definition, &call.info.namespace, &call.info.name)?
        .value
        .clone();
    if call.info.subresource != "portforward" {
        container_of(&pod, text(&options, &["container"]))?;
    }
    let node = text(&pod, &["spec", "nodeName"]);
    if node.is_empty() {
        let name = object::name(&pod);
        return Err(status::bad_request(format!(
            "pod {name} does not have a host assigned"
        )));
    }
    reachable_node(registry, node)?;
    if !wants_upgrade(call) {
        return Err(status::bad_request("Upgrade request required"));
    }
    let what = &call.info.subresource;
    Err(status::internal(&format!(
        "error dialing backend: node {} is simulated: there is nothing to {what} in its pods",
        apimachinery::go::quote(node)
    )))
}

/// Checks that a GET also has the permission to create: it connects like a POST, because WebSockets only support GET.
async fn check_right_to_create(
    registry: &Registry,
    call: &Call,
    definition: &Definition,
) -> Result<(), Status> {
    if call.info.verb != "get" {
        return Ok(());
    }
    let asked = authz::Attributes {
        verb: "create",
        ..authz::Attributes::of(&call.user, &call.info)
    };
    let decision = registry.authorizer.authorize(&asked).await;
    if decision.allowed {
        return Ok(());
    }
    Err(status::forbidden(
        &definition.subject,
        &call.info.name,
        &decision.reason,
    ))
}

async fn admit(
    registry: &Registry,
    call: &Call,
    definition: &Arc<Definition>,
    mut options: Value,
) -> Result<(), Status> {
    let write = verb::write(call, definition)?;
    admission::admit_body(&registry.admission, &write, Operation::Connect, &mut options).await
}

/// Returns the parameters of the URL as the object for admission.
fn options(call: &Call) -> Value {
    let kind = match (call.info.resource.as_str(), call.info.subresource.as_str()) {
        (_, "attach") => "PodAttachOptions",
        (_, "exec") => "PodExecOptions",
        (_, "portforward") => "PodPortForwardOptions",
        ("nodes", _) => "NodeProxyOptions",
        ("services", _) => "ServiceProxyOptions",
        _ => "PodProxyOptions",
    };
    let mut options = json!({"kind": kind, "apiVersion": "v1"});
    match kind {
        "PodAttachOptions" | "PodExecOptions" => {
            for stream in ["stdin", "stdout", "stderr", "tty"] {
                if call.query.flag(stream) {
                    options[stream] = true.into();
                }
            }
            if let Some(container) = call.query.get("container").filter(|name| !name.is_empty()) {
                options["container"] = container.into();
            }
            if kind == "PodExecOptions" {
                let command: Vec<&str> = call.query.all("command").collect();
                options["command"] = json!(command);
            }
        }
        "PodPortForwardOptions" => {
            let ports = call.query.all("ports").flat_map(|ports| ports.split(','));
            let ports: Vec<i64> = ports.filter_map(|port| port.parse().ok()).collect();
            if !ports.is_empty() {
                options["ports"] = json!(ports);
            }
        }
        _ => {
            let path = call.info.path.split_once("/proxy").map_or("", |(_, path)| path);
            if !path.is_empty() {
                options["path"] = path.into();
            }
        }
    }
    options
}

fn wants_upgrade(call: &Call) -> bool {
    let connection = call.header(CONNECTION).to_ascii_lowercase();
    connection.contains("upgrade") && !call.header(UPGRADE).is_empty()
}

// === proxies ===

/// Serves a proxy request to a pod, a service or a node.
pub(super) async fn serve_proxy(
    registry: &Registry,
    call: &Call,
    definition: &Arc<Definition>,
) -> Result<Answer, Status> {
    admit(registry, call, definition, options(call)).await?;
    let target = Target::parse(&call.info.name).ok_or_else(|| {
        let kind = definition.singular.as_str();
        let name = apimachinery::go::quote(&call.info.name);
        status::bad_request(format!("invalid {kind} request {name}"))
    })?;
    let refusal = match definition.subject.resource.as_str() {
        "pods" => pod_location(registry, call, definition, &target)?,
        "services" => service_location(registry, call, definition, &target)?,
        _ => {
            reachable_node(registry, target.name)?;
            "a simulated node has no kubelet".to_owned()
        }
    };
    Err(status::unavailable(format!(
        "error trying to reach service: {refusal}"
    )))
}

/// The target of a proxy request: `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`.
struct Target<'a> {
    name: &'a str,
    port: &'a str,
}

impl<'a> Target<'a> {
    fn parse(id: &'a str) -> Option<Self> {
        let parts: Vec<&str> = id.split(':').collect();
        let (name, port) = match parts.as_slice() {
            [name] => (*name, ""),
            [name, port] | ["" | "http" | "https", name, port] => (*name, *port),
            _ => return None,
        };
        (!name.is_empty()).then_some(Self { name, port })
    }
}

/// Returns the reason why a pod cannot be reached.
fn pod_location(
    registry: &Registry,
    call: &Call,
    definition: &Definition,
    target: &Target<'_>,
) -> Result<String, Status> {
    let pod = registry
        .get(definition, &call.info.namespace, target.name)?
        .value
        .clone();
    let ip = text(&pod, &["status", "podIP"]);
    let is_usable = ip
        .parse()
        .is_ok_and(|ip: IpAddr| !(ip.is_loopback() || ip.is_unspecified() || ip.is_multicast()));
    if !is_usable {
        return Err(status::bad_request("address not allowed"));
    }
    Ok(format!(
        "nothing listens in the pod at {ip}: its node is simulated"
    ))
}

/// Returns the reason why a service cannot be reached.
fn service_location(
    registry: &Registry,
    call: &Call,
    definition: &Definition,
    target: &Target<'_>,
) -> Result<String, Status> {
    let namespace = &call.info.namespace;
    let name = apimachinery::go::quote(target.name);
    let service = registry.get(definition, namespace, target.name)?.value.clone();
    let mut port = target.port;
    if let Ok(number) = target.port.parse::<i64>() {
        let mut ports = list(&service, &["spec", "ports"]).iter();
        let found = ports.find(|port| at(port, &["port"]).as_i64() == Some(number));
        let Some(found) = found else {
            return Err(status::unavailable(format!(
                "no service port {number} found for service {name}"
            )));
        };
        port = text(found, &["name"]);
    }
    let endpoints = registry
        .store
        .get("endpoints", &format!("{namespace}/{}", target.name));
    let Some(endpoints) = endpoints else {
        return Err(status::not_found(&definition.subject, target.name));
    };
    let has_port = |subset: &Value| {
        let mut ports = list(subset, &["ports"]).iter();
        ports.any(|known| text(known, &["name"]) == port)
    };
    let mut subsets = list(&endpoints.value, &["subsets"]).iter();
    if !subsets.any(|subset| !list(subset, &["addresses"]).is_empty() && has_port(subset)) {
        return Err(status::unavailable(format!(
            "no endpoints available for service {name}"
        )));
    }
    Ok("nothing listens in the pods of simulated nodes".to_owned())
}
