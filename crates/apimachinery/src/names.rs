//! Validates names, keys and addresses (`k8s.io/apimachinery/pkg/util/validation`).
//!
//! Each function returns the messages of the real validation, and none for a valid value.

use std::net::IpAddr;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const UNDERSCORED_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// The messages about one value.
pub type Faults = Vec<String>;

fn no_longer_than(text: &str, max: usize) -> Faults {
    if text.len() > max {
        vec![format!("must be no more than {max} characters")]
    } else {
        Vec::new()
    }
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Returns true if the first and the last character satisfy `edge`, and all characters satisfy `inner`.
fn is_word(text: &str, edge: fn(u8) -> bool, inner: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    edge(*first) && edge(*last) && bytes.iter().all(|byte| inner(*byte))
}

fn is_label_text(text: &str) -> bool {
    is_word(text, is_lower, |byte| is_lower(byte) || byte == b'-')
}

fn is_subdomain_text(text: &str) -> bool {
    text.split('.').all(is_label_text)
}

fn is_qualified_text(text: &str) -> bool {
    is_word(
        text,
        |byte| byte.is_ascii_alphanumeric(),
        |byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte),
    )
}

/// Validates an RFC 1123 label such as `my-name`.
pub fn dns1123_label(text: &str) -> Faults {
    let mut faults = no_longer_than(text, 63);
    if !is_label_text(text) {
        let dotted = is_subdomain_text(text);
        faults.push(if dotted { "must not contain dots" } else { LABEL }.to_owned());
    }
    faults
}

/// Validates an RFC 1035 label, which starts with a letter.
pub fn dns1035_label(text: &str) -> Faults {
    let mut faults = no_longer_than(text, 63);
    if !is_label_text(text) || text.starts_with(|c: char| c.is_ascii_digit()) {
        faults.push(LABEL_1035.to_owned());
    }
    faults
}

/// Validates an RFC 1123 subdomain such as `my-name.example.com`.
pub fn dns1123_subdomain(text: &str) -> Faults {
    let mut faults = no_longer_than(text, 253);
    if !is_subdomain_text(text) {
        faults.push(SUBDOMAIN.to_owned());
    }
    faults
}

/// Validates an RFC 1123 subdomain whose labels may also have underscores: `_sip._tcp.example.com`.
pub fn dns1123_subdomain_with_underscore(text: &str) -> Faults {
    let mut faults = no_longer_than(text, 253);
    let is_label = |label: &str| {
        let label = label.strip_prefix('_').unwrap_or(label);
        is_word(label, is_lower, |byte| is_lower(byte) || b"-_".contains(&byte))
    };
    if !text.split('.').all(is_label) {
        faults.push(UNDERSCORED_SUBDOMAIN.to_owned());
    }
    faults
}

/// Validates a subdomain below a wildcard: `*.example.com`.
pub fn wildcard_dns1123_subdomain(text: &str) -> Faults {
    let mut faults = no_longer_than(text, 253);
    if !text.strip_prefix("*.").is_some_and(is_subdomain_text) {
        faults.push(WILDCARD.to_owned());
    }
    faults
}

