//! The errors of the YAML parser, with the texts and lines of libyaml as the API server reports them.

use std::borrow::Cow;

use granit_parser::{ErrorKind, ScanError};

pub(super) enum Error {
    Scan(ScanError),
    Message(String),
    /// Without the prefix `yaml: `: the document is valid, but cannot be converted to JSON.
    Conversion(String),
}

impl Error {
    pub(super) fn text(&self, source: &str) -> String {
        match self {
            Self::Message(message) => format!("yaml: {message}"),
            Self::Conversion(message) => message.clone(),
            Self::Scan(error) => scan_error_text(error, source),
        }
    }

    /// Returns the line of a quoted scalar that is not indented, if that is the error.
    pub(super) fn unindented_line(&self) -> Option<usize> {
        match self {
            Self::Scan(error) => match error.kind() {
                ErrorKind::InvalidQuotedScalarIndent | ErrorKind::TabInIndentation => {
                    Some(error.marker().line())
                }
                _ => None,
            },
            _ => None,
        }
    }
}

/// The first error of each stage. The stages follow one another: the whole document is decoded, then the keys are converted
/// to names, then the values are written.
#[derive(Default)]
pub(super) struct Faults {
    pub(super) decoding: Option<String>,
    pub(super) key: Option<String>,
    pub(super) value: Option<String>,
}

impl Faults {
    pub(super) fn take(&mut self) -> Result<(), Error> {
        let Self { decoding, key, value } = std::mem::take(self);
        if let Some(message) = decoding {
            return Err(Error::Message(message));
        }
        key.or(value)
            .map_or(Ok(()), |message| Err(Error::Conversion(message)))
    }
}

/// Returns the text of the API server's error for bytes that are not UTF-8.
pub fn encoding_error(bytes: &[u8]) -> String {
    let end = std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len);
    let rest = bytes.get(end..).unwrap_or_default();
    let width = match rest.first() {
        Some(0xc0..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf7) => 4,
        _ => return "yaml: invalid leading UTF-8 octet".to_owned(),
    };
    let tail = rest.get(1..width);
    let problem = match (tail, rest.first()) {
        (None, _) => "incomplete UTF-8 octet sequence",
        (Some(tail), _) if tail.iter().any(|byte| byte & 0xc0 != 0x80) => "invalid trailing UTF-8 octet",
        (Some([second, ..]), Some(first)) if is_too_long(*first, *second) => {
            "invalid length of a UTF-8 sequence"
        }
        _ => "invalid Unicode character",
    };
    format!("yaml: {problem}")
}

/// Returns true if a character is encoded in more bytes than needed.
fn is_too_long(first: u8, second: u8) -> bool {
    match first {
        0xc0 | 0xc1 => true,
        0xe0 => second < 0xa0,
        0xf0 => second < 0x90,
        _ => false,
    }
}

/// Returns the name of the alias at a line, which is counted from one, and a column, which is counted from zero.
pub(super) fn alias_name(source: &str, line: usize, column: usize) -> String {
    let line = source.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let is_name = |character: &char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    let rest = line
        .chars()
        .skip(column)
        .skip_while(|character| *character == '*');
    rest.take_while(is_name).collect()
}

/// Returns the text and the line of libyaml's error. Its parser counts lines from zero, its scanner from one, and neither
/// reports the first line.
fn scan_error_text(error: &ScanError, source: &str) -> String {
    let marker = error.marker();
    if matches!(error.kind(), ErrorKind::UnknownAnchor) {
        let name = alias_name(source, marker.line(), marker.col());
        if !name.is_empty() {
            return format!("yaml: unknown anchor '{name}' referenced");
        }
    }
    let (problem, from_scanner) = problem(error.kind(), source);
    let line = marker.line();
    let last_line = source.lines().count();
    let at_open_end = !source.ends_with('\n') && marker.index() >= source.chars().count();
    let line = match error.kind() {
        // The API server's parser reports the end of the text; this parser reports the bracket.
        ErrorKind::UnclosedFlowCollection { .. } => last_line,
        ErrorKind::UnclosedQuotedScalar => match source.matches('\n').count() {
            0 => 0,
            lines => lines + 1,
        },
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => next_token_line(source, line),
        _ if from_scanner && line == 1 => 0,
        _ if from_scanner || at_open_end => line,
        _ => line.saturating_sub(1),
    };
    match line {
        0 => format!("yaml: {problem}"),
        line => format!("yaml: line {line}: {problem}"),
    }
}

