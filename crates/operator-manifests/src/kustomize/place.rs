//! [`Place`], the location of a top-level list in the text of a YAML document, and the edits there.

use std::ops::Range;

use granit_parser::{Event, Parser, Span, StructureStyle};
use serde_json::Value;

use super::{EditError, one_line};
use crate::render;

/// The location of a list. All positions are in bytes.
#[derive(Debug)]
pub(super) enum Place {
    /// The document has no such key.
    Absent,
    /// The key has no value, or an empty list at this position.
    Empty(Range<usize>),
    /// One item on one or more lines; each range goes from its first to its last character, without the dash.
    Block { key: usize, items: Vec<Range<usize>> },
    /// `[a, b]`: the items, and the closing bracket.
    Flow { items: Vec<Range<usize>>, end: usize },
    /// Any other form.
    Other,
}

/// Finds the list under a key of the root mapping.
pub(super) fn find(text: &str, key: &str) -> Result<Place, EditError> {
    let mut walk = Walk::new(key);
    let mut parser = Parser::new_from_str(text);
    while let Some(next) = parser.next_event() {
        let (event, span) = next.map_err(|error| EditError::Parse(error.to_string()))?;
        if let Some(place) = walk.step(&event, range(text, span)) {
            return Ok(place);
        }
    }
    Ok(Place::Absent)
}

/// Returns the bytes of an event, without the line breaks that belong to a block scalar.
fn range(text: &str, span: Span) -> Range<usize> {
    let bytes = span.byte_range().unwrap_or_default();
    let content = text.get(bytes.clone()).unwrap_or_default().trim_end();
    bytes.start..bytes.start + content.len()
}

/// The state while the events of a document are read.
struct Walk<'a> {
    key: &'a str,
    /// The styles of the open collections.
    open: Vec<StructureStyle>,
    /// True if the next node of the root mapping is a key.
    at_key: bool,
    /// The start of the wanted key, after it was found.
    found: Option<usize>,
    items: Vec<Range<usize>>,
    list: Option<Range<usize>>,
}

// === impl Walk ===

impl<'a> Walk<'a> {
    fn new(key: &'a str) -> Self {
        Self {
            key,
            open: Vec::new(),
            at_key: true,
            found: None,
            items: Vec::new(),
            list: None,
        }
    }

    fn step(&mut self, event: &Event<'_>, at: Range<usize>) -> Option<Place> {
        match event {
            Event::Scalar(text, ..) => return self.scalar(text, at),
            Event::Alias(_) => return self.scalar("*", at),
            Event::SequenceStart(style, ..) => self.start(*style, true, at),
            Event::MappingStart(style, ..) => self.start(*style, false, at),
            Event::SequenceEnd | Event::MappingEnd => return self.end(at),
            _ => {}
        }
        None
    }

    fn scalar(&mut self, text: &str, at: Range<usize>) -> Option<Place> {
        if self.open.len() == 1 {
            if self.at_key {
                self.found = (text == self.key).then_some(at.start);
            } else if self.found.is_some() {
                let null = matches!(text, "" | "~" | "null");
                return Some(if null { Place::Empty(at) } else { Place::Other });
            }
            self.at_key = !self.at_key;
        } else {
            self.touch(at, self.open.len() == 2);
        }
        None
    }

    fn start(&mut self, style: StructureStyle, sequence: bool, at: Range<usize>) {
        match self.open.len() {
            0 => {}
            1 => {
                if self.found.is_some() && !self.at_key && sequence {
                    self.list = Some(at);
                }
            }
            depth => self.touch(at.start..at.start, depth == 2),
        }
        self.open.push(style);
    }

    fn end(&mut self, at: Range<usize>) -> Option<Place> {
        let style = self.open.pop();
        if self.open.len() > 1 {
            if style == Some(StructureStyle::Flow) {
                self.touch(at, false);
            }
            return None;
        }
        self.at_key = true;
        let key = self.found.take()?;
        let Some(list) = self.list.take() else {
            return Some(Place::Other);
        };
        let items = std::mem::take(&mut self.items);
        Some(match style {
            Some(StructureStyle::Block) => Place::Block { key, items },
            _ if items.is_empty() => Place::Empty(list.start..at.end),
            _ => Place::Flow {
                items,
                end: at.end.saturating_sub(1),
            },
        })
    }

