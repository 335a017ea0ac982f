//! Sets of indexes as ranges ([`Indexes`]): a status can contain billions of indexes in a few characters.

use std::collections::BTreeMap;

/// A set of indexes: the first and the last index of each range. Ranges neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes {
    ranges: BTreeMap<i64, i64>,
}

impl Indexes {
    /// Parses `1,3-5,7`. Parts that are not ranges are skipped.
    pub(super) fn parse(text: &str) -> Self {
        let mut indexes = Self::default();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(first), Ok(last)) = (first.parse(), last.parse()) {
                indexes.insert_range(first, last);
            }
        }
        indexes
    }

    fn insert_range(&mut self, mut first: i64, mut last: i64) {
        if first > last {
            return;
        }
        // Each merged range is removed, so that parsing takes O(n log n).
        while let Some((start, end)) = self.touching(first, last) {
            self.ranges.remove(&start);
            (first, last) = (first.min(start), last.max(end));
        }
        self.ranges.insert(first, last);
    }

    /// Returns a range that overlaps or touches the given range.
    fn touching(&self, first: i64, last: i64) -> Option<(i64, i64)> {
        let (start, end) = self.ranges.range(..=last.saturating_add(1)).next_back()?;
        (*end >= first.saturating_sub(1)).then_some((*start, *end))
    }

    pub(super) fn insert(&mut self, index: i64) {
        self.insert_range(index, index);
    }

    /// Adds the indexes of another set.
    pub(super) fn add(&mut self, other: &Self) {
        for (first, last) in &other.ranges {
            self.insert_range(*first, *last);
        }
    }

    pub(super) fn contains(&self, index: i64) -> bool {
        let range = self.ranges.range(..=index).next_back();
        range.is_some_and(|(_, last)| *last >= index)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the number of indexes.
    pub(super) fn count(&self) -> i64 {
        self.ranges.iter().map(size).fold(0, i64::saturating_add)
    }

    /// Returns the number of indexes in both sets.
    pub(super) fn common(&self, other: &Self) -> i64 {
        let mut count = 0_i64;
        let mut theirs = other.ranges.iter().peekable();
        for (first, last) in &self.ranges {
            while let Some((start, end)) = theirs.peek() {
                let overlap = ((*first).max(**start), (*last).min(**end));
                if overlap.0 <= overlap.1 {
                    count = count.saturating_add(size((&overlap.0, &overlap.1)));
                }
                if *end > last {
                    break;
                }
                theirs.next();
            }
        }
        count
    }

    /// Returns the indexes below an upper bound that are not in the set.
    pub(super) fn gaps(&self, end: i64) -> impl Iterator<Item = i64> {
        let starts = std::iter::once(0).chain(self.ranges.values().map(|last| last.saturating_add(1)));
        let ends = self.ranges.keys().copied().chain([i64::MAX]);
        starts
            .zip(ends)
            .flat_map(move |(start, stop)| start.max(0)..stop.min(end))
    }
}

fn size((first, last): (&i64, &i64)) -> i64 {
    last.saturating_sub(*first).saturating_add(1)
}

/// Formats the set as `1,3-5,7`, as in the status of a Job.
impl std::fmt::Display for Indexes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, (first, last)) in self.ranges.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match last.saturating_sub(*first) {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl Extend<i64> for Indexes {
    fn extend<I: IntoIterator<Item = i64>>(&mut self, indexes: I) {
        indexes.into_iter().for_each(|index| self.insert(index));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_written_and_read() {
        for text in ["", "0", "0,1", "0-2", "1,3-5,7", "0-2147483646"] {
            assert_eq!(Indexes::parse(text).to_string(), text);
        }
        for (text, merged) in [
            ("5,1-2,3,9-7,x,-1", "1-3,5"),
            ("0-4,2-8,9", "0-9"),
            ("9,0-20,3-4", "0-20"),
        ] {
            assert_eq!(Indexes::parse(text).to_string(), merged);
        }
    }

    #[test]
    fn ranges_of_any_size_take_no_time() {
        let all = Indexes::parse("0-9223372036854775807");
        assert_eq!(all.count(), i64::MAX);
        assert!(all.contains(2_147_483_647) && !all.contains(-1));
        assert_eq!(all.common(&Indexes::parse("3-5,7")), 4);
        assert_eq!(all.gaps(i64::MAX).next(), None);
        let some = Indexes::parse("0-2147483640,2147483645");
        let gaps: Vec<_> = some.gaps(2_147_483_647).collect();
        assert_eq!(
            gaps,
            [
                2_147_483_641,
                2_147_483_642,
                2_147_483_643,
                2_147_483_644,
                2_147_483_646
            ]
        );
        assert_eq!(
            Indexes::default().gaps(i64::MAX).take(2).collect::<Vec<_>>(),
            [0, 1]
        );
        assert_eq!(Indexes::parse("0-2,4-6,9").common(&Indexes::parse("1-5,9-20")), 5);
    }
}
