//! The three-way merge of texts, line by line. Pure.

/// A merged text, and how many conflicts are marked in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Merged {
    pub(crate) text: String,
    pub(crate) conflicts: usize,
}

/// The names of the two sides in the marks of a conflict.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sides<'a> {
    pub(crate) ours: &'a str,
    pub(crate) theirs: &'a str,
}

/// Merges what became of `base` on two sides. Where both changed the same lines in different ways, both versions stand
/// in the text between marks, as git writes them.
pub(crate) fn merge(base: &str, ours: &str, theirs: &str, sides: Sides<'_>) -> Merged {
    let [base, ours, theirs] =
        [base, ours, theirs].map(|text| text.split_inclusive('\n').collect::<Vec<_>>());
    let (in_ours, in_theirs) = (matches(&base, &ours), matches(&base, &theirs));
    let mut merged = Merged {
        text: String::new(),
        conflicts: 0,
    };
    let mut at = Position::default();
    loop {
        // The next line of the base that both sides have kept: up to there, it is a hunk.
        let anchor = (at.base..base.len())
            .find_map(|line| Some((line, in_ours.get(line)?.as_ref()?, in_theirs.get(line)?.as_ref()?)));
        let end = anchor.map_or(
            Position {
                base: base.len(),
                ours: ours.len(),
                theirs: theirs.len(),
            },
            |(base, ours, theirs)| Position {
                base,
                ours: *ours,
                theirs: *theirs,
            },
        );
        let part = |lines: &[&str], from: usize, to: usize| lines.get(from..to).unwrap_or_default().concat();
        hunk(
            &mut merged,
            &part(&base, at.base, end.base),
            &part(&ours, at.ours, end.ours),
            &part(&theirs, at.theirs, end.theirs),
            sides,
        );
        let Some((line, _, _)) = anchor else { break };
        merged.text.push_str(base.get(line).copied().unwrap_or_default());
        at = Position {
            base: end.base + 1,
            ours: end.ours + 1,
            theirs: end.theirs + 1,
        };
    }
    merged
}

/// The next line of each text.
#[derive(Clone, Copy, Default)]
struct Position {
    base: usize,
    ours: usize,
    theirs: usize,
}

fn hunk(merged: &mut Merged, base: &str, ours: &str, theirs: &str, sides: Sides<'_>) {
    if ours == theirs || theirs == base {
        merged.text.push_str(ours);
    } else if ours == base {
        merged.text.push_str(theirs);
    } else {
        merged.conflicts += 1;
        let whole = |text: &str| {
            let end = if text.is_empty() || text.ends_with('\n') {
                ""
            } else {
                "\n"
            };
            format!("{text}{end}")
        };
        merged.text.push_str(&format!(
            "<<<<<<< {}\n{}=======\n{}>>>>>>> {}\n",
            sides.ours,
            whole(ours),
            whole(theirs),
            sides.theirs
        ));
    }
}

/// For each line of `base` the line of `other` that it became, by the longest common subsequence.
fn matches(base: &[&str], other: &[&str]) -> Vec<Option<usize>> {
    let width = other.len() + 1;
    let mut lengths = vec![0_u32; (base.len() + 1) * width];
    let length = |lengths: &[u32], i: usize, j: usize| lengths.get(i * width + j).copied().unwrap_or(0);
    for (i, line) in base.iter().enumerate().rev() {
        for (j, candidate) in other.iter().enumerate().rev() {
            let best = if line == candidate {
                length(&lengths, i + 1, j + 1) + 1
            } else {
                length(&lengths, i + 1, j).max(length(&lengths, i, j + 1))
            };
            if let Some(slot) = lengths.get_mut(i * width + j) {
                *slot = best;
            }
        }
    }
    let mut found = vec![None; base.len()];
    let (mut i, mut j) = (0, 0);
    while let (Some(line), Some(candidate)) = (base.get(i), other.get(j)) {
        if line == candidate {
            if let Some(slot) = found.get_mut(i) {
                *slot = Some(j);
            }
            (i, j) = (i + 1, j + 1);
        } else if length(&lengths, i + 1, j) >= length(&lengths, i, j + 1) {
            i += 1;
        } else {
            j += 1;
        }
    }
    found
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
