// SPDX-License-Identifier: Apache-2.0

// ANCHOR: whole
//! The conversion of Website between the versions v1alpha1 and v1, which is the hub.

use std::collections::BTreeMap;

use operator_runtime::prelude::*;
use operator_runtime::webhook::Convertible;

use crate::api::v1 as hub;

use crate::api::v1alpha1::{Website, WebsiteSpec, WebsiteStatus};

/// The page in v1alpha1.
const INDEX: &str = "index.html";

/// The annotation with the pages that v1alpha1 cannot represent, as JSON.
const OTHER_PAGES: &str = "web.example.com/other-pages";

// ANCHOR: convert
impl Convertible for Website {
    type Hub = hub::Website;

    /// Converts from v1alpha1 to v1.
    fn convert_to(mut self) -> Result<Self::Hub> {
        let annotations = self.metadata.annotations.as_mut();
        let other = annotations.and_then(|annotations| annotations.remove(OTHER_PAGES));
        let mut pages: BTreeMap<String, String> = match other {
            Some(json) => serde_json::from_str(&json)?,
            None => BTreeMap::new(),
        };
        pages.extend(self.spec.html.map(|html| (INDEX.to_owned(), html)));
        Ok(hub::Website {
            metadata: self.metadata,
            spec: hub::WebsiteSpec {
                pages,
                host: self.spec.domain,
                replicas: self.spec.replicas,
            },
            status: self.status.map(|status| hub::WebsiteStatus {
                url: status.url,
                conditions: status.conditions,
            }),
        })
    }

    /// Converts from v1 to v1alpha1.
    fn convert_from(mut hub: Self::Hub) -> Result<Self> {
        let html = hub.spec.pages.remove(INDEX);
        if !hub.spec.pages.is_empty() {
            let json = serde_json::to_string(&hub.spec.pages)?;
            let annotations = hub.metadata.annotations.get_or_insert_default();
            annotations.insert(OTHER_PAGES.to_owned(), json);
        }
        Ok(Self {
            metadata: hub.metadata,
            spec: WebsiteSpec {
                html,
                domain: hub.spec.host,
                replicas: hub.spec.replicas,
            },
            status: hub.status.map(|status| WebsiteStatus {
                url: status.url,
                conditions: status.conditions,
            }),
        })
    }
}
// ANCHOR_END: convert
// ANCHOR_END: whole
