//! Who may do what: `system:masters` everything, others what roles grant them.

mod rbac;

use crate::authn::User;
use crate::registry::Registry;
use crate::request_info::RequestInfo;

/// Paths that anyone may read.
const PUBLIC: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];
/// Paths that everyone with a name may read.
const DISCOVERY: [&str; 3] = ["/api", "/apis", "/openapi"];

/// Decides on a request.
///
/// # Errors
/// The text of the refusal.
pub(crate) fn authorize(registry: &Registry, user: &User, info: &RequestInfo) -> Result<(), String> {
    let allowed = user.is_master()
        || (!info.is_resource && reads_documents(user, info))
        || asks_about_itself(user, info)
        || rbac::allows(registry, user, info);
    if allowed { Ok(()) } else { Err(refusal(user, info)) }
}

fn reads_documents(user: &User, info: &RequestInfo) -> bool {
    let below = |root: &str| info.path == root || info.path.starts_with(&format!("{root}/"));
    let named = user.groups.iter().any(|group| group == "system:authenticated");
    let known = PUBLIC.iter().any(|root| below(root)) || (named && DISCOVERY.iter().any(|root| below(root)));
    known && matches!(info.verb, "get" | "head")
}

/// Everyone with a name may ask who it is and what it may do.
fn asks_about_itself(user: &User, info: &RequestInfo) -> bool {
    let named = user.groups.iter().any(|group| group == "system:authenticated");
    let group = matches!(
        info.group.as_str(),
        "authorization.k8s.io" | "authentication.k8s.io"
    );
    named && group && info.verb == "create" && info.resource.starts_with("selfsubject")
}

fn refusal(user: &User, info: &RequestInfo) -> String {
    if !info.is_resource {
        return format!(
            "User \"{}\" cannot {} path \"{}\"",
            user.name, info.verb, info.path
        );
    }
    let resource = if info.subresource.is_empty() {
        info.resource.clone()
    } else {
        format!("{}/{}", info.resource, info.subresource)
    };
    let scope = if info.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace \"{}\"", info.namespace)
    };
    format!(
        "User \"{}\" cannot {} resource \"{resource}\" in API group \"{}\" {scope}",
        user.name, info.verb, info.group
    )
}
