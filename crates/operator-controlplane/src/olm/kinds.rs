//! The kinds of OLM, and the built-in kinds that only OLM writes.

use crate::kind::{Kind, kinds};
use operator_apiserver::client::Gvr;
use std::sync::LazyLock;

kinds! {
    CLUSTER_CATALOG = "olm.operatorframework.io" "v1" "clustercatalogs" "ClusterCatalog";
    CLUSTER_EXTENSION = "olm.operatorframework.io" "v1" "clusterextensions" "ClusterExtension";
    CATALOG_SOURCE = "operators.coreos.com" "v1alpha1" "catalogsources" "CatalogSource";
    CSV = "operators.coreos.com" "v1alpha1" "clusterserviceversions" "ClusterServiceVersion";
    INSTALL_PLAN = "operators.coreos.com" "v1alpha1" "installplans" "InstallPlan";
    OLM_CONFIG = "operators.coreos.com" "v1" "olmconfigs" "OLMConfig";
    OPERATOR_CONDITION = "operators.coreos.com" "v2" "operatorconditions" "OperatorCondition";
    OPERATOR_GROUP = "operators.coreos.com" "v1" "operatorgroups" "OperatorGroup";
    PACKAGE_MANIFEST = "packages.operators.coreos.com" "v1" "packagemanifests" "PackageManifest";
    SUBSCRIPTION = "operators.coreos.com" "v1alpha1" "subscriptions" "Subscription";
    CLUSTER_ROLE_BINDING = "rbac.authorization.k8s.io" "v1" "clusterrolebindings" "ClusterRoleBinding";
    ROLE = "rbac.authorization.k8s.io" "v1" "roles" "Role";
    ROLE_BINDING = "rbac.authorization.k8s.io" "v1" "rolebindings" "RoleBinding";
    SECRET = "" "v1" "secrets" "Secret";
    API_SERVICE = "apiregistration.k8s.io" "v1" "apiservices" "APIService";
    MUTATING_WEBHOOK = "admissionregistration.k8s.io" "v1" "mutatingwebhookconfigurations" "MutatingWebhookConfiguration";
    VALIDATING_WEBHOOK = "admissionregistration.k8s.io" "v1" "validatingwebhookconfigurations" "ValidatingWebhookConfiguration";
}
