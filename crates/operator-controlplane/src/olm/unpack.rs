//! Bundles in images: a Job unpacks each into a ConfigMap in the namespace of its catalog.
//!
//! The objects are those of OLM. The Job does its work only if a program is registered for [`IMAGE`]; otherwise its pod is
//! simulated, and unpacking fails when the Job completes.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use operator_olm::catalog::Property;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::kinds::{CATALOG_SOURCE, ROLE, ROLE_BINDING};
use super::resolve::Candidate;
use super::{MANAGED, owner_reference};
use crate::kind::{CONFIG_MAP, JOB};
use crate::object::Object;
use crate::objects::Objects;
use crate::plan::{Action, create};

/// The image of the container that writes the content of a bundle image to a ConfigMap. The pods that serve catalogs have
/// another image with the same program.
pub const IMAGE: &str = "quay.io/operator-framework/upstream-opm-builder:latest";
const UTILITIES: &str = "quay.io/operator-framework/olm:latest";
/// The label of the objects for a bundle image, with the name of its Job.
const REFERENCE: &str = "operatorframework.io/bundle-unpack-ref";
/// The time limit of a Job, in seconds.
const DEADLINE: i64 = 600;
/// The largest unpacked object, in bytes.
const OBJECT_MAX: u64 = 16 << 20;

/// The state of a bundle image.
pub(super) enum Unpacked {
    /// The objects of the bundle.
    Objects(Vec<Property>),
    /// The next object for the Job.
    Next(Box<Action>),
    /// The Job is running.
    Running,
    Failed {
        reason: String,
        message: String,
    },
}

/// Returns true for a Job or a ConfigMap of a bundle image.
pub(super) fn is_of_bundle(object: &Value) -> bool {
    object.label(REFERENCE).is_some()
}

/// Returns true if the objects of a bundle are in its image alone.
pub(super) fn is_in_image(candidate: &Candidate) -> bool {
    let bundle = &candidate.bundle;
    let is_object = |property: &Property| property.kind == "olm.bundle.object";
    !bundle.image.is_empty() && !bundle.properties.iter().any(is_object)
}

/// Returns the state of the image of a bundle.
pub(super) fn unpack(objects: &Objects, candidate: &Candidate) -> Unpacked {
    let source = &candidate.source;
    let image = candidate.bundle.image.as_str();
    let name = name_of(image);
    let namespace = source.namespace.as_str();
    let metadata = |owner: &Value| {
        json!({
            "name": name, "namespace": namespace, "labels": {REFERENCE: name, MANAGED: "true"},
            "ownerReferences": [owner],
        })
    };
    let Some(content) = objects.get(&CONFIG_MAP, namespace, &name) else {
        let Some(source) = objects.get(&CATALOG_SOURCE, namespace, &source.name) else {
            return Unpacked::Failed {
                reason: "CatalogSourceMissing".to_owned(),
                message: "referenced catalogsource not found".to_owned(),
            };
        };
        let config_map = json!({"metadata": metadata(&owner_reference(&CATALOG_SOURCE, source))});
        return Unpacked::Next(Box::new(create(&CONFIG_MAP, config_map, None)));
    };
    let data = content.texts("/binaryData");
    if !data.is_empty() {
        return match data.into_iter().map(property).collect() {
            Ok(properties) => Unpacked::Objects(properties),
            Err(message) => Unpacked::Failed {
                reason: "BundleNotUnpacked".to_owned(),
                message,
            },
        };
    }
    let owner = owner_reference(&CONFIG_MAP, content);
    if objects.get(&ROLE, namespace, &name).is_none() {
        let role = json!({
            "metadata": metadata(&owner),
            "rules": [{
                "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name],
                "verbs": ["create", "get", "update"],
            }],
        });
        return Unpacked::Next(Box::new(create(&ROLE, role, None)));
    }
    if objects.get(&ROLE_BINDING, namespace, &name).is_none() {
        let binding = json!({
            "metadata": metadata(&owner),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}],
        });
        return Unpacked::Next(Box::new(create(&ROLE_BINDING, binding, None)));
    }
    let Some(job) = objects.get(&JOB, namespace, &name) else {
        let job = json!({"metadata": metadata(&owner), "spec": job(&name, namespace, image)});
        return Unpacked::Next(Box::new(create(&JOB, job, None)));
    };
    let advice = format!(
        "Check the image {image}, and delete the configmap {name} in the namespace {namespace} to unpack it again"
    );
    if let Some(failed) = job
        .condition("Failed")
        .filter(|_| job.is_condition_true("Failed"))
    {
        return Unpacked::Failed {
            reason: failed.text("/reason").to_owned(),
            message: format!("{}. {advice}", failed.text("/message")),
        };
    }
    // The index contains all writes of the pod before the completion of its Job.
    if job.is_condition_true("Complete") {
        return Unpacked::Failed {
            reason: "BundleNotUnpacked".to_owned(),
            message: format!("the unpack job has written no objects, as a simulated pod does. {advice}"),
        };
    }
    Unpacked::Running
}

