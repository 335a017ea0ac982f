//! The `Warning` headers of a response, with kube-apiserver's length limits: [`Warnings`].

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

/// The annotations of a request's audit event.
pub(crate) type Annotations = BTreeMap<String, String>;

/// The total length from which warnings are shortened, and after which no more are added.
const TOTAL_CHARS_MAX: usize = 4096;
/// The maximum length of one warning after the total is exceeded.
const SHORTENED_CHARS_MAX: usize = 256;

/// The maximum number of annotations of a request.
const ANNOTATIONS_MAX: usize = 1000;

/// The warnings of one request, and the annotations of its audit event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warnings(Arc<Mutex<Recorded>>);

#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded {
    texts: Vec<String>,
    /// The original texts, before they were shortened.
    seen: HashSet<String>,
    chars: usize,
    shortens: bool,
    annotations: Annotations,
}

impl Warnings {
    /// Adds a warning, unless it was added before or there are too many.
    pub(crate) fn add(&self, text: impl Into<String>) {
        self.0.lock().add(text.into());
    }

    /// Adds an annotation to the audit event of the request, unless the key exists.
    pub(crate) fn annotate(&self, key: &str, value: &str) {
        let annotations = &mut self.0.lock().annotations;
        if annotations.len() < ANNOTATIONS_MAX {
            annotations
                .entry(key.to_owned())
                .or_insert_with(|| value.to_owned());
        }
    }

    /// Returns the annotations of the request.
    pub(crate) fn annotations(&self) -> Annotations {
        self.0.lock().annotations.clone()
    }

    /// Returns all recorded warnings and annotations, for [`restore`](Self::restore).
    pub(crate) fn save(&self) -> Recorded {
        self.0.lock().clone()
    }

    /// Replaces all recorded warnings and annotations.
    pub(crate) fn restore(&self, recorded: Recorded) {
        *self.0.lock() = recorded;
    }

    /// Removes and returns the warnings in their order.
    pub(crate) fn take(&self) -> Vec<String> {
        let recorded = &mut *self.0.lock();
        let annotations = std::mem::take(&mut recorded.annotations);
        let taken = std::mem::take(recorded);
        recorded.annotations = annotations;
        taken.texts
    }
}

impl Recorded {
    fn add(&mut self, mut text: String) {
        let is_full = self.shortens && self.chars >= TOTAL_CHARS_MAX;
        if is_full || text.is_empty() || self.seen.contains(&text) {
            return;
        }
        self.seen.insert(text.clone());
        if !self.shortens && self.chars + text.chars().count() > TOTAL_CHARS_MAX {
            self.shortens = true;
            self.texts.iter_mut().for_each(shorten);
            self.chars = self.texts.iter().map(|text| text.chars().count()).sum();
        }
        if self.shortens {
            shorten(&mut text);
        }
        self.chars += text.chars().count();
        self.texts.push(text);
    }
}

fn shorten(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(SHORTENED_CHARS_MAX) {
        text.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(texts: impl IntoIterator<Item = String>) -> Vec<String> {
        let warnings = Warnings::default();
        texts.into_iter().for_each(|text| warnings.add(text));
        warnings.take()
    }

    #[test]
    fn equal_warnings_are_added_once() {
        let texts = ["a", "b", "a", ""].map(str::to_owned);
        assert_eq!(taken(texts), ["a", "b"]);
    }

    #[test]
    fn warnings_are_whole_up_to_the_limit() {
        let text = "x".repeat(TOTAL_CHARS_MAX);
        assert_eq!(taken([text.clone()]), [text]);
    }

    #[test]
    fn many_warnings_are_shortened_and_then_omitted() {
        let long = |index: usize| format!("{index:04}{}", "\u{e9}".repeat(1000));
        let shortened = taken((0..30).map(long));
        assert_eq!(shortened.len(), TOTAL_CHARS_MAX / SHORTENED_CHARS_MAX);
        assert!(
            shortened
                .iter()
                .all(|text| text.chars().count() == SHORTENED_CHARS_MAX)
        );

        let short = taken((0..100_000).map(|index| format!("unknown field \"a{index:06}\"")));
        let chars: usize = short.iter().map(String::len).sum();
        assert!(
            (TOTAL_CHARS_MAX..TOTAL_CHARS_MAX + 256).contains(&chars),
            "{chars}"
        );
    }
}
