//! Parses addresses and prefixes like Go's `net/netip`, with its error texts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::ip::Cidr;
use super::quote;

/// Parses an address. Returns `Ok(None)` for an address with a zone.
///
/// # Errors
/// Returns an error with the text of `netip.ParseAddr`.
pub fn parse_addr(text: &str) -> Result<Option<IpAddr>, String> {
    let fault = |(message, at): Fault<'_>| {
        let at = if at.is_empty() {
            String::new()
        } else {
            format!(" (at {})", quote(at))
        };
        format!("ParseAddr({}): {message}{at}", quote(text))
    };
    match text.chars().find(|c| matches!(c, '.' | ':' | '%')) {
        Some('.') => match ipv4(text) {
            Ok(ip) => Ok(Some(IpAddr::V4(ip))),
            Err(problem) => Err(fault(problem)),
        },
        Some(':') => {
            let (address, zone) = match text.split_once('%') {
                Some((_, "")) => return Err(fault(("zone must be a non-empty string", ""))),
                Some((address, _)) => (address, true),
                None => (text, false),
            };
            let ip = ipv6(address).map_err(fault)?;
            Ok((!zone).then_some(IpAddr::V6(ip)))
        }
        Some(_) => Err(fault(("missing IPv6 address", ""))),
        None => Err(fault(("unable to parse IP", ""))),
    }
}

/// Parses an address with a prefix length.
///
/// # Errors
/// Returns an error with the text of `netip.ParsePrefix`.
pub fn parse_prefix(text: &str) -> Result<Cidr, String> {
    let fault = |message: String| format!("netip.ParsePrefix({}): {message}", quote(text));
    let Some((address, length)) = text.rsplit_once('/') else {
        return Err(fault("no '/'".to_owned()));
    };
    let ip = match parse_addr(address).map_err(fault)? {
        Some(ip) => ip,
        None => return Err(fault("IPv6 zones cannot be present in a prefix".to_owned())),
    };
    let bad_bits = || fault(format!("bad bits after slash: {}", quote(length)));
    let is_plain = length.len() == 1 || !length.starts_with('0');
    if !is_plain || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad_bits());
    }
    let bits: i64 = length.parse().map_err(|_| bad_bits())?;
    let max = if ip.is_ipv4() { 32 } else { 128 };
    match u8::try_from(bits) {
        Ok(bits) if bits <= max => Ok(Cidr { ip, bits }),
        _ => Err(fault("prefix length out of range".to_owned())),
    }
}

/// The error, and the text from its position on.
type Fault<'t> = (&'static str, &'t str);

fn ipv4(text: &str) -> Result<Ipv4Addr, Fault<'_>> {
    let mut octets = [0_u8; 4];
    let (mut place, mut value, mut digits) = (0, 0_u32, 0);
    for (index, c) in text.char_indices() {
        let rest = text.get(index..).unwrap_or_default();
        match (c, c.to_digit(10)) {
            (_, Some(digit)) => {
                if digits == 1 && value == 0 {
                    return Err(("IPv4 field has octet with leading zero", ""));
                }
                value = value * 10 + digit;
                digits += 1;
                if value > 255 {
                    return Err(("IPv4 field has value >255", ""));
                }
            }
            ('.', _) if digits == 0 || rest.len() == 1 => {
                return Err(("IPv4 field must have at least one digit", rest));
            }
            ('.', _) if place == 3 => return Err(("IPv4 address too long", "")),
            ('.', _) => {
                if let Some(octet) = octets.get_mut(place) {
                    *octet = u8::try_from(value).unwrap_or_default();
                }
                place += 1;
                (value, digits) = (0, 0);
            }
            _ => return Err(("unexpected character", rest)),
        }
    }
    if place < 3 {
        return Err(("IPv4 address too short", ""));
    }
    let [.., last] = &mut octets;
    *last = u8::try_from(value).unwrap_or_default();
    Ok(Ipv4Addr::from(octets))
}

