//! Fields of a Service that the server assigns: cluster addresses, address families, node ports.
//!
//! No reservations are stored, so none can leak: the numbers in use are read from the stored Services. A cursor that
//! only moves forward prevents two concurrent creates from choosing the same address. Addresses that clients choose are
//! checked again when the Service is committed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::object;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value, json};

use super::service_network::Family;
use super::{Registry, Write, ip_address, service_families};
use crate::status::{self, Status};

const NODE_PORT_MIN: u32 = 30000;
const NODE_PORTS: u32 = 2768;
/// The number of additional attempts beyond the addresses in use: other objects may have addresses of the range.
const TRIES_MORE: u128 = 100_000;

/// The positions of the search for the next address and port.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    host: AtomicU32,
    port: AtomicU32,
    /// Held while a service is committed.
    pub(super) commit: Mutex<()>,
}

/// Allocates the missing addresses and ports of a new or changed Service. `old` is the stored one. Runs before the
/// rest of the Service is validated. A dry run gets free numbers without reserving them.
pub(super) fn allocate(
    registry: &Registry,
    service: &mut Value,
    old: Option<&Value>,
    dry_run: bool,
) -> ErrorList {
    let errors = builtin_kinds::validate_service_addresses(service);
    if !errors.is_empty() {
        return errors;
    }
    let namespace = object::namespace(service).to_owned();
    let name = object::name(service).to_owned();
    let others = if dry_run {
        Others::default()
    } else {
        Others::read(registry, &namespace, &name)
    };
    let drawing = Drawing {
        registry,
        service: (&namespace, &name),
        dry_run,
    };
    let spec = object::child_mut(service, "spec");
    let kind = spec
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if kind == "ExternalName" {
        return ErrorList::new();
    }
    let before = old.and_then(|old| old.get("spec")?.as_object());
    let errors = service_families::complete(spec, before, &registry.service_network.families());
    if !errors.is_empty() {
        return errors;
    }
    if old.is_some_and(|old| !builtin_kinds::keeps_service_addresses(service, old)) {
        // Validation reports the changed addresses.
        return ErrorList::new();
    }
    let spec = object::child_mut(service, "spec");
    let errors: ErrorList = set_cluster_addresses(&drawing, spec, old, &others)
        .into_iter()
        .collect();
    if !errors.is_empty() {
        return errors;
    }
    let mut errors = ErrorList::new();
    let manual = spec.get("allocateLoadBalancerNodePorts") == Some(&Value::Bool(false));
    if kind == "NodePort" || kind == "LoadBalancer" {
        errors.extend(set_node_ports(
            &drawing,
            spec,
            old,
            &others,
            kind == "LoadBalancer" && manual,
        ));
    }
    if kind == "LoadBalancer"
        && spec
            .get("externalTrafficPolicy")
            .is_some_and(|policy| policy == "Local")
    {
        let port = spec
            .get("healthCheckNodePort")
            .and_then(Value::as_i64)
            .unwrap_or(0);
        if port == 0 {
            let drawn = drawing.port(&others.ports);
            spec.insert("healthCheckNodePort".to_owned(), drawn.into());
        }
    }
    errors
}

/// Checks that no two ports of a changed service have the same node port and protocol. This is not a validation error.
///
/// # Errors
/// Returns an error with the first such port.
pub(super) fn check_node_ports(service: &Value) -> Result<(), Status> {
    let spec = object::get(service, &["spec"]).unwrap_or(&Value::Null);
    if !matches!(object::text(spec, &["type"]), "NodePort" | "LoadBalancer") {
        return Ok(());
    }
    let ports = spec.get("ports").and_then(Value::as_array);
    let mut seen = BTreeSet::new();
    for port in ports.into_iter().flatten() {
        let number = port.get("nodePort").and_then(Value::as_i64).unwrap_or(0);
        let protocol = object::text(port, &["protocol"]);
        if number != 0 && !seen.insert((protocol, number)) {
            return Err(status::plain(format!(
                "duplicate nodePort: {{{protocol} {number}}}"
            )));
        }
    }
    Ok(())
}

