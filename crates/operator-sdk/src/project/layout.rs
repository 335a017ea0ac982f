//! Every path of a project, relative to its root.

use crate::names::snake_case;

pub(crate) const PROJECT: &str = "PROJECT";
pub(crate) const BOILERPLATE: &str = "hack/boilerplate.rs.txt";
pub(crate) const LIB: &str = "src/lib.rs";
pub(crate) const API: &str = "src/api.rs";
pub(crate) const CONTROLLER: &str = "src/controller.rs";
pub(crate) const DEFAULT_KUSTOMIZATION: &str = "config/default/kustomization.yaml";
pub(crate) const CRD_KUSTOMIZATION: &str = "config/crd/kustomization.yaml";
pub(crate) const CRD_BASES: &str = "config/crd/bases";
pub(crate) const RBAC_KUSTOMIZATION: &str = "config/rbac/kustomization.yaml";
pub(crate) const ROLE: &str = "config/rbac/role.yaml";
pub(crate) const SAMPLES_KUSTOMIZATION: &str = "config/samples/kustomization.yaml";

/// The name of the generated role, before kustomize puts the project's name in front.
pub(crate) const ROLE_NAME: &str = "manager-role";

pub(crate) fn api_version(version: &str) -> String {
    format!("src/api/{version}.rs")
}

pub(crate) fn types_module(kind: &str) -> String {
    format!("{}_types", snake_case(kind))
}

pub(crate) fn types(version: &str, kind: &str) -> String {
    format!("src/api/{version}/{}.rs", types_module(kind))
}

pub(crate) fn controller_module(kind: &str) -> String {
    format!("{}_controller", snake_case(kind))
}

pub(crate) fn controller(kind: &str) -> String {
    format!("src/controller/{}.rs", controller_module(kind))
}

pub(crate) fn controller_test(kind: &str) -> String {
    format!("tests/{}.rs", controller_module(kind))
}

pub(crate) fn crd_base(file_name: &str) -> String {
    format!("{CRD_BASES}/{file_name}")
}

/// `config/rbac/<kind>_<access>_role.yaml`; access is admin, editor or viewer.
pub(crate) fn access_role(kind: &str, access: &str) -> String {
    format!("config/rbac/{}", access_role_file(kind, access))
}

pub(crate) fn access_role_file(kind: &str, access: &str) -> String {
    format!("{}_{access}_role.yaml", kind.to_lowercase())
}

pub(crate) fn sample_file(group: &str, version: &str, kind: &str) -> String {
    format!("{group}_{version}_{}.yaml", kind.to_lowercase())
}

pub(crate) fn sample(group: &str, version: &str, kind: &str) -> String {
    format!("config/samples/{}", sample_file(group, version, kind))
}
