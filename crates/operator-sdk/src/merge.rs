//! Three-way merge of texts, line by line. Pure.

use std::borrow::Cow;

use diffy::{ConflictStyle, MergeOptions};

/// A merged text, and the number of its conflicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Merged {
    pub(crate) text: String,
    pub(crate) conflicts: usize,
}

/// The names of the two sides in conflict markers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sides<'a> {
    pub(crate) ours: &'a str,
    pub(crate) theirs: &'a str,
}

/// Merges the changes of two sides to `base`. If both changed the same lines in different ways, both versions are kept
/// between conflict markers in the format of git.
pub(crate) fn merge(base: &str, ours: &str, theirs: &str, sides: Sides<'_>) -> Merged {
    let mut options = MergeOptions::new();
    options.set_conflict_style(ConflictStyle::Merge);
    if let Ok(text) = options.merge(base, ours, theirs) {
        return Merged { text, conflicts: 0 };
    }
    // A conflict marker must be at the start of a line.
    let [base, ours, theirs] = [base, ours, theirs].map(ended);
    match options.merge(&base, &ours, &theirs) {
        Ok(text) => Merged { text, conflicts: 0 },
        Err(text) => named(&text, sides),
    }
}

/// Adds a line break to the last line of a text if it has none.
fn ended(text: &str) -> Cow<'_, str> {
    match text.is_empty() || text.ends_with('\n') {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!("{text}\n")),
    }
}

/// Adds the names of the sides to the conflict markers, and counts the conflicts.
fn named(text: &str, sides: Sides<'_>) -> Merged {
    let mut merged = Merged {
        text: String::with_capacity(text.len()),
        conflicts: 0,
    };
    for line in text.split_inclusive('\n') {
        match line.trim_end() {
            "<<<<<<< ours" => {
                merged.conflicts += 1;
                merged.text.push_str(&format!("<<<<<<< {}\n", sides.ours));
            }
            ">>>>>>> theirs" => merged.text.push_str(&format!(">>>>>>> {}\n", sides.theirs)),
            _ => merged.text.push_str(line),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIDES: Sides<'_> = Sides {
        ours: "yours",
        theirs: "v2",
    };

    #[track_caller]
    fn check(base: &str, ours: &str, theirs: &str, expected: &str, conflicts: usize) {
        let merged = merge(base, ours, theirs, SIDES);
        assert_eq!(merged.text, expected);
        assert_eq!(merged.conflicts, conflicts);
    }

    #[test]
    fn changes_in_different_places_are_both_there() {
        check("a\nb\nc\n", "a\nB\nc\n", "a\nb\nc\nd\n", "a\nB\nc\nd\n", 0);
        check("a\nb\nc\n", "x\na\nb\nc\n", "a\nc\n", "x\na\nc\n", 0);
        check("", "a\n", "", "a\n", 0);
        check("a\n", "a\n", "b\n", "b\n", 0);
        check("a\n", "b\n", "a\n", "b\n", 0);
        check("a\n", "b\n", "b\n", "b\n", 0);
    }

    #[test]
    fn changes_of_the_same_line_are_marked() {
        check(
            "a\nb\nc\n",
            "a\nours\nc\n",
            "a\ntheirs\nc\n",
            "a\n<<<<<<< yours\nours\n=======\ntheirs\n>>>>>>> v2\nc\n",
            1,
        );
        check("a", "b", "c", "<<<<<<< yours\nb\n=======\nc\n>>>>>>> v2\n", 1);
        check("a\n", "", "b\n", "<<<<<<< yours\n=======\nb\n>>>>>>> v2\n", 1);
    }
}
