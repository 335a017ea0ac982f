//! Who asks: every request of a manager says which operator it comes from, in audit logs and in the records that
//! `operator-sdk rbac check` compares with the roles.

use http::header::{HeaderName, HeaderValue, USER_AGENT};
use http::request::Request;
use kube::client::Body;

const RUNTIME: &str = concat!("operator-runtime/", env!("CARGO_PKG_VERSION"));

/// `NAME operator-runtime/VERSION`; the runtime alone for a name that no header can hold.
pub(super) fn header(name: &str) -> (HeaderName, HeaderValue) {
    let value = HeaderValue::from_str(&format!("{name} {RUNTIME}"));
    (USER_AGENT, value.unwrap_or(HeaderValue::from_static(RUNTIME)))
}

/// A client that sends everything through another one, in the name of the operator.
pub(super) fn attributed(client: kube::Client, name: &str) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    let (key, value) = header(name);
    let service = tower::service_fn(move |mut request: Request<Body>| {
        request
            .headers_mut()
            .entry(key.clone())
            .or_insert_with(|| value.clone());
        let client = client.clone();
        async move { client.send(request).await }
    });
    kube::Client::new(service, namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_header_can_hold_is_left_out() {
        assert_eq!(header("a\nb").1, RUNTIME);
        assert_eq!(
            header("memcached-operator").1,
            format!("memcached-operator {RUNTIME}")
        );
    }
}
