//! What nearly every controller uses: `use operator_runtime::prelude::*`.

pub use crate::cache::ListOptions;
pub use crate::condition::{Condition, ConditionStatus, Conditions};
pub use crate::controller::{Action, Context, Controller, Reconciler, Request};
pub use crate::error::{Error, Result};
pub use crate::manager::Manager;
pub use crate::manifests::Rbac;
pub use crate::object::ObjectKey;
pub use crate::rbac;
