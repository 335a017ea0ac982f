//! All messages of all crates in one place, so that their language can be reviewed: `snapshots/messages__messages.snap`.
//! `INSTA_UPDATE=always cargo test -p operator-sdk --test messages` writes it. The help texts are in
//! docs/book/src/reference/cli.md.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Macros and methods with a message, and the sort of message.
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

/// Collects the messages of a file.
#[derive(Default)]
struct Messages {
    found: Vec<(&'static str, String)>,
}

// === impl Messages ===

impl Messages {
    fn read(&mut self, tokens: TokenStream) {
        let trees: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while let Some(tree) = trees.get(at) {
            at += 1;
            let word = match tree {
                TokenTree::Ident(ident) => ident.to_string(),
                TokenTree::Group(group) => {
                    if is_test(&group.stream()) {
                        // The module after `#[cfg(test)]`.
                        at += trees[at..].iter().take_while(|tree| !is_block(tree)).count() + 1;
                    } else {
                        self.read(group.stream());
                    }
                    continue;
                }
                _ => continue,
            };
            let is_function = at >= 2 && trees.get(at - 2).is_some_and(|tree| tree.to_string() == "fn");
            if is_function {
                if word.contains("hint") {
                    at += trees[at..].iter().take_while(|tree| !is_block(tree)).count() + 1;
                    if let Some(TokenTree::Group(body)) = trees.get(at - 1) {
                        self.texts("hint", body.stream());
                    }
                }
                continue;
            }
            let is_macro = matches!(trees.get(at), Some(TokenTree::Punct(mark)) if mark.as_char() == '!');
            let Some(TokenTree::Group(group)) = trees.get(at + usize::from(is_macro)) else {
                continue;
            };
            let is_method =
                at >= 2 && matches!(trees.get(at - 2), Some(TokenTree::Punct(dot)) if dot.as_char() == '.');
            let sort = match word.as_str() {
                // `#[error("…")]` is alone in its brackets.
                "error" if at == 1 && !is_macro => Some("error"),
                word if is_macro || is_method => {
                    let call = CALLS.iter().find(|(name, _)| *name == word);
                    call.map(|(_, sort)| *sort)
                        .filter(|sort| is_macro == (*sort == "log"))
                }
                _ => None,
            };
            if let Some(sort) = sort {
                at += 1 + usize::from(is_macro);
                self.first_text(sort, group.stream());
            }
        }
    }

    /// Adds the first string that is a message, not the value of a field such as `controller = "x"`.
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

    /// Adds all strings with several words.
    fn texts(&mut self, sort: &'static str, tokens: TokenStream) {
        for tree in tokens {
            match tree {
                TokenTree::Literal(literal) => {
                    let text = text_of(&literal.to_string());
                    self.found
                        .extend(text.filter(|text| text.contains(' ')).map(|text| (sort, text)));
                }
                TokenTree::Group(group) => self.texts(sort, group.stream()),
                _ => {}
            }
        }
    }
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

/// Returns the source files of a directory, sorted, without those of tests.
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
    let mut all = String::new();
    for file in files(&crates) {
        let path = file.strip_prefix(&crates).unwrap().to_string_lossy().into_owned();
        if !path.contains("/src/") {
            continue;
        }
        let mut messages = Messages::default();
        let text = std::fs::read_to_string(&file).unwrap();
        messages.read(text.parse().unwrap());
        if messages.found.is_empty() {
            continue;
        }
        writeln!(all, "\n{path}").unwrap();
        for (sort, text) in messages.found {
            writeln!(all, "  {sort}: {}", text.replace('\n', "\n    ")).unwrap();
        }
    }
    assert!(all.lines().count() > 1000, "{}", all.lines().count());
    insta::assert_snapshot!(all.trim_start());
}