/// Returns the name of the objects for an image.
fn name_of(image: &str) -> String {
    let digest = Sha256::digest(image.as_bytes());
    let mut name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    name.truncate(63);
    name
}

/// Decodes an object, which is a compressed manifest.
fn property((name, data): (&str, &str)) -> Result<Property, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{name} cannot be read: {error}");
    let bytes = STANDARD.decode(data).map_err(|error| failed(&error))?;
    let mut text = String::new();
    let mut decoder = GzDecoder::new(bytes.as_slice()).take(OBJECT_MAX);
    decoder
        .read_to_string(&mut text)
        .map_err(|error| failed(&error))?;
    let object = apimachinery::yaml::parse(&text).map_err(|error| failed(&error))?;
    Ok(Property {
        kind: "olm.bundle.object".to_owned(),
        value: json!({"data": STANDARD.encode(object.value.to_string())}),
    })
}

fn job(name: &str, namespace: &str, image: &str) -> Value {
    let security = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let resources = json!({"requests": {"cpu": "10m", "memory": "50Mi"}});
    let mount = |name: &str| json!({"name": name, "mountPath": format!("/{name}")});
    let container = |name: &str, image: &str, command: &[&str], mounts: &[&str]| {
        let mounts: Vec<Value> = mounts.iter().map(|name| mount(name)).collect();
        json!({
            "name": name, "image": image, "command": command, "volumeMounts": mounts, "resources": resources,
            "securityContext": security,
        })
    };
    let utilities = container(
        "util",
        UTILITIES,
        &["/bin/cp", "-Rv", "/bin/cpb", "/util/cpb"],
        &["util"],
    );
    let mut pull = container("pull", image, &["/util/cpb", "/bundle"], &["bundle", "util"]);
    let policy = if image.contains('@') {
        "IfNotPresent"
    } else {
        "Always"
    };
    pull["imagePullPolicy"] = policy.into();
    let extract = [
        "opm", "alpha", "bundle", "extract", "-m", "/bundle/", "-n", namespace, "-c", name, "-z",
    ];
    let mut extract = container("extract", IMAGE, &extract, &["bundle"]);
    extract["env"] = json!([{"name": "CONTAINER_IMAGE", "value": image}]);
    json!({
        "activeDeadlineSeconds": DEADLINE,
        "backoffLimit": 3,
        "template": {
            "metadata": {"name": name, "labels": {MANAGED: "true"}},
            "spec": {
                "restartPolicy": "Never",
                "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
                "initContainers": [utilities, pull],
                "containers": [extract],
                "volumes": [{"name": "bundle", "emptyDir": {}}, {"name": "util", "emptyDir": {}}],
            },
        },
    })
}

/// Returns the `bundleLookups` entry of an InstallPlan for an unpacked bundle.
pub(super) fn lookup(candidate: &Candidate) -> Value {
    let (bundle, source) = (&candidate.bundle, &candidate.source);
    let properties: Vec<Value> = bundle
        .properties
        .iter()
        .filter(|property| property.kind != "olm.bundle.object")
        .map(|property| json!({"type": property.kind, "value": property.value}))
        .collect();
    json!({
        "path": bundle.image,
        "identifier": bundle.name,
        "replaces": candidate.replaces,
        "catalogSourceRef": {"namespace": source.namespace, "name": source.name},
        "properties": json!({"properties": properties}).to_string(),
    })
}
