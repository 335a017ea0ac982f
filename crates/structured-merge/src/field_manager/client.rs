//! Methods for clients, which compute a result without a request.

use serde_json::Value;

use super::FieldManager;
use crate::managed_fields::{self, Managed, Manager, Operation, equal_but_for_times};
use crate::typed;

impl FieldManager {
    /// Returns the configuration that `manager` applied last; applying it again changes nothing. Returns `None` if the
    /// manager applied nothing, or if the managedFields are invalid.
    pub fn extract(&self, object: &Value, manager: &str) -> Option<Value> {
        let managed = Managed::decode(managed_fields::entries(object)?).ok()?;
        let manager = Manager::new(manager, Operation::Apply, "", &self.settings.subresource);
        let owned = managed.owners.get(&manager)?;
        let schema = self.settings.schemas.get(&owned.api_version)?;
        let mut config = typed::extract(schema, object, &owned.fields.leaves());
        config["apiVersion"] = owned.api_version.as_str().into();
        config["kind"] = self.settings.kind.as_str().into();
        for key in ["name", "namespace"] {
            if let Some(value) = object.get("metadata").and_then(|metadata| metadata.get(key)) {
                config["metadata"][key] = value.clone();
            }
        }
        Some(config)
    }

    /// Returns true if a forced apply of `config` could change the object or its managers. Values that the server would
    /// normalize, such as `1000m` to `1`, count as changes. An apply that would fail counts as a change, too.
    pub fn would_change(&self, live: &Value, config: &Value, manager: &str) -> bool {
        match self.apply(Some(live), config, manager, true, "") {
            Ok(applied) => !equal_but_for_times(live, &applied),
            Err(_) => true,
        }
    }
}
