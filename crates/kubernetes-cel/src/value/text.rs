//! Strings that are cheap to clone and to slice: [`Text`].

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// A string, which is a part of the input or was created by an expression.
#[derive(Clone)]
pub struct Text<'a>(Repr<'a>);

#[derive(Clone)]
enum Repr<'a> {
    Borrowed(&'a str),
    Shared(Arc<str>, Range<u32>),
}

impl Text<'_> {
    /// Returns a part of the text, which shares the memory of the text.
    pub(crate) fn part(&self, range: Range<usize>) -> Self {
        match &self.0 {
            Repr::Borrowed(text) => Self(Repr::Borrowed(text.get(range).unwrap_or(""))),
            Repr::Shared(text, outer) => {
                let within =
                    |at: usize| u32::try_from(at).map_or(u32::MAX, |at| outer.start.saturating_add(at));
                Self(Repr::Shared(text.clone(), within(range.start)..within(range.end)))
            }
        }
    }

    /// Returns the part of the text that corresponds to a slice of it.
    pub(crate) fn part_of(&self, part: &str) -> Self {
        let start = (part.as_ptr() as usize).wrapping_sub(self.as_ptr() as usize);
        self.part(start..start.wrapping_add(part.len()))
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Repr::Borrowed(text) => text,
            Repr::Shared(text, range) => text.get(range.start as usize..range.end as usize).unwrap_or(""),
        }
    }
}

impl AsRef<str> for Text<'_> {
    fn as_ref(&self) -> &str {
        self
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self(Repr::Borrowed(text))
    }
}

impl From<Arc<str>> for Text<'_> {
    fn from(text: Arc<str>) -> Self {
        let end = u32::try_from(text.len()).unwrap_or(u32::MAX);
        Self(Repr::Shared(text, 0..end))
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Arc::<str>::from(text).into()
    }
}
