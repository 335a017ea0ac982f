//! The address families of a Service: sets `ipFamilyPolicy` and `ipFamilies` according to the cluster.

use std::net::IpAddr;

use apimachinery::field::{Error, ErrorList, Path};
use serde_json::{Map, Value, json};

use super::service_network::Family;

const SINGLE: &str = "SingleStack";
const PREFER: &str = "PreferDualStack";
const REQUIRE: &str = "RequireDualStack";

type Spec = Map<String, Value>;

fn text<'s>(spec: &'s Spec, field: &str) -> &'s str {
    spec.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn list(spec: &Spec, field: &str) -> Vec<Value> {
    let list = spec.get(field).and_then(Value::as_array);
    list.cloned().unwrap_or_default()
}

/// Completes the families of a Service that is not an ExternalName. `families` are those of the cluster, the preferred
/// one first. `old` is the spec of the stored Service.
pub(super) fn complete(spec: &mut Spec, old: Option<&Spec>, families: &[Family]) -> ErrorList {
    if old.is_some_and(|old| keeps_preference(spec, old)) {
        return ErrorList::new();
    }
    if let Some(old) = old {
        drop_second(spec, old);
    }
    let mut given = list(spec, "ipFamilies");
    let has_selector = spec
        .get("selector")
        .and_then(Value::as_object)
        .is_some_and(|selector| !selector.is_empty());
    // The endpoints of a headless Service without a selector may have any family.
    let is_open = text(spec, "clusterIP") == "None" && !has_selector;
    let policy = match text(spec, "ipFamilyPolicy") {
        "" if is_open => REQUIRE,
        "" => SINGLE,
        policy => policy,
    }
    .to_owned();
    let mut errors = wrong_policy(&policy, spec, old);
    errors.extend(add_families_of_addresses(spec, &mut given, families));
    if !errors.is_empty() {
        return errors;
    }
    if !is_open {
        let errors = unavailable(&policy, &given, families);
        if !errors.is_empty() {
            return errors;
        }
    }
    let Some(preferred) = families.first() else {
        return ErrorList::new();
    };
    if given.is_empty() {
        given.push(preferred.name().into());
    }
    if policy != SINGLE
        && given.len() == 1
        && (is_open || families.len() > 1)
        && let Some(first) = given.first().and_then(family)
    {
        given.push(first.other().name().into());
    }
    spec.insert("ipFamilyPolicy".to_owned(), policy.into());
    spec.insert("ipFamilies".to_owned(), Value::Array(given));
    ErrorList::new()
}

/// Returns true if an update does not change the addresses of a Service with the policy PreferDualStack. The families
/// of the cluster may have changed since.
fn keeps_preference(spec: &Spec, old: &Spec) -> bool {
    let same = |field: &str| spec.get(field) == old.get(field);
    text(spec, "ipFamilyPolicy") == PREFER
        && same("ipFamilyPolicy")
        && same("type")
        && same("clusterIPs")
        && same("ipFamilies")
        && spec.contains_key("clusterIPs")
}

/// Releases the second family in an update to a single family, unless the update changes the families.
fn drop_second(spec: &mut Spec, old: &Spec) {
    let was_dual = !matches!(text(old, "ipFamilyPolicy"), "" | SINGLE);
    if !was_dual || text(spec, "ipFamilyPolicy") != SINGLE {
        return;
    }
    for field in ["clusterIPs", "ipFamilies"] {
        if spec.get(field) == old.get(field)
            && let Some(values) = spec.get_mut(field).and_then(Value::as_array_mut)
        {
            values.truncate(1);
        }
    }
}

/// Checks that the policy permits the numbers of addresses and of families, and that an update does not reduce them.
fn wrong_policy(policy: &str, spec: &Spec, old: Option<&Spec>) -> ErrorList {
    let mut errors = ErrorList::new();
    for (field, one, many) in [
        ("clusterIPs", "cluster IP", "cluster IPs"),
        ("ipFamilies", "IP family", "IP families"),
    ] {
        let number = list(spec, field).len();
        let before = old.map_or(0, |old| list(old, field).len());
        let why = if policy == SINGLE && number > 1 {
            format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {many} are specified")
        } else if policy != SINGLE && number == 1 && before > 1 {
            format!("must be 'SingleStack' to release the secondary {one}")
        } else {
            continue;
        };
        errors.push(Error::invalid(path("ipFamilyPolicy"), policy.into(), why));
    }
    errors
}

/// Adds the families of the given addresses.
fn add_families_of_addresses(spec: &Spec, given: &mut Vec<Value>, families: &[Family]) -> ErrorList {
    let addresses = match list(spec, "clusterIPs") {
        all if all.is_empty() => vec![spec.get("clusterIP").cloned().unwrap_or_default()],
        all => all,
    };
    let mut errors = ErrorList::new();
    for (index, address) in addresses.iter().enumerate() {
        // Validation has rejected invalid addresses.
        let Some(Ok(address)) = address.as_str().map(str::parse::<IpAddr>) else {
            continue;
        };
        let family = Family::of(address);
        if index < given.len() {
            continue;
        }
        if !families.contains(&family) {
            let why = format!("{} is not configured on this cluster", family.name());
            let field = path("clusterIPs").index(index);
            errors.push(Error::invalid(field, json!(addresses), why));
        } else {
            given.push(family.name().into());
        }
    }
    errors
}

fn unavailable(policy: &str, given: &[Value], families: &[Family]) -> ErrorList {
    let mut errors = ErrorList::new();
    if policy == REQUIRE && families.len() < 2 {
        let why = "this cluster is not configured for dual-stack services";
        errors.push(Error::invalid(path("ipFamilyPolicy"), policy.into(), why));
    }
    for (index, name) in given.iter().enumerate() {
        if family(name).is_some_and(|family| !families.contains(&family)) {
            let field = path("ipFamilies").index(index);
            errors.push(Error::invalid(
                field,
                name.clone(),
                "not configured on this cluster",
            ));
        }
    }
    errors
}

/// Returns the families of a Service.
pub(super) fn of(spec: &Spec) -> Vec<Family> {
    list(spec, "ipFamilies").iter().filter_map(family).collect()
}

fn family(name: &Value) -> Option<Family> {
    [Family::V4, Family::V6]
        .into_iter()
        .find(|family| name == family.name())
}

fn path(field: &str) -> Path {
    Path::new("spec").child(field)
}
