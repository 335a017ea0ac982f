//! [`Warnings`] reports each text in the `Warning` headers of an API server once.

use std::collections::HashSet;

use http::{HeaderMap, header};
use parking_lot::Mutex;

/// Maximum number of different warnings that are remembered. After that all are forgotten, and may be reported again.
const REMEMBERED: usize = 1000;

/// Finds new warnings in the responses of one API server, such as the use of a deprecated version.
#[derive(Debug, Default)]
pub struct Warnings {
    seen: Mutex<HashSet<String>>,
}

// === impl Warnings ===

impl Warnings {
    /// Returns the warnings in the headers of a response that were not returned before.
    pub fn unseen(&self, headers: &HeaderMap) -> Vec<String> {
        let values = headers.get_all(header::WARNING).iter();
        let texts = values.filter_map(|value| text(value.to_str().ok()?));
        let mut seen = self.seen.lock();
        let is_new = |text: &String| {
            if seen.len() >= REMEMBERED {
                seen.clear();
            }
            seen.insert(text.clone())
        };
        texts.filter(is_new).collect()
    }
}

/// Returns the text of `299 - "text"`, which is the format of API servers.
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
    fn each_warning_is_returned_once() {
        let warnings = Warnings::default();
        let old = r#"299 - "v1 Endpoints is deprecated in v1.33+""#;
        let quoted = r#"299 - "unknown field \"spec.\\x\"""#;
        assert_eq!(
            warnings.unseen(&headers(&[old, quoted])),
            [
                "v1 Endpoints is deprecated in v1.33+",
                r#"unknown field "spec.\x""#
            ]
        );
        assert_eq!(warnings.unseen(&headers(&[quoted, old])), Vec::<String>::new());
    }

    #[test]
    fn other_warning_headers_are_ignored() {
        let values = [
            "299",
            "299 -",
            "299 - text",
            "110 - \"stale\"",
            "299 - \"no end",
            "299 - \"end\\",
        ];
        assert_eq!(
            Warnings::default().unseen(&headers(&values)),
            Vec::<String>::new()
        );
    }

    #[test]
    fn the_number_of_remembered_warnings_is_bounded() {
        let warnings = Warnings::default();
        for number in 0..3 * REMEMBERED {
            let value = HeaderValue::from_str(&format!("299 - \"{number}\"")).unwrap();
            let headers: HeaderMap = [(header::WARNING, value)].into_iter().collect();
            assert_eq!(warnings.unseen(&headers).len(), 1);
        }
        assert!(warnings.seen.lock().len() <= REMEMBERED);
    }
}
