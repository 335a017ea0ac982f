//! Tokens of CEL, with the errors of the reference implementation's lexer.

use crate::ast::Issue;

/// A token: its kind, and its range in characters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) offset: usize,
    pub(crate) end: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    Symbol(&'static str),
    /// A word, including `in`, `true`, `false` and `null`, which the parser distinguishes.
    Word(String),
    /// An identifier between backticks.
    Escaped(String),
    Int(String),
    Uint(String),
    Float(String),
    String(String),
    Bytes(Vec<u8>),
    End,
}

const SYMBOLS: [&str; 25] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(", ")",
    "[", "]", "{", "}", "=",
];

/// Splits the source into tokens; invalid text is reported and skipped.
pub(crate) fn tokenize(source: &str) -> (Vec<Token>, Vec<Issue>) {
    let chars: Vec<char> = source.chars().collect();
    let mut lexer = Lexer {
        chars: &chars,
        at: 0,
        tokens: Vec::new(),
        issues: Vec::new(),
    };
    while lexer.at < chars.len() {
        lexer.next();
    }
    let offset = chars.len();
    lexer.tokens.push(Token {
        kind: TokenKind::End,
        offset,
        end: offset,
    });
    (lexer.tokens, lexer.issues)
}

struct Lexer<'s> {
    chars: &'s [char],
    at: usize,
    tokens: Vec<Token>,
    issues: Vec<Issue>,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn text(&self, from: usize, to: usize) -> String {
        self.chars
            .get(from..to.min(self.chars.len()))
            .unwrap_or_default()
            .iter()
            .collect()
    }

    fn push(&mut self, kind: TokenKind, offset: usize) {
        self.tokens.push(Token {
            kind,
            offset,
            end: self.at,
        });
    }

    /// Reports and skips the text up to and including the first invalid character.
    fn unrecognized(&mut self, offset: usize, failed_at: usize) {
        let text = self.text(offset, failed_at + 1);
        let text = text
            .replace('\n', "\\n")
            .replace('\t', "\\t")
            .replace('\r', "\\r");
        self.issues.push(Issue {
            offset,
            message: format!("Syntax error: token recognition error at: '{text}'"),
        });
        self.at = failed_at + 1;
    }

    fn next(&mut self) {
        let offset = self.at;
        let Some(c) = self.peek(0) else { return };
        match c {
            ' ' | '\t' | '\n' | '\r' | '\u{c}' => self.at += 1,
            '/' if self.peek(1) == Some('/') => {
                while self.peek(0).is_some_and(|c| c != '\n') {
                    self.at += 1;
                }
            }
            '\'' | '"' => self.string(offset, false, false),
            '0'..='9' => self.number(offset),
            '.' if self.peek(1).is_some_and(|c| c.is_ascii_digit()) => self.number(offset),
            'a'..='z' | 'A'..='Z' | '_' => self.word(offset),
            '`' => self.escaped(offset),
            _ => self.symbol(offset),
        }
    }

    fn symbol(&mut self, offset: usize) {
        let found = SYMBOLS.iter().find(|symbol| {
            symbol
                .chars()
                .enumerate()
                .all(|(index, c)| self.peek(index) == Some(c))
        });
        match found {
            Some(&"=") | None => {
                let starts_a_pair = matches!(self.peek(0), Some('=' | '&' | '|'));
                self.unrecognized(offset, if starts_a_pair { offset + 1 } else { offset });
            }
            Some(symbol) => {
                self.at += symbol.len();
                self.push(TokenKind::Symbol(symbol), offset);
            }
        }
    }

    fn word(&mut self, offset: usize) {
        if let Some((raw, bytes, len)) = self.string_prefix() {
            self.at += len;
            return self.string_with_prefix(offset, raw, bytes);
        }
        while self
            .peek(0)
            .is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
        {
            self.at += 1;
        }
        let text = self.text(offset, self.at);
        self.push(TokenKind::Word(text), offset);
    }

    fn string_prefix(&self) -> Option<(bool, bool, usize)> {
        let kind = |c: char| match c.to_ascii_lowercase() {
            'r' => Some((true, false)),
            'b' => Some((false, true)),
            _ => None,
        };
        let is_quote = |c: Option<char>| matches!(c, Some('\'' | '"'));
        let first = kind(self.peek(0)?)?;
        if is_quote(self.peek(1)) {
            return Some((first.0, first.1, 1));
        }
        let second = kind(self.peek(1)?)?;
        (first != second && is_quote(self.peek(2))).then_some((true, true, 2))
    }

    fn string_with_prefix(&mut self, offset: usize, raw: bool, bytes: bool) {
        self.string(offset, raw, bytes);
    }

    fn escaped(&mut self, offset: usize) {
        let mut end = self.at + 1;
        while self
            .chars
            .get(end)
            .is_some_and(|c| c.is_ascii_alphanumeric() || "_.-/ ".contains(*c))
        {
            end += 1;
        }
        if self.chars.get(end) != Some(&'`') || end == self.at + 1 {
            return self.unrecognized(offset, end.min(self.chars.len()));
        }
        let name = self.text(self.at + 1, end);
        self.at = end + 1;
        self.push(TokenKind::Escaped(name), offset);
    }

    fn number(&mut self, offset: usize) {
        if self.peek(0) == Some('0')
            && matches!(self.peek(1), Some('x' | 'X'))
            && self.peek(2).is_some_and(|c| c.is_ascii_hexdigit())
        {
            self.at += 2;
            while self.peek(0).is_some_and(|c| c.is_ascii_hexdigit()) {
                self.at += 1;
            }
            return self.integer(offset);
        }
        self.digits();
        let mut is_float = false;
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
            is_float = true;
            self.at += 1;
            self.digits();
        }
        if matches!(self.peek(0), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
            if self.peek(1 + sign).is_some_and(|c| c.is_ascii_digit()) {
                is_float = true;
                self.at += 1 + sign;
                self.digits();
            }
        }
        if is_float {
            let text = self.text(offset, self.at);
            return self.push(TokenKind::Float(text), offset);
        }
        self.integer(offset);
    }

    fn integer(&mut self, offset: usize) {
        let text = self.text(offset, self.at);
        if matches!(self.peek(0), Some('u' | 'U')) {
            self.at += 1;
            return self.push(TokenKind::Uint(text), offset);
        }
        self.push(TokenKind::Int(text), offset);
    }

    fn digits(&mut self) {
        while self.peek(0).is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn string(&mut self, offset: usize, raw: bool, bytes: bool) {
        let Some(quote) = self.peek(0) else { return };
        let triple = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        let width = if triple { 3 } else { 1 };
        let start = self.at + width;
        let mut end = start;
        loop {
            let closes = (0..width).all(|index| self.chars.get(end + index) == Some(&quote));
            match self.chars.get(end) {
                _ if closes => break,
                None => return self.unrecognized(offset, self.chars.len()),
                Some('\n' | '\r') if !triple => return self.unrecognized(offset, end),
                Some('\\') if !raw => end += 2,
                Some(_) => end += 1,
            }
        }
        let body = self.text(start, end);
        self.at = end + width;
        match unescape(&body, raw, bytes) {
            Ok(value) if bytes => self.push(TokenKind::Bytes(value), offset),
            Ok(value) => {
                let text = String::from_utf8_lossy(&value).into_owned();
                self.push(TokenKind::String(text), offset);
            }
            Err(()) => {
                let kind = if bytes { "bytes" } else { "string" };
                self.issues.push(Issue {
                    offset,
                    message: format!("Syntax error: invalid {kind} literal"),
                });
                self.push(TokenKind::String(String::new()), offset);
            }
        }
    }
}

