//! The names that nearly every operator uses: `use operator_runtime::prelude::*`.

pub use crate::cache::ListOptions;
pub use crate::condition::{Condition, ConditionStatus, Conditions};
pub use crate::controller::{
    Action, Context, Controller, KeyContext, KeyReconciler, Reconciler, Request, Watch,
};
pub use crate::error::{Error, Result};
pub use crate::manager::{Manager, ManagerOptions};
pub use crate::object::{Kind, ObjectKey};
pub use crate::operator::Operator;
pub use crate::rbac;
pub use crate::webhook::Webhook;
