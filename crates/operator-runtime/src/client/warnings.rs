//! Warnings of the API server, such as of deprecated versions. Each is logged once.

use std::collections::HashSet;

use http::{HeaderMap, header};
use parking_lot::Mutex;

/// Number of different warnings that are recorded. Then the record is cleared, and they are logged again.
const REMEMBERED: usize = 1000;

/// The warnings of one connection to an API server.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    told: Mutex<HashSet<String>>,
}

// === impl Warnings ===

impl Warnings {
    /// Logs the warnings of an answer that have not been logged yet.
    pub(crate) fn log(&self, headers: &HeaderMap) {
        for warning in self.news(headers) {
            tracing::warn!(%warning, "API server warning");
        }
    }

    fn news(&self, headers: &HeaderMap) -> Vec<String> {
        let values = headers.get_all(header::WARNING).iter();
        let texts = values.filter_map(|value| text(value.to_str().ok()?));
        let mut told = self.told.lock();
        let is_new = |text: &String| {
            if told.len() >= REMEMBERED {
                told.clear();
            }
            told.insert(text.clone())
        };
        texts.filter(is_new).collect()
    }
}

/// Returns the text of `299 - "text"`, the format of API servers.
fn text(value: &str) -> Option<String> {
    let mut parts = value.splitn(3, ' ');
    let (code, _agent) = (parts.next()?, parts.next()?);
    let quoted = parts.next()?.strip_prefix('"')?;
    if code != "299" {
        return None;
    }
    let mut text = String::new();
    let mut letters = quoted.chars();
    loop {
        match letters.next()? {
            '"' => return Some(text),
            '\\' => text.push(letters.next()?),
            letter => text.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(values: &[&'static str]) -> HeaderMap {
        let values = values.iter().map(|value| HeaderValue::from_static(value));
        values.map(|value| (header::WARNING, value)).collect()
    }

    #[test]
    fn each_warning_is_logged_once() {
        let warnings = Warnings::default();
        let old = r#"299 - "v1 Endpoints is deprecated in v1.33+""#;
        let quoted = r#"299 - "unknown field \"spec.\\x\"""#;
        assert_eq!(
            warnings.news(&headers(&[old, quoted])),
            [
                "v1 Endpoints is deprecated in v1.33+",
                r#"unknown field "spec.\x""#
            ]
        );
        assert_eq!(warnings.news(&headers(&[quoted, old])), Vec::<String>::new());
    }

    #[test]
    fn other_warnings_are_ignored() {
        let values = [
            "299",
            "299 -",
            "299 - text",
            "110 - \"stale\"",
            "299 - \"no end",
            "299 - \"end\\",
        ];
        assert_eq!(Warnings::default().news(&headers(&values)), Vec::<String>::new());
    }

    #[test]
    fn number_of_recorded_warnings_is_limited() {
        let warnings = Warnings::default();
        for number in 0..3 * REMEMBERED {
            let value = HeaderValue::from_str(&format!("299 - \"{number}\"")).unwrap();
            let headers: HeaderMap = [(header::WARNING, value)].into_iter().collect();
            assert_eq!(warnings.news(&headers).len(), 1);
        }
        assert!(warnings.told.lock().len() <= REMEMBERED);
    }
}
