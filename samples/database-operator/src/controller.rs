// SPDX-License-Identifier: Apache-2.0

//! The controllers of this operator.

pub mod backup_controller;
pub mod database_controller;
pub mod user_controller;
