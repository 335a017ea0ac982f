// SPDX-License-Identifier: Apache-2.0

//! The kinds in version v1.

pub mod database_types;
pub mod user_types;

pub use database_types::{BackupSpec, Database, DatabaseSpec, DatabaseStatus, Member};
pub use user_types::{User, UserSpec, UserStatus};
