//! Finds what serves a request: an extension API, a document of discovery, or a verb of a resource.
//!
//! Built-in resources and custom ones have different routers in kube-apiserver. That of built-in resources knows the paths
//! and methods that exist. That of custom resources derives the verb from the path, and serves every path with this verb.

use std::sync::Arc;

use apimachinery::{go, names};
use http::Method;
use http::header::ACCEPT;

use crate::codec::Representations;
use crate::http::call::{Answer, Call};
use crate::http::discovery;
use crate::http::handler::Handler;
use crate::http::pipeline::negotiated;
use crate::http::proxy;
use crate::http::request_info::RequestInfo;
use crate::http::subresource;
use crate::http::verb;
use crate::identity::authn::User;
use crate::registry::aggregation::check::Entry;
use crate::resource::{Definition, Source};
use crate::status::{self, Status};

/// Serves a request that was authorized.
pub(crate) async fn serve(handler: &Arc<Handler>, method: &Method, call: &Call) -> Result<Answer, Status> {
    let info = &call.info;
    if let Some(entry) = handler.registry.aggregation.find(&info.path) {
        return Box::pin(proxy::serve(handler, method, call, &call.user, &entry)).await;
    }
    // The core group is not below `/apis`.
    let is_misplaced = info.path.starts_with("/apis//") && info.path.trim_end_matches('/') != "/apis";
    if is_misplaced || info.path.starts_with("//") {
        return Ok(Answer::not_found());
    }
    if !info.is_resource {
        return match discovery::openid::serve(handler, method, call).await {
            Some(answer) => answer,
            None => match openapi_of_extension(handler, call) {
                Some(entry) => {
                    Box::pin(proxy::serve(handler, method, call, &User::aggregator(), &entry)).await
                }
                None => discovery::serve(handler, method, call),
            },
        };
    }
    let Some(definition) = handler.registry.find(&info.group, &info.version, &info.resource) else {
        // Each built-in group has a router of its own, whose errors are objects.
        return match handler.registry.resources.builtin().has_group(&info.group) {
            true => Err(status::unknown_resource()),
            false => Ok(Answer::not_found()),
        };
    };
    if definition.is_custom() {
        if !has_custom_page(&definition, info) {
            return Ok(Answer::not_found());
        }
        check_custom(&definition, info)?;
    } else {
        check_builtin(&definition, call, method)?;
    }
    let offered = if definition.is_custom() {
        Representations::Custom
    } else if subresource::is_review(&definition) || subresource::has_no_table(&info.subresource) {
        Representations::Untabled
    } else {
        let collection = matches!(info.verb, "list" | "watch");
        Representations::Builtin {
            watchable: collection && definition.allows("watch"),
        }
    };
    let form = negotiated(call, offered);
    // A media type that no resource has is rejected before the resource is known.
    if form.is_ok() || accepts_known_media(call.header(ACCEPT)) {
        warn_about_deprecation(call, &definition);
    }
    if !definition.is_custom() {
        check_names(&definition, info)?;
    }
    let form = form?;
    verb::serve(handler, call, &definition, form).await
}

/// Checks that a built-in resource has a route for a path and a method.
fn check_builtin(definition: &Definition, call: &Call, method: &Method) -> Result<(), Status> {
    let info = &call.info;
    let (known, named) = routed_verbs(definition, info);
    let mut verbs = known
        .iter()
        .map(String::as_str)
        .filter(|verb| named.contains(verb));
    if verbs.clone().next().is_none() {
        return Err(status::unknown_resource());
    }
    let routed: &[&str] = match *method {
        Method::GET => &["get", "list", "watch"],
        Method::POST => &["create"],
        Method::PUT => &["update"],
        Method::PATCH => &["patch"],
        Method::DELETE => &["delete", "deletecollection"],
        _ => &[],
    };
    if info.subresource != "proxy" && !verbs.any(|verb| routed.contains(&verb)) {
        return Err(status::method_not_allowed());
    }
    if subresource::connects(&info.subresource) && call.query.all("dryRun").next().is_some() {
        return Err(status::bad_request("dryRun is not supported"));
    }
    Ok(())
}

/// Checks that a path of a built-in resource has no empty name, and no empty namespace if the verb needs one. Other verbs
/// check the namespace later.
fn check_names(definition: &Definition, info: &RequestInfo) -> Result<(), Status> {
    if info.segments > 1 && info.name.is_empty() {
        return Err(status::bad_request("name must be provided"));
    }
    if info.verb == "watch" && !definition.allows("watch") {
        return Err(status::method_not_supported(&definition.subject, info.verb));
    }
    let is_early = info.segments > 1 && matches!(info.verb, "get" | "create" | "patch" | "delete");
    if definition.namespaced && info.namespace.is_empty() && is_early {
        return Err(no_namespace());
    }
    check_name(info)
}

