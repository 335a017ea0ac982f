//! Who may do what.

use crate::authn::User;
use crate::request_info::RequestInfo;

/// Paths that anyone may read.
const PUBLIC: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// Decides on a request: `system:masters` may do everything, others read what is public.
///
/// # Errors
/// The text of the refusal.
pub(crate) fn authorize(user: &User, info: &RequestInfo) -> Result<(), String> {
    let public = PUBLIC
        .iter()
        .any(|path| info.path == *path || info.path.starts_with(&format!("{path}/")));
    if user.is_master() || (public && info.verb == "get") {
        return Ok(());
    }
    Err(refusal(user, info))
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
