//! Parses URLs like Go's `net/url`: [`parse_request_uri`], [`parse_reference`].

use std::net::IpAddr;

use super::netip;

/// The parts of a parsed URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Url {
    /// The scheme in lower case, without the colon.
    pub scheme: String,
    /// The user and the password as written.
    pub user: Option<String>,
    /// The host, with the port if there is one.
    pub host: String,
    /// The path, unescaped.
    pub path: String,
    /// The path as written.
    pub raw_path: String,
    /// The query without the question mark, as written.
    pub raw_query: String,
    /// Everything after the scheme in a URL such as `mailto:a@b`.
    pub opaque: String,
    /// The fragment without the `#`.
    pub fragment: String,
}

/// Parses an absolute URI or an absolute path, like `url.ParseRequestURI`. A `#` does not start a fragment.
///
/// # Errors
/// Returns an error with Go's text.
pub fn parse_request_uri(text: &str) -> Result<Url, String> {
    parse(text, true).map_err(|reason| format!("parse {}: {reason}", super::quote(text)))
}

/// Parses an absolute URI or a relative reference, with its fragment, like `url.Parse`.
///
/// # Errors
/// Returns an error with Go's text.
pub fn parse_reference(text: &str) -> Result<Url, String> {
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let parsed = parse(rest, false).and_then(|url| unescape(fragment, Part::Path).map(|_| url));
    let mut url = parsed.map_err(|reason| format!("parse {}: {reason}", super::quote(text)))?;
    url.fragment = fragment.to_owned();
    Ok(url)
}

fn parse(text: &str, via_request: bool) -> Result<Url, String> {
    if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && via_request {
        return Err("empty url".to_owned());
    }
    if text == "*" {
        let path = text.to_owned();
        return Ok(Url {
            raw_path: path.clone(),
            path,
            ..Url::default()
        });
    }
    let (scheme, rest) = split_scheme(text)?;
    let mut url = Url {
        scheme: scheme.to_ascii_lowercase(),
        ..Url::default()
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    url.raw_query = query.to_owned();
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            url.opaque = rest.to_owned();
            return Ok(url);
        }
        if via_request {
            return Err("invalid URI for request".to_owned());
        }
        if rest.split('/').next().is_some_and(|first| first.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let mut path = rest;
    if let Some(after) = rest.strip_prefix("//")
        && (!url.scheme.is_empty() || !via_request && !rest.starts_with("///"))
    {
        let end = after.find('/').unwrap_or(after.len());
        let (authority, tail) = after.split_at(end);
        parse_authority(authority, &mut url)?;
        path = tail;
    }
    url.path = unescape(path, Part::Path)?;
    url.raw_path = path.to_owned();
    Ok(url)
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (index, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if index > 0 => {}
            '0'..='9' | '+' | '-' | '.' => return Ok(("", text)),
            ':' if index == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => {
                let (scheme, rest) = text.split_at(index);
                return Ok((scheme, rest.get(1..).unwrap_or("")));
            }
            _ => return Ok(("", text)),
        }
    }
    Ok(("", text))
}

fn parse_authority(authority: &str, url: &mut Url) -> Result<(), String> {
    let host = match authority.rsplit_once('@') {
        Some((user, host)) => {
            let valid = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
            if !user.chars().all(valid) {
                return Err("net/url: invalid userinfo".to_owned());
            }
            unescape(user, Part::Path)?;
            url.user = Some(user.to_owned());
            host
        }
        None => authority,
    };
    url.host = parse_host(host)?;
    Ok(())
}