/// Returns the text of libyaml for an error, and true if its scanner reports it.
fn problem(kind: &ErrorKind, source: &str) -> (Cow<'static, str>, bool) {
    const NO_NODE: &str = "did not find expected node content";
    const NO_KEY: &str = "did not find expected key";
    let end_of = |open: char| match open {
        '{' => "did not find expected ',' or '}'",
        _ => "did not find expected ',' or ']'",
    };
    let (problem, from_scanner) = match kind {
        ErrorKind::UnclosedFlowCollection { open } => {
            let nothing_follows = source.trim_end().ends_with(['[', '{', ',', ':']);
            (if nothing_follows { NO_NODE } else { end_of(*open) }, false)
        }
        ErrorKind::MismatchedFlowCollectionEnd { open, .. } => (end_of(*open), false),
        ErrorKind::ExpectedFlowSequenceSeparator => (end_of('['), false),
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::UnexpectedCharacter { .. } => ("found character that cannot start any token", true),
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => ("could not find expected ':'", true),
        ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofImplicitFlowMapping
        | ErrorKind::UnexpectedEofBlockMapping
        | ErrorKind::UnexpectedEofBlockSequence
        | ErrorKind::MisplacedFlowCollectionEnd => (NO_NODE, false),
        ErrorKind::InvalidTrailingSingleQuotedScalar
        | ErrorKind::InvalidTrailingDoubleQuotedScalar
        | ErrorKind::InvalidBlockScalarIndent => (NO_KEY, false),
        ErrorKind::CommentInterceptedScalar => (NO_KEY, true),
        ErrorKind::UndeclaredTagHandle => ("found undefined tag handle", false),
        ErrorKind::InvalidTagEscape => ("did not find URI escaped octet", true),
        ErrorKind::UnclosedQuotedScalar | ErrorKind::InvalidQuotedScalarIndent => {
            ("found unexpected end of stream", true)
        }
        ErrorKind::UnsupportedYamlMajorVersion => ("found incompatible YAML document", false),
        ErrorKind::UnknownQuotedScalarEscape => ("found unknown escape character", true),
        // As it is spelled there.
        ErrorKind::InvalidQuotedScalarHexEscape => ("did not find expected hexdecimal number", true),
        ErrorKind::InvalidLowSurrogate
        | ErrorKind::InvalidLowSurrogateHexEscape
        | ErrorKind::MissingLowSurrogate
        | ErrorKind::UnpairedLowSurrogate
        | ErrorKind::InvalidUnicodeEscape => ("found invalid Unicode character escape code", true),
        // The alias has no name.
        ErrorKind::UnknownAnchor => ("did not find expected alphabetic or numeric character", true),
        ErrorKind::MissingTagUri => ("did not find expected tag URI", true),
        kind => {
            let text = kind.to_string();
            let parsing = text.starts_with("while parsing");
            let problem = text
                .strip_prefix("while ")
                .and_then(|rest| rest.split_once(", "))
                .map(|(_, rest)| rest);
            return (problem.unwrap_or(&text).to_owned().into(), !parsing);
        }
    };
    (problem.into(), from_scanner)
}

/// Returns the first line after another one that has more than a comment, or the line after the last one.
fn next_token_line(source: &str, line: usize) -> usize {
    let is_blank = |text: &str| text.trim_start().is_empty() || text.trim_start().starts_with('#');
    let lines = source.lines().enumerate().skip(line);
    let next = lines
        .filter(|(_, text)| !is_blank(text))
        .map(|(index, _)| index + 1)
        .next();
    next.unwrap_or_else(|| source.lines().count() + 1)
}
