//! Manager, controllers, cache, client and queue for Kubernetes operators, on kube-rs

pub mod metrics;