fn unescape(body: &str, raw: bool, bytes: bool) -> Result<Vec<u8>, ()> {
    if raw {
        return Ok(body.as_bytes().to_vec());
    }
    let mut out = Vec::with_capacity(body.len());
    let mut chars = body.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            let mut buffer = [0; 4];
            out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
            continue;
        }
        let escape = chars.next().ok_or(())?;
        let simple = match escape {
            'a' => Some(7),
            'b' => Some(8),
            'f' => Some(12),
            'n' => Some(b'\n'),
            'r' => Some(b'\r'),
            't' => Some(b'\t'),
            'v' => Some(11),
            '\\' | '\'' | '"' | '`' | '?' => u8::try_from(escape).ok(),
            _ => None,
        };
        if let Some(byte) = simple {
            out.push(byte);
            continue;
        }
        let (digits, radix, first) = match escape {
            'x' | 'X' => (2, 16, None),
            'u' if !bytes => (4, 16, None),
            'U' if !bytes => (8, 16, None),
            '0'..='3' => (2, 8, Some(escape)),
            _ => return Err(()),
        };
        let text: String = first.into_iter().chain(chars.by_ref().take(digits)).collect();
        if text.chars().count() != digits + usize::from(first.is_some()) {
            return Err(());
        }
        let code = u32::from_str_radix(&text, radix).map_err(|_| ())?;
        if bytes {
            out.push(u8::try_from(code).map_err(|_| ())?);
        } else {
            let c = char::from_u32(code).ok_or(())?;
            let mut buffer = [0; 4];
            out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
        }
    }
    Ok(out)
}
