//! Tests that the text of the repository avoids constructions that are hard to read.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::path::{Path, PathBuf};

/// Words that must not begin a comment.
const FIRST_WORDS: [&str; 6] = ["What", "Whether", "Who", "Where", "How", "Which"];

/// Constructions that are hard to read, each with a plainer form.
const INVERTED: [(&str, &str); 9] = [
    ("is told", "reports, shows"),
    ("told otherwise", "unless … is set"),
    ("said otherwise", "unless … is set"),
    ("leave away", "omit"),
    ("left away", "omit"),
    (" mend", "repair, fix"),
    ("seldom", "rarely"),
    ("is none", "does not exist"),
    (" is no ", "is not a"),
];

/// Maximum number of occurrences in the repository, because some are correct.
const MAX: usize = 10;

/// Files with text from other sources: recorded responses, and documentation of Kubernetes types.
const OF_OTHERS: [&str; 6] = [
    "Cargo.lock",
    ".json",
    "/recorded/",
    "cronjob-operator/config/crd/",
    "operator-sdk/tests/language.rs",
    // The messages are checked in the source files.
    "snapshots/messages__",
];

fn repository() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    crates.parent().unwrap().to_owned()
}

/// Collects the paths of the files in a directory of the repository, except for those that builds create.
fn files(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() && entry.file_name() != "target" && entry.file_name() != ".git" {
            files(&path, found);
        } else if kind.is_file() {
            let path = path.strip_prefix(repository()).unwrap();
            found.push(path.to_string_lossy().into_owned());
        }
    }
}

/// Returns the plain form of the first hard construction in a line, if there is one.
fn fault(line: &str, is_markdown: bool) -> Option<&'static str> {
    let trimmed = line.trim_start();
    // A heading in Markdown looks like a comment in YAML.
    let marks: &[&str] = if is_markdown {
        &[]
    } else {
        &["///", "//!", "// ", "# "]
    };
    let comment = marks.iter().find_map(|mark| trimmed.strip_prefix(mark));
    let mut words = comment.unwrap_or_default().split_whitespace();
    let is_question = trimmed.ends_with('?');
    if words.next().is_some_and(|first| FIRST_WORDS.contains(&first)) && !is_question {
        return Some("begin with the subject");
    }
    INVERTED
        .iter()
        .find(|(words, _)| line.contains(words))
        .map(|(_, plain)| *plain)
}

#[test]
fn few_sentences_are_inverted() {
    let mut found = Vec::new();
    let mut all = Vec::new();
    files(&repository(), &mut all);
    assert!(all.len() > 1000, "only {} files", all.len());
    all.retain(|file| !OF_OTHERS.iter().any(|part| file.contains(part)));
    for file in all {
        // Some files are not text, and some are links to files outside of the repository.
        let Ok(text) = std::fs::read_to_string(repository().join(&file)) else {
            continue;
        };
        for (number, line) in text.lines().enumerate() {
            if let Some(plain) = fault(line, file.ends_with(".md")) {
                found.push(format!("{file}:{}: {} ({plain})", number + 1, line.trim()));
            }
        }
    }
    assert!(
        found.len() < MAX,
        "{} places, write them as CONTRIBUTING.md says:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn inverted_sentences_are_recognized() {
    assert!(fault("/// Whether it runs.", false).is_some());
    assert!(fault("    //! How it works.", false).is_some());
    assert!(fault("  # Who may read it.", false).is_some());
    assert!(fault("# How it works", true).is_none());
    assert!(fault("the path of a webhook is none", true).is_some());
    assert!(fault("/// Returns true if it runs.", false).is_none());
    assert!(fault("let whether = What;", false).is_none());
}
