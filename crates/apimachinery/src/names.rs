//! The name formats of `k8s.io/apimachinery/pkg/util/validation`.
//!
//! Each function returns the messages of the real validation; a valid value has none.

/// Validates an RFC 1123 subdomain.
pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = too_long(value, 253);
    let valid = !value.is_empty()
        && value
            .split('.')
            .all(|part| label(part, |byte| byte.is_ascii_digit()));
    if !valid {
        errors.push("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')".to_owned());
    }
    errors
}

/// Validates an RFC 1123 label.
pub fn dns1123_label(value: &str) -> Vec<String> {
    let mut errors = too_long(value, 63);
    if !label(value, |byte| byte.is_ascii_digit()) {
        errors.push("a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')".to_owned());
    }
    errors
}

/// Validates an RFC 1035 label.
pub fn dns1035_label(value: &str) -> Vec<String> {
    let mut errors = too_long(value, 63);
    if !label(value, |_| false) {
        errors.push("a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')".to_owned());
    }
    errors
}

/// Validates a qualified name such as `example.com/name`.
pub fn qualified_name(value: &str) -> Vec<String> {
    const RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let mut errors = Vec::new();
    let mut parts = value.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(prefix), Some(name), None) => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(
                    dns1123_subdomain(prefix)
                        .into_iter()
                        .map(|error| format!("prefix part {error}")),
                );
            }
            name
        }
        (Some(name), None, None) => name,
        _ => {
            errors.push(format!("a qualified name {RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"));
            return errors;
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_qualified(name) {
        errors.push(format!("name part {RULE}"));
    }
    errors
}

/// Validates the value of a label.
pub fn label_value(value: &str) -> Vec<String> {
    let mut errors = too_long(value, 63);
    if !value.is_empty() && !is_qualified(value) {
        errors.push("a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')".to_owned());
    }
    errors
}

/// Validates a segment of a URL path.
pub fn path_segment(value: &str) -> Vec<String> {
    match value {
        "." => return vec!["may not be '.'".to_owned()],
        ".." => return vec!["may not be '..'".to_owned()],
        _ => {}
    }
    ['/', '%']
        .into_iter()
        .filter(|c| value.contains(*c))
        .map(|c| format!("may not contain '{c}'"))
        .collect()
}

fn too_long(value: &str, max: usize) -> Vec<String> {
    if value.len() > max {
        return vec![format!("must be no more than {max} bytes")];
    }
    Vec::new()
}

fn label(value: &str, first: impl Fn(u8) -> bool) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = value.as_bytes();
    bytes
        .first()
        .is_some_and(|byte| byte.is_ascii_lowercase() || first(*byte))
        && bytes.last().is_some_and(|byte| alphanumeric(*byte))
        && bytes.iter().all(|byte| alphanumeric(*byte) || *byte == b'-')
}

fn is_qualified(value: &str) -> bool {
    let bytes = value.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(inner)
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
