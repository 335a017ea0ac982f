//! Controllers and simulated nodes for the embedded Kubernetes API server