fn ipv6(text: &str) -> Result<Ipv6Addr, Fault<'_>> {
    // Rust and Go accept the same addresses, so this only determines the error text.
    text.parse().map_err(|_| ipv6_fault(text))
}

fn ipv6_fault(text: &str) -> Fault<'_> {
    let mut rest = text;
    let (mut bytes, mut ellipsis) = (0, false);
    if let Some(after) = rest.strip_prefix("::") {
        (rest, ellipsis) = (after, true);
    }
    while bytes < 16 {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits > 4 {
            return ("each group must have 4 or less digits", rest);
        }
        if digits == 0 {
            return ("each colon-separated field must have at least one digit", rest);
        }
        let after = rest.get(digits..).unwrap_or_default();
        if after.starts_with('.') {
            if !ellipsis && bytes != 12 {
                let message = "embedded IPv4 address must replace the final 2 fields of the address";
                return (message, rest);
            }
            if bytes + 4 > 16 {
                let message = "too many hex fields to fit an embedded IPv4 at the end of the address";
                return (message, rest);
            }
            if let Err(fault) = ipv4(rest) {
                return fault;
            }
            (rest, bytes) = ("", bytes + 4);
            break;
        }
        (rest, bytes) = (after, bytes + 2);
        if rest.is_empty() {
            break;
        }
        match rest.strip_prefix(':') {
            None => return ("unexpected character, want colon", rest),
            Some("") => return ("colon must be followed by more characters", rest),
            Some(after) => rest = after,
        }
        if let Some(after) = rest.strip_prefix(':') {
            if ellipsis {
                return ("multiple :: in address", rest);
            }
            (rest, ellipsis) = (after, true);
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        ("trailing garbage after address", rest)
    } else if bytes < 16 {
        ("address string too short", "")
    } else {
        ("the :: must expand to at least one field of zeros", "")
    }
}

#[cfg(test)]
mod tests {
    use super::{parse_addr, parse_prefix};

    #[test]
    fn errors_of_addresses_have_the_text_of_go() {
        for (text, expected) in [
            ("x", r#"ParseAddr("x"): unable to parse IP"#),
            ("1.5", r#"ParseAddr("1.5"): IPv4 address too short"#),
            (
                "1.2.3.04",
                r#"ParseAddr("1.2.3.04"): IPv4 field has octet with leading zero"#,
            ),
            (
                "1.2.3.256",
                r#"ParseAddr("1.2.3.256"): IPv4 field has value >255"#,
            ),
            ("1.2.3.4.5", r#"ParseAddr("1.2.3.4.5"): IPv4 address too long"#),
            ("1.2.x", r#"ParseAddr("1.2.x"): unexpected character (at "x")"#),
            (
                "1::2::3",
                r#"ParseAddr("1::2::3"): multiple :: in address (at ":3")"#,
            ),
            ("1:2", r#"ParseAddr("1:2"): address string too short"#),
            (
                "12345::",
                r#"ParseAddr("12345::"): each group must have 4 or less digits (at "12345::")"#,
            ),
        ] {
            assert_eq!(parse_addr(text), Err(expected.to_owned()));
        }
        assert_eq!(parse_addr("fe80::1%eth0"), Ok(None));
    }

    #[test]
    fn errors_of_prefixes_have_the_text_of_go() {
        for (text, expected) in [
            ("x", r#"netip.ParsePrefix("x"): no '/'"#),
            (
                "1.2.3.4/33",
                r#"netip.ParsePrefix("1.2.3.4/33"): prefix length out of range"#,
            ),
            (
                "1.2.3.4/01",
                r#"netip.ParsePrefix("1.2.3.4/01"): bad bits after slash: "01""#,
            ),
            (
                "x/8",
                r#"netip.ParsePrefix("x/8"): ParseAddr("x"): unable to parse IP"#,
            ),
        ] {
            assert_eq!(parse_prefix(text).unwrap_err(), expected);
        }
    }
}