    /// Records text that belongs to the list: a new item, or a continuation of the last one.
    fn touch(&mut self, at: Range<usize>, is_new: bool) {
        if self.list.is_none() {
            return;
        }
        match self.items.last_mut() {
            Some(last) if !is_new => last.end = last.end.max(at.end),
            _ => self.items.push(at),
        }
    }
}

// === impl Place ===

impl Place {
    /// Returns the text with one more entry, or `None` if the form of the list does not allow it.
    pub(super) fn add(self, text: &str, key: &str, entry: &Value) -> Option<String> {
        match self {
            Place::Absent => Some(format!("{}{key}:\n{}", ended(text), item(entry, ""))),
            Place::Empty(value) => {
                let head = text.get(..value.start)?.trim_end();
                let text = format!("{head}{}", text.get(value.end..)?);
                let at = line_end(&text, head.len());
                Some(insert(&text, at, &item(entry, "")))
            }
            Place::Block { key, items } => {
                let indent = indent_of_list(text, key)?;
                Some(insert(
                    text,
                    line_end(text, items.last()?.end),
                    &item(entry, indent),
                ))
            }
            Place::Flow { items, .. } => {
                let entry = format!(", {}", one_line(entry));
                Some(insert(text, items.last()?.end, &entry))
            }
            Place::Other => None,
        }
    }

    /// Returns the text without the item at `index`, and without the list if it was the only item.
    pub(super) fn remove(self, text: &str, index: usize) -> Option<String> {
        match self {
            Place::Block { key, items } => {
                let item = items.get(index)?;
                let from = if items.len() == 1 {
                    line_start(text, key)
                } else {
                    dash_line(text, indent_of_list(text, key)?, item.start)?
                };
                without(text, from..line_end(text, item.end))
            }
            Place::Flow { items, end } => {
                let item = items.get(index)?;
                match (items.get(index + 1), index.checked_sub(1)) {
                    (Some(next), _) => without(text, item.start..next.start),
                    (None, Some(previous)) => without(text, items.get(previous)?.end..item.end),
                    (None, None) => without(text, line_start(text, item.start)..line_end(text, end)),
                }
            }
            Place::Absent | Place::Empty(_) | Place::Other => None,
        }
    }
}

/// Returns an item of a block list, with the indent on each line.
fn item(entry: &Value, indent: &str) -> String {
    let list = render::yaml(&Value::Array(vec![entry.clone()]));
    list.lines().map(|line| format!("{indent}{line}\n")).collect()
}

/// Returns the text before the dashes of the list whose key is at `key`. Only comments may be between the two.
fn indent_of_list(text: &str, key: usize) -> Option<&str> {
    let below = text.get(line_end(text, key)..)?;
    let first = below.lines().find(|line| line.trim_start().starts_with('-'))?;
    first.get(..first.find('-')?)
}

/// Returns the start of the line with the dash of an item: the nearest line above that has a dash after this indent.
fn dash_line(text: &str, indent: &str, item: usize) -> Option<usize> {
    let opening = format!("{indent}-");
    let mut line = line_start(text, item);
    while !text.get(line..)?.starts_with(&opening) {
        line = line_start(text, line.checked_sub(1)?);
    }
    Some(line)
}

fn line_start(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or_default();
    before.rfind('\n').map_or(0, |newline| newline + 1)
}

/// Returns the start of the line after the one that contains the byte.
fn line_end(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    rest.find('\n').map_or(text.len(), |newline| at + newline + 1)
}

fn insert(text: &str, at: usize, piece: &str) -> String {
    let (before, after) = (text.get(..at).unwrap_or(text), text.get(at..).unwrap_or_default());
    let before = if piece.ends_with('\n') {
        ended(before)
    } else {
        before.to_owned()
    };
    format!("{before}{piece}{after}")
}

fn without(text: &str, cut: Range<usize>) -> Option<String> {
    Some(format!("{}{}", text.get(..cut.start)?, text.get(cut.end..)?))
}

/// Adds a line break at the end of a non-empty text.
fn ended(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') {
        text.to_owned()
    } else {
        format!("{text}\n")
    }
}