/// Checks that the requested port of health checks can be allocated. This is not a validation error.
///
/// # Errors
/// The port is outside of the range.
pub(super) fn check_health_port(service: &Value, old: Option<&Value>) -> Result<(), Status> {
    let port = |service: &Value| {
        let spec = object::get(service, &["spec"]).unwrap_or(&Value::Null);
        let is_used = object::text(spec, &["type"]) == "LoadBalancer"
            && object::text(spec, &["externalTrafficPolicy"]) == "Local";
        let port = spec.get("healthCheckNodePort").and_then(Value::as_u64);
        port.filter(|_| is_used).unwrap_or(0)
    };
    let wanted = port(service);
    let range = u64::from(NODE_PORT_MIN)..u64::from(NODE_PORT_MIN + NODE_PORTS);
    if wanted == 0 || range.contains(&wanted) || old.map(port) == Some(wanted) {
        return Ok(());
    }
    Err(status::internal(&format!(
        "failed to allocate requested HealthCheck NodePort {wanted}: provided port is not in the valid range. The range of valid ports is 30000-32767"
    )))
}

/// Blocks the commits of other Services until the guard is dropped, and checks that no Service that was committed
/// since [`allocate`] uses the same numbers.
///
/// # Errors
/// Returns an error if an address or a port is taken.
pub(super) fn reserve<'r>(
    registry: &'r Registry,
    write: &Write,
    service: &Value,
    old: Option<&Value>,
) -> Result<Option<MutexGuard<'r, ()>>, Status> {
    let definition = &write.definition;
    if !definition.is("", "services") || !write.subresource.is_empty() {
        return Ok(None);
    }
    let guard = registry.addresses.commit.lock();
    let others = Others::read(registry, object::namespace(service), object::name(service));
    let before = Used::of(old.unwrap_or(&Value::Null));
    let used = Used::of(service);
    let mut errors = ErrorList::new();
    for address in &used.addresses {
        if !before.addresses.contains(address) && others.addresses.contains(*address) {
            let detail = format!("failed to allocate IP {address}: provided IP is already allocated");
            errors.push(Error::invalid(
                path().child("clusterIPs"),
                json!(used.addresses),
                detail,
            ));
        }
    }
    for (field, port) in used.ports {
        if others.ports.contains(&port) && before.ports.iter().all(|(_, before)| *before != port) {
            errors.push(Error::invalid(
                field,
                port.into(),
                "provided port is already allocated",
            ));
        }
    }
    if errors.is_empty() {
        return Ok(Some(guard));
    }
    Err(status::invalid(
        definition.stored_subject(),
        object::name(service),
        &errors,
    ))
}

/// The addresses and ports of one service.
struct Used<'a> {
    addresses: Vec<&'a str>,
    ports: Vec<(Path, u64)>,
}

impl<'a> Used<'a> {
    fn of(service: &'a Value) -> Self {
        let ports = object::get(service, &["spec", "ports"]).and_then(Value::as_array);
        let port = |(index, port): (usize, &Value)| {
            let field = path().child("ports").index(index).child("nodePort");
            Some((field, port.get("nodePort")?.as_u64()?))
        };
        let mut ports: Vec<_> = ports.into_iter().flatten().enumerate().filter_map(port).collect();
        let health = object::get(service, &["spec", "healthCheckNodePort"]).and_then(Value::as_u64);
        ports.extend(health.map(|port| (path().child("healthCheckNodePort"), port)));
        ports.retain(|(_, port)| *port != 0);
        Self {
            addresses: ip_address::of(service),
            ports,
        }
    }
}

/// The addresses and ports of all other services.
#[derive(Default)]
struct Others {
    addresses: BTreeSet<String>,
    ports: BTreeSet<u64>,
}

