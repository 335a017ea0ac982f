//! The shapes of objects in a bundle, which are loaded as Go structs.

use crate::decode::Shape::{
    self, Any, Bool, Builtin, Int, IntOrString, List, Map, Release, Struct, Text, Version,
};

const TEXTS: Shape = List(&Text);
const OBJECT_META: Shape = Builtin("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
const LABEL_SELECTOR: Shape = Builtin("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector");
const RULES: Shape = List(&Builtin("io.k8s.api.rbac.v1.PolicyRule"));

/// The shape of `metadata/annotations.yaml`.
pub(crate) const ANNOTATIONS: Shape = Struct(&[("annotations", Map(&Text))]);

/// The shape of a ClusterServiceVersion.
pub(crate) const CSV: Shape = Struct(&[
    ("apiVersion", Text),
    ("kind", Text),
    ("metadata", OBJECT_META),
    ("spec", CSV_SPEC),
]);

/// The shape of the spec of a ClusterServiceVersion.
pub(crate) const CSV_SPEC: Shape = Struct(&[
    ("install", INSTALL),
    ("version", Version),
    ("release", Release),
    ("maturity", Text),
    (
        "customresourcedefinitions",
        Struct(&[
            ("owned", List(&CRD_DESCRIPTION)),
            ("required", List(&CRD_DESCRIPTION)),
        ]),
    ),
    (
        "apiservicedefinitions",
        Struct(&[
            ("owned", List(&API_DESCRIPTION)),
            ("required", List(&API_DESCRIPTION)),
        ]),
    ),
    ("webhookdefinitions", List(&WEBHOOK)),
    (
        "nativeAPIs",
        List(&Struct(&[("group", Text), ("version", Text), ("kind", Text)])),
    ),
    ("minKubeVersion", Text),
    ("displayName", Text),
    ("description", Text),
    ("keywords", TEXTS),
    ("maintainers", List(&Struct(&[("name", Text), ("email", Text)]))),
    ("provider", LINK),
    ("links", List(&LINK)),
    (
        "icon",
        List(&Struct(&[("base64data", Text), ("mediatype", Text)])),
    ),
    (
        "installModes",
        List(&Struct(&[("type", Text), ("supported", Bool)])),
    ),
    ("replaces", Text),
    ("labels", Map(&Text)),
    ("annotations", Map(&Text)),
    ("selector", LABEL_SELECTOR),
    ("cleanup", Struct(&[("enabled", Bool)])),
    ("skips", TEXTS),
    ("relatedImages", List(&Struct(&[("name", Text), ("image", Text)]))),
]);

/// The shape of an install strategy.
pub(crate) const INSTALL: Shape = Struct(&[("strategy", Text), ("spec", INSTALL_SPEC)]);

/// The shape of the details of an install strategy.
pub(crate) const INSTALL_SPEC: Shape = Struct(&[
    (
        "deployments",
        List(&Struct(&[
            ("name", Text),
            ("spec", Builtin("io.k8s.api.apps.v1.DeploymentSpec")),
            ("label", Map(&Text)),
        ])),
    ),
    ("permissions", List(&PERMISSION)),
    ("clusterPermissions", List(&PERMISSION)),
]);

const PERMISSION: Shape = Struct(&[("serviceAccountName", Text), ("rules", RULES)]);
const LINK: Shape = Struct(&[("name", Text), ("url", Text)]);

const CRD_DESCRIPTION: Shape = Struct(&[
    ("name", Text),
    ("version", Text),
    ("kind", Text),
    ("displayName", Text),
    ("description", Text),
    ("resources", List(&RESOURCE)),
    ("statusDescriptors", List(&DESCRIPTOR)),
    ("specDescriptors", List(&DESCRIPTOR)),
    ("actionDescriptors", List(&DESCRIPTOR)),
]);

const API_DESCRIPTION: Shape = Struct(&[
    ("name", Text),
    ("group", Text),
    ("version", Text),
    ("kind", Text),
    ("deploymentName", Text),
    ("containerPort", Int),
    ("displayName", Text),
    ("description", Text),
    ("resources", List(&RESOURCE)),
    ("statusDescriptors", List(&DESCRIPTOR)),
    ("specDescriptors", List(&DESCRIPTOR)),
    ("actionDescriptors", List(&DESCRIPTOR)),
]);

const RESOURCE: Shape = Struct(&[("name", Text), ("kind", Text), ("version", Text)]);

const DESCRIPTOR: Shape = Struct(&[
    ("path", Text),
    ("displayName", Text),
    ("description", Text),
    ("x-descriptors", TEXTS),
    ("value", Any),
]);

const WEBHOOK: Shape = Struct(&[
    ("generateName", Text),
    ("type", Text),
    ("deploymentName", Text),
    ("containerPort", Int),
    ("targetPort", IntOrString),
    (
        "rules",
        List(&Builtin("io.k8s.api.admissionregistration.v1.RuleWithOperations")),
    ),
    ("failurePolicy", Text),
    ("matchPolicy", Text),
    ("objectSelector", LABEL_SELECTOR),
    ("sideEffects", Text),
    ("timeoutSeconds", Int),
    ("admissionReviewVersions", TEXTS),
    ("reinvocationPolicy", Text),
    ("webhookPath", Text),
    ("conversionCRDs", TEXTS),
]);

/// The shape of a CustomResourceDefinition of `apiextensions.k8s.io/v1`.
pub(crate) const CRD: Shape = Struct(&[
    ("apiVersion", Text),
    ("kind", Text),
    ("metadata", OBJECT_META),
    (
        "spec",
        Builtin("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec"),
    ),
    ("status", Any),
]);

/// The shape of a CustomResourceDefinition of `apiextensions.k8s.io/v1beta1`.
pub(crate) const OLD_CRD: Shape = Struct(&[
    ("apiVersion", Text),
    ("kind", Text),
    ("metadata", OBJECT_META),
    (
        "spec",
        Struct(&[
            ("group", Text),
            ("version", Text),
            ("names", CRD_NAMES),
            ("scope", Text),
            ("validation", Struct(&[("openAPIV3Schema", Any)])),
            ("subresources", Any),
            ("versions", List(&OLD_CRD_VERSION)),
            ("additionalPrinterColumns", OLD_COLUMNS),
            ("conversion", Any),
            ("preserveUnknownFields", Bool),
        ]),
    ),
    ("status", Any),
]);

const CRD_NAMES: Shape = Struct(&[
    ("plural", Text),
    ("singular", Text),
    ("shortNames", TEXTS),
    ("kind", Text),
    ("listKind", Text),
    ("categories", TEXTS),
]);

const OLD_CRD_VERSION: Shape = Struct(&[
    ("name", Text),
    ("served", Bool),
    ("storage", Bool),
    ("deprecated", Bool),
    ("deprecationWarning", Text),
    ("schema", Struct(&[("openAPIV3Schema", Any)])),
    ("subresources", Any),
    ("additionalPrinterColumns", OLD_COLUMNS),
]);

const OLD_COLUMNS: Shape = List(&Struct(&[
    ("name", Text),
    ("type", Text),
    ("format", Text),
    ("description", Text),
    ("priority", Int),
    ("JSONPath", Text),
]));

/// The shape of a PodDisruptionBudget.
pub(crate) const POD_DISRUPTION_BUDGET: Shape = Builtin("io.k8s.api.policy.v1.PodDisruptionBudget");
/// The shape of a PriorityClass.
pub(crate) const PRIORITY_CLASS: Shape = Builtin("io.k8s.api.scheduling.v1.PriorityClass");
/// The shape of a Role.
pub(crate) const ROLE: Shape = Builtin("io.k8s.api.rbac.v1.Role");
/// The shape of a ClusterRole.
pub(crate) const CLUSTER_ROLE: Shape = Builtin("io.k8s.api.rbac.v1.ClusterRole");
