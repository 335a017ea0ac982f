//! Parses YAML to JSON trees like `sigs.k8s.io/yaml`: YAML 1.1 scalars, keys converted to strings, the first document
//! only.
//!
//! An unquoted `no` is false, `010` is eight, and `1e3` is the integer 1000, because the API server's decoder reads
//! YAML 1.1 and converts it to JSON.

mod emit;
mod error;
mod located;
mod order;
mod scalar;

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Span, Tag};
use serde_json::{Map, Value};

pub use self::error::encoding_error;
use self::error::{Error, Faults, alias_name};
use self::scalar::{Scalar, Unsupported};
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
/// The maximum number of bytes that are parsed again after lines were indented.
const INDENTED_BYTES_MAX: usize = 16 << 20;
/// The indentation of these lines, which is more than that of any node.
const INDENTATION: usize = 512;

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
    if !text.starts_with('{') || text.bytes().any(is_doubtful) || text.contains("\\u") || text.contains("\\/")
    {
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
    with_indentation(text, |text| {
        let mut loader = Loader::new(text);
        let value = loader.document()?;
        Ok(Parsed {
            value,
            duplicates: loader.duplicates,
            replaced: Vec::new(),
        })
    })
}

/// Parses a text. The parser requires that the lines of a quoted scalar are indented, which YAML 1.1 does not; they are
/// indented when the parser rejects them. Spaces at the start of these lines have no meaning.
fn with_indentation<T>(text: &str, parse: impl Fn(&str) -> Result<T, Error>) -> Result<T, String> {
    if text.chars().any(is_forbidden) {
        return Err("yaml: control characters are not allowed".to_owned());
    }
    let mut text = Cow::Borrowed(text);
    let mut bytes = 0;
    loop {
        let error = match parse(&text) {
            Ok(parsed) => return Ok(parsed),
            Err(error) => error,
        };
        bytes += text.len();
        let indented = error.unindented_line().filter(|_| bytes < INDENTED_BYTES_MAX);
        let Some(line) = indented.and_then(|line| line_start(&text, line)) else {
            return Err(error.text(&text));
        };
        text.to_mut().insert_str(line, &" ".repeat(INDENTATION));
    }
}

/// Returns the position of a line, unless it is indented already.
fn line_start(text: &str, line: usize) -> Option<usize> {
    let start = match line {
        0 | 1 => 0,
        line => text.match_indices('\n').nth(line - 2)?.0 + 1,
    };
    let rest = text.get(start..)?;
    (!rest.starts_with(&" ".repeat(INDENTATION))).then_some(start)
}

/// Returns true for characters that must not occur in YAML.
fn is_forbidden(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' | '\u{85}' => false,
        character => character.is_control() || matches!(character, '\u{fffe}' | '\u{ffff}'),
    }
}

struct Loader<'a> {
    source: &'a str,
    parser: Parser<'a, granit_parser::StrInput<'a>>,
    faults: Faults,
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
    content: Content,
    place: Place,
    merge: bool,
    /// True if the node starts before its place: with an anchor, a tag, or the indicator of a block scalar.
    starts_early: bool,
}

/// The content of a node. A scalar has its YAML type until it is known whether it is a key or a value.
#[derive(Clone)]
enum Content {
    Scalar(Scalar),
    Collection(Value),
}

impl Content {
    /// Estimates the memory of a copy.
    fn size(&self) -> usize {
        match self {
            Self::Scalar(Scalar::Text(text)) => NODE_BYTES + text.len(),
            Self::Scalar(_) => NODE_BYTES,
            Self::Collection(value) => size(value),
        }
    }
}