impl Others {
    fn read(registry: &Registry, namespace: &str, name: &str) -> Self {
        let mut others = Self {
            addresses: BTreeSet::new(),
            ports: BTreeSet::new(),
        };
        for stored in registry.store.list("services", "").objects {
            let service = &stored.value;
            if object::namespace(service) == namespace && object::name(service) == name {
                continue;
            }
            let Some(spec) = service.get("spec") else { continue };
            let addresses = ip_address::of(service).into_iter().map(str::to_owned);
            others.addresses.extend(addresses);
            let ports = spec.get("ports").and_then(Value::as_array);
            others.ports.extend(
                ports
                    .into_iter()
                    .flatten()
                    .filter_map(|port| port.get("nodePort")?.as_u64()),
            );
            others
                .ports
                .extend(spec.get("healthCheckNodePort").and_then(Value::as_u64));
        }
        others
    }
}

fn path() -> Path {
    Path::new("spec")
}

/// Sets the addresses: those that the client chose, and new ones for the other families.
fn set_cluster_addresses(
    drawing: &Drawing<'_>,
    spec: &mut Map<String, Value>,
    old: Option<&Value>,
    others: &Others,
) -> Option<Error> {
    let single = spec.get("clusterIP").cloned().unwrap_or_default();
    if single == "None" {
        spec.insert("clusterIPs".to_owned(), json!(["None"]));
        return None;
    }
    let given: Vec<String> = match spec.get("clusterIPs").and_then(Value::as_array) {
        Some(all) if !all.is_empty() => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => single
            .as_str()
            .filter(|address| !address.is_empty())
            .map(str::to_owned)
            .into_iter()
            .collect(),
    };
    let kept = old.map(ip_address::of).unwrap_or_default();
    for address in given.iter().filter(|address| !kept.contains(&address.as_str())) {
        if let Some(error) = refuse_address(drawing, address, &given, others) {
            return Some(error);
        }
    }
    let mut addresses = given;
    for family in service_families::of(spec).into_iter().skip(addresses.len()) {
        let Some(address) = drawing.address(family, &others.addresses) else {
            let why = "failed to allocate a serviceIP: range is full";
            return Some(Error::new(
                apimachinery::field::ErrorType::Internal,
                path().child("clusterIPs"),
                why,
            ));
        };
        addresses.push(address);
    }
    if let Some(first) = addresses.first() {
        spec.insert("clusterIP".to_owned(), first.as_str().into());
    }
    spec.insert("clusterIPs".to_owned(), json!(addresses));
    None
}

/// Returns an error if a client's address is not available. Validation rejects invalid addresses.
fn refuse_address(drawing: &Drawing<'_>, address: &str, given: &[String], others: &Others) -> Option<Error> {
    let parsed: IpAddr = address.parse().ok()?;
    let ranges = ip_address::ranges(drawing.registry, Family::of(parsed));
    let is_inside = ranges.iter().any(|range| range.contains(parsed));
    let why = if is_inside {
        let is_taken = !drawing.dry_run
            && (others.addresses.contains(address)
                || ip_address::is_taken(drawing.registry, address, drawing.service));
        is_taken.then(|| "provided IP is already allocated".to_owned())?
    } else if drawing.dry_run {
        let range = ranges.first().map(ToString::to_string).unwrap_or_default();
        format!("the provided IP ({parsed}) is not in the valid range. The range of valid IPs is {range}")
    } else {
        "the provided network does not match the current range".to_owned()
    };
    let detail = format!("failed to allocate IP {address}: {why}");
    Some(Error::invalid(path().child("clusterIPs"), json!(given), detail))
}

/// Allocates the numbers that a service did not choose.
struct Drawing<'a> {
    registry: &'a Registry,
    /// The namespace and the name of the Service.
    service: (&'a str, &'a str),
    dry_run: bool,
}

