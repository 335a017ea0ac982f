//! Parses JSON to trees, with the errors of Go's decoder and the duplicate fields of a body.
//!
//! Numbers are parsed as in `sigs.k8s.io/json`: an integer that fits in 64 bits is kept, any other number is a float.
//! If a field is duplicated, its last value is used; strict field validation reports the duplicate.

use std::collections::HashMap;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use serde_json::{Map, Number, Value};

/// The maximum nesting of values. Go's decoder stops at 10,000. No API object is nearly that deep, and recursive
/// functions need a bound: without optimizations, a level takes up to 5 KB of a thread's 2 MB stack.
pub const DEPTH_MAX: usize = 256;
/// The maximum nesting of stored objects, which earlier versions did not limit as much.
const STORED_DEPTH_MAX: usize = 1024;

/// The maximum number of strict decoding errors of one body; the API server has the same limit.
pub const FAULTS_MAX: usize = 100;
/// The maximum total size of the paths in strict decoding errors. A long key above many invalid fields would otherwise
/// be repeated for each of them.
pub const FAULT_BYTES_MAX: usize = 4 << 20;

/// A parsed body.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    /// The tree.
    pub value: Value,
    /// The duplicate fields, in the order of the document: `duplicate field "spec.replicas"` in JSON, `line 8: key "k"
    /// already set in map` in YAML. In JSON at most [`FAULTS_MAX`].
    pub duplicates: Vec<String>,
    /// The values that a duplicate of their field replaced, with their paths, for a body that is decoded into a struct.
    /// At most [`FAULTS_MAX`].
    pub replaced: Vec<(String, Value)>,
}

/// Returns an estimate of the memory of a value, in bytes. The value must not be nested deeper than a parsed one.
pub fn memory(value: &Value) -> usize {
    const NODE: usize = 64;
    NODE + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(memory).sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| name.len() + memory(value))
            .sum(),
        _ => 0,
    }
}

/// Parses a body.
///
/// # Errors
/// Returns an error with the text of Go's `encoding/json`.
pub fn parse(bytes: &[u8]) -> Result<Parsed, String> {
    parse_with(Parser::new(bytes))
}

/// Parses a body that is decoded into a struct. A duplicate field is decoded twice into the same place, so that the
/// members of both values are merged.
///
/// # Errors
/// Returns an error with the text of Go's `encoding/json`.
pub fn parse_typed(bytes: &[u8]) -> Result<Parsed, String> {
    let mut parser = Parser::new(bytes);
    parser.merges_duplicates = true;
    parse_with(parser)
}

/// Parses a stored object. Its nesting was checked when it was stored.
///
/// # Errors
/// Returns an error with the text of Go's `encoding/json`.
pub fn parse_stored(bytes: &[u8]) -> Result<Value, String> {
    let mut parser = Parser::new(bytes);
    parser.depth_max = STORED_DEPTH_MAX;
    parse_with(parser).map(|parsed| parsed.value)
}

fn parse_with(mut parser: Parser<'_>) -> Result<Parsed, String> {
    let value = parser.document()?;
    let duplicates = parser
        .duplicates
        .iter()
        .map(|path| format!("duplicate field \"{path}\""))
        .collect();
    Ok(Parsed {
        value,
        duplicates,
        replaced: parser.replaced,
    })
}

/// Formats a value as JSON, with numbers as Go writes them.
pub fn to_string(value: &Value) -> String {
    let mut bytes = Vec::new();
    write(&mut bytes, value);
    String::from_utf8(bytes).unwrap_or_default()
}

/// Appends a value as JSON, with numbers as Go writes them.
pub fn write(bytes: &mut Vec<u8>, value: &Value) {
    let mut serializer = Serializer::with_formatter(bytes, GoNumbers);
    // Writing a tree to a vector cannot fail.
    let written = value.serialize(&mut serializer);
    debug_assert!(written.is_ok());
}

/// A formatter of numbers like Go's: integral floats have no fraction, and numbers from 1e-6 up to 1e21 no exponent.
struct GoNumbers;

