// SPDX-License-Identifier: Apache-2.0

//! The webhooks of this operator, by version.

pub mod v1;
