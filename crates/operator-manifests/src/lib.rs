//! Kubernetes manifests of an operator as typed values: CRDs, RBAC, the kustomize tree