impl Formatter for GoNumbers {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        if value == 0.0 || (1e-6..1e21).contains(&value.abs()) {
            return write!(writer, "{value}");
        }
        let text = format!("{value:e}");
        match text.split_once('e') {
            Some((mantissa, exponent)) if !exponent.starts_with('-') => {
                write!(writer, "{mantissa}e+{exponent}")
            }
            _ => writer.write_all(text.as_bytes()),
        }
    }
}

/// A field for [`positions`].
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The path, such as `spec.containers[0].name`.
    pub path: &'a str,
    /// True for the position of the duplicate field; false for the first field.
    pub repeated: bool,
}

/// Returns the position of each field in the document, for sorting errors about several fields. The position is
/// `usize::MAX` for fields that are not in the document, and for all fields if the document cannot be parsed.
pub fn positions(bytes: &[u8], wanted: &[Wanted<'_>]) -> Vec<usize> {
    let keys: Vec<(u64, bool)> = wanted
        .iter()
        .map(|wanted| (extend_hash(HASH_START, wanted.path), wanted.repeated))
        .collect();
    let mut parser = Parser::new(bytes);
    parser.positions = Some(Positions {
        found: keys.iter().map(|key| (*key, usize::MAX)).collect(),
        outer: Vec::new(),
        fields: 0,
    });
    let parsed = parser.document().is_ok();
    let found = parser.positions.filter(|_| parsed).unwrap_or_default().found;
    keys.iter()
        .map(|key| found.get(key).copied().unwrap_or(usize::MAX))
        .collect()
}

/// Finds fields by the hashes of their paths, so that the time for a field depends on its name and not on its path.
#[derive(Default)]
struct Positions {
    /// The first position of the field with this hash, or (true) of its first duplicate.
    found: HashMap<(u64, bool), usize>,
    /// The hashes of the path to the current field, one for each segment.
    outer: Vec<u64>,
    /// The number of fields that were read.
    fields: usize,
}

impl Positions {
    fn enter_field(&mut self, name: &str, is_repeated: bool) {
        let hash = match self.outer.last() {
            None => extend_hash(HASH_START, name),
            Some(outer) => extend_hash(extend_hash(*outer, "."), name),
        };
        self.outer.push(hash);
        let passed = if is_repeated { &[false, true][..] } else { &[false] };
        for repeated in passed {
            if let Some(position) = self.found.get_mut(&(hash, *repeated)) {
                *position = self.fields.min(*position);
            }
        }
        self.fields += 1;
    }

    fn enter_item(&mut self, index: usize) {
        let outer = self.outer.last().copied().unwrap_or(HASH_START);
        self.outer.push(extend_hash(outer, &format!("[{index}]")));
    }

    fn leave(&mut self) {
        self.outer.pop();
    }
}

const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;

/// Extends an FNV-1a hash. A collision can only change the order of errors about the client's own body.
fn extend_hash(hash: u64, text: &str) -> u64 {
    text.bytes().fold(hash, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The current path: `spec.containers[0].name`.
#[derive(Default)]
struct Path(Vec<Step>);

enum Step {
    Field(String),
    Index(usize),
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                Step::Field(name) if position == 0 => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    depth_max: usize,
    path: Path,
    duplicates: Vec<String>,
    /// The total size of the paths of duplicate fields, in bytes.
    duplicate_bytes: usize,
    positions: Option<Positions>,
    /// True if the members of duplicate fields are merged.
    merges_duplicates: bool,
    replaced: Vec<(String, Value)>,
    /// The total size of the paths in `replaced`, in bytes.
    replaced_bytes: usize,
}

impl<'a> Parser<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            depth: 0,
            depth_max: DEPTH_MAX,
            path: Path::default(),
            duplicates: Vec::new(),
            duplicate_bytes: 0,
            positions: None,
            merges_duplicates: false,
            replaced: Vec::new(),
            replaced_bytes: 0,
        }
    }
}