impl<'a> Loader<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            source: text,
            parser: Parser::new_from_str(text),
            faults: Faults::default(),
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
                    if matches!(event, Event::Scalar(_, ScalarStyle::DoubleQuoted, ..)) {
                        self.check_escapes(span)?;
                    }
                    let place = Place {
                        line: span.start.line(),
                        column: span.start.col() + 1,
                    };
                    return Ok((event, place));
                }
            }
        }
    }

    /// Rejects the escape sequences that YAML 1.1 does not have: slashes, and the halves of surrogate pairs.
    fn check_escapes(&self, span: Span) -> Result<(), Error> {
        let (start, end) = (span.start.byte_offset(), span.end.byte_offset());
        let quoted = start
            .zip(end)
            .and_then(|(start, end)| self.source.get(start..end));
        let Some((at, problem)) = quoted.and_then(unknown_escape) else {
            return Ok(());
        };
        let before = quoted.and_then(|quoted| quoted.get(..at)).unwrap_or_default();
        Err(Error::Message(
            match span.start.line() + before.matches('\n').count() {
                1 => problem.to_owned(),
                line => format!("line {line}: {problem}"),
            },
        ))
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
                    self.event()?;
                    return self.finish(node);
                }
            }
        }
    }

    /// Returns the value of a document, after all of it was parsed.
    fn finish(&mut self, document: Node) -> Result<Value, Error> {
        let value = self.json(document.content);
        self.faults.take()?;
        Ok(value)
    }

    /// Converts a node that is not a key to JSON.
    fn json(&mut self, content: Content) -> Value {
        match content {
            Content::Collection(value) => value,
            Content::Scalar(scalar) => scalar.into_json().unwrap_or_else(|message| {
                self.faults.value.get_or_insert(message);
                Value::Null
            }),
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
                let mut node = self.scalar(&text, style, tag.as_deref(), place);
                node.starts_early |= anchor > 0;
                self.remember(anchor, &node)?;
                Ok(Some(node))
            }
            Event::SequenceStart(_, anchor, tag) => {
                let sequence = Contents::Sequence(Vec::new());
                open.push(Open::new(place, anchor, tag.is_some(), sequence));
                Ok(None)
            }
            Event::MappingStart(_, anchor, tag) => {
                let mapping = Contents::Mapping(Box::default());
                open.push(Open::new(place, anchor, tag.is_some(), mapping));
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
        let bytes = node.content.size();
        repeat(&mut self.repeated_bytes, bytes)?;
        let node = node.clone();
        self.anchors.insert(anchor, Anchored { node, bytes });
        Ok(())
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, place: Place) -> Node {
        let tag = tag.map(ToString::to_string);
        let plain = style == ScalarStyle::Plain;
        let scalar = Scalar::resolve(text, plain, tag.as_deref()).unwrap_or_else(|message| {
            self.faults.decoding.get_or_insert(message);
            Scalar::Null
        });
        let is_merge_tag = tag.as_deref().is_some_and(|tag| tag.ends_with(":merge"));
        Node {
            content: Content::Scalar(scalar),
            place,
            merge: text == "<<" && (plain && tag.is_none() || is_merge_tag),
            starts_early: tag.is_some() || matches!(style, ScalarStyle::Literal | ScalarStyle::Folded),
        }
    }

    fn alias(&mut self, anchor: usize, place: Place) -> Result<Node, Error> {
        let Some(anchored) = self.anchors.get(&anchor) else {
            let name = alias_name(self.source, place.line, place.column - 1);
            return Err(Error::Message(format!("anchor '{name}' value contains itself")));
        };
        repeat(&mut self.repeated_bytes, anchored.bytes)?;
        Ok(Node {
            place,
            starts_early: false,
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
                items.push(self.json(node.content));
                self.leave(parent.outer);
                return Ok(());
            }
            Contents::Mapping(mapping) => mapping,
        };
        match mapping.key.take() {
            None if node.merge => mapping.key = Some(Key::Merge),
            None => {
                let name = self.key(&node.content);
                parent.outer = self.enter(name.as_ref().map_or("", |name| name), node.place);
                mapping.key = Some(Key::Field { node, name });
            }
            Some(Key::Merge) => self.merge(mapping, node)?,
            Some(Key::Field { node: key, name }) => {
                self.leave(parent.outer);
                // An anchor or a tag is usually in the line of the key.
                let start = if node.starts_early { key.place } else { node.place };
                let value = self.json(node.content);
                match name {
                    Ok(name) => self.insert(mapping, key.content.kind(), name, (value, start.line)),
                    Err(unsupported) => {
                        let message = || unsupported.message(&value);
                        self.faults.key.get_or_insert_with(message);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the name of a field.
    fn key(&mut self, content: &Content) -> Result<String, Unsupported> {
        match content {
            Content::Scalar(scalar) => scalar.to_key(),
            Content::Collection(value) => {
                let message = || format!("invalid map key: {}", scalar::go_syntax(value));
                self.faults.decoding.get_or_insert_with(message);
                Ok(String::new())
            }
        }
    }

    /// Inserts a field, and reports it if it exists already. Keys of different types are different, even if they have the
    /// same name in JSON.
    fn insert(&mut self, mapping: &mut Mapping, kind: KeyKind, name: String, (value, line): (Value, usize)) {
        let exists = mapping.fields.contains_key(&name)
            && kind != KeyKind::NotANumber
            && mapping.kinds.get(&name).copied().unwrap_or_default() == kind;
        if exists && self.duplicate_bytes < DUPLICATE_BYTES_MAX {
            let shown = match (kind, name.as_str()) {
                (KeyKind::Text, name) => crate::go::quote(name),
                (KeyKind::Float, ".inf") => "+Inf".to_owned(),
                (KeyKind::Float, "-.inf") => "-Inf".to_owned(),
                (_, name) => name.to_owned(),
            };
            let text = format!("line {line}: key {shown} already set in map");
            self.duplicate_bytes += text.len();
            self.duplicates.push(text);
        }
        if kind != KeyKind::Text {
            mapping.kinds.insert(name.clone(), kind);
        }
        mapping.fields.insert(name, value);
    }

    /// Merges `<<: *defaults`: sets its entries, also those that the mapping has already.
    fn merge(&mut self, mapping: &mut Mapping, node: Node) -> Result<(), Error> {
        let line = node.place.line;
        let maps = match node.content {
            Content::Collection(Value::Array(list)) => list,
            Content::Collection(map) => vec![map],
            Content::Scalar(_) => vec![Value::Null],
        };
        // Earlier maps of a list take precedence.
        for map in maps.into_iter().rev() {
            let Value::Object(fields) = map else {
                let message = "map merge requires map or sequence of maps as the value";
                return Err(Error::Message(message.to_owned()));
            };
            for (name, value) in fields {
                self.insert(mapping, KeyKind::Text, name, (value, line));
            }
        }
        Ok(())
    }

    /// Completes a collection; returns its node.
    fn close(&mut self, collection: Open) -> Result<Node, Error> {
        let value = match collection.contents {
            Contents::Sequence(items) => Value::Array(items),
            Contents::Mapping(mapping) => Value::Object(mapping.fields),
        };
        let node = Node {
            content: Content::Collection(value),
            place: collection.place,
            merge: false,
            starts_early: collection.anchor > 0 || collection.has_tag,
        };
        self.remember(collection.anchor, &node)?;
        Ok(node)
    }
}

impl Content {
    fn kind(&self) -> KeyKind {
        match self {
            Self::Scalar(Scalar::Float(float)) if float.is_nan() => KeyKind::NotANumber,
            Self::Scalar(Scalar::Float(_)) => KeyKind::Float,
            Self::Scalar(Scalar::Int(_) | Scalar::Uint(_)) => KeyKind::Int,
            Self::Scalar(Scalar::Bool(_)) => KeyKind::Bool,
            Self::Scalar(Scalar::Text(_) | Scalar::Null) | Self::Collection(_) => KeyKind::Text,
        }
    }
}

/// The YAML type of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum KeyKind {
    #[default]
    Text,
    Int,
    Float,
    /// Not a number is not equal to itself, so it is never a duplicate.
    NotANumber,
    Bool,
}

/// A collection that is not complete.
struct Open {
    place: Place,
    anchor: usize,
    has_tag: bool,
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
    /// The types of the keys that are not texts.
    kinds: HashMap<String, KeyKind>,
    /// The key of the next value.
    key: Option<Key>,
}

enum Key {
    Merge,
    Field {
        node: Node,
        name: Result<String, Unsupported>,
    },
}

impl Open {
    fn new(place: Place, anchor: usize, has_tag: bool, contents: Contents) -> Self {
        Self {
            place,
            anchor,
            has_tag,
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

/// Adds a copy of a node to the total, before it is made.
fn repeat(total: &mut usize, bytes: usize) -> Result<(), Error> {
    *total += bytes;
    if *total > REPEATED_BYTES_MAX {
        return Err(Error::Message("document contains excessive aliasing".to_owned()));
    }
    Ok(())
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

/// Returns the position and the error of the first escape sequence that YAML 1.1 does not have.
fn unknown_escape(quoted: &str) -> Option<(usize, &'static str)> {
    let mut rest = quoted.char_indices();
    while let Some((at, character)) = rest.next() {
        if character != '\\' {
            continue;
        }
        match rest.next() {
            Some((_, '/')) => return Some((at, "found unknown escape character")),
            Some((_, 'u')) if is_surrogate(rest.as_str()) => {
                return Some((at, "found invalid Unicode character escape code"));
            }
            _ => {}
        }
    }
    None
}

fn is_surrogate(digits: &str) -> bool {
    let code = digits
        .get(..4)
        .and_then(|digits| u32::from_str_radix(digits, 16).ok());
    code.is_some_and(|code| (0xd800..0xe000).contains(&code))
}

#[cfg(test)]
mod tests;
