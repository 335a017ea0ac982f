//! A Kubernetes control plane for one test, in its process
