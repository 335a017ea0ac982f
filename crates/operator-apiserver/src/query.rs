//! Query parameters.

/// The decoded parameters of a URL, in order. As in Go, those with a semicolon or an invalid escape are dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text
            .split('&')
            .filter(|pair| !pair.is_empty() && !pair.contains(';'))
            .filter_map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                decode(key).zip(decode(value))
            })
            .collect();
        Self(pairs)
    }

    /// Returns the first value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the first value of a parameter, or an empty string.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// Returns all values of a parameter.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Parses a flag as the API server does: anything but an absent parameter, `false` and `0` is true.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| !value.eq_ignore_ascii_case("false") && value != "0")
    }
}

/// Percent-decodes; `+` is a space. Invalid UTF-8 is replaced. Returns `None` for an invalid escape.
pub(crate) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut input = text.bytes();
    while let Some(byte) = input.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => hex(input.next()?)? * 16 + hex(input.next()?)?,
            other => other,
        });
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Percent-decodes a path or a part of one, in which `+` is a plus.
pub(crate) fn decode_path(text: &str) -> Option<String> {
    decode(&text.replace('+', "%2B"))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}
