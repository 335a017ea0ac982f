//! The values of `format` that the API server supports, and their checks (`k8s.io/kube-openapi/pkg/validation/strfmt`).

use std::sync::LazyLock;

use apimachinery::go::{base64, ip, url};
use apimachinery::{names, time};
use regex::Regex;

/// Returns true if the server checks the format for values of a type, which may be empty. Other formats are ignored
/// with a warning.
pub(crate) fn is_recognized(kind: &str, format: &str) -> bool {
    match kind {
        "" | "string" => is_text_format(format),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

fn is_text_format(format: &str) -> bool {
    check_of(format).is_some()
}

/// Returns the check of a format. Dashes in the name are ignored.
fn check_of(format: &str) -> Option<Check> {
    let letters = |name: &'static str| name.bytes().filter(|byte| *byte != b'-');
    let wanted = || format.bytes().filter(|byte| *byte != b'-');
    let found = CHECKS.iter().find(|(name, _)| letters(name).eq(wanted()))?;
    Some(found.1)
}

/// Returns true if a string satisfies a format. All strings satisfy an unknown format.
pub(crate) fn is_valid(format: &str, text: &str) -> bool {
    check_of(format).is_none_or(|check| check(text))
}

/// Returns true if the format is supported by [`is_valid`].
pub(crate) fn applies(format: &str) -> bool {
    is_text_format(format)
}

type Check = fn(&str) -> bool;

const CHECKS: &[(&str, Check)] = &[
    ("bsonobjectid", |text| {
        text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    }),
    ("uri", |text| url::parse_request_uri(text).is_ok()),
    ("email", is_email),
    ("hostname", is_hostname),
    ("ipv4", |text| {
        text.contains('.') && names::sloppy_ip(text).is_some()
    }),
    ("ipv6", |text| text.contains(':') && ip::parse_ip(text).is_some()),
    ("cidr", |text| names::sloppy_cidr(text).is_some()),
    ("mac", ip::is_mac),
    ("uuid", |text| names::is_uuid(text, None)),
    ("uuid3", |text| names::is_uuid(text, Some('3'))),
    ("uuid4", |text| names::is_uuid(text, Some('4'))),
    ("uuid5", |text| names::is_uuid(text, Some('5'))),
    ("isbn", |text| is_isbn10(text) || is_isbn13(text)),
    ("isbn10", is_isbn10),
    ("isbn13", is_isbn13),
    ("creditcard", is_credit_card),
    ("ssn", |text| matches(&SSN, text)),
    ("hexcolor", |text| matches(&HEX_COLOR, text)),
    ("rgbcolor", |text| matches(&RGB_COLOR, text)),
    ("byte", base64::is_byte_format),
    ("password", |_| true),
    ("date", |text| time::parse_date(text).is_some()),
    ("duration", |text| time::parse_loose_duration(text).is_some()),
    ("datetime", time::is_date_time),
    ("date-time", time::is_date_time),
    ("k8s-short-name", |text| names::dns1123_label(text).is_empty()),
    ("k8s-long-name", |text| names::dns1123_subdomain(text).is_empty()),
];

/// A constant pattern. `None` is an error in this file, which the tests detect.
type Constant = LazyLock<Option<Regex>>;

static SSN: Constant = LazyLock::new(|| Regex::new(r"^[0-9]{3}[- ][0-9]{2}[- ][0-9]{4}$").ok());
static HEX_COLOR: Constant = LazyLock::new(|| Regex::new(r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$").ok());
static RGB_COLOR: Constant = LazyLock::new(|| {
    let part = r"[\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*";
    Regex::new(&format!(r"^rgb\({part},{part},{part}\)$")).ok()
});
static HOSTNAME: Constant = LazyLock::new(|| {
    let c = r"[a-zA-Z0-9\p{S}\p{L}]";
    let inner = r"[a-zA-Z0-9\-\p{S}\p{L}]";
    Regex::new(&format!(
        r"^({c}((-?{c}{{0,62}})?)|({c}(({inner}{{0,61}}{c})?)(\.)){{1,}}([a-zA-Z]){{2,63}})$"
    ))
    .ok()
});
static EMAIL: Constant = LazyLock::new(|| {
    let atom = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\x{80}-\x{10FFFF}-]+";
    let local = format!(r#"(?:{atom}(?:\.{atom})*|"(?:[^"\\\r\n]|\\.)+")"#);
    let domain = format!(r"(?:{atom}(?:\.{atom})*|\[[^\[\]\\]+\])");
    let address = format!(r"{local}@{domain}");
    Regex::new(&format!(
        r#"^\s*(?:{address}|(?:"[^"]*"|[^<>@,;:"\[\]()]*)\s*<{address}>)\s*$"#
    ))
    .ok()
});

fn matches(pattern: &Constant, text: &str) -> bool {
    pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

fn is_email(text: &str) -> bool {
    text.len() <= 4096 && matches(&EMAIL, text)
}

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && text.split('.').all(|part| part.len() <= 63) && matches(&HOSTNAME, text)
}

fn digits_only(text: &str) -> String {
    let is_separator = |c: &char| *c == '-' || c.is_ascii_whitespace();
    text.chars().filter(|c| !is_separator(c)).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = digits_only(text);
    if digits.len() != 10 || !digits.bytes().take(9).all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let sum: Option<u32> = digits
        .chars()
        .zip(1_u32..)
        .map(|(c, weight)| match c {
            'X' if weight == 10 => Some(100),
            _ => Some(c.to_digit(10)? * weight),
        })
        .sum();
    sum.is_some_and(|sum| sum.is_multiple_of(11))
}

fn is_isbn13(text: &str) -> bool {
    let digits = digits_only(text);
    if digits.len() != 13 {
        return false;
    }
    let sum: Option<u32> = digits
        .chars()
        .zip([1, 3].into_iter().cycle())
        .map(|(c, weight)| Some(c.to_digit(10)? * weight))
        .sum();
    sum.is_some_and(|sum| sum.is_multiple_of(10))
}

fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    if !has_card_prefix(&digits) {
        return false;
    }
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(index, digit)| match (index % 2, digit * 2) {
            (0, _) => *digit,
            (_, double) if double > 9 => double - 9,
            (_, double) => double,
        })
        .sum();
    sum.is_multiple_of(10)
}

fn has_card_prefix(digits: &[u32]) -> bool {
    let number = digits.iter().take(4).fold(0, |number, digit| number * 10 + digit);
    match digits.len() {
        13 => number / 1000 == 4,
        14 => matches!(number / 10, 300..=305) || matches!(number / 100, 36 | 38),
        15 => matches!(number / 100, 34 | 37) || matches!(number, 2131 | 1800),
        16 => {
            number / 1000 == 4
                || matches!(number / 100, 51..=55 | 35 | 65)
                || matches!(number, 6011 | 2221..=2720)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_and_bad_values() {
        let good = [
            ("hostname", "localhost"),
            ("hostname", "a.bc"),
            ("email", "a@b.cc"),
            ("email", "A B <a@b.cc>"),
            ("isbn10", "0321751043"),
            ("isbn13", "978-3-16-148410-0"),
            ("isbn13", "978-3161\n48410\t0"),
            ("creditcard", "4111111111111111"),
            ("uuid4", "f47ac10b-58cc-4372-a567-0e02b2c3d479"),
            ("rgbcolor", "rgb(1,2,255)"),
            ("byte", "eA=="),
            ("date-time", "2020-01-02t03:04:05z"),
            ("duration", "2 days"),
            ("cidr", "::/0"),
            ("mac", "0000.5e00.5301"),
            ("ssn", "111-11 1111"),
            ("ipv4", "001.2.3.4"),
            ("ipv4", "::ffff:01.2.3.4"),
            ("ipv6", "::ffff:1.2.3.4"),
            ("cidr", "01.2.3.0/024"),
            ("uri", "*"),
            ("uri", "mailto:a@b"),
        ];
        for (format, text) in good {
            assert!(is_valid(format, text), "{format} {text}");
        }
        let bad = [
            ("hostname", "a.b"),
            ("email", "a"),
            ("ssn", "111111111"),
            ("ipv6", "::ffff:01.2.3.4"),
            ("cidr", "1.2.3.0/+24"),
            ("cidr", "::/129"),
            ("uri", "http://a#b"),
            ("isbn10", "0321751044"),
            ("creditcard", "4111111111111112"),
            ("uuid3", "f47ac10b-58cc-4372-a567-0e02b2c3d479"),
            ("byte", ""),
            ("date", "2020-13-01"),
            ("ipv4", "::1"),
            ("rgbcolor", "rgb(1,2,256)"),
            ("uuid", "f47ac10b--58cc-4372-a567-0e02b2c3d479"),
        ];
        for (format, text) in bad {
            assert!(!is_valid(format, text), "{format} {text}");
        }
    }
}
