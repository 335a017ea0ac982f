//! The `User-Agent` of every request of a manager, which identifies the operator in audit logs and in the records of
//! `operator-sdk rbac check`.

use http::HeaderValue;

const RUNTIME: &str = concat!("operator-runtime/", env!("CARGO_PKG_VERSION"));

/// Returns `NAME operator-runtime/VERSION`, or only the latter if a header cannot contain the name.
pub(super) fn header(name: &str) -> HeaderValue {
    let value = HeaderValue::from_str(&format!("{name} {RUNTIME}"));
    value.unwrap_or(HeaderValue::from_static(RUNTIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_name_is_omitted_from_the_user_agent() {
        assert_eq!(header("a\nb"), RUNTIME);
        assert_eq!(
            header("memcached-operator"),
            format!("memcached-operator {RUNTIME}")
        );
    }
}
