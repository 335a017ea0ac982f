//! Parses the examples in the annotations of a ClusterServiceVersion: [`examples`].

use apimachinery::{go, json};
use serde_json::Value;

/// The examples of an annotation, or the reason why they cannot be parsed.
pub(crate) enum Examples {
    /// The objects.
    Objects(Vec<Value>),
    /// The text is not JSON. Contains the number of bytes up to the invalid character, and Go's message.
    Syntax(usize, String),
    /// The JSON is not a list of objects with a kind. Contains Go's message with the value that causes the error.
    Type(String),
}

/// Parses a list of objects. If `compact` is true, the error about an object without kind shows the object as compact
/// JSON with sorted keys; otherwise as written.
pub(crate) fn examples(text: &str, compact: bool) -> Examples {
    let value = match json::parse(text.as_bytes()) {
        Ok(parsed) => parsed.value,
        Err(message) => return Examples::Syntax(syntax_error(text), message),
    };
    let type_error = |value: &Value, wanted: &str| {
        let found = go::json_kind(value);
        Examples::Type(format!(
            "json: cannot unmarshal {found} into Go value of type {wanted}"
        ))
    };
    let items = match value {
        Value::Null => return Examples::Objects(Vec::new()),
        Value::Array(items) => items,
        other => return type_error(&other, "[]unstructured.Unstructured"),
    };
    for item in &items {
        match item {
            Value::Object(fields) => {
                let kind = fields.get("kind").and_then(Value::as_str);
                if kind.is_none_or(str::is_empty) {
                    let shown = json::to_string(item);
                    let written = if compact { None } else { raw(text, &items) };
                    let shown = written.unwrap_or(&shown);
                    return Examples::Type(format!("Object 'Kind' is missing in '{shown}'"));
                }
            }
            Value::Null => return Examples::Type("Object 'Kind' is missing in 'null'".to_owned()),
            other => return type_error(other, "map[string]interface {}"),
        }
    }
    Examples::Objects(items)
}

/// Returns the only object of a list as written.
fn raw<'a>(text: &'a str, items: &[Value]) -> Option<&'a str> {
    if items.len() != 1 {
        return None;
    }
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    Some(inner.trim())
}

/// Returns the number of bytes up to and including the character at which Go's scanner stops.
fn syntax_error(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut scanner = Scanner { bytes, at: 0 };
    let result = scanner.value(0).and_then(|()| {
        scanner.blanks();
        if scanner.at < bytes.len() { Err(()) } else { Ok(()) }
    });
    match result {
        Ok(()) => bytes.len(),
        Err(()) => (scanner.at + 1).min(bytes.len()),
    }
}

/// A scanner that finds the first invalid byte of JSON.
struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|byte| b" \t\r\n".contains(&byte)) {
            self.at += 1;
        }
    }

    fn expect(&mut self, wanted: u8) -> Result<(), ()> {
        if self.peek() == Some(wanted) {
            self.at += 1;
            return Ok(());
        }
        Err(())
    }

    fn value(&mut self, depth: usize) -> Result<(), ()> {
        self.blanks();
        if depth > json::DEPTH_MAX {
            return Err(());
        }
        match self.peek() {
            Some(b'{') => self.items(b'}', depth, true),
            Some(b'[') => self.items(b']', depth, false),
            Some(b'"') => self.string(),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(()),
        }
    }

    fn items(&mut self, end: u8, depth: usize, keyed: bool) -> Result<(), ()> {
        self.at += 1;
        self.blanks();
        if self.peek() == Some(end) {
            self.at += 1;
            return Ok(());
        }
        loop {
            if keyed {
                self.blanks();
                if self.peek() != Some(b'"') {
                    return Err(());
                }
                self.string()?;
                self.blanks();
                self.expect(b':')?;
            }
            self.value(depth + 1)?;
            self.blanks();
            if self.peek() == Some(end) {
                self.at += 1;
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    fn string(&mut self) -> Result<(), ()> {
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    match self.peek() {
                        Some(b'u') => {
                            self.at += 1;
                            for _ in 0..4 {
                                if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                                    return Err(());
                                }
                                self.at += 1;
                            }
                        }
                        Some(byte) if b"\"\\/bfnrt".contains(&byte) => self.at += 1,
                        _ => return Err(()),
                    }
                }
                Some(0x20..) => self.at += 1,
                _ => return Err(()),
            }
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), ()> {
        word.iter().try_for_each(|byte| self.expect(*byte))
    }

    fn digits(&mut self) -> Result<(), ()> {
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(());
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), ()> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }
}
