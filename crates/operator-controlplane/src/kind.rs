//! The built-in kinds that controllers read and write: a table.

use std::sync::LazyLock;

use operator_apiserver::client::Gvr;

/// A kind and its resource.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) gvr: Gvr,
    /// The name of the kind, such as `Pod`.
    pub(crate) name: &'static str,
}

impl Kind {
    /// Returns the `apiVersion` of its objects.
    pub(crate) fn api_version(&self) -> String {
        if self.gvr.group.is_empty() {
            self.gvr.version.clone()
        } else {
            format!("{}/{}", self.gvr.group, self.gvr.version)
        }
    }

    /// Returns true if a resource is the resource of this kind, in any version.
    pub(crate) fn is(&self, gvr: &Gvr) -> bool {
        self.gvr.resource == gvr.resource && self.gvr.group == gvr.group
    }
}

macro_rules! kinds {
    ($($id:ident = $group:literal $version:literal $resource:literal $name:literal;)*) => {
        $(pub(crate) static $id: LazyLock<Kind> = LazyLock::new(|| Kind {
            gvr: Gvr::new($group, $version, $resource),
            name: $name,
        });)*
    };
}

#[cfg(feature = "olm")]
pub(crate) use kinds;

kinds! {
    CERTIFICATE_SIGNING_REQUEST = "certificates.k8s.io" "v1" "certificatesigningrequests" "CertificateSigningRequest";
    CLUSTER_ROLE = "rbac.authorization.k8s.io" "v1" "clusterroles" "ClusterRole";
    CONFIG_MAP = "" "v1" "configmaps" "ConfigMap";
    CONTROLLER_REVISION = "apps" "v1" "controllerrevisions" "ControllerRevision";
    CRON_JOB = "batch" "v1" "cronjobs" "CronJob";
    CUSTOM_RESOURCE_DEFINITION = "apiextensions.k8s.io" "v1" "customresourcedefinitions" "CustomResourceDefinition";
    DAEMON_SET = "apps" "v1" "daemonsets" "DaemonSet";
    DEPLOYMENT = "apps" "v1" "deployments" "Deployment";
    ENDPOINTS = "" "v1" "endpoints" "Endpoints";
    ENDPOINT_SLICE = "discovery.k8s.io" "v1" "endpointslices" "EndpointSlice";
    EVENT = "" "v1" "events" "Event";
    JOB = "batch" "v1" "jobs" "Job";
    LEASE = "coordination.k8s.io" "v1" "leases" "Lease";
    NAMESPACE = "" "v1" "namespaces" "Namespace";
    NODE = "" "v1" "nodes" "Node";
    PERSISTENT_VOLUME = "" "v1" "persistentvolumes" "PersistentVolume";
    PERSISTENT_VOLUME_CLAIM = "" "v1" "persistentvolumeclaims" "PersistentVolumeClaim";
    POD = "" "v1" "pods" "Pod";
    POD_DISRUPTION_BUDGET = "policy" "v1" "poddisruptionbudgets" "PodDisruptionBudget";
    REPLICA_SET = "apps" "v1" "replicasets" "ReplicaSet";
    REPLICATION_CONTROLLER = "" "v1" "replicationcontrollers" "ReplicationController";
    RESOURCE_QUOTA = "" "v1" "resourcequotas" "ResourceQuota";
    SECRET = "" "v1" "secrets" "Secret";
    SERVICE = "" "v1" "services" "Service";
    SERVICE_ACCOUNT = "" "v1" "serviceaccounts" "ServiceAccount";
    STATEFUL_SET = "apps" "v1" "statefulsets" "StatefulSet";
    STORAGE_CLASS = "storage.k8s.io" "v1" "storageclasses" "StorageClass";
}
