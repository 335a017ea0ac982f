//! Parses YAML to JSON trees like `sigs.k8s.io/yaml`: YAML 1.1 scalars, keys converted to strings, the first document
//! only.
//!
//! An unquoted `no` is false, `010` is eight, and `1e3` is the integer 1000, because the API server's decoder reads
//! YAML 1.1 and converts it to JSON.

mod emit;
mod located;
mod order;
mod scalar;

use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Tag};
use serde_json::{Map, Value};

pub use emit::{commented, to_documents, to_string};
pub use located::{Document, Place, documents};

use crate::json::{self, DEPTH_MAX, Parsed};

/// The maximum length of a key in YAML; JSON allows longer keys.
const KEY_MAX: usize = 512;
/// The maximum number of bytes that anchors and aliases may add to a document, including [`NODE_BYTES`] for each node.
const REPEATED_BYTES_MAX: usize = 32 << 20;
/// The memory of a node without its text.
const NODE_BYTES: usize = 72;
/// The maximum total size of the messages about duplicate keys.
const DUPLICATE_BYTES_MAX: usize = 1 << 20;

/// Parses the first document of a body.
///
/// # Errors
/// Returns an error with the text of the API server's parser, which begins with `yaml: `.
pub fn parse(text: &str) -> Result<Parsed, String> {
    match parse_json(text) {
        Some(parsed) => Ok(parsed),
        None => load(text),
    }
}

