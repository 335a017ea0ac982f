//! The objects of a store at one revision, with which other stores can start: [`Frozen`].

use std::sync::Arc;

use super::{Horizon, Objects, State, Store, Stored, Table, TableId};
use apimachinery::gvk::Gvr;

/// The objects of a store at one revision. They are shared with the store, which copies a table before it changes it.
#[derive(Clone, Debug)]
pub(crate) struct Frozen {
    revision: u64,
    tables: Arc<[FrozenTable]>,
}

#[derive(Clone, Debug)]
struct FrozenTable {
    id: TableId,
    gvr: Arc<Gvr>,
    objects: Arc<Objects>,
}

impl Frozen {
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the objects of all tables, with the name and the resource of their table.
    pub(super) fn objects(&self) -> impl Iterator<Item = (&TableId, &Arc<Gvr>, &Arc<Stored>)> {
        self.tables.iter().flat_map(|table| {
            let objects = table.objects.values();
            objects.map(|object| (&table.id, &table.gvr, object))
        })
    }
}

impl State {
    pub(super) fn freeze(&self) -> Frozen {
        let tables = self.tables.iter().map(|(id, table)| FrozenTable {
            id: id.clone(),
            gvr: table.gvr.clone(),
            objects: table.objects.clone(),
        });
        Frozen {
            revision: self.revision,
            tables: tables.collect(),
        }
    }
}

impl Store {
    /// Returns the current objects. The time depends on the number of tables, and not on the number of objects.
    pub(crate) fn freeze(&self) -> Frozen {
        self.state.read().freeze()
    }

    /// Returns a store with the objects of another one. The history is empty: a watch from an earlier revision gets
    /// `Expired`.
    pub(crate) fn thaw(horizon: Horizon, frozen: &Frozen) -> Self {
        let store = Self::new(horizon);
        {
            let mut state = store.state.write();
            state.revision = frozen.revision;
            for table in frozen.tables.iter() {
                let mut thawed = Table::new(table.gvr.clone(), frozen.revision);
                thawed.objects = table.objects.clone();
                state.tables.insert(table.id.clone(), thawed);
            }
            state.forget_all();
            store.changes.send(frozen.revision);
        }
        store
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HORIZON: Horizon = Horizon {
        events: 100,
        bytes: usize::MAX,
    };

    #[test]
    fn stores_with_the_same_beginning_do_not_see_each_other() {
        let table = TableId::from("things");
        let gvr = Arc::new(Gvr::new("", "v1", "things"));
        let first = Store::new(HORIZON);
        let create =
            |store: &Store, key: &str| store.create(&table, &gvr, key, json!({"metadata": {}})).map(drop);
        create(&first, "a").unwrap();
        let frozen = first.freeze();
        create(&first, "b").unwrap();
        let (second, third) = (Store::thaw(HORIZON, &frozen), Store::thaw(HORIZON, &frozen));
        create(&second, "c").unwrap();
        let keys = |store: &Store| -> Vec<bool> {
            ["a", "b", "c"]
                .iter()
                .map(|key| store.get(&table, key).is_some())
                .collect()
        };
        assert_eq!(keys(&first), [true, true, false]);
        assert_eq!(keys(&second), [true, false, true]);
        assert_eq!(keys(&third), [true, false, false]);
        assert_eq!((frozen.revision, second.revision(), third.revision()), (1, 2, 1));
        // Changes before the snapshot are not in the history.
        assert!(third.events(&table, 0, 10).is_err());
        assert_eq!(second.events(&table, 1, 10).unwrap().len(), 1);
    }
}
