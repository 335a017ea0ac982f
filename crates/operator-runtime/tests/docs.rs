//! Every public item of this crate, of its macros and of the test environment has an example.
//!
//! The compiler sees to it that every public item has documentation, that its examples compile, and that nothing is
//! `pub` without being reachable; so what is left to look for is items whose documentation has no example.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::path::{Path, PathBuf};

/// What is declared with `pub` and should have an example; fields, variants and re-exports need none.
const ITEMS: [&str; 7] = ["fn ", "struct ", "enum ", "trait ", "type ", "const ", "static "];

/// The crates that are looked at; the folder of each is beside that of this one.
const CRATES: [&str; 3] = ["operator-runtime", "operator-macros", "operator-envtest"];

/// An item without an example: the number of its line, and the line.
type Missing = (usize, String);

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Whether a line declares an item; `in_trait` where functions are public without saying so.
fn declares(line: &str, in_trait: bool) -> bool {
    let line = line.trim_start();
    let Some(item) = line.strip_prefix("pub ").or_else(|| in_trait.then_some(line)) else {
        return false;
    };
    let item = item.trim_start_matches("async ").trim_start_matches("unsafe ");
    let item = item
        .strip_prefix("const ")
        .filter(|rest| rest.starts_with("fn "))
        .unwrap_or(item);
    match in_trait {
        true => item.starts_with("fn "),
        false => ITEMS.iter().any(|keyword| item.starts_with(keyword)),
    }
}

/// Whether the documentation above a line, with the attributes between, has an example.
fn has_example(above: &[&str]) -> bool {
    let belongs = |line: &&&str| {
        let line = line.trim();
        line.starts_with("///") || !(line.is_empty() || line.ends_with(['{', '}', ';']))
    };
    let documentation = above.iter().rev().take_while(belongs);
    let mut fences = documentation.filter_map(|line| line.trim_start().strip_prefix("/// ```"));
    // The last fence closes a block, the one before it says what is in the block.
    std::iter::from_fn(|| fences.next().and_then(|_| fences.next())).any(is_compiled)
}

/// Whether a block that begins like this is Rust that the compiler sees.
fn is_compiled(fence: &str) -> bool {
    matches!(fence.trim(), "" | "no_run" | "should_panic" | "compile_fail")
}

/// The lines before the module with tests that stands at the end of a file.
fn without_tests(source: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = source.lines().collect();
    let mut pairs = lines.windows(2);
    let tests = pairs.position(|pair| pair[0] == "#[cfg(test)]" && pair[1].ends_with("mod tests {"));
    lines.truncate(tests.unwrap_or(lines.len()));
    lines
}

fn missing_in(source: &str) -> Vec<Missing> {
    let lines = without_tests(source);
    let mut in_trait = false;
    let mut missing = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let is_item = declares(
            line,
            in_trait && line.starts_with("    ") && !line.starts_with("     "),
        );
        if is_item && !has_example(&lines[..index]) {
            missing.push((index + 1, line.trim().to_owned()));
        }
        if line.starts_with("pub trait ") {
            in_trait = true;
        } else if *line == "}" {
            in_trait = false;
        }
    }
    missing
}

#[test]
fn every_public_item_has_an_example() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for name in CRATES {
        sources(&crates.join(name).join("src"), &mut files);
    }
    files.sort();
    let mut missing = Vec::new();
    for file in files {
        let name = file.strip_prefix(crates).unwrap().display().to_string();
        if name.ends_with("tests.rs") {
            continue;
        }
        let source = std::fs::read_to_string(&file).unwrap();
        let found = missing_in(&source).into_iter();
        missing.extend(found.map(|(line, item)| format!("{name}:{line}: {item}")));
    }
    assert!(
        missing.is_empty(),
        "{} public items have no example:\n{}",
        missing.len(),
        missing.join("\n")
    );
}

#[test]
fn items_without_an_example_are_found() {
    let source = "\
#[cfg(test)]
mod fake;

/// Has one.
/// ```
/// let _ = 1;
/// ```
#[derive(
    Debug,
)]
pub struct Good {
    /// A field needs none.
    pub field: u8,
}

/// Has none.
pub struct Bad;

/// Has one that nobody compiles.
/// ```ignore
/// # nonsense
/// ```
pub struct Unseen;

impl Good {
    /// Has none either.
    #[must_use]
    pub async fn bad(&self) {}

    pub(crate) fn hidden(&self) {}
}

/// ```
/// ```
pub trait Open {
    /// And this.
    fn bad(&self) {
        fn inner() {}
    }
}

#[cfg(test)]
mod tests {
    pub fn no_item() {}
}
";
    let found = missing_in(source);
    let lines: Vec<_> = found.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [17, 23, 28, 37], "{found:?}");
}