/// Returns the first line of the error of a YAML decoder, for a message that already says that an error occurred: decoders put
/// a label before it, and an excerpt of the file after it.
///
/// ```
/// let error = "error: line 1 column 4: unclosed bracket '['\n --> <input>:1:4";
/// assert_eq!(apimachinery::yaml::summary(&error), "line 1 column 4: unclosed bracket '['");
/// ```
pub fn summary(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

/// Parses a body as JSON if possible, which is much faster. Bodies of server-side apply are declared as YAML, but most
/// are JSON. Returns `None` if the two languages could differ.
fn parse_json(text: &str) -> Option<Parsed> {
    let is_doubtful = |byte: u8| !byte.is_ascii() || byte == b'\t' || byte == 0x7f;
    if !text.starts_with('{') || text.bytes().any(is_doubtful) || text.contains("\\u") {
        return None;
    }
    let parsed = json::parse(text.as_bytes()).ok()?;
    (parsed.duplicates.is_empty() && is_equal_in_yaml(&parsed.value)).then_some(parsed)
}

/// Returns true if YAML parsers return the same value. YAML differs in numbers, merges `<<`, and rejects long keys.
fn is_equal_in_yaml(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_i64(),
        Value::Array(items) => items.iter().all(is_equal_in_yaml),
        Value::Object(fields) => fields
            .iter()
            .all(|(key, value)| key != "<<" && key.len() <= KEY_MAX && is_equal_in_yaml(value)),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

fn load(text: &str) -> Result<Parsed, String> {
    let mut loader = Loader::new(text);
    let value = loader.document().map_err(|error| error.text(text))?;
    Ok(Parsed {
        value,
        duplicates: loader.duplicates,
        replaced: Vec::new(),
    })
}

enum Error {
    Scan(ScanError),
    Message(String),
}

impl Error {
    fn text(&self, source: &str) -> String {
        match self {
            Self::Message(message) => format!("yaml: {message}"),
            Self::Scan(error) => scan_error_text(error, source),
        }
    }
}

struct Loader<'a> {
    parser: Parser<'a, granit_parser::StrInput<'a>>,
    /// The nodes that aliases refer to, by the parser's anchor number.
    anchors: HashMap<usize, Anchored>,
    /// The bytes that anchors and aliases have added.
    repeated_bytes: usize,
    duplicates: Vec<String>,
    duplicate_bytes: usize,
    /// The positions of the nodes, if the caller needs them.
    places: Option<located::Places>,
}

/// A node that aliases can refer to.
struct Anchored {
    node: Node,
    bytes: usize,
}

/// A node, with the properties that a mapping key needs.
#[derive(Clone)]
struct Node {
    value: Value,
    place: Place,
    merge: bool,
}

impl<'a> Loader<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            parser: Parser::new_from_str(text),
            anchors: HashMap::new(),
            repeated_bytes: 0,
            duplicates: Vec::new(),
            duplicate_bytes: 0,
            places: None,
        }
    }

    fn event(&mut self) -> Result<(Event<'a>, Place), Error> {
        loop {
            match self.parser.next_event() {
                None => return Ok((Event::StreamEnd, Place::default())),
                Some(Err(error)) => return Err(Error::Scan(error)),
                Some(Ok((Event::Comment(..), _))) => {}
                Some(Ok((event, span))) => {
                    let place = Place {
                        line: span.start.line(),
                        column: span.start.col() + 1,
                    };
                    return Ok((event, place));
                }
            }
        }
    }

    /// Parses the first document; an empty text is null.
    fn document(&mut self) -> Result<Value, Error> {
        loop {
            match self.event()? {
                (Event::StreamStart | Event::DocumentStart(..), _) => {}
                (Event::StreamEnd | Event::DocumentEnd, _) => return Ok(Value::Null),
                (event, place) => {
                    let node = self.node(event, place)?;
                    // The rest of the document must be well-formed; further documents are ignored.
                    return self.event().map(|_| node.value);
                }
            }
        }
    }

    /// Parses a node from its first event. Open collections are on an explicit list and not on the call stack, so that
    /// deep nesting cannot overflow it.
    fn node(&mut self, event: Event<'a>, place: Place) -> Result<Node, Error> {
        let mut open: Vec<Open> = Vec::new();
        let mut next = (event, place);
        loop {
            let (event, place) = next;
            if let Some(node) = self.step(event, place, &mut open)? {
                let Some(parent) = open.last_mut() else {
                    return Ok(node);
                };
                self.attach(parent, node)?;
            }
            next = self.event()?;
        }
    }

    /// Processes an event; returns the node that it completes, if any.
    fn step(&mut self, event: Event<'a>, place: Place, open: &mut Vec<Open>) -> Result<Option<Node>, Error> {
        if let Some(collection) = open.pop_if(|open| open.ends_with(&event)) {
            return self.close(collection).map(Some);
        }
        if let Some(Open {
            contents: Contents::Sequence(items),
            outer,
            ..
        }) = open.last_mut()
        {
            *outer = self.enter(&items.len().to_string(), place);
        }
        if open.len() > DEPTH_MAX {
            return Err(Error::Message("exceeded max depth".to_owned()));
        }
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let node = scalar_node(&text, style, tag.as_deref(), place)?;
                self.remember(anchor, &node)?;
                Ok(Some(node))
            }
            Event::SequenceStart(_, anchor, _) => {
                open.push(Open::new(place, anchor, Contents::Sequence(Vec::new())));
                Ok(None)
            }
            Event::MappingStart(_, anchor, _) => {
                let mapping = Contents::Mapping(Box::default());
                open.push(Open::new(place, anchor, mapping));
                Ok(None)
            }
            Event::Alias(anchor) => self.alias(anchor, place).map(Some),
            _ => Err(Error::Message("did not find expected node content".to_owned())),
        }
    }

    fn remember(&mut self, anchor: usize, node: &Node) -> Result<(), Error> {
        if anchor == 0 {
            return Ok(());
        }
        let bytes = size(&node.value);
        self.repeat(bytes)?;
        let node = node.clone();
        self.anchors.insert(anchor, Anchored { node, bytes });
        Ok(())
    }

    /// Counts a copy of a node before it is made.
    fn repeat(&mut self, bytes: usize) -> Result<(), Error> {
        self.repeated_bytes += bytes;
        if self.repeated_bytes > REPEATED_BYTES_MAX {
            return Err(Error::Message("document contains excessive aliasing".to_owned()));
        }
        Ok(())
    }

    fn alias(&mut self, anchor: usize, place: Place) -> Result<Node, Error> {
        let contains_itself = || Error::Message("anchor value contains itself".to_owned());
        let bytes = self.anchors.get(&anchor).ok_or_else(contains_itself)?.bytes;
        self.repeat(bytes)?;
        let anchored = self.anchors.get(&anchor).ok_or_else(contains_itself)?;
        Ok(Node {
            place,
            ..anchored.node.clone()
        })
    }

    /// Enters a field or an item, and records its position. The result must be passed to the function that leaves it.
    fn enter(&mut self, segment: &str, place: Place) -> usize {
        self.places
            .as_mut()
            .map_or(0, |places| places.enter(segment, place))
    }

    fn leave(&mut self, outer: usize) {
        if let Some(places) = &mut self.places {
            places.leave(outer);
        }
    }

    /// Adds a node to the enclosing collection.
    fn attach(&mut self, parent: &mut Open, node: Node) -> Result<(), Error> {
        let mapping = match &mut parent.contents {
            Contents::Sequence(items) => {
                items.push(node.value);
                self.leave(parent.outer);
                return Ok(());
            }
            Contents::Mapping(mapping) => mapping,
        };
        match mapping.key.take() {
            None if node.merge => mapping.key = Some(Key::Merge),
            None => {
                let name = scalar::key(&node.value);
                parent.outer = self.enter(name.as_deref().unwrap_or_default(), node.place);
                mapping.key = Some(Key::Field { node, name });
            }
            Some(Key::Merge) => mapping.merged.push(node.value),
            Some(Key::Field { node: key, name }) => {
                self.leave(parent.outer);
                let name = name.map_err(Error::Message)?;
                if mapping.fields.contains_key(&name) && self.duplicate_bytes < DUPLICATE_BYTES_MAX {
                    let (line, shown) = (key.place.line, scalar::shown_key(&key.value));
                    let text = format!("line {line}: key {shown} already set in map");
                    self.duplicate_bytes += text.len();
                    self.duplicates.push(text);
                }
                mapping.fields.insert(name, node.value);
            }
        }
        Ok(())
    }

    /// Completes a collection; returns its node.
    fn close(&mut self, collection: Open) -> Result<Node, Error> {
        let value = match collection.contents {
            Contents::Sequence(items) => Value::Array(items),
            Contents::Mapping(mapping) => {
                let mut fields = mapping.fields;
                for value in mapping.merged {
                    merge(&mut fields, value)?;
                }
                Value::Object(fields)
            }
        };
        let node = Node {
            value,
            place: collection.place,
            merge: false,
        };
        self.remember(collection.anchor, &node)?;
        Ok(node)
    }
}