impl Drawing<'_> {
    fn address(&self, family: Family, used: &BTreeSet<String>) -> Option<String> {
        let ranges = ip_address::ranges(self.registry, family);
        if self.dry_run {
            return ranges.first().map(|range| range.host(0).to_string());
        }
        let cursor = &self.registry.addresses.host;
        ranges.iter().find_map(|range| {
            // More attempts than addresses in use, so that one of them is free.
            let tries = range.hosts().min(used.len() as u128 + TRIES_MORE);
            (0..tries).find_map(|_| {
                let host = u128::from(cursor.fetch_add(1, Ordering::Relaxed)) % range.hosts() + 1;
                let address = range.host(host).to_string();
                let is_free =
                    !used.contains(&address) && !ip_address::is_taken(self.registry, &address, self.service);
                is_free.then_some(address)
            })
        })
    }

    fn port(&self, used: &BTreeSet<u64>) -> u64 {
        if self.dry_run {
            return u64::from(NODE_PORT_MIN + NODE_PORTS + 1);
        }
        let drawn = (0..NODE_PORTS).find_map(|_| {
            let offset = self.registry.addresses.port.fetch_add(1, Ordering::Relaxed) % NODE_PORTS;
            let port = u64::from(NODE_PORT_MIN + offset);
            (!used.contains(&port)).then_some(port)
        });
        drawn.unwrap_or(0)
    }
}

/// Returns the node port that the first port with each number requests.
fn requested_node_ports(spec: &Map<String, Value>) -> BTreeMap<i64, i64> {
    let ports = spec.get("ports").and_then(Value::as_array);
    let mut requested = BTreeMap::new();
    for port in ports.into_iter().flatten() {
        let field = |name: &str| port.get(name).and_then(Value::as_i64).unwrap_or(0);
        if field("nodePort") != 0 {
            requested.entry(field("port")).or_insert(field("nodePort"));
        }
    }
    requested
}

fn set_node_ports(
    drawing: &Drawing<'_>,
    spec: &mut Map<String, Value>,
    old: Option<&Value>,
    others: &Others,
    only_given: bool,
) -> ErrorList {
    let owned: BTreeSet<u64> = old
        .and_then(|old| object::get(old, &["spec", "ports"])?.as_array())
        .into_iter()
        .flatten()
        .filter_map(|port| port.get("nodePort")?.as_u64())
        .collect();
    let mut used = others.ports.clone();
    let mut errors = ErrorList::new();
    // In a new Service, ports with the same number and different protocols share a node port.
    let requested = if old.is_none() {
        requested_node_ports(spec)
    } else {
        BTreeMap::new()
    };
    let mut shared: BTreeMap<i64, u64> = BTreeMap::new();
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for (index, port) in ports
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
        .enumerate()
    {
        let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
        let mut asked = port.get("nodePort").and_then(Value::as_i64).unwrap_or(0);
        if asked == 0 && only_given {
            continue;
        }
        if let Some(drawn) = shared
            .get(&number)
            .copied()
            .filter(|drawn| old.is_none() && (asked == 0 || u64::try_from(asked) == Ok(*drawn)))
        {
            port.insert("nodePort".to_owned(), drawn.into());
            continue;
        }
        if let Some(wanted) = requested.get(&number).filter(|_| asked == 0) {
            asked = *wanted;
            port.insert("nodePort".to_owned(), asked.into());
        }
        let given = u64::try_from(asked).unwrap_or(u64::MAX);
        let field = path().child("ports").index(index).child("nodePort");
        let range = u64::from(NODE_PORT_MIN)..u64::from(NODE_PORT_MIN + NODE_PORTS);
        if given == 0 {
            let drawn = drawing.port(&used);
            used.insert(drawn);
            shared.entry(number).or_insert(drawn);
            port.insert("nodePort".to_owned(), drawn.into());
            continue;
        }
        shared.entry(number).or_insert(given);
        if owned.contains(&given) {
            used.insert(given);
        } else if !drawing.dry_run && !range.contains(&given) {
            let why = "provided port is not in the valid range. The range of valid ports is 30000-32767";
            errors.push(Error::invalid(field, asked.into(), why));
        } else if !used.insert(given) {
            errors.push(Error::invalid(
                field,
                given.into(),
                "provided port is already allocated",
            ));
        }
        if !errors.is_empty() {
            // The allocation stops at the first error.
            break;
        }
    }
    errors
}
