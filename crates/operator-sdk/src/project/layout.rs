//! The paths of a project, relative to its root.

use super::Config;
use crate::names::snake_case;

/// The crates of the SDK that a project depends on.
pub(crate) const SDK_CRATES: [&str; 2] = ["operator-runtime", "operator-envtest"];

/// More crates of the SDK that a project may depend on.
pub(crate) const OPTIONAL_SDK_CRATES: [&str; 2] = ["operator-chaos", "operator-lib"];

pub(crate) const PROJECT: &str = "PROJECT";
pub(crate) const BOILERPLATE: &str = "hack/boilerplate.rs.txt";
pub(crate) const LIB: &str = "src/lib.rs";
pub(crate) const API: &str = "src/api.rs";
pub(crate) const CONTROLLER: &str = "src/controller.rs";
pub(crate) const WEBHOOK: &str = "src/webhook.rs";
pub(crate) const WEBHOOK_MANIFESTS: &str = "config/webhook/manifests.yaml";
pub(crate) const CARGO: &str = "Cargo.toml";
pub(crate) const CRD_BASES: &str = "config/crd/bases";
pub(crate) const ROLE: &str = "config/rbac/role.yaml";
pub(crate) const CHAOS_TEST: &str = "tests/chaos.rs";
pub(crate) const CHAOS_WORKLOAD: &str = "tests/chaos.yaml";

/// The location of the source of one version of a kind.
///
/// Modules are separated by version, and in a project with several groups by group and version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The module of the group.
    folder: Option<String>,
    version: String,
    kind: String,
}

/// A file that declares modules: its path, and the name of one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parent {
    pub(crate) path: String,
    pub(crate) module: String,
}

// === impl Place ===

impl Place {
    /// Returns the location of the source of a kind.
    pub(crate) fn of(config: &Config, group: &str, version: &str, kind: &str) -> Self {
        let flat = config.find(group, version, kind).is_some_and(|there| there.flat);
        Self {
            folder: (config.multigroup && !flat).then(|| group_module(group)),
            version: version.to_owned(),
            kind: kind.to_owned(),
        }
    }

    /// Returns `api::v1`, or `api::cache::v1`.
    pub(crate) fn api_path(&self) -> String {
        self.path_of("api", &["::", &self.version].concat())
    }

    /// Returns `controller`, or `controller::cache`.
    pub(crate) fn controller_path(&self) -> String {
        self.path_of("controller", "")
    }

    /// Returns `webhook::v1`, or `webhook::cache::v1`.
    pub(crate) fn webhook_path(&self) -> String {
        self.path_of("webhook", &["::", &self.version].concat())
    }

    fn path_of(&self, root: &str, tail: &str) -> String {
        match &self.folder {
            Some(folder) => format!("{root}::{folder}{tail}"),
            None => format!("{root}{tail}"),
        }
    }

    /// Returns the file of the type.
    pub(crate) fn types(&self) -> String {
        let module = types_module(&self.kind);
        format!("src/{}/{module}.rs", self.api_path().replace("::", "/"))
    }

    /// Returns the file of a controller, by its name in CamelCase.
    pub(crate) fn controller(&self, name: &str) -> String {
        let module = controller_module(name);
        format!("src/{}/{module}.rs", self.controller_path().replace("::", "/"))
    }

    /// Returns the file of the webhooks.
    pub(crate) fn webhook(&self) -> String {
        let module = webhook_module(&self.kind);
        format!("src/{}/{module}.rs", self.webhook_path().replace("::", "/"))
    }

    /// Returns the path of the webhook test, which has the version in its name.
    pub(crate) fn webhook_test(&self) -> String {
        self.test(&format!("{}_{}", self.version, webhook_module(&self.kind)))
    }

    /// Returns the file of the conversion to the hub and back.
    pub(crate) fn conversion(&self) -> String {
        let module = conversion_module(&self.kind);
        format!("src/{}/{module}.rs", self.api_path().replace("::", "/"))
    }

    /// Returns the path of a test, by the tested module.
    pub(crate) fn test(&self, module: &str) -> String {
        match &self.folder {
            Some(folder) => format!("tests/{folder}_{module}.rs"),
            None => format!("tests/{module}.rs"),
        }
    }

    /// Returns the files of the modules on a path such as `api::cache::v1`, starting with the outermost.
    pub(crate) fn parents(path: &str) -> Vec<Parent> {
        let steps: Vec<&str> = path.split("::").collect();
        (1..steps.len())
            .filter_map(|depth| {
                Some(Parent {
                    path: format!("src/{}.rs", steps.get(..depth)?.join("/")),
                    module: (*steps.get(depth)?).to_owned(),
                })
            })
            .collect()
    }
}

/// Returns the file of a module such as `api::cache::v1`.
pub(crate) fn module_file(path: &str) -> String {
    format!("src/{}.rs", path.replace("::", "/"))
}

/// Returns the module name of a group.
fn group_module(group: &str) -> String {
    let name: String = group
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    match syn::parse_str::<syn::Ident>(&name) {
        Ok(_) => name,
        // A Rust keyword, or a name that starts with a digit.
        Err(_) => format!("group_{name}"),
    }
}

pub(crate) fn types_module(kind: &str) -> String {
    format!("{}_types", snake_case(kind))
}

pub(crate) fn controller_module(name: &str) -> String {
    format!("{}_controller", snake_case(name))
}

pub(crate) fn webhook_module(kind: &str) -> String {
    format!("{}_webhook", snake_case(kind))
}

pub(crate) fn conversion_module(kind: &str) -> String {
    format!("{}_conversion", snake_case(kind))
}

pub(crate) fn crd_base(file_name: &str) -> String {
    format!("{CRD_BASES}/{file_name}")
}

pub(crate) fn sample(file: &str) -> String {
    format!("config/samples/{file}")
}