/// Parses a host with an optional port. Only an IPv6 address may be in brackets.
fn parse_host(text: &str) -> Result<String, String> {
    let Some(address) = text.strip_prefix('[') else {
        let port = text.find(':').and_then(|colon| text.get(colon..)).unwrap_or("");
        check_port(port)?;
        return unescape(text, Part::Host);
    };
    let (address, port) = address.rsplit_once(']').ok_or("missing ']' in host")?;
    check_port(port)?;
    let (address, zone) = address.split_at(address.find("%25").unwrap_or(address.len()));
    let address = unescape(address, Part::Host)? + &unescape(zone, Part::Zone)?;
    match netip::parse_addr(&address) {
        Err(reason) => Err(format!("invalid host: {reason}")),
        Ok(Some(IpAddr::V4(_))) => Err("invalid IP-literal".to_owned()),
        Ok(_) => Ok(format!("[{address}]{port}")),
    }
}

/// Checks that a port is empty, or has a colon and digits.
fn check_port(port: &str) -> Result<(), String> {
    let digits = port.strip_prefix(':').unwrap_or(port);
    if !port.is_empty() && (!port.starts_with(':') || !digits.bytes().all(|b| b.is_ascii_digit())) {
        return Err(format!("invalid port {} after host", super::quote(port)));
    }
    Ok(())
}

/// Returns the parameters of a query. Like `url.Query`, it ignores those with a semicolon or an invalid escape.
///
/// ```
/// let query = apimachinery::go::url::parse_query("a+b=%31&c&d;e=1&f=%zz");
/// assert_eq!(query, [("a b".to_owned(), "1".to_owned()), ("c".to_owned(), String::new())]);
/// ```
pub fn parse_query(text: &str) -> Vec<(String, String)> {
    let decode = |part: &str| unescape(part, Part::Query).ok();
    let parts = text
        .split('&')
        .filter(|part| !part.is_empty() && !part.contains(';'));
    let pairs = parts.map(|part| part.split_once('=').unwrap_or((part, "")));
    pairs
        .filter_map(|(key, value)| Some((decode(key)?, decode(value)?)))
        .collect()
}

/// Percent-decodes a path or a part of one, in which `+` is a plus. Invalid UTF-8 is replaced. Returns `None` for an
/// invalid escape.
pub fn unescape_path(text: &str) -> Option<String> {
    unescape(text, Part::Path).ok()
}

/// The parts of a URL that differ in their escapes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// A path, a fragment or a user.
    Path,
    /// A parameter of a query, in which `+` is a space.
    Query,
    Host,
    /// The zone of an IPv6 address.
    Zone,
}

fn unescape(text: &str, part: Part) -> Result<String, String> {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut index = 0;
    while let Some(byte) = bytes.get(index) {
        if *byte == b'%' {
            let value = bytes
                .get(index + 1..index + 3)
                .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))
                .and_then(|digits| std::str::from_utf8(digits).ok())
                .and_then(|digits| u8::from_str_radix(digits, 16).ok());
            let Some(value) = value.filter(|value| part.may_escape(*value)) else {
                let bad: String = text.get(index..).unwrap_or("%").chars().take(3).collect();
                return Err(format!("invalid URL escape {}", super::quote(&bad)));
            };
            out.push(value);
            index += 3;
            continue;
        }
        let of_host = matches!(part, Part::Host | Part::Zone);
        if of_host && byte.is_ascii() && !is_host_character(*byte) {
            let c = char::from(*byte).to_string();
            return Err(format!("invalid character {} in host name", super::quote(&c)));
        }
        let is_space = part == Part::Query && *byte == b'+';
        out.push(if is_space { b' ' } else { *byte });
        index += 1;
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

impl Part {
    /// Returns true if a byte may be written as an escape. In a host, only the percent sign and bytes beyond ASCII may.
    fn may_escape(self, byte: u8) -> bool {
        match self {
            Self::Path | Self::Query => true,
            Self::Host => byte == b'%' || !byte.is_ascii(),
            Self::Zone => matches!(byte, b'%' | b' ') || is_host_character(byte),
        }
    }
}

fn is_host_character(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&byte)
}

