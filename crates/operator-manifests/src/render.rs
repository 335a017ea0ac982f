//! YAML as the Kubernetes tools write it: sorted keys, two spaces, sequences not indented, long lines folded.
//!
//! Knows no kind of manifest: any JSON tree is rendered, and reads back as the same tree. The style is that of
//! `sigs.k8s.io/yaml`, so that a project's files do not change when they pass through controller-gen or kustomize.

use std::collections::BTreeMap;

use apimachinery::yaml::in_order;
use serde_json::{Map, Number, Value};

/// The column after which a space becomes a line break.
const FOLD_COLUMN: usize = 80;

/// Renders one value, with a line break at the end.
///
/// ```
/// let role = serde_json::json!({"verbs": ["get", "list"], "apiGroups": [""]});
/// assert_eq!(
///     operator_manifests::render::yaml(&role),
///     "apiGroups:\n- \"\"\nverbs:\n- get\n- list\n"
/// );
/// ```
pub fn yaml(value: &Value) -> String {
    commented(value, &[])
}

/// Renders one value with comments: each goes above the place that its JSON pointer names, in lines of its own.
///
/// The empty pointer is the head of the document. A pointer that names nothing, or the first key of an item of a
/// sequence, is ignored: the comment of an item belongs to the item.
///
/// ```
/// let role = serde_json::json!({"verbs": ["get"]});
/// let comments = [("", "Who may read."), ("/verbs/0", "No more than this.")];
/// assert_eq!(
///     operator_manifests::render::commented(&role, &comments),
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

/// Renders values as documents of one file, each after a `---` line.
pub fn documents<'a>(values: impl IntoIterator<Item = &'a Value>) -> String {
    values
        .into_iter()
        .map(|value| format!("---\n{}", yaml(value)))
        .collect()
}

/// Where a block collection begins.
#[derive(Clone, Copy, PartialEq)]
enum Start {
    /// On a line of its own, which is still to be indented.
    OwnLine,
    /// After the `- ` of a sequence's item.
    AfterDash,
}

#[derive(Default)]
struct Emitter<'a> {
    out: String,
    column: usize,
    /// By JSON pointer.
    comments: BTreeMap<&'a str, &'a str>,
    /// The pointer of what is being written; kept only where there are comments.
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

    /// Steps into a key or an item; the length of the pointer to go back to.
    fn enter(&mut self, step: &str) -> usize {
        let outer = self.pointer.len();
        if !self.comments.is_empty() {
            let escaped = step.replace('~', "~0").replace('/', "~1");
            self.pointer.push('/');
            self.pointer.push_str(&escaped);
        }
        outer
    }

    /// The comment of the place that is being written.
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

    /// Writes text of one line; a lone space beyond the fold column becomes a line break.
    fn folded(&mut self, text: &str, indent: usize, breaks: Break) {
        let characters: Vec<char> = text.chars().collect();
        for (index, character) in characters.iter().enumerate() {
            let lone = *character == ' '
                && index > 0
                && index + 1 < characters.len()
                && characters.get(index - 1) != Some(&' ')
                && characters.get(index + 1) != Some(&' ');
            // A word that begins with a backslash would read as the escape of the line break before it.
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

/// How a string is written.
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

/// Whether a text of several lines survives a literal block: no line ends in a space, and there is a line with text.
fn is_block_safe(text: &str) -> bool {
    !text.split('\n').any(|line| line.ends_with(' ')) && !text.trim_matches('\n').is_empty()
}

/// Whether a plain form of the text would be read as YAML punctuation.
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

/// Words that YAML 1.1 readers take for null or a boolean, in lower case.
const RESERVED: [&str; 11] = [
    "", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n",
];

/// Whether a plain form of the text would be read as null, a boolean, a number or a time.
fn reads_as_another_type(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let numeric = lower.replace('_', "");
    let unsigned = numeric.trim_start_matches(['-', '+']);
    RESERVED.contains(&lower.as_str())
        || matches!(text, "<<" | "=")
        || matches!(unsigned, ".inf" | ".nan")
        || looks_like_number(unsigned)
        || looks_like_time(unsigned)
}

fn looks_like_number(unsigned: &str) -> bool {
    let radix = ["0x", "0o", "0b"]
        .iter()
        .filter_map(|prefix| unsigned.strip_prefix(prefix))
        .any(|digits| !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit()));
    let starts = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    radix || (starts && unsigned.parse::<f64>().is_ok()) || is_sexagesimal(unsigned)
}

fn is_sexagesimal(text: &str) -> bool {
    text.contains(':')
        && text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || c == ':' || c == '.')
}

fn looks_like_time(text: &str) -> bool {
    let year = text.split('-').next().unwrap_or_default();
    year.len() == 4
        && year.chars().all(|c| c.is_ascii_digit())
        && text.contains('-')
        && text.chars().all(|c| c.is_ascii_digit() || "-:.+tz ".contains(c))
}

fn number_text(number: &Number) -> String {
    match number.as_f64() {
        // `1.0` and `1` are one number in JSON; schemas say the latter.
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
            c if is_printable(c) => out.push(c),
            c if u32::from(c) <= 0xff => out.push_str(&format!("\\x{:02X}", u32::from(c))),
            c if u32::from(c) <= 0xffff => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push_str(&format!("\\U{:08X}", u32::from(c))),
        }
    }
    out
}
