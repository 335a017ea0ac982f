//! All messages of all crates in one place, so that their language can be reviewed: `snapshots/messages__CRATE.snap`.
//! `INSTA_UPDATE=always cargo test -p operator-sdk --test messages` writes them. The help texts are in
//! docs/book/src/reference/cli.md.
//!
//! Known macros and methods determine the sort of a message. Every other string with several words, such as the message
//! of a condition or a response of the API server, has the sort `text`. Strings for programmers are omitted:
//! documentation, reasons of lints, and messages of panics.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Macros and methods with a message, and the sort of the message.
const CALLS: [(&str, &str); 8] = [
    ("error", "log"),
    ("warn", "log"),
    ("info", "log"),
    ("debug", "log"),
    ("line", "output"),
    ("progress", "output"),
    ("warning", "warning"),
    ("normal", "event"),
];

/// Macros and methods whose strings are for programmers.
const FOR_PROGRAMMERS: [&str; 8] = [
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "expect",
    "panic",
    "unreachable",
];

/// Collects the messages of a file.
#[derive(Default)]
struct Messages {
    found: Vec<(&'static str, String)>,
}

// === impl Messages ===

impl Messages {
    /// Adds the messages in tokens whose strings have this sort.
    fn read(&mut self, tokens: TokenStream, sort: &'static str) {
        let trees: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while let Some(tree) = trees.get(at) {
            at += 1;
            match tree {
                TokenTree::Punct(mark) if mark.as_char() == '#' => at = self.attribute(&trees, at),
                TokenTree::Ident(word) => at = self.word(&trees, at, &word.to_string(), sort),
                TokenTree::Group(group) => self.read(group.stream(), sort),
                TokenTree::Literal(literal) => {
                    let text = text_of(&literal.to_string()).filter(|text| has_words(text));
                    self.found.extend(text.map(|text| (sort, text)));
                }
                TokenTree::Punct(_) => {}
            }
        }
    }

    /// Reads an attribute: `#[error("…")]` is a message, and `#[cfg(test)]` omits the item that follows.
    fn attribute(&mut self, trees: &[TokenTree], mut at: usize) -> usize {
        if matches!(trees.get(at), Some(TokenTree::Punct(mark)) if mark.as_char() == '!') {
            at += 1;
        }
        let Some(TokenTree::Group(attribute)) = trees.get(at) else {
            return at;
        };
        at += 1;
        if is_test(&attribute.stream()) {
            let is_end = |tree: &&TokenTree| is_block(tree) || tree.to_string() == ";";
            return at + trees[at..].iter().take_while(|tree| !is_end(tree)).count() + 1;
        }
        let mut inner = attribute.stream().into_iter();
        if let (Some(TokenTree::Ident(name)), Some(TokenTree::Group(message))) = (inner.next(), inner.next())
            && name == "error"
        {
            self.first_text("error", message.stream());
        }
        at
    }

    /// Reads the tokens after a word: the body of a function with hints, or the arguments of a macro or method with a
    /// message.
    fn word(&mut self, trees: &[TokenTree], at: usize, word: &str, sort: &'static str) -> usize {
        let before = |steps: usize| at.checked_sub(steps).and_then(|place| trees.get(place));
        if before(2).is_some_and(|tree| tree.to_string() == "fn") {
            let body = at + trees[at..].iter().take_while(|tree| !is_block(tree)).count();
            if let Some(TokenTree::Group(group)) = trees.get(body)
                && word.contains("hint")
            {
                self.read(group.stream(), "hint");
                return body + 1;
            }
            return at;
        }
        let is_macro = matches!(trees.get(at), Some(TokenTree::Punct(mark)) if mark.as_char() == '!');
        let place = at + usize::from(is_macro);
        let Some(TokenTree::Group(group)) = trees.get(place) else {
            return at;
        };
        let is_method = matches!(before(2), Some(TokenTree::Punct(dot)) if dot.as_char() == '.');
        if !is_macro && !is_method {
            return at;
        }
        if FOR_PROGRAMMERS.contains(&word) {
            return place + 1;
        }
        let call = CALLS.iter().find(|(name, _)| *name == word);
        let Some((_, message)) = call.filter(|(_, sort)| is_macro == (*sort == "log")) else {
            return at;
        };
        let before = self.found.len();
        self.first_text(message, group.stream());
        let first = self.found.get(before).map(|(_, text)| text.clone());
        let after = self.found.len();
        // The other strings are parts of the message.
        self.read(group.stream(), sort);
        let again = self.found[after..]
            .iter()
            .position(|(_, text)| Some(text) == first.as_ref());
        if let Some(again) = again {
            self.found.remove(after + again);
        }
        place + 1
    }

