//! The difference of two texts as a unified diff with three lines of context.

/// Lines that do not change but are shown around those that do.
const CONTEXT: usize = 3;

#[derive(Clone, Copy, PartialEq)]
enum Line<'a> {
    Kept(&'a str),
    Removed(&'a str),
    Added(&'a str),
}

/// The unified diff from `old` to `new`; empty when they are equal.
///
/// ```
/// let diff = operator_manifests::diff::unified("config/x.yaml", "a\nb\n", "a\nc\n");
/// assert!(diff.contains("-b\n+c\n"));
/// ```
pub fn unified(path: &str, old: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    let lines = compare(&old.lines().collect::<Vec<_>>(), &new.lines().collect::<Vec<_>>());
    let mut out = format!(
        "--- {}\n+++ {path}\n",
        if old.is_empty() { "/dev/null" } else { path }
    );
    for (start, end) in hunks(&lines) {
        out.push_str(&hunk(&lines, start, end));
    }
    out
}

/// The shortest script of kept, removed and added lines, by the longest common subsequence of the middle part.
fn compare<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let prefix = old.iter().zip(new).take_while(|(o, n)| o == n).count();
    let (old_rest, new_rest) = (
        old.get(prefix..).unwrap_or_default(),
        new.get(prefix..).unwrap_or_default(),
    );
    let lengths = common_lengths(old_rest, new_rest);
    let mut lines: Vec<Line<'a>> = old.iter().take(prefix).map(|line| Line::Kept(line)).collect();
    let (mut i, mut j) = (0, 0);
    loop {
        match (old_rest.get(i), new_rest.get(j)) {
            (Some(o), Some(n)) if o == n => {
                lines.push(Line::Kept(o));
                (i, j) = (i + 1, j + 1);
            }
            (Some(o), None) => {
                lines.push(Line::Removed(o));
                i += 1;
            }
            (Some(o), Some(_)) if length_at(&lengths, i + 1, j) >= length_at(&lengths, i, j + 1) => {
                lines.push(Line::Removed(o));
                i += 1;
            }
            (_, Some(n)) => {
                lines.push(Line::Added(n));
                j += 1;
            }
            (None, None) => return lines,
        }
    }
}

/// `lengths[i][j]` is the length of the longest common subsequence of `old[i..]` and `new[j..]`.
fn common_lengths(old: &[&str], new: &[&str]) -> Vec<Vec<usize>> {
    let mut rows = vec![vec![0; new.len() + 1]];
    for o in old.iter().rev() {
        let below = rows.last().cloned().unwrap_or_default();
        let mut row = vec![0; new.len() + 1];
        for (j, n) in new.iter().enumerate().rev() {
            let length = if o == n {
                below.get(j + 1).map_or(0, |length| length + 1)
            } else {
                below.get(j).copied().max(row.get(j + 1).copied()).unwrap_or(0)
            };
            if let Some(cell) = row.get_mut(j) {
                *cell = length;
            }
        }
        rows.push(row);
    }
    rows.reverse();
    rows
}

fn length_at(lengths: &[Vec<usize>], i: usize, j: usize) -> usize {
    lengths.get(i).and_then(|row| row.get(j)).copied().unwrap_or(0)
}

/// The ranges of lines to show: every change with its context, overlapping ranges joined.
fn hunks(lines: &[Line<'_>]) -> Vec<(usize, usize)> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if matches!(line, Line::Kept(_)) {
            continue;
        }
        let (start, end) = (
            index.saturating_sub(CONTEXT),
            (index + CONTEXT + 1).min(lines.len()),
        );
        match ranges.last_mut() {
            Some(last) if last.1 >= start => last.1 = end,
            _ => ranges.push((start, end)),
        }
    }
    ranges
}

fn hunk(lines: &[Line<'_>], start: usize, end: usize) -> String {
    let (before, shown) = (
        lines.get(..start).unwrap_or_default(),
        lines.get(start..end).unwrap_or_default(),
    );
    let in_old = |lines: &[Line<'_>]| lines.iter().filter(|l| !matches!(l, Line::Added(_))).count();
    let in_new = |lines: &[Line<'_>]| lines.iter().filter(|l| !matches!(l, Line::Removed(_))).count();
    let range = |skipped: usize, count: usize| match count {
        0 => format!("{skipped},0"),
        count => format!("{},{count}", skipped + 1),
    };
    let mut out = format!(
        "@@ -{} +{} @@\n",
        range(in_old(before), in_old(shown)),
        range(in_new(before), in_new(shown)),
    );
    for line in shown {
        let (sign, text) = match line {
            Line::Kept(text) => (' ', text),
            Line::Removed(text) => ('-', text),
            Line::Added(text) => ('+', text),
        };
        out.push_str(&format!("{sign}{text}\n"));
    }
    out
}