/// Checks the name in the path of a read, a patch or a delete. An update checks it after its body.
fn check_name(info: &RequestInfo) -> Result<(), Status> {
    match info.verb {
        "get" | "patch" | "delete" if !info.name.is_empty() => check_segment(&info.name),
        _ => Ok(()),
    }
}

/// Checks that a name can be a part of a key of the storage.
pub(crate) fn check_segment(name: &str) -> Result<(), Status> {
    let faults = names::path_segment(name);
    if faults.is_empty() {
        return Ok(());
    }
    let (name, faults) = (go::quote(name), faults.join(";"));
    Err(status::bad_request(format!(
        "Name parameter invalid: {name}: {faults}"
    )))
}

/// Returns the verbs of a built-in resource or of its subresource, and those of them that have a route at a path.
fn routed_verbs<'a>(
    definition: &'a Definition,
    info: &RequestInfo,
) -> (&'a [String], &'static [&'static str]) {
    const SUBRESOURCE: [&str; 5] = ["get", "create", "update", "patch", "delete"];
    let is_scoped = definition.namespaced == info.in_namespace;
    let named: &[&str] = match (info.prefix, info.segments) {
        ("", 1) if is_scoped => &["list", "create", "deletecollection"],
        ("", 1) if definition.namespaced => &["list"],
        ("", 2) if is_scoped => &["get", "update", "patch", "delete"],
        ("watch", 1) if definition.namespaced || is_scoped => &["watch"],
        ("watch", 2) if is_scoped => &["watch"],
        ("", 3..) if is_scoped && (info.segments == 3 || info.subresource == "proxy") => {
            let subresource = definition.subresource(&info.subresource);
            let verbs = subresource.map(|subresource| &*subresource.verbs);
            return (verbs.unwrap_or_default(), &SUBRESOURCE);
        }
        _ => &[],
    };
    (&definition.verbs, named)
}

/// Returns the error of a path with an empty namespace.
pub(crate) fn no_namespace() -> Status {
    status::bad_request("Namespace parameter required.")
}

/// Returns true if the path fits the scope of a custom resource.
fn has_custom_page(definition: &Definition, info: &RequestInfo) -> bool {
    if definition.namespaced {
        !info.namespace.is_empty() || matches!(info.verb, "list" | "watch")
    } else {
        info.namespace.is_empty()
    }
}

/// Checks that a custom resource has the subresource and the verb.
fn check_custom(definition: &Definition, info: &RequestInfo) -> Result<(), Status> {
    let is_allowed = if info.subresource.is_empty() {
        definition.allows(info.verb)
    } else {
        let Some(subresource) = definition.subresource(&info.subresource) else {
            return Err(status::not_found(&definition.subject, &info.name));
        };
        subresource.verbs.iter().any(|verb| verb == info.verb)
    };
    if !is_allowed {
        return Err(status::method_not_supported(&definition.subject, info.verb));
    }
    if info.name.is_empty() && matches!(info.verb, "update" | "patch") {
        return Err(status::bad_request("name must be provided"));
    }
    check_name(info)
}

/// Returns true if a client accepts a media type of resources, in any form.
fn accepts_known_media(accepted: &str) -> bool {
    let mut names = accepted
        .split(',')
        .map(|clause| clause.split(';').next().unwrap_or_default().trim());
    names.any(|name| {
        matches!(
            name,
            "application/json"
                | "application/yaml"
                | "application/vnd.kubernetes.protobuf"
                | "application/*"
                | "*/*"
        )
    })
}

/// Warns of a deprecated version or kind.
fn warn_about_deprecation(call: &Call, definition: &Definition) {
    match &definition.source {
        Source::Custom(version) => {
            if let Some(warning) = &version.deprecation {
                call.warnings.add(warning.as_str());
            }
        }
        Source::Builtin { .. } => {
            if let Some(warning) = builtin_kinds::deprecation(&call.info.group, &call.info.resource) {
                call.warnings.add(warning);
            }
        }
    }
}

/// Returns the extension API server that has the OpenAPI document at a path.
fn openapi_of_extension(handler: &Handler, call: &Call) -> Option<Arc<Entry>> {
    let rest = call.info.path.strip_prefix("/openapi/v3/apis/")?;
    let (group, version) = rest.split_once('/')?;
    handler.registry.aggregation.of(group, version)
}
