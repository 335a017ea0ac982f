//! The types of the page for users of kubebuilder.

use kube::{CustomResource, CustomResourceExt, KubeSchema};
use operator_envtest::TestEnv;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

// ANCHOR: types
/// The desired state of a cache.
#[derive(CustomResource, KubeSchema, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "cache.example.com", version = "v1", kind = "Cache", namespaced)]
#[kube(
    shortname = "ca",
    printcolumn(name = "Size", type_ = "integer", json_path = ".spec.size")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = "self.minSize <= self.size")]
pub struct CacheSpec {
    /// The number of instances.
    #[serde(default = "three")]
    #[schemars(range(min = 1, max = 9))]
    pub size: i32,
    #[schemars(range(min = 1))]
    pub min_size: i32,
    #[schemars(length(max = 63), regex(pattern = "^[a-z]+$"))]
    pub zone: String,
    pub policy: Policy,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub enum Policy {
    Keep,
    Evict,
}

fn three() -> i32 {
    3
}
// ANCHOR_END: types

#[tokio::test]
async fn the_attributes_become_rules() {
    let definition = serde_json::to_value(Cache::crd()).unwrap();
    let version = &definition["spec"]["versions"][0];
    let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert_eq!(spec["properties"]["size"]["default"], 3);
    assert_eq!(spec["properties"]["size"]["minimum"], 1.0);
    assert_eq!(spec["properties"]["zone"]["maxLength"], 63);
    assert_eq!(spec["properties"]["zone"]["pattern"], "^[a-z]+$");
    assert_eq!(spec["properties"]["policy"]["enum"], json!(["Keep", "Evict"]));
    assert_eq!(spec["required"], json!(["minSize", "policy", "zone"]));
    assert_eq!(
        spec["x-kubernetes-validations"][0]["rule"],
        "self.minSize <= self.size"
    );
    assert_eq!(version["additionalPrinterColumns"][0]["jsonPath"], ".spec.size");
    assert_eq!(definition["spec"]["names"]["shortNames"], json!(["ca"]));
    // The API server accepts the definition.
    let _env = TestEnv::builder().crds([definition]).start().await.unwrap();
}
