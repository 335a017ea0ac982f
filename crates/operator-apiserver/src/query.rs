//! Query parameters.

use apimachinery::go::url;

/// The decoded parameters of a URL, in order. As in Go, those with a semicolon or an invalid escape are dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        Self(url::parse_query(text))
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
