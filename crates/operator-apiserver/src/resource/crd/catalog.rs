//! The resources of all CRDs ([`CustomCatalog`]). The cost of a change does not depend on the number of CRDs.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::resource::Definition;

/// The number of shards of a catalog. A change copies one of them.
const SHARDS: u64 = 256;

type Shard = BTreeMap<Arc<str>, Vec<Arc<Definition>>>;

/// The identity of one state of a catalog: its address differs from those of all other retained states.
#[derive(Debug, Default)]
pub(crate) struct State;

/// The served resources by their table, `plural.group`: one for each version, in discovery order. Cloning shares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct CustomCatalog {
    shards: BTreeMap<u64, Arc<Shard>>,
    state: Arc<State>,
}

impl CustomCatalog {
    pub(crate) fn find(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Definition>> {
        let versions = self.versions(&format!("{resource}.{group}"));
        versions
            .iter()
            .find(|definition| definition.version == version)
            .cloned()
    }

    /// Returns the versions of a resource.
    pub(crate) fn versions(&self, table: &str) -> &[Arc<Definition>] {
        let shard = self.shards.get(&shard_of(table));
        shard
            .and_then(|shard| shard.get(table))
            .map_or(&[], Vec::as_slice)
    }

    /// Returns all resources in an unspecified order; only the versions of each resource are in order.
    pub(crate) fn definitions(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.shards.values().flat_map(|shard| shard.values()).flatten()
    }

    /// Returns the identity of the current state, which differs after each change.
    pub(crate) fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// Replaces the versions of a resource.
    pub(crate) fn set(&mut self, table: &Arc<str>, definitions: Vec<Arc<Definition>>) {
        let before = self.versions(table).iter();
        if before.len() == definitions.len() && before.zip(&definitions).all(|(a, b)| Arc::ptr_eq(a, b)) {
            return;
        }
        self.state = Arc::default();
        let shard = Arc::make_mut(self.shards.entry(shard_of(table)).or_default());
        if definitions.is_empty() {
            shard.remove(table);
        } else {
            shard.insert(table.clone(), definitions);
        }
    }
}

fn shard_of(table: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    table.hash(&mut hasher);
    hasher.finish() % SHARDS
}
