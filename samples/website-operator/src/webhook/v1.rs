// SPDX-License-Identifier: Apache-2.0

//! The kinds in version v1.

pub mod website_webhook;
