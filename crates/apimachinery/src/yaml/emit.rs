//! Formats trees as YAML in the style of `sigs.k8s.io/yaml`: sorted keys, two spaces, sequences not indented, long
//! lines folded. Parsing the result returns the same tree.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};

use super::order::in_order;
use super::scalar::Scalar;

/// The column after which a space becomes a line break.
const FOLD_COLUMN: usize = 80;

/// Formats a value as a document, with a line break at the end.
///
/// ```
/// let role = serde_json::json!({"verbs": ["get", "list"], "apiGroups": [""]});
/// assert_eq!(
///     apimachinery::yaml::to_string(&role),
///     "apiGroups:\n- \"\"\nverbs:\n- get\n- list\n"
/// );
/// ```
pub fn to_string(value: &Value) -> String {
    commented(value, &[])
}

/// Formats a value with comments. Each comment is written on separate lines above the node with its JSON pointer.
///
/// The empty pointer is the start of the document. A pointer to a missing node, or to the first key of a sequence item,
/// is ignored: use the pointer of the item instead.
///
/// ```
/// let role = serde_json::json!({"verbs": ["get"]});
/// let comments = [("", "Who may read."), ("/verbs/0", "No more than this.")];
/// assert_eq!(
///     apimachinery::yaml::commented(&role, &comments),
///     "# Who may read.\nverbs:\n# No more than this.\n- get\n"
/// );
/// ```
pub fn commented(value: &Value, comments: &[(&str, &str)]) -> String {
    let mut emitter = Emitter {
        comments: comments.iter().copied().collect(),
        ..Emitter::default()
    };
    emitter.comment(0);
    match value {
        Value::Object(map) if !map.is_empty() => emitter.mapping(map, 0, Start::OwnLine),
        Value::Array(items) if !items.is_empty() => emitter.sequence(items, 0, Start::OwnLine),
        scalar => {
            emitter.scalar(scalar, 2);
            emitter.line_break();
        }
    }
    emitter.out
}

/// Formats values as the documents of one file, each after a `---` line.
pub fn to_documents<'a>(values: impl IntoIterator<Item = &'a Value>) -> String {
    values
        .into_iter()
        .map(|value| format!("---\n{}", to_string(value)))
        .collect()
}

/// The start of a block collection.
#[derive(Clone, Copy, PartialEq)]
enum Start {
    /// On a new line that has no indentation yet.
    OwnLine,
    /// After the `- ` of a sequence item.
    AfterDash,
}

#[derive(Default)]
struct Emitter<'a> {
    out: String,
    column: usize,
    /// The comments by JSON pointer.
    comments: BTreeMap<&'a str, &'a str>,
    /// The JSON pointer of the current node; maintained only if there are comments.
    pointer: String,
}

// === impl Emitter ===