/// Validates the key of a label: a name with an optional prefix, `example.com/my-name`.
pub fn qualified_name(text: &str) -> Faults {
    let mut parts = text.split('/');
    let (first, second) = (parts.next().unwrap_or_default(), parts.next());
    if parts.next().is_some() {
        return vec![format!(
            "a valid label key {QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )];
    }
    let mut faults = Vec::new();
    let name = match second {
        None => first,
        Some(name) => {
            if first.is_empty() {
                faults.push("prefix part must be non-empty".to_owned());
            } else {
                if first.len() > 253 {
                    faults.push("prefix part must be no more than 253 bytes".to_owned());
                }
                if !is_subdomain_text(first) {
                    faults.push(format!("prefix part {SUBDOMAIN}"));
                }
            }
            name
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        faults.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_qualified_text(name) {
        faults.push(format!("name part {QUALIFIED}"));
    }
    faults
}

/// Validates the value of a label.
pub fn label_value(text: &str) -> Faults {
    let mut faults = Vec::new();
    if text.len() > 63 {
        faults.push("must be no more than 63 bytes".to_owned());
    }
    if !text.is_empty() && !is_qualified_text(text) {
        faults.push(LABEL_VALUE.to_owned());
    }
    faults
}

/// Validates a key in a ConfigMap or Secret, which becomes a file name.
pub fn config_key(text: &str) -> Faults {
    let mut faults = no_longer_than(text, 253);
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if text.is_empty() || !text.bytes().all(allowed) {
        faults.push(CONFIG_KEY.to_owned());
    }
    match text {
        "." | ".." => faults.push(format!("must not be '{text}'")),
        _ if text.starts_with("..") => faults.push("must not start with '..'".to_owned()),
        _ => {}
    }
    faults
}

/// Validates the name of an environment variable.
pub fn environment_name(text: &str) -> Faults {
    let printable = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
    if !text.is_empty() && text.bytes().all(printable) {
        return Vec::new();
    }
    vec![
        "a valid environment variable name must consist only of printable ASCII characters other than '='"
            .to_owned(),
    ]
}

/// Validates the name of a port.
pub fn port_name(text: &str) -> Faults {
    let mut faults = no_longer_than(text, 15);
    if text.is_empty() || !text.bytes().all(|byte| is_lower(byte) || byte == b'-') {
        faults.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        faults.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        faults.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        faults.push("must not begin or end with a hyphen".to_owned());
    }
    faults
}

/// Validates the number of a port.
pub fn port_number(number: i64) -> Faults {
    if (1..=65535).contains(&number) {
        Vec::new()
    } else {
        vec!["must be between 1 and 65535, inclusive".to_owned()]
    }
}

/// Validates an IP address of either family.
pub fn ip_address(text: &str) -> Faults {
    let fault = match (text.parse::<IpAddr>(), sloppy_ip(text)) {
        (Ok(IpAddr::V6(address)), _) if address.to_ipv4_mapped().is_some() => {
            "must not be an IPv4-mapped IPv6 address"
        }
        (Ok(_), _) => return Vec::new(),
        (Err(_), Some(_)) => "must not have leading 0s",
        (Err(_), None) => "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
    };
    vec![fault.to_owned()]
}

/// Validates an IP address in the canonical form of RFC 5952.
pub fn canonical_ip_address(text: &str) -> Faults {
    let faults = ip_address(text);
    match text.parse::<IpAddr>() {
        Ok(address) if faults.is_empty() && address.to_string() != text => {
            vec![format!("must be in canonical form (\"{address}\")")]
        }
        _ => faults,
    }
}

/// Parses an IP address as `ParseIPSloppy` of Kubernetes does: the numbers of an IPv4 address may have leading zeros.
pub fn sloppy_ip(text: &str) -> Option<IpAddr> {
    text.parse().ok().or_else(|| {
        // An IPv6 address can end with an IPv4 address.
        let (start, end) = text.split_at(text.rfind(':').map_or(0, |colon| colon + 1));
        let parts: Vec<&str> = end.split('.').map(without_zeros).collect();
        format!("{start}{}", parts.join(".")).parse().ok()
    })
}

fn without_zeros(number: &str) -> &str {
    let rest = number.trim_start_matches('0');
    if rest.is_empty() && !number.is_empty() {
        "0"
    } else {
        rest
    }
}

/// Returns true for an IPv4 address, also in the form of an IPv6 address and with leading zeros.
pub fn is_ipv4(text: &str) -> bool {
    sloppy_ip(text).is_some_and(|address| address.to_canonical().is_ipv4())
}

/// Returns true for an IPv6 address that is not an IPv4 address.
pub fn is_ipv6(text: &str) -> bool {
    sloppy_ip(text).is_some_and(|address| address.to_canonical().is_ipv6())
}

/// Validates the address of an endpoint, or an external address of a Service.
pub fn endpoint_address(text: &str) -> Faults {
    let Some(address) = sloppy_ip(text) else {
        return vec!["must be a valid IP address".to_owned()];
    };
    let mut faults = Vec::new();
    if address.is_unspecified() {
        faults.push(format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() {
        faults.push("may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned());
    }
    let (local, multicast) = match address {
        IpAddr::V4(address) => (
            address.is_link_local(),
            address.octets().starts_with(&[224, 0, 0]),
        ),
        IpAddr::V6(address) => (
            address.is_unicast_link_local(),
            address
                .segments()
                .first()
                .is_some_and(|first| first & 0xff0f == 0xff02),
        ),
    };
    if local {
        faults.push("may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned());
    }
    if multicast {
        faults.push("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned());
    }
    faults
}

/// Validates a network in CIDR notation.
pub fn cidr(text: &str) -> Faults {
    let fault = match (parse_cidr(text), sloppy_cidr(text)) {
        (Some((IpAddr::V6(address), _)), _) if address.to_ipv4_mapped().is_some() => {
            "must not have an IPv4-mapped IPv6 address"
        }
        (Some(network), _) if has_bits_beyond(network) => "must not have bits set beyond the prefix length",
        (Some(_), _) => return Vec::new(),
        (None, Some(_)) => "must not have leading 0s in IP or prefix length",
        (None, None) => "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
    };
    vec![fault.to_owned()]
}

/// Parses a network; returns the address and the prefix length.
pub fn parse_cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    if without_zeros(length) != length {
        return None;
    }
    network(address.parse().ok()?, length)
}

/// Parses a network; the numbers may have leading zeros.
pub fn sloppy_cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    network(sloppy_ip(address)?, length)
}

fn network(address: IpAddr, length: &str) -> Option<(IpAddr, u8)> {
    let max = if address.is_ipv4() { 32 } else { 128 };
    let is_number = length.bytes().all(|byte| byte.is_ascii_digit());
    let length: u8 = length.parse().ok().filter(|_| is_number)?;
    (length <= max).then_some((address, length))
}

fn has_bits_beyond((address, length): (IpAddr, u8)) -> bool {
    let length = u32::from(length);
    match address {
        IpAddr::V4(address) => u32::MAX.checked_shr(length).unwrap_or(0) & u32::from(address) != 0,
        IpAddr::V6(address) => u128::MAX.checked_shr(length).unwrap_or(0) & u128::from(address) != 0,
    }
}

/// The message about an invalid name of an HTTP header.
pub const HTTP_HEADER: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";

/// Returns true for a valid name of an HTTP header.
pub fn is_http_header(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Validates a segment of a URL path.
pub fn path_segment(text: &str) -> Faults {
    let mut faults = path_segment_prefix(text);
    if matches!(text, "." | "..") {
        faults = vec![format!("may not be '{text}'")];
    }
    faults
}

/// Validates the start of a segment of a URL path.
pub fn path_segment_prefix(text: &str) -> Faults {
    let illegal = ["/", "%"].into_iter().filter(|c| text.contains(c));
    illegal.map(|c| format!("may not contain '{c}'")).collect()
}

/// Returns true for a UUID, of any version or of the given one. Dashes may be omitted.
pub fn is_uuid(text: &str, version: Option<char>) -> bool {
    let hex: String = text.chars().filter(|c| *c != '-').collect();
    if hex.len() != 32 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return false;
    }
    let mut seen = 0;
    for c in text.chars() {
        match c {
            '-' if ![8, 12, 16, 20].contains(&seen) => return false,
            '-' => {}
            _ => seen += 1,
        }
    }
    if text.matches("--").count() > 0 {
        return false;
    }
    let Some(version) = version else { return true };
    let variant = hex.chars().nth(16).map(|c| c.to_ascii_lowercase());
    let has_variant = matches!(variant, Some('8' | '9' | 'a' | 'b'));
    hex.chars().nth(12) == Some(version) && (version == '3' || has_variant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_with_dots_has_its_own_message() {
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(dns1123_label("A.b"), [LABEL]);
        assert!(dns1123_label("1-a").is_empty());
        assert!(!dns1035_label("1-a").is_empty());
    }

    #[test]
    fn qualified_names_have_at_most_one_prefix() {
        for text in ["a", "example.com/A_b.c-d", "x.y/Z"] {
            assert!(qualified_name(text).is_empty(), "{text}");
        }
        assert_eq!(qualified_name("/a"), ["prefix part must be non-empty"]);
        assert_eq!(qualified_name("").len(), 2);
        assert!(qualified_name("a/b/c")[0].starts_with("a valid label key must"));
    }

    #[test]
    fn limits_are_in_characters_for_names_and_in_bytes_for_labels() {
        let long = "a".repeat(254);
        assert_eq!(dns1123_label(&long), ["must be no more than 63 characters"]);
        assert_eq!(dns1035_label(&long), ["must be no more than 63 characters"]);
        assert_eq!(dns1123_subdomain(&long), ["must be no more than 253 characters"]);
        assert_eq!(label_value(&long), ["must be no more than 63 bytes"]);
        assert_eq!(
            qualified_name(&format!("{long}/a")),
            ["prefix part must be no more than 253 bytes"]
        );
    }
}
