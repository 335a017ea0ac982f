//! The code blocks of a page of the book, written to the files of a project as a reader would write them.

use std::path::Path;

/// A code block for a file. The line before it is the path in code quotes, followed by a colon.
#[derive(Debug, PartialEq)]
pub struct Block {
    pub path: String,
    pub text: String,
}

/// Returns the block that begins at a fence, and the line after it. Returns `None` without a path before the fence.
pub fn block(lines: &[&str], fence: usize, folder: &Path) -> Option<(Block, usize)> {
    let before = lines[..fence].iter().rev().find(|line| !line.is_empty())?;
    let path = before.strip_prefix('`')?.strip_suffix("`:")?;
    let end = fence + 1 + lines[fence + 1..].iter().position(|line| *line == "```")?;
    let text = lines[fence + 1..end]
        .iter()
        .map(|line| included(line, folder))
        .collect();
    let path = path.to_owned();
    Some((Block { path, text }, end + 1))
}

/// Returns a line of a page, or the part of a file that the line includes.
fn included(line: &str, folder: &Path) -> String {
    let Some(include) = line
        .strip_prefix("{{#include ")
        .and_then(|rest| rest.strip_suffix("}}"))
    else {
        return format!("{line}\n");
    };
    let (file, anchor) = include.split_once(':').unwrap_or((include, ""));
    let text = std::fs::read_to_string(folder.join(file)).expect(file);
    let mut is_in = anchor.is_empty();
    let mut part = String::new();
    for line in text.lines() {
        match line.trim_start().strip_prefix("// ANCHOR") {
            Some(mark) if mark == format!(": {anchor}") => is_in = true,
            Some(mark) if mark == format!("_END: {anchor}") => is_in = false,
            Some(_) => {}
            None if is_in => part += &format!("{line}\n"),
            None => {}
        }
    }
    assert!(!part.is_empty(), "{include} includes nothing");
    part
}

impl Block {
    /// Writes the block. A complete Rust file begins with its documentation. The items of another block replace those
    /// with the same first line, or are added at the end.
    pub fn write(&self, directory: &Path) {
        let path = directory.join(&self.path);
        let is_whole =
            self.text.starts_with("//!") || path.extension().is_none_or(|extension| extension != "rs");
        let text = if is_whole {
            self.text.clone()
        } else {
            let text = std::fs::read_to_string(&path).expect(&self.path);
            with_items(&text, &self.text)
        };
        std::fs::write(&path, text).expect(&self.path);
    }
}

/// Returns the text of a file with some items replaced or added.
fn with_items(file: &str, added: &str) -> String {
    let mut items = items(file);
    for new in self::items(added) {
        match items.iter_mut().find(|item| head(item) == head(&new)) {
            Some(item) => *item = new,
            None => items.push(new),
        }
    }
    items.join("\n")
}

/// Returns the first line of an item, without its documentation and attributes.
fn head(item: &str) -> Option<&str> {
    item.lines()
        .find(|line| !line.is_empty() && !line.starts_with("//") && !line.starts_with('#'))
}

/// Splits formatted Rust into its items. An item ends with a brace or a semicolon on a line that is not indented.
fn items(text: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    for line in text.lines() {
        let is_first = items.last().is_some_and(String::is_empty);
        if let Some(item) = items.last_mut().filter(|_| !(is_first && line.is_empty())) {
            *item += &format!("{line}\n");
        }
        let is_end = line.starts_with('}') || !line.starts_with([' ', '/', '#', ')']) && line.ends_with(';');
        if is_end {
            items.push(String::new());
        }
    }
    items.retain(|item| !item.is_empty());
    items
}