impl Parser<'_> {
    fn document(&mut self) -> Result<Value, String> {
        self.skip_space();
        let value = self.value()?;
        self.skip_space();
        match self.peek() {
            None => Ok(value),
            Some(byte) => Err(unexpected(byte, "after top-level value")),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Result<u8, String> {
        let byte = self.peek().ok_or_else(end_of_input)?;
        self.at += 1;
        Ok(byte)
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// Returns the next byte that is not white space.
    fn next_token(&mut self) -> Result<u8, String> {
        self.skip_space();
        self.next()
    }

    fn value(&mut self) -> Result<Value, String> {
        match self.peek().ok_or_else(end_of_input)? {
            b'{' => self.nested(Self::object),
            b'[' => self.nested(Self::array),
            b'"' => {
                self.at += 1;
                Ok(Value::String(self.string()?))
            }
            b't' => self.literal("true", Value::Bool(true)),
            b'f' => self.literal("false", Value::Bool(false)),
            b'n' => self.literal("null", Value::Null),
            b'-' | b'0'..=b'9' => self.number(),
            byte => Err(unexpected(byte, "looking for beginning of value")),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, String>) -> Result<Value, String> {
        if self.depth == self.depth_max {
            return Err("exceeded max depth".to_owned());
        }
        self.depth += 1;
        self.at += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn object(&mut self) -> Result<Value, String> {
        let mut object = Map::new();
        let mut byte = self.next_token()?;
        if byte == b'}' {
            return Ok(Value::Object(object));
        }
        loop {
            if byte != b'"' {
                return Err(unexpected(byte, "looking for beginning of object key string"));
            }
            let name = self.string()?;
            match self.next_token()? {
                b':' => self.skip_space(),
                byte => return Err(unexpected(byte, "after object key")),
            }
            self.field(&mut object, name)?;
            match self.next_token()? {
                b',' => byte = self.next_token()?,
                b'}' => return Ok(Value::Object(object)),
                byte => return Err(unexpected(byte, "after object key:value pair")),
            }
        }
    }

    fn field(&mut self, object: &mut Map<String, Value>, name: String) -> Result<(), String> {
        if let Some(positions) = &mut self.positions {
            positions.enter_field(&name, object.contains_key(&name));
        }
        self.path.0.push(Step::Field(name.clone()));
        if object.contains_key(&name) {
            self.report_duplicate();
        }
        let value = self.value()?;
        if let Some(positions) = &mut self.positions {
            positions.leave();
        }
        match object.get_mut(&name) {
            Some(before) if self.merges_duplicates => self.merge(before, value),
            _ => {
                object.insert(name, value);
            }
        }
        self.path.0.pop();
        Ok(())
    }

    /// Merges a value into an existing value at the current path, as if it were decoded into the same struct.
    fn merge(&mut self, before: &mut Value, value: Value) {
        match (before, value) {
            (Value::Object(before), Value::Object(fields)) => {
                for (name, value) in fields {
                    match before.get_mut(&name) {
                        Some(inner) => {
                            self.path.0.push(Step::Field(name));
                            self.merge(inner, value);
                            self.path.0.pop();
                        }
                        None => {
                            before.insert(name, value);
                        }
                    }
                }
            }
            (before, value) => {
                let replaced = std::mem::replace(before, value);
                if self.replaced.len() < FAULTS_MAX && self.replaced_bytes < FAULT_BYTES_MAX {
                    let path = self.path.to_string();
                    self.replaced_bytes += path.len();
                    self.replaced.push((path, replaced));
                }
            }
        }
    }

    /// Records that the current field is a duplicate.
    fn report_duplicate(&mut self) {
        if self.duplicates.len() >= FAULTS_MAX || self.duplicate_bytes >= FAULT_BYTES_MAX {
            return;
        }
        let path = self.path.to_string();
        self.duplicate_bytes += path.len();
        if !self.duplicates.contains(&path) {
            self.duplicates.push(path);
        }
    }

    fn array(&mut self) -> Result<Value, String> {
        let mut items = Vec::new();
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            self.path.0.push(Step::Index(items.len()));
            if let Some(positions) = &mut self.positions {
                positions.enter_item(items.len());
            }
            self.skip_space();
            items.push(self.value()?);
            self.path.0.pop();
            if let Some(positions) = &mut self.positions {
                positions.leave();
            }
            match self.next_token()? {
                b',' => {}
                b']' => return Ok(Value::Array(items)),
                byte => return Err(unexpected(byte, "after array element")),
            }
        }
    }

    fn literal(&mut self, word: &'static str, value: Value) -> Result<Value, String> {
        for expected in word.bytes() {
            let byte = self.next()?;
            if byte != expected {
                let context = format!("in literal {word} (expecting {})", quoted(expected));
                return Err(unexpected(byte, &context));
            }
        }
        Ok(value)
    }

    fn number(&mut self) -> Result<Value, String> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.next()? {
            b'0' => {}
            b'1'..=b'9' => self.skip_digits(),
            byte => return Err(unexpected(byte, "in numeric literal")),
        }
        let mut whole = true;
        if self.peek() == Some(b'.') {
            whole = false;
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            whole = false;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        let text = self
            .bytes
            .get(start..self.at)
            .map(String::from_utf8_lossy)
            .unwrap_or_default();
        number(&text, whole)
    }

    fn skip_digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn digits(&mut self, context: &str) -> Result<(), String> {
        match self.next()? {
            b'0'..=b'9' => {
                self.skip_digits();
                Ok(())
            }
            byte => Err(unexpected(byte, context)),
        }
    }

    /// Parses the rest of a string after its opening quote. Invalid UTF-8 is replaced, as in Go.
    fn string(&mut self) -> Result<String, String> {
        let mut text = String::new();
        loop {
            let start = self.at;
            while !matches!(self.peek(), None | Some(b'"' | b'\\' | 0..0x20)) {
                self.at += 1;
            }
            if let Some(plain) = self.bytes.get(start..self.at) {
                text.push_str(&String::from_utf8_lossy(plain));
            }
            match self.next()? {
                b'"' => return Ok(text),
                b'\\' => text.push(self.escape()?),
                byte => return Err(unexpected(byte, "in string literal")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        Ok(match self.next()? {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unit = self.hexadecimal()?;
                self.code_point(unit)?
            }
            byte => return Err(unexpected(byte, "in string escape code")),
        })
    }

    /// Returns a code point from its first UTF-16 unit; an unpaired surrogate is replaced, as in Go.
    fn code_point(&mut self, unit: u32) -> Result<char, String> {
        let pair_follows =
            matches!(unit, 0xd800..0xdc00) && self.bytes.get(self.at..self.at + 2) == Some(b"\\u");
        if pair_follows {
            let back = self.at;
            self.at += 2;
            let low = self.hexadecimal()?;
            if matches!(low, 0xdc00..0xe000) {
                let code = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = back;
        }
        Ok(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hexadecimal(&mut self) -> Result<u32, String> {
        let mut unit = 0;
        for _ in 0..4 {
            let byte = self.next()?;
            let digit = char::from(byte)
                .to_digit(16)
                .ok_or_else(|| unexpected(byte, "in \\u hexadecimal character escape"))?;
            unit = unit * 16 + digit;
        }
        Ok(unit)
    }
}

fn number(text: &str, whole: bool) -> Result<Value, String> {
    if whole && let Ok(integer) = text.parse::<i64>() {
        return Ok(integer.into());
    }
    let float = text.parse::<f64>().ok().and_then(Number::from_f64);
    float
        .map(Value::Number)
        .ok_or_else(|| format!("json: cannot unmarshal number {text} into Go value of type float64"))
}

fn end_of_input() -> String {
    "unexpected end of JSON input".to_owned()
}

fn unexpected(byte: u8, context: &str) -> String {
    format!("invalid character {} {context}", quoted(byte))
}

/// Formats a character in Go's single quotes.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => "'\\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\\' => "'\\\\'".to_owned(),
        b'\n' => "'\\n'".to_owned(),
        b'\r' => "'\\r'".to_owned(),
        b'\t' => "'\\t'".to_owned(),
        0x20..0x7f => format!("'{}'", char::from(byte)),
        0..0x20 | 0x7f => format!("'\\x{byte:02x}'"),
        0x80..0xa1 | 0xad => format!("'\\u{byte:04x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}

#[cfg(test)]
mod tests;