/// A collection that is not complete.
struct Open {
    place: Place,
    anchor: usize,
    /// The position to which the pointer returns after the current field or item.
    outer: usize,
    contents: Contents,
}

enum Contents {
    Sequence(Vec<Value>),
    Mapping(Box<Mapping>),
}

#[derive(Default)]
struct Mapping {
    fields: Map<String, Value>,
    /// The values that `<<` merges.
    merged: Vec<Value>,
    /// The key of the next value.
    key: Option<Key>,
}

enum Key {
    Merge,
    Field {
        node: Node,
        name: Result<String, String>,
    },
}

impl Open {
    fn new(place: Place, anchor: usize, contents: Contents) -> Self {
        Self {
            place,
            anchor,
            outer: 0,
            contents,
        }
    }

    fn ends_with(&self, event: &Event<'_>) -> bool {
        match &self.contents {
            Contents::Sequence(_) => matches!(event, Event::SequenceEnd),
            Contents::Mapping(mapping) => matches!(event, Event::MappingEnd) && mapping.key.is_none(),
        }
    }
}

/// Merges `<<: *defaults`: adds the entries that the mapping itself does not have.
fn merge(fields: &mut Map<String, Value>, value: Value) -> Result<(), Error> {
    match value {
        Value::Object(defaults) => {
            for (name, value) in defaults {
                fields.entry(name).or_insert(value);
            }
            Ok(())
        }
        Value::Array(list) => list.into_iter().try_for_each(|value| merge(fields, value)),
        _ => Err(Error::Message(
            "map merge requires map or sequence of maps as the value".to_owned(),
        )),
    }
}

fn scalar_node(text: &str, style: ScalarStyle, tag: Option<&Tag>, place: Place) -> Result<Node, Error> {
    let tag = tag.map(ToString::to_string);
    let plain = style == ScalarStyle::Plain;
    let value = scalar::resolve(text, plain, tag.as_deref()).map_err(Error::Message)?;
    Ok(Node {
        value,
        place,
        merge: plain && tag.is_none() && text == "<<",
    })
}

/// Estimates the memory of a copy of a value.
fn size(value: &Value) -> usize {
    NODE_BYTES
        + match value {
            Value::Array(items) => items.iter().map(size).sum(),
            Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + size(value)).sum(),
            Value::String(text) => text.len(),
            _ => 0,
        }
}

/// Returns the text and the line of libyaml's error. Its parser counts lines from zero, its scanner from one.
fn scan_error_text(error: &ScanError, source: &str) -> String {
    let (problem, from_scanner) = problem(error.kind(), source);
    let line = error.marker().line();
    let last_line = source.lines().count();
    let at_open_end = !source.ends_with('\n') && error.marker().index() >= source.chars().count();
    let line = match error.kind() {
        // The API server's parser reports the end of the text; this parser reports the bracket.
        ErrorKind::UnclosedFlowCollection { .. } => last_line,
        _ if from_scanner || at_open_end => line,
        _ => line.saturating_sub(1),
    };
    match line {
        0 => format!("yaml: {problem}"),
        line => format!("yaml: line {line}: {problem}"),
    }
}

fn problem(kind: &ErrorKind, source: &str) -> (String, bool) {
    match kind {
        ErrorKind::UnclosedFlowCollection { open } => {
            let nothing_follows = source.trim_end().ends_with(['[', '{', ',', ':']);
            let problem = match open {
                _ if nothing_follows => "did not find expected node content",
                '{' => "did not find expected ',' or '}'",
                _ => "did not find expected ',' or ']'",
            };
            (problem.to_owned(), false)
        }
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::UnexpectedCharacter { .. } => {
            ("found character that cannot start any token".to_owned(), true)
        }
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => {
            ("could not find expected ':'".to_owned(), true)
        }
        ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofImplicitFlowMapping => {
            ("did not find expected node content".to_owned(), false)
        }
        ErrorKind::ExpectedFlowSequenceSeparator => ("did not find expected ',' or ']'".to_owned(), false),
        kind => {
            let text = kind.to_string();
            let parsing = text.starts_with("while parsing");
            let problem = text
                .strip_prefix("while ")
                .and_then(|rest| rest.split_once(", "))
                .map(|(_, rest)| rest);
            (problem.unwrap_or(&text).to_owned(), !parsing)
        }
    }
}

#[cfg(test)]
mod tests;