impl Url {
    /// Returns the host without the port and brackets.
    pub fn hostname(&self) -> &str {
        if let Some(rest) = self.host.strip_prefix('[') {
            return rest.split(']').next().unwrap_or(rest);
        }
        self.host.split(':').next().unwrap_or(&self.host)
    }

    /// Returns the port, or an empty string.
    pub fn port(&self) -> &str {
        let after = match self.host.rfind(']') {
            Some(end) => self.host.get(end + 1..).unwrap_or(""),
            None => &self.host,
        };
        after.rsplit_once(':').map_or("", |(_, port)| port)
    }

    /// Returns the path as it is written in the URL.
    pub fn escaped_path(&self) -> String {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"$&+,/:;=@-_.~!*'()[]%".contains(byte);
        if self.raw_path.bytes().all(|byte| plain(&byte)) {
            return self.raw_path.clone();
        }
        let mut out = String::new();
        for byte in self.path.bytes() {
            if (byte.is_ascii_alphanumeric() || b"$&+,/:;=@-_.~".contains(&byte)) && byte != b'%' {
                out.push(char::from(byte));
            } else {
                out.push_str(&format!("%{byte:02X}"));
            }
        }
        out
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.scheme.is_empty() {
            write!(f, "{}:", self.scheme)?;
        }
        if !self.opaque.is_empty() {
            write!(f, "{}", self.opaque)?;
        } else {
            if !self.scheme.is_empty() || !self.host.is_empty() || self.user.is_some() {
                if !self.host.is_empty() || !self.path.is_empty() || self.user.is_some() {
                    write!(f, "//")?;
                }
                if let Some(user) = &self.user {
                    write!(f, "{user}@")?;
                }
                write!(f, "{}", self.host)?;
            }
            write!(f, "{}", self.escaped_path())?;
        }
        if !self.raw_query.is_empty() {
            write!(f, "?{}", self.raw_query)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_urls_have_the_errors_of_go() {
        for (text, reason) in [
            (
                "http://[a]:",
                r#"invalid host: ParseAddr("a"): unable to parse IP"#,
            ),
            ("http://[1.2.3.4]", "invalid IP-literal"),
            (
                "http://[fe80::1%25]",
                r#"invalid host: ParseAddr("fe80::1%"): zone must be a non-empty string"#,
            ),
            ("http://[::1]a", r#"invalid port "a" after host"#),
            ("http://a:80:90", r#"invalid port ":80:90" after host"#),
            ("http://a%41b", r#"invalid URL escape "%41""#),
            ("http://u%zz@a", r#"invalid URL escape "%zz""#),
            ("http://a#b", r##"invalid character "#" in host name"##),
            ("http://a^b", r#"invalid character "^" in host name"#),
        ] {
            let error = parse_request_uri(text).unwrap_err();
            assert_eq!(error, format!("parse {}: {reason}", crate::go::quote(text)));
        }
        for text in [
            "http://a<b",
            "http://a\"b",
            "http://a%25b",
            "http://a%e9b",
            "http://[::ffff:1.2.3.4]",
        ] {
            assert!(parse_request_uri(text).is_ok(), "{text}");
        }
        assert!(parse_reference("/a#%zz").is_err());
    }

    #[test]
    fn parts_of_a_url() {
        let url = parse_request_uri("https://user:p@[::1]:80/a%20b?c=d").unwrap();
        assert_eq!(
            (url.hostname(), url.port(), url.path.as_str()),
            ("::1", "80", "/a b")
        );
        assert_eq!(url.escaped_path(), "/a%20b");
        assert!(parse_request_uri("not valid!").is_err());
        assert!(parse_request_uri("http://a b/").is_err());
        assert!(parse_request_uri("/path").is_ok());
        assert_eq!(parse_request_uri("*").unwrap().escaped_path(), "*");
        let zone = parse_request_uri("http://[fe80::1%25%65n0]:80").unwrap();
        assert_eq!((zone.hostname(), zone.port()), ("fe80::1%en0", "80"));
    }
}
