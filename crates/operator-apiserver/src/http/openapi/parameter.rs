//! The parameters of operations, and where their descriptions are.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::Descriptions;

/// Options that are sent as query parameters: the type whose fields describe them, and the name and type of each.
#[derive(Debug)]
pub(super) struct Options {
    described_by: &'static str,
    fields: &'static [(&'static str, &'static str)],
}

pub(super) const LIST: Options = Options {
    described_by: "io.k8s.apimachinery.pkg.apis.meta.v1.ListOptions",
    fields: &[
        ("allowWatchBookmarks", "boolean"),
        ("continue", "string"),
        ("fieldSelector", "string"),
        ("labelSelector", "string"),
        ("limit", "integer"),
        ("resourceVersion", "string"),
        ("resourceVersionMatch", "string"),
        ("sendInitialEvents", "boolean"),
        ("shardSelector", "string"),
        ("timeoutSeconds", "integer"),
        ("watch", "boolean"),
    ],
};
/// The fields of [`LIST`] that select the objects of a list. Its first and its last field are about watches.
pub(super) const SELECTION: Options = Options {
    described_by: LIST.described_by,
    fields: match LIST.fields {
        [_, selection @ .., _] => selection,
        _ => &[],
    },
};
pub(super) const GET: Options = Options {
    described_by: LIST.described_by,
    fields: &[("resourceVersion", "string")],
};
pub(super) const CREATE: Options = Options {
    described_by: "io.k8s.apimachinery.pkg.apis.meta.v1.CreateOptions",
    fields: &[
        ("dryRun", "string"),
        ("fieldManager", "string"),
        ("fieldValidation", "string"),
    ],
};
pub(super) const PATCH: Options = Options {
    described_by: "io.k8s.apimachinery.pkg.apis.meta.v1.PatchOptions",
    fields: &[
        ("dryRun", "string"),
        ("fieldManager", "string"),
        ("fieldValidation", "string"),
        ("force", "boolean"),
    ],
};
pub(super) const DELETE: Options = Options {
    described_by: "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    fields: &[
        ("dryRun", "string"),
        ("gracePeriodSeconds", "integer"),
        ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
        ("orphanDependents", "boolean"),
        ("propagationPolicy", "string"),
    ],
};
pub(super) const POD_LOG: Options = Options {
    described_by: "io.k8s.api.core.v1.PodLogOptions",
    fields: &[
        ("container", "string"),
        ("follow", "boolean"),
        ("insecureSkipTLSVerifyBackend", "boolean"),
        ("limitBytes", "integer"),
        ("previous", "boolean"),
        ("sinceSeconds", "integer"),
        ("stream", "string"),
        ("tailLines", "integer"),
        ("timestamps", "boolean"),
    ],
};
const PROXY_FIELDS: &[(&str, &str)] = &[("path", "string")];

/// Returns the options of a connection, by their kind: `PodExecOptions`. `None` for the kinds of objects.
pub(super) fn of_connection(kind: &str) -> Option<&'static Options> {
    Some(match kind {
        "PodExecOptions" => &Options {
            described_by: "io.k8s.api.core.v1.PodExecOptions",
            fields: &[
                ("command", "string"),
                ("container", "string"),
                ("stderr", "boolean"),
                ("stdin", "boolean"),
                ("stdout", "boolean"),
                ("tty", "boolean"),
            ],
        },
        "PodAttachOptions" => &Options {
            described_by: "io.k8s.api.core.v1.PodAttachOptions",
            fields: &[
                ("container", "string"),
                ("stderr", "boolean"),
                ("stdin", "boolean"),
                ("stdout", "boolean"),
                ("tty", "boolean"),
            ],
        },
        "PodPortForwardOptions" => &Options {
            described_by: "io.k8s.api.core.v1.PodPortForwardOptions",
            fields: &[("ports", "integer")],
        },
        "PodProxyOptions" => &Options {
            described_by: "io.k8s.api.core.v1.PodProxyOptions",
            fields: PROXY_FIELDS,
        },
        "NodeProxyOptions" => &Options {
            described_by: "io.k8s.api.core.v1.NodeProxyOptions",
            fields: PROXY_FIELDS,
        },
        "ServiceProxyOptions" => &Options {
            described_by: "io.k8s.api.core.v1.ServiceProxyOptions",
            fields: PROXY_FIELDS,
        },
        _ => return None,
    })
}

/// A parameter of an operation.
#[derive(Clone, Debug)]
pub(super) struct Parameter<'d> {
    name: &'static str,
    /// True for a part of the path, false for a query parameter.
    in_path: bool,
    kind: &'static str,
    description: Option<Cow<'d, str>>,
}

impl<'d> Parameter<'d> {
    /// Returns the parameters of options.
    pub(super) fn of_options(
        options: &'static Options,
        descriptions: &'d Descriptions,
    ) -> impl Iterator<Item = Self> {
        options.fields.iter().map(move |&(name, kind)| Self {
            name,
            in_path: false,
            kind,
            description: descriptions
                .of_field(options.described_by, name)
                .map(Cow::Borrowed),
        })
    }

    /// Returns the parameter with which a client asks for indented output.
    pub(super) fn pretty(descriptions: &'d Descriptions) -> Self {
        Self {
            name: "pretty",
            in_path: false,
            kind: "string",
            description: descriptions.of_parameter("pretty").map(Cow::Borrowed),
        }
    }

    /// Returns the parameters in a path. `kind` is the kind of the object that `{name}` identifies.
    pub(super) fn of_path(path: &str, kind: &str, descriptions: &'d Descriptions) -> Vec<Self> {
        let in_path = |name: &str| path.contains(&format!("{{{name}}}"));
        let names = ["name", "namespace", "path"]
            .into_iter()
            .filter(|name| in_path(name));
        names
            .map(|name| Self {
                name,
                in_path: true,
                kind: "string",
                description: match name {
                    "name" => (!descriptions.is_empty()).then(|| format!("name of the {kind}").into()),
                    _ => descriptions.of_parameter(name).map(Cow::Borrowed),
                },
            })
            .collect()
    }

    fn key(&self) -> (&'static str, bool) {
        (self.name, self.in_path)
    }

    fn into_json(self) -> Value {
        let place = if self.in_path { "path" } else { "query" };
        let mut parameter = json!({
            "name": self.name, "in": place, "schema": {"type": self.kind, "uniqueItems": true},
        });
        if self.in_path {
            parameter["required"] = true.into();
        }
        if let Some(description) = self.description {
            parameter["description"] = description.into();
        }
        parameter
    }
}

/// Separates the parameters that all operations of a path have from the others, which stay in the lists of the
/// operations.
pub(super) fn take_common<'d>(operations: &mut [Vec<Parameter<'d>>]) -> Vec<Parameter<'d>> {
    let Some((first, others)) = operations.split_first() else {
        return Vec::new();
    };
    let has = |list: &[Parameter<'_>], key| list.iter().any(|parameter| parameter.key() == key);
    let is_common = |parameter: &&Parameter<'_>| others.iter().all(|list| has(list, parameter.key()));
    let common: Vec<Parameter<'d>> = first.iter().filter(is_common).cloned().collect();
    for list in operations {
        list.retain(|parameter| !has(&common, parameter.key()));
    }
    common
}

/// Returns the parameters as they are in a document: ordered by name.
pub(super) fn to_json(mut parameters: Vec<Parameter<'_>>) -> Value {
    parameters.sort_by_key(|parameter| (parameter.name, !parameter.in_path));
    parameters.into_iter().map(Parameter::into_json).collect()
}
