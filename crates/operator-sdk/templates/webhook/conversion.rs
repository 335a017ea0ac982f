{{ header }}//! Conversion of {{ kind }} between version {{ version }} and the hub version {{ hub_version }}.

use operator_runtime::prelude::*;
use operator_runtime::webhook::Convertible;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{{ hub_path }} as hub;

use crate::{{ api_path }}::{{ kind }};

impl Convertible for {{ kind }} {
    type Hub = hub::{{ kind }};

    /// Converts from {{ version }} to {{ hub_version }}.
    ///
    /// TODO: convert fields with another name or type, and keep fields that the hub does not have in an annotation:
    /// a round trip must not lose data. A test checks that.
    fn convert_to(self) -> Result<Self::Hub> {
        Ok(hub::{{ kind }} {
            metadata: self.metadata,
            spec: same_fields(&self.spec)?,
            status: self.status.as_ref().map(same_fields).transpose()?,
        })
    }

    /// Converts from {{ hub_version }} to {{ version }}.
    fn convert_from(hub: Self::Hub) -> Result<Self> {
        Ok(Self {
            metadata: hub.metadata,
            spec: same_fields(&hub.spec)?,
            status: hub.status.as_ref().map(same_fields).transpose()?,
        })
    }
}

/// Copies the fields that have the same name and type in both versions.
fn same_fields<T: DeserializeOwned>(from: &impl Serialize) -> Result<T> {
    Ok(serde_json::from_value(serde_json::to_value(from)?)?)
}