impl Emitter<'_> {
    fn mapping(&mut self, map: &Map<String, Value>, indent: usize, start: Start) {
        let keys = in_order(map.keys().collect()).into_iter();
        let entries = keys.filter_map(|key| map.get_key_value(key));
        for (index, (key, value)) in entries.enumerate() {
            let outer = self.enter(key);
            if index > 0 || start == Start::OwnLine {
                self.comment(indent);
                self.indent(indent);
            }
            self.key(key);
            self.value(value, indent);
            self.pointer.truncate(outer);
        }
    }

    /// Enters a key or an item; returns the previous length of the pointer.
    fn enter(&mut self, step: &str) -> usize {
        let outer = self.pointer.len();
        if !self.comments.is_empty() {
            let escaped = step.replace('~', "~0").replace('/', "~1");
            self.pointer.push('/');
            self.pointer.push_str(&escaped);
        }
        outer
    }

    /// Writes the comment of the current node.
    fn comment(&mut self, indent: usize) {
        let Some(text) = self.comments.get(self.pointer.as_str()) else {
            return;
        };
        for line in text.lines() {
            self.out.push_str(&" ".repeat(indent));
            self.out.push_str(format!("# {line}").trim_end());
            self.out.push('\n');
        }
    }

    fn value(&mut self, value: &Value, indent: usize) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                self.line_break();
                self.mapping(map, indent + 2, Start::OwnLine);
            }
            Value::Array(items) if !items.is_empty() => {
                self.line_break();
                self.sequence(items, indent, Start::OwnLine);
            }
            scalar => {
                self.push(" ");
                self.scalar(scalar, indent + 2);
                self.line_break();
            }
        }
    }

    fn sequence(&mut self, items: &[Value], indent: usize, start: Start) {
        for (index, item) in items.iter().enumerate() {
            let outer = self.enter(&index.to_string());
            if index > 0 || start == Start::OwnLine {
                self.comment(indent);
                self.indent(indent);
            }
            self.push("- ");
            match item {
                Value::Object(map) if !map.is_empty() => self.mapping(map, indent + 2, Start::AfterDash),
                Value::Array(items) if !items.is_empty() => {
                    self.sequence(items, indent + 2, Start::AfterDash);
                }
                scalar => {
                    self.scalar(scalar, indent + 2);
                    self.line_break();
                }
            }
            self.pointer.truncate(outer);
        }
    }

    fn key(&mut self, key: &str) {
        match Style::of(key) {
            Style::Plain => self.push(key),
            Style::SingleQuoted => self.push(&format!("'{}'", key.replace('\'', "''"))),
            Style::Literal | Style::DoubleQuoted => self.push(&format!("\"{}\"", escaped(key))),
        }
        self.push(":");
    }

    fn scalar(&mut self, value: &Value, indent: usize) {
        match value {
            Value::Null => self.push("null"),
            Value::Bool(boolean) => self.push(if *boolean { "true" } else { "false" }),
            Value::Number(number) => self.push(&number_text(number)),
            Value::String(text) => self.string(text, indent),
            Value::Array(_) => self.push("[]"),
            Value::Object(_) => self.push("{}"),
        }
    }

    fn string(&mut self, text: &str, indent: usize) {
        match Style::of(text) {
            Style::Plain => self.folded(text, indent, Break::BetweenWords),
            Style::Literal => self.literal(text, indent),
            Style::SingleQuoted => {
                self.push("'");
                self.folded(&text.replace('\'', "''"), indent, Break::InsideText);
                self.push("'");
            }
            Style::DoubleQuoted => {
                self.push("\"");
                self.folded(&escaped(text), indent, Break::InsideText);
                self.push("\"");
            }
        }
    }

    /// Writes a single-line text. The first single space beyond the fold column becomes a line break.
    fn folded(&mut self, text: &str, indent: usize, breaks: Break) {
        let characters: Vec<char> = text.chars().collect();
        for (index, character) in characters.iter().enumerate() {
            let lone = *character == ' '
                && index > 0
                && index + 1 < characters.len()
                && characters.get(index - 1) != Some(&' ')
                && characters.get(index + 1) != Some(&' ');
            // A word that starts with a backslash would be parsed as an escape of the preceding line break.
            let safe = breaks == Break::BetweenWords || characters.get(index + 1) != Some(&'\\');
            if lone && safe && self.column > FOLD_COLUMN {
                self.line_break();
                self.indent(indent);
            } else {
                self.out.push(*character);
                self.column += 1;
            }
        }
    }

    fn literal(&mut self, text: &str, indent: usize) {
        let hint = if text.starts_with([' ', '\n']) { "2" } else { "" };
        let body = text.trim_end_matches('\n');
        let chomp = match text.len() - body.len() {
            0 => "-",
            1 => "",
            _ => "+",
        };
        self.push(&format!("|{hint}{chomp}"));
        let lines = text.strip_suffix('\n').unwrap_or(text);
        for line in lines.split('\n') {
            self.line_break();
            if !line.is_empty() {
                self.indent(indent);
                self.push(line);
            }
        }
    }

    fn indent(&mut self, spaces: usize) {
        self.push(&" ".repeat(spaces));
    }

    fn push(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    fn line_break(&mut self) {
        self.out.push('\n');
        self.column = 0;
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Break {
    BetweenWords,
    InsideText,
}

/// The style of a string.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
}

// === impl Style ===

impl Style {
    fn of(text: &str) -> Self {
        if text.chars().any(|c| c != '\n' && !is_printable(c)) {
            return Style::DoubleQuoted;
        }
        if text.contains('\n') {
            return if is_block_safe(text) {
                Style::Literal
            } else {
                Style::DoubleQuoted
            };
        }
        if reads_as_another_type(text) {
            Style::DoubleQuoted
        } else if has_indicator(text) || text.starts_with(' ') || text.ends_with(' ') {
            Style::SingleQuoted
        } else {
            Style::Plain
        }
    }
}

fn is_printable(character: char) -> bool {
    matches!(character, ' '..='~' | '\u{a0}'..='\u{2027}' | '\u{202a}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

/// Returns true if a literal block preserves a multi-line string: no line ends with a space, and at least one line is
/// not empty.
fn is_block_safe(text: &str) -> bool {
    !text.split('\n').any(|line| line.ends_with(' ')) && !text.trim_matches('\n').is_empty()
}

/// Returns true if the plain style of the string would be parsed as YAML punctuation.
fn has_indicator(text: &str) -> bool {
    let characters: Vec<char> = text.chars().collect();
    let blank_at = |index: usize| characters.get(index).is_none_or(|c| *c == ' ');
    let first = characters.first().is_some_and(|c| match c {
        '-' | '?' | ':' => blank_at(1),
        other => "#,[]{}&*!|>'\"%@`".contains(*other),
    });
    let inner = characters.iter().enumerate().any(|(index, c)| match c {
        ':' => blank_at(index + 1),
        '#' => index > 0 && blank_at(index - 1),
        _ => false,
    });
    first || inner || text.starts_with("---") || text.starts_with("...")
}

/// Returns true if the plain style of the string would be parsed as null, a boolean, a number or a time. `<<` and `=`
/// are special in some parsers.
fn reads_as_another_type(text: &str) -> bool {
    matches!(text, "<<" | "=")
        || is_sexagesimal(text)
        || is_time(text)
        || !matches!(Scalar::resolve(text, true, None), Ok(Scalar::Text(_)))
}

/// Returns true for a base-60 number of YAML 1.1: `12:30`.
fn is_sexagesimal(text: &str) -> bool {
    let mut parts = text.trim_start_matches(['-', '+']).split(':');
    let first = parts.next().unwrap_or_default();
    let mut rest: Vec<&str> = parts.collect();
    if let Some(last) = rest.last_mut() {
        *last = last.split('.').next().unwrap_or_default();
    }
    let is_number = first.starts_with(|c: char| c.is_ascii_digit())
        && first.chars().all(|c| c.is_ascii_digit() || c == '_');
    let below_60 = |part: &&str| (1..=2).contains(&part.len()) && part.parse().is_ok_and(|n: u8| n < 60);
    is_number && !rest.is_empty() && rest.iter().all(below_60)
}

/// Returns true for a time in a format of Go's decoder: a date; a date and a time with a zone, separated by `T`; or a
/// date and a time without a zone, separated by a space.
fn is_time(text: &str) -> bool {
    let digits = |part: &str, lengths: std::ops::RangeInclusive<usize>| {
        lengths.contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit())
    };
    let mut parts = text.splitn(3, '-');
    let [Some(year), Some(month), Some(rest)] = [parts.next(), parts.next(), parts.next()] else {
        return false;
    };
    let length = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (day, clock) = rest.split_at(length);
    let is_clock = |clock: &str| {
        let (whole, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
        digits(fraction, 1..=9)
            && whole.split(':').count() == 3
            && whole.split(':').all(|part| digits(part, 1..=2))
    };
    let is_zoned = |clock: &str| match clock.strip_suffix('Z') {
        Some(clock) => is_clock(clock),
        None => clock.rsplit_once(['-', '+']).is_some_and(|(clock, zone)| {
            let zone = zone.split_once(':');
            is_clock(clock)
                && zone.is_some_and(|(hours, minutes)| digits(hours, 2..=2) && digits(minutes, 2..=2))
        }),
    };
    digits(year, 4..=4)
        && digits(month, 1..=2)
        && digits(day, 1..=2)
        && match clock.strip_prefix(['T', 't']) {
            Some(clock) => is_zoned(clock),
            None => clock.is_empty() || clock.strip_prefix(' ').is_some_and(is_clock),
        }
}

fn number_text(number: &Number) -> String {
    match number.as_f64() {
        // `1.0` and `1` are the same number in JSON; schemas use the latter.
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => format!("{float:.0}"),
        _ => number.to_string(),
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0' => out.push_str("\\0"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\u{1b}' => out.push_str("\\e"),
            c if is_printable(c) => out.push(c),
            c if u32::from(c) <= 0xff => out.push_str(&format!("\\x{:02X}", u32::from(c))),
            c if u32::from(c) <= 0xffff => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push_str(&format!("\\U{:08X}", u32::from(c))),
        }
    }
    out
}
