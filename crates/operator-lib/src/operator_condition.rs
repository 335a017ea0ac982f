//! [`OperatorCondition`] reports the state of an operator to the Operator Lifecycle Manager, for example that it must
//! not be upgraded now.
//!
//! ```no_run
//! use operator_runtime::Condition;
//! use operator_lib::operator_condition::{OperatorCondition, UPGRADEABLE};
//! use operator_runtime::prelude::*;
//!
//! /// Prevents upgrades until the operator allows them.
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

/// The environment variable with the name of the object, which OLM sets in the operator's containers.
const NAME: &str = "OPERATOR_CONDITION_NAME";
/// The type of the condition that allows upgrades. While it is `False`, OLM does not upgrade the operator.
///
/// ```
/// use operator_runtime::Condition;
/// use operator_lib::operator_condition::UPGRADEABLE;
///
/// let condition = Condition::new(UPGRADEABLE, true, "Idle", "No migration is running");
/// assert_eq!(condition.type_, "Upgradeable");
/// ```
pub const UPGRADEABLE: &str = "Upgradeable";
/// Maximum number of attempts after conflicts.
const TRIES: usize = 5;

/// The `OperatorCondition` (`operators.coreos.com/v2`) that OLM created for this operator.
///
/// The operator needs permission to get and update it, which OLM grants.
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

/// An error of reading or setting a condition.
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
    /// OLM runs the operator, but its namespace is unknown.
    #[error("{NAME} is set, but the namespace of the operator is unknown")]
    NoNamespace(#[source] ElectionError),
    /// The API server rejected the request.
    #[error("cannot {verb} OperatorCondition {name:?}")]
    Request {
        /// The verb of the request.
        verb: &'static str,
        /// The name of the object.
        name: String,
        /// The error of the request.
        #[source]
        source: Box<kube::Error>,
    },
    /// `spec.conditions` cannot be decoded.
    #[error("spec.conditions of OperatorCondition {name:?} is not a list of conditions")]
    Malformed {
        /// The name of the object.
        name: String,
        /// The decoding error.
        #[source]
        source: serde_json::Error,
    },
}

// === impl OperatorCondition ===

impl OperatorCondition {
    /// Returns the object that OLM names in the variable `OPERATOR_CONDITION_NAME`, in the namespace of the pod's
    /// service account, or `None` if OLM does not run the operator.
    ///
    /// # Errors
    /// Returns [`OperatorConditionError::NoNamespace`] if the variable is set but the pod has no service account.
    pub fn from_env(client: Client) -> Result<Option<Self>, OperatorConditionError> {
        let Some(name) = std::env::var(NAME).ok().filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        let namespace = election::namespace().map_err(OperatorConditionError::NoNamespace)?;
        Ok(Some(Self::new(client, &namespace, &name)))
    }

    /// Returns the object with this name. No request is sent yet.
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

    /// Returns the condition of a type in `spec.conditions`, or `None` if the operator has not set it.
    ///
    /// # Errors
    /// Returns an error if the API server rejects the request, the object does not exist, or its conditions cannot be
    /// decoded.
    pub async fn get(&self, type_: &str) -> Result<Option<Condition>, OperatorConditionError> {
        let (_, mut conditions) = self.read().await?;
        Ok(conditions.remove(type_))
    }

    /// Sets the condition of its type in `spec.conditions`, and returns true if it changed. OLM copies it to the
    /// status. `lastTransitionTime` changes only with the status of the condition.
    ///
    /// Nothing is sent if nothing changes. Conflicts are retried up to five times.
    ///
    /// # Errors
    /// Returns an error if the API server rejects the request, the object does not exist, or its conditions cannot be
    /// decoded.
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
