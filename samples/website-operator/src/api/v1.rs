// SPDX-License-Identifier: Apache-2.0

//! The kinds in version v1.

pub mod website_types;

pub use website_types::{Website, WebsiteSpec, WebsiteStatus};
