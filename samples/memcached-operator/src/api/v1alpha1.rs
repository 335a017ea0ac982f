// SPDX-License-Identifier: Apache-2.0

//! The kinds in version v1alpha1.

pub mod memcached_types;

pub use memcached_types::{Memcached, MemcachedSpec, MemcachedStatus};
