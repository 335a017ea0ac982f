{{ header }}//! The {{ project_name }}: its kinds, its controllers, and what it needs from a cluster.

pub mod api;
pub mod controller;

use operator_runtime::manifests::Manifests;
use operator_runtime::prelude::*;

/// Hands every controller to the manager.
pub fn setup(manager: &Manager) -> Result<()> {
    let _ = manager;
    Ok(())
}

/// The kinds that this operator serves and the permissions that it needs;
/// `operator-sdk generate manifests` asks for them.
pub fn manifests() -> Manifests {
    Manifests::new().controllers(setup)
}
