//! OpenAPI v3 structural schemas as Kubernetes treats them, as pure logic: check, prune, default, validate.

pub mod field;
