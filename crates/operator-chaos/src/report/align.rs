//! Aligns the timelines of two runs.

/// Timelines with more lines are not aligned.
const LINES_MAX: usize = 1500;

/// Returns the pairs of line numbers of two timelines, from 0. Lines with the same text except for the time are paired
/// (longest common subsequence).
pub(super) fn aligned(left: &[String], right: &[String]) -> Vec<(Option<usize>, Option<usize>)> {
    let (rows, columns) = (left.len(), right.len());
    if rows.max(columns) > LINES_MAX {
        let at = |index: usize, length: usize| (index < length).then_some(index);
        return (0..rows.max(columns))
            .map(|index| (at(index, rows), at(index, columns)))
            .collect();
    }
    let is_same = |row: usize, column: usize| match (left.get(row), right.get(column)) {
        (Some(left), Some(right)) => text(left) == text(right),
        _ => false,
    };
    // The length of the longest common subsequence of the remaining lines of both.
    let width = columns + 1;
    let mut lengths = vec![0_u16; (rows + 1) * width];
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            lengths[row * width + column] = match is_same(row, column) {
                true => lengths[(row + 1) * width + column + 1] + 1,
                false => lengths[(row + 1) * width + column].max(lengths[row * width + column + 1]),
            };
        }
    }
    let (mut row, mut column) = (0, 0);
    let mut pairs = Vec::new();
    while row < rows || column < columns {
        if row < rows && column < columns && is_same(row, column) {
            pairs.push((Some(row), Some(column)));
            (row, column) = (row + 1, column + 1);
        } else if column >= columns
            || (row < rows && lengths[(row + 1) * width + column] >= lengths[row * width + column + 1])
        {
            pairs.push((Some(row), None));
            row += 1;
        } else {
            pairs.push((None, Some(column)));
            column += 1;
        }
    }
    pairs
}

/// Returns a line without its time.
fn text(line: &str) -> &str {
    line.split_once(" s  ").map_or(line, |(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lines_are_beside_each_other() {
        let lines = |texts: &[&str]| -> Vec<String> {
            let numbered = texts.iter().enumerate();
            numbered
                .map(|(index, text)| format!("{index:>9}.000 s  {text}"))
                .collect()
        };
        let (left, right) = (lines(&["a", "b", "c"]), lines(&["a", "x", "c", "d"]));
        assert_eq!(
            aligned(&left, &right),
            [
                (Some(0), Some(0)),
                (Some(1), None),
                (None, Some(1)),
                (Some(2), Some(2)),
                (None, Some(3)),
            ]
        );
    }
}
