//! Go's regular expressions (RE2) on the `regex` crate: same family, different classes and messages.

use regex::{Regex, RegexBuilder};

/// A program is refused beyond this size, so that no pattern takes unbounded memory.
const SIZE_LIMIT: usize = 4 << 20;

/// Compiles an RE2 pattern; the error is worded as Go's `regexp.Compile` words it.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(&translate(pattern))
        .size_limit(SIZE_LIMIT)
        .nest_limit(200)
        .build()
        .map_err(|error| format!("error parsing regexp: {}", explain(pattern, &error)))
}

/// Rewrites what means something else in the `regex` crate: `\d`, `\w`, `\s` and `\b` are ASCII-only in RE2, `\Q…\E` quotes.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.chars().peekable();
    let mut class_depth = 0_usize;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('Q') => quote_until_end(&mut out, &mut chars),
                Some(next) => out.push_str(&escape(next, class_depth > 0)),
                None => out.push('\\'),
            },
            '[' if class_depth == 0 => {
                class_depth = 1;
                out.push('[');
                if chars.peek() == Some(&'^') {
                    out.push('^');
                    chars.next();
                }
                // RE2 takes a leading `]` as a member of the class.
                if chars.peek() == Some(&']') {
                    out.push_str("\\]");
                    chars.next();
                }
            }
            '[' => match chars.peek() {
                Some(':') => {
                    class_depth += 1;
                    out.push('[');
                }
                _ => out.push_str("\\["),
            },
            ']' if class_depth > 0 => {
                class_depth -= 1;
                out.push(']');
            }
            // Set operations of the regex crate are plain characters in RE2.
            '&' | '~' if class_depth > 0 => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    out
}

fn quote_until_end(out: &mut String, chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    while let Some(c) = chars.next() {
        if c == '\\' && chars.peek() == Some(&'E') {
            chars.next();
            return;
        }
        out.push_str(&regex::escape(&c.to_string()));
    }
}

fn escape(c: char, in_class: bool) -> String {
    match (c, in_class) {
        ('d', false) => "[0-9]".to_owned(),
        ('D', false) => "[^0-9]".to_owned(),
        ('w', false) => "[0-9A-Za-z_]".to_owned(),
        ('W', false) => "[^0-9A-Za-z_]".to_owned(),
        ('s', false) => "[\\t\\n\\f\\r ]".to_owned(),
        ('S', false) => "[^\\t\\n\\f\\r ]".to_owned(),
        ('d', true) => "0-9".to_owned(),
        ('w', true) => "0-9A-Za-z_".to_owned(),
        ('s', true) => "\\t\\n\\f\\r ".to_owned(),
        ('D', true) => "[^0-9]".to_owned(),
        ('W', true) => "[^0-9A-Za-z_]".to_owned(),
        ('S', true) => "[^\\t\\n\\f\\r ]".to_owned(),
        ('b', false) => "(?-u:\\b)".to_owned(),
        _ => format!("\\{c}"),
    }
}

/// Go's words for the mistakes that people make.
fn explain(pattern: &str, error: &regex::Error) -> String {
    let text = error.to_string();
    let has = |needle: &str| text.contains(needle);
    if has("unclosed group") {
        format!("missing closing ): `{pattern}`")
    } else if has("unopened group") {
        format!("unexpected ): `{pattern}`")
    } else if has("unclosed character class") {
        let start = pattern.rfind('[').unwrap_or(0);
        format!("missing closing ]: `{}`", pattern.get(start..).unwrap_or(pattern))
    } else if has("repetition operator missing expression") {
        let at = pattern.find(['*', '+', '?', '{']).unwrap_or(0);
        let operator: String = pattern.get(at..).unwrap_or("").chars().take(1).collect();
        format!("missing argument to repetition operator: `{operator}`")
    } else if has("look-around") || has("unrecognized flag") {
        let at = pattern.find("(?").unwrap_or(0);
        let part: String = pattern.get(at..).unwrap_or("").chars().take(3).collect();
        format!("invalid or unsupported Perl syntax: `{part}`")
    } else if has("incomplete escape") {
        "trailing backslash at end of expression: ``".to_owned()
    } else if has("unrecognized escape") || has("backreferences") {
        let at = pattern.find('\\').unwrap_or(0);
        let part: String = pattern.get(at..).unwrap_or("").chars().take(2).collect();
        format!("invalid escape sequence: `{part}`")
    } else if has("invalid character class range") || has("range") && has("invalid") {
        format!("invalid character class range: `{pattern}`")
    } else if has("exceeds size limit") {
        "expression too large".to_owned()
    } else {
        format!("invalid expression: `{pattern}`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_ascii() {
        assert!(!compile(r"^\d$").unwrap().is_match("٣"));
        assert!(compile(r"^[\w.-]+$").unwrap().is_match("a_b.c-d"));
        assert!(compile(r"^[]a]+$").unwrap().is_match("]a"));
        assert!(compile(r"^\Qa.b\E$").unwrap().is_match("a.b"));
        assert!(compile(r"\bfoo\b").unwrap().is_match("a foo b"));
    }

    #[test]
    fn errors_are_worded_as_in_go() {
        assert_eq!(
            compile("(").unwrap_err(),
            "error parsing regexp: missing closing ): `(`"
        );
        assert_eq!(
            compile("*a").unwrap_err(),
            "error parsing regexp: missing argument to repetition operator: `*`"
        );
    }
}
