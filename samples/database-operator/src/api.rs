// SPDX-License-Identifier: Apache-2.0

//! The kinds of this operator, by version.

pub mod v1;
