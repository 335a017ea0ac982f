//! Who asks: every request of a manager says which operator it comes from, in audit logs and in the records that
//! `operator-sdk rbac check` compares with the roles.

use http::HeaderValue;

const RUNTIME: &str = concat!("operator-runtime/", env!("CARGO_PKG_VERSION"));

/// `NAME operator-runtime/VERSION`; the runtime alone for a name that no header can hold.
pub(super) fn header(name: &str) -> HeaderValue {
    let value = HeaderValue::from_str(&format!("{name} {RUNTIME}"));
    value.unwrap_or(HeaderValue::from_static(RUNTIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_header_can_hold_is_left_out() {
        assert_eq!(header("a\nb"), RUNTIME);
        assert_eq!(
            header("memcached-operator"),
            format!("memcached-operator {RUNTIME}")
        );
    }
}
