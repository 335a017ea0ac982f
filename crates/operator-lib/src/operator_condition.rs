//! `OperatorCondition`: what an operator tells the Operator Lifecycle Manager about itself, such as that it must not be
//! upgraded now.
//!
//! ```no_run
//! use operator_runtime::Condition;
//! use operator_lib::operator_condition::{OperatorCondition, UPGRADEABLE};
//! use operator_runtime::prelude::*;
//!
//! /// Before anything runs: nobody is to replace this operator until it says so.
//! async fn hold(manager: &Manager) -> Result<()> {
//!     if let Some(olm) = OperatorCondition::from_env(manager.client().kube().clone())? {
//!         olm.set(Condition::new(UPGRADEABLE, false, "Starting", "The operator looks around")).await?;
//!     }
//!     Ok(())
//! }
//! ```

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;

use serde_json::{Map, Value};

use operator_runtime::election::{self, ElectionError};
use operator_runtime::{Condition, Conditions};

/// OLM sets it in the operator's containers.
const NAME: &str = "OPERATOR_CONDITION_NAME";
/// The type of the condition that tells OLM whether it may upgrade the operator: while it is `False`, OLM waits.
///
/// ```
/// use operator_runtime::Condition;
/// use operator_lib::operator_condition::UPGRADEABLE;
///
/// let condition = Condition::new(UPGRADEABLE, true, "Idle", "No migration is running");
/// assert_eq!(condition.type_, "Upgradeable");
/// ```
pub const UPGRADEABLE: &str = "Upgradeable";
/// How often to try again when somebody else wrote meanwhile.
const TRIES: usize = 5;

/// The `OperatorCondition` (`operators.coreos.com/v2`) that OLM made for this operator.
///
/// The operator needs permission to get and update it, which OLM gives.
///
/// ```no_run
/// use operator_runtime::Condition;
/// use operator_lib::operator_condition::{OperatorCondition, UPGRADEABLE};
///
/// # async fn example(client: kube::Client) -> operator_runtime::Result<()> {
/// if let Some(olm) = OperatorCondition::from_env(client)? {
///     olm.set(Condition::new(UPGRADEABLE, false, "Migrating", "A migration is running")).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct OperatorCondition {
    api: Api<DynamicObject>,
    name: String,
}

/// Why a condition cannot be read or set.
///
/// ```
/// use operator_runtime::Condition;
/// use operator_lib::operator_condition::{OperatorCondition, OperatorConditionError, UPGRADEABLE};
///
/// # async fn example(olm: OperatorCondition) -> operator_runtime::Result<()> {
/// match olm.set(Condition::new(UPGRADEABLE, true, "Idle", "")).await {
///     Err(OperatorConditionError::Request { source, .. }) => tracing::warn!(%source, "OLM is not told"),
///     told => drop(told?),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
pub enum OperatorConditionError {
    /// OLM runs the operator, and its namespace cannot be found out.
    #[error("{NAME} is set, but the namespace of the operator is not known")]
    NoNamespace(#[source] ElectionError),
    /// The API server refused.
    #[error("cannot {verb} OperatorCondition {name:?}")]
    Request {
        /// What was tried.
        verb: &'static str,
        /// The name of the object.
        name: String,
        /// The answer.
        #[source]
        source: Box<kube::Error>,
    },
    /// `spec.conditions` is something else.
    #[error("spec.conditions of OperatorCondition {name:?} is no list of conditions")]
    Malformed {
        /// The name of the object.
        name: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

// === impl OperatorCondition ===

impl OperatorCondition {
    /// The one whose name OLM puts into the variable `OPERATOR_CONDITION_NAME`, in the namespace of the pod's service
    /// account; `None` where OLM does not run the operator.
    ///
    /// # Errors
    /// [`OperatorConditionError::NoNamespace`] if the variable is set, and there is no service account that says in
    /// which namespace.
    pub fn from_env(client: Client) -> Result<Option<Self>, OperatorConditionError> {
        let Some(name) = std::env::var(NAME).ok().filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        let namespace = election::namespace().map_err(OperatorConditionError::NoNamespace)?;
        Ok(Some(Self::new(client, &namespace, &name)))
    }

    /// The one of this name. Nothing is asked yet.
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
            "operators.coreos.com",
            "v2",
            "OperatorCondition",
        ));
        Self {
            api: Api::namespaced_with(client, namespace, &resource),
            name: name.to_owned(),
        }
    }

    /// The condition of a type, as the operator set it in `spec.conditions`; `None` where it did not.
    ///
    /// # Errors
    /// If the API server refuses, the object does not exist, or its conditions cannot be read.
    pub async fn get(&self, type_: &str) -> Result<Option<Condition>, OperatorConditionError> {
        let (_, mut conditions) = self.read().await?;
        Ok(conditions.remove(type_))
    }

    /// Sets the condition of its type in `spec.conditions`, and says whether anything changed. OLM copies it to the
    /// status, and acts on that. `lastTransitionTime` changes with the status of the condition only.
    ///
    /// Nothing is sent where nothing would change. Where somebody else wrote meanwhile, it tries again, five times in
    /// all.
    ///
    /// # Errors
    /// If the API server refuses, the object does not exist, or its conditions cannot be read.
    pub async fn set(&self, condition: Condition) -> Result<bool, OperatorConditionError> {
        let mut tries = 1;
        loop {
            let (mut object, mut conditions) = self.read().await?;
            if !conditions.set(condition.clone()) {
                return Ok(false);
            }
            object.data["spec"]["conditions"] = serde_json::json!(conditions);
            match self
                .api
                .replace(&self.name, &PostParams::default(), &object)
                .await
            {
                Err(kube::Error::Api(status)) if status.is_conflict() && tries < TRIES => tries += 1,
                written => {
                    return written
                        .map(|_| true)
                        .map_err(|source| self.failed("update", source));
                }
            }
        }
    }

    async fn read(&self) -> Result<(DynamicObject, Conditions), OperatorConditionError> {
        let object = self.api.get(&self.name).await;
        let object = object.map_err(|source| self.failed("read", source))?;
        let spec = match &object.data["spec"] {
            Value::Null => Ok(Map::new()),
            spec => serde_json::from_value::<Map<String, Value>>(spec.clone()),
        };
        let conditions = spec.and_then(|mut spec| match spec.remove("conditions") {
            None | Some(Value::Null) => Ok(Conditions::default()),
            Some(conditions) => serde_json::from_value(conditions),
        });
        let conditions = conditions.map_err(|source| OperatorConditionError::Malformed {
            name: self.name.clone(),
            source,
        })?;
        Ok((object, conditions))
    }

    fn failed(&self, verb: &'static str, source: kube::Error) -> OperatorConditionError {
        OperatorConditionError::Request {
            verb,
            name: self.name.clone(),
            source: Box::new(source),
        }
    }
}
