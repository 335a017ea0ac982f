{{ header }}//! Conversion of {{ kind }} between version {{ version }} and {{ hub_version }}, through which all versions are converted.

use operator_runtime::prelude::*;
use operator_runtime::webhook::Convertible;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{{ hub_path }} as hub;

use crate::{{ api_path }}::{{ kind }};

impl Convertible for {{ kind }} {
    type Hub = hub::{{ kind }};

    /// From {{ version }} to {{ hub_version }}.
    ///
    /// TODO: convert what has another name or form there, and keep what has no place in an annotation:
    /// nothing may be lost on the way there and back. The test says whether something is.
    fn convert_to(self) -> Result<Self::Hub> {
        Ok(hub::{{ kind }} {
            metadata: self.metadata,
            spec: same_fields(&self.spec)?,
            status: self.status.as_ref().map(same_fields).transpose()?,
        })
    }

    /// From {{ hub_version }} to {{ version }}.
    fn convert_from(hub: Self::Hub) -> Result<Self> {
        Ok(Self {
            metadata: hub.metadata,
            spec: same_fields(&hub.spec)?,
            status: hub.status.as_ref().map(same_fields).transpose()?,
        })
    }
}

/// Carries over the fields that have the same name and form in both versions.
fn same_fields<T: DeserializeOwned>(from: &impl Serialize) -> Result<T> {
    Ok(serde_json::from_value(serde_json::to_value(from)?)?)
}