    /// Adds the first string that is a message, and not the value of a field such as `controller = "x"`.
    fn first_text(&mut self, sort: &'static str, tokens: TokenStream) {
        let mut before = None;
        for tree in tokens {
            let follows_equals = matches!(&before, Some(TokenTree::Punct(mark)) if mark.as_char() == '=');
            match &tree {
                TokenTree::Literal(literal) if !follows_equals => {
                    if let Some(text) = text_of(&literal.to_string()) {
                        self.found.push((sort, text));
                        return;
                    }
                }
                TokenTree::Group(group) => {
                    let count = self.found.len();
                    self.first_text(sort, group.stream());
                    if self.found.len() > count {
                        return;
                    }
                }
                _ => {}
            }
            before = Some(tree);
        }
    }
}

/// Returns true if a string contains at least two words that are not placeholders.
fn has_words(text: &str) -> bool {
    let words = text.split_whitespace().filter(|word| {
        let letters = word.trim_matches(|c: char| !c.is_alphanumeric());
        letters.len() > 1
            && letters
                .chars()
                .all(|c| c.is_alphabetic() || c == '\'' || c == '-')
    });
    words.count() > 1
}

fn is_block(tree: &TokenTree) -> bool {
    matches!(tree, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

fn is_test(attribute: &TokenStream) -> bool {
    attribute.to_string().replace(' ', "") == "cfg(test)"
}

/// Returns the value of a string literal.
fn text_of(literal: &str) -> Option<String> {
    let literal: syn::LitStr = syn::parse_str(literal).ok()?;
    Some(literal.value()).filter(|text| text.contains(char::is_alphabetic))
}

/// Returns the source files of a directory, sorted, except for those of tests.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if ["tests", "testing", "simulation"].contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn messages() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut names: Vec<String> = std::fs::read_dir(&crates)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let mut lines = 0;
    for name in names {
        let source = crates.join(&name).join("src");
        let mut all = String::new();
        for file in files(&source) {
            let mut messages = Messages::default();
            let text = std::fs::read_to_string(&file).unwrap();
            messages.read(text.parse().unwrap(), "text");
            if messages.found.is_empty() {
                continue;
            }
            let path = file.strip_prefix(&source).unwrap();
            writeln!(all, "\n{}", path.display()).unwrap();
            for (sort, text) in messages.found {
                writeln!(all, "  {sort}: {}", text.replace('\n', "\n    ")).unwrap();
            }
        }
        lines += all.lines().count();
        if !all.is_empty() {
            insta::assert_snapshot!(name, all.trim_start());
        }
    }
    assert!(lines > 3000, "{lines}");
}

#[test]
fn messages_are_found() {
    let source = r#"
        #![expect(clippy::unwrap_used, reason = "a test may fail")]
        #[derive(Error)]
        enum Error {
            #[error("cannot read {path}")]
            Read { path: String },
        }
        fn hint() -> &'static str { "check the path" }
        fn work() {
            tracing::warn!(controller = "x", "Stopped {}", "after a while");
            assert!(true, "for a programmer");
            let text = format!("3 of {} replicas are available", 4);
            let key = "app.kubernetes.io/name";
        }
        #[cfg(test)]
        mod tests { fn one() { let text = "not a message"; } }
    "#;
    let mut messages = Messages::default();
    messages.read(source.parse().unwrap(), "text");
    let found: Vec<(&str, &str)> = messages
        .found
        .iter()
        .map(|(sort, text)| (*sort, text.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            ("error", "cannot read {path}"),
            ("hint", "check the path"),
            ("log", "Stopped {}"),
            ("text", "after a while"),
            ("text", "3 of {} replicas are available"),
        ]
    );
}
