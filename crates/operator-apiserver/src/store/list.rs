//! Reads parts of a table at the current or a past revision. A past state is computed from the current state and the
//! history.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::{Compacted, Store, Stored, Table, check_history};

/// The selected part of a table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Selection<'a> {
    /// The prefix of the keys: `NAMESPACE/`, or empty for all.
    pub(crate) prefix: &'a str,
    /// The first key of the result.
    pub(crate) start: &'a str,
    /// The maximum number of objects; `None` for all.
    pub(crate) limit: Option<usize>,
    /// The revision to read at; `None` is the current one.
    pub(crate) revision: Option<u64>,
}

/// Objects in key order, and their revision.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) revision: u64,
    pub(crate) objects: Vec<Arc<Stored>>,
    /// The number of objects beyond the limit.
    pub(crate) remaining: usize,
}

type Objects = BTreeMap<Arc<str>, Arc<Stored>>;
/// Past states of objects by key; `None` for those that did not exist.
type Past = BTreeMap<Arc<str>, Option<Arc<Stored>>>;
type Bounds = (Bound<String>, Bound<String>);

impl Store {
    /// Returns the current objects whose keys start with `prefix`.
    pub(crate) fn list(&self, table: &str, prefix: &str) -> Listing {
        let selection = Selection {
            prefix,
            ..Selection::default()
        };
        // The current revision is never dropped.
        self.select(table, selection).unwrap_or_default()
    }

    /// Returns a part of a table. The cost depends on the part, not on the table, except
    /// for counting the rest after a page that is not the first or not current.
    pub(crate) fn select(&self, table: &str, selection: Selection<'_>) -> Result<Listing, Compacted> {
        let state = self.state.read();
        let revision = selection.revision.unwrap_or(state.revision);
        let Some(table) = state.tables.get(table) else {
            check_history(revision, state.history.compacted)?;
            return Ok(Listing {
                revision,
                ..Listing::default()
            });
        };
        let past = match selection.revision {
            Some(revision) => table.past(revision, selection.prefix)?,
            None => Past::new(),
        };
        let bounds = selection.bounds();
        let mut objects = merged(&table.objects, &past, &bounds);
        let limit = selection.limit.unwrap_or(usize::MAX);
        let listed: Vec<Arc<Stored>> = objects.by_ref().take(limit).cloned().collect();
        let is_page = listed.len() == limit;
        let remaining = if is_page && past.is_empty() && selection.start <= selection.prefix {
            table.objects.count(selection.prefix) - listed.len()
        } else if is_page {
            objects.count()
        } else {
            0
        };
        Ok(Listing {
            revision,
            objects: listed,
            remaining,
        })
    }
}

impl Selection<'_> {
    fn bounds(&self) -> Bounds {
        let start = self.start.max(self.prefix).to_owned();
        (Bound::Included(start), after_prefix(self.prefix))
    }
}

/// Returns the upper bound of all keys with a prefix.
fn after_prefix(prefix: &str) -> Bound<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    let next = |last: char| char::from_u32(u32::from(last) + 1);
    // Prefixes end with a slash, so there is a next character.
    match chars.pop().and_then(next) {
        Some(next) => {
            chars.push(next);
            Bound::Excluded(chars.into_iter().collect())
        }
        None => Bound::Unbounded,
    }
}

/// Returns the objects of a range; past states replace current ones.
fn merged<'a>(
    now: &'a Objects,
    past: &'a Past,
    (start, end): &Bounds,
) -> impl Iterator<Item = &'a Arc<Stored>> {
    let bounds = (
        start.as_ref().map(String::as_str),
        end.as_ref().map(String::as_str),
    );
    // A start after the end of the prefix selects nothing, and `range` would panic.
    let empty =
        matches!((bounds.0, bounds.1), (Bound::Included(start), Bound::Excluded(end)) if start >= end);
    let bounds = if empty {
        (Bound::Included(""), Bound::Excluded(""))
    } else {
        bounds
    };
    let (mut now, mut past) = (
        now.range::<str, _>(bounds).peekable(),
        past.range::<str, _>(bounds).peekable(),
    );
    std::iter::from_fn(move || {
        loop {
            let Some((old_key, old)) = past.peek() else {
                return now.next().map(|(_, object)| object);
            };
            if let Some((_, object)) = now.next_if(|(key, _)| key < old_key) {
                return Some(object);
            }
            now.next_if(|(key, _)| key == old_key);
            let old = old.as_ref();
            past.next();
            if old.is_some() {
                return old;
            }
        }
    })
}

impl Table {
    /// Returns the differences between the current state and a revision.
    fn past(&self, revision: u64, prefix: &str) -> Result<Past, Compacted> {
        self.check_history(revision)?;
        let undo = self
            .history
            .iter()
            .rev()
            .take_while(|event| event.revision > revision)
            .filter(|event| event.object.key.starts_with(prefix));
        // The oldest change after the revision is undone last, so its state remains.
        Ok(undo
            .map(|event| (event.object.key.clone(), event.old.clone()))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::store::TableId;
    use apimachinery::gvk::Gvr;

    const KEYS: [&str; 7] = ["a/x", "a/y", "a-b/x", "b/x", "b/x-y", "b/y", "c/z"];

    /// Returns the state after each revision; revision 0 is empty.
    fn play(store: &Store, table: &TableId, changes: &[(usize, bool)]) -> Vec<BTreeMap<String, u64>> {
        let gvr = Arc::new(Gvr::new("", "v1", "things"));
        let mut states = vec![BTreeMap::new()];
        for (key, delete) in changes {
            let key = KEYS[key % KEYS.len()];
            let mut state = states.last().unwrap().clone();
            let written = match store.get(table, key) {
                Some(live) if *delete => store.delete(table, &gvr, &live).unwrap(),
                Some(live) => store.update(table, &gvr, &live, json!({})).unwrap(),
                None => store.create(table, &gvr, key, Value::Null).unwrap(),
            };
            match store.get(table, key) {
                Some(_) => state.insert(key.to_owned(), written.revision),
                None => state.remove(key),
            };
            states.push(state);
        }
        states
    }

    proptest! {
        #[test]
        fn every_page_shows_the_state_of_its_revision(
            changes in prop::collection::vec((0..KEYS.len(), any::<bool>()), 0..40),
            revision in 0_usize..40,
            prefix in prop::sample::select(vec!["", "a/", "b/", "d/"]),
            start in prop::sample::select(vec!["", "a/x\u{0}", "b/x", "z"]),
            limit in prop::option::of(1_usize..5),
            present in any::<bool>(),
        ) {
            let (store, table) = (Store::new(crate::store::Horizon { events: 1_000, bytes: usize::MAX }), TableId::from("things"));
            let states = play(&store, &table, &changes);
            let revision = revision.min(states.len() - 1);
            let state = if present { states.last().unwrap() } else { &states[revision] };
            let all: Vec<(&str, u64)> = state
                .iter()
                .map(|(key, revision)| (key.as_str(), *revision))
                .filter(|(key, _)| key.starts_with(prefix) && *key >= start)
                .collect();
            let wanted = &all[..limit.unwrap_or(all.len()).min(all.len())];
            let selection = Selection {
                prefix,
                start,
                limit,
                revision: (!present).then_some(revision as u64),
            };
            let listing = store.select(&table, selection).unwrap();
            let listed: Vec<(&str, u64)> =
                listing.objects.iter().map(|object| (&*object.key, object.revision)).collect();
            prop_assert_eq!(&listed, wanted);
            prop_assert_eq!(listing.remaining, all.len() - wanted.len());
        }
    }
}
