//! The validators of `operator-sdk bundle validate`.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use crate::Manifest;
use crate::bundle::Bundle;
use crate::files::Files;
use crate::finding::{Finding, Findings, Level};

mod bundle;
mod capabilities;
mod categories;
mod community;
mod crd;
mod csv;
mod example;
mod format;
mod good_practices;
mod multiarch;
mod object;
mod object_metadata;
mod olmv1;
mod operatorhub;
mod removed_apis;
mod strict;

pub(crate) use bundle::is_old as is_old_crd;
pub(crate) use crd::converted as converted_crd;
pub(crate) use csv::api_of;
pub(crate) use example::{Examples, examples};
pub use format::{format, format_of};
pub use multiarch::{Platform, images_of};
pub(crate) use object_metadata::SUPPORTED;

/// The options of validators.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The values of `--optional-values`, by key.
    pub values: BTreeMap<String, String>,
    /// The categories that replace the standard ones. Default: `None`.
    pub categories: Option<Vec<String>>,
    /// The platforms of the images that [`images_of`] returns, or the reason why an image cannot be inspected.
    pub platforms: BTreeMap<String, Result<BTreeSet<Platform>, String>>,
    /// The content of the file in the value `index-path`, or the reason why it cannot be read.
    pub index: Option<Result<String, String>>,
}

impl Options {
    fn value(&self, key: &str) -> &str {
        self.values.get(key).map(String::as_str).unwrap_or_default()
    }
}

/// A validator of bundles. Its text is its name in selectors and reports.
///
/// ```
/// use operator_olm::validator::Validator;
///
/// assert_eq!("olmv1".parse(), Ok(Validator::OlmV1));
/// let unknown = "olmv2".parse::<Validator>().unwrap_err();
/// assert!(unknown.to_string().starts_with("unknown validator \"olmv2\": the validators are bundle, csv, "));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validator {
    /// Owned definitions, the size, and the images of the bundle. It always runs.
    Bundle,
    /// The ClusterServiceVersion. It always runs.
    Csv,
    /// The CustomResourceDefinitions. It always runs.
    Crd,
    /// The other objects. It is part of no command of operator-sdk.
    Object,
    /// The deprecated criteria of OperatorHub.io.
    OperatorHub,
    /// The criteria of OperatorHub.io.
    OperatorHubV2,
    /// The capability level.
    Capabilities,
    /// The categories.
    Categories,
    /// The deprecated criteria of community operators.
    Community,
    /// APIs that Kubernetes removed.
    AlphaDeprecatedApis,
    /// Recommendations.
    GoodPractices,
    /// The platforms of the images.
    Multiarch,
    /// The requirements of OLM v1.
    OlmV1,
    /// Mistakes that the other validators accept.
    Strict,
}

/// A text that is the name of no validator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown validator {0:?}: the validators are {names}", names = Validator::ALL.map(Validator::name).join(", "))]
pub struct UnknownValidator(pub String);

// === impl Validator ===

impl Validator {
    /// All validators.
    pub const ALL: [Self; 14] = [
        Self::Bundle,
        Self::Csv,
        Self::Crd,
        Self::Object,
        Self::OperatorHub,
        Self::OperatorHubV2,
        Self::Capabilities,
        Self::Categories,
        Self::Community,
        Self::AlphaDeprecatedApis,
        Self::GoodPractices,
        Self::Multiarch,
        Self::OlmV1,
        Self::Strict,
    ];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bundle => "bundle",
            Self::Csv => "csv",
            Self::Crd => "crd",
            Self::Object => "object",
            Self::OperatorHub => "operatorhub",
            Self::OperatorHubV2 => "operatorhubv2",
            Self::Capabilities => "capabilities",
            Self::Categories => "categories",
            Self::Community => "community",
            Self::AlphaDeprecatedApis => "alpha-deprecated-apis",
            Self::GoodPractices => "good-practices",
            Self::Multiarch => "multiarch",
            Self::OlmV1 => "olmv1",
            Self::Strict => "strict",
        }
    }

    /// Runs the validator.
    pub fn run(self, bundle: &Bundle, options: &Options) -> Vec<Finding> {
        match self {
            Self::Bundle => bundle::validate(bundle),
            Self::Csv => csv::validate(bundle),
            Self::Crd => crd::validate(bundle),
            Self::Object => object::validate(bundle),
            Self::OperatorHub => operatorhub::deprecated(bundle, options),
            Self::OperatorHubV2 => operatorhub::validate(bundle, options),
            Self::Capabilities => capabilities::validate(bundle, options),
            Self::Categories => categories::validate(bundle, options),
            Self::Community => community::validate(bundle, options),
            Self::AlphaDeprecatedApis => removed_apis::validate(bundle, options),
            Self::GoodPractices => good_practices::validate(bundle, options),
            Self::Multiarch => multiarch::validate(bundle, options),
            Self::OlmV1 => olmv1::validate(bundle, options),
            Self::Strict => strict::validate(bundle, options),
        }
    }
}

impl FromStr for Validator {
    type Err = UnknownValidator;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|validator| validator.name() == name);
        found.ok_or_else(|| UnknownValidator(name.to_owned()))
    }
}

/// An optional validator.
#[derive(Debug)]
pub struct Optional {
    /// The validator. Its name is also the label `name`.
    pub validator: Validator,
    /// The value of the label `suite`.
    pub suite: Option<&'static str>,
    /// The description, which is one sentence.
    pub description: &'static str,
}

// === impl Optional ===

impl Optional {
    /// Returns the labels that selectors match.
    pub fn labels(&self) -> BTreeMap<&'static str, &'static str> {
        let name = Some(("name", self.validator.name()));
        let suite = self.suite.map(|suite| ("suite", suite));
        name.into_iter().chain(suite).collect()
    }
}

const SUITE: Option<&str> = Some("operatorframework");

/// The optional validators, in the order in which they run.
pub const OPTIONAL: &[Optional] = &[
    Optional {
        validator: Validator::OperatorHub,
        suite: None,
        description: "(deprecated) OperatorHub.io metadata validation: operatorhubv2, capabilities and categories",
    },
    Optional {
        validator: Validator::OperatorHubV2,
        suite: SUITE,
        description: "OperatorHub.io metadata validation",
    },
    Optional {
        validator: Validator::Capabilities,
        suite: SUITE,
        description: "the capability level is one of the standard levels",
    },
    Optional {
        validator: Validator::Categories,
        suite: SUITE,
        description: "the categories are standard categories, or those of the file in OPERATOR_BUNDLE_CATEGORIES",
    },
    Optional {
        validator: Validator::Community,
        suite: None,
        description: "(deprecated, alpha) criteria of community operators; value index-path=FILE",
    },
    Optional {
        validator: Validator::AlphaDeprecatedApis,
        suite: SUITE,
        description: "(alpha) APIs that Kubernetes removed; value k8s-version=VERSION",
    },
    Optional {
        validator: Validator::GoodPractices,
        suite: SUITE,
        description: "recommendations: resource requests, descriptions, names, permissions",
    },
    Optional {
        validator: Validator::Multiarch,
        suite: None,
        description: "the images have the platforms that the labels declare; value container-tools=none reads no images",
    },
    Optional {
        validator: Validator::OlmV1,
        suite: None,
        description: "OLM v1 accepts the bundle: no dependencies, no API services, valid webhooks and install modes",
    },
    Optional {
        validator: Validator::Strict,
        suite: None,
        description: "mistakes that the other validators accept: duplicate install modes, channels, labels",
    },
];

/// Runs the required validators, in the order in which `bundle validate` prints their findings.
pub fn validate(bundle: &Bundle) -> Vec<Finding> {
    let parts = [
        bundle::validate(bundle),
        csv::validate(bundle),
        object_metadata::validate(bundle),
        crd::validate(bundle),
    ];
    parts.into_iter().flat_map(warnings_first).collect()
}

/// Sorts the findings of a validator in the order of the command's output: warnings first.
pub fn warnings_first(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_key(|finding| finding.level);
    findings
}

/// Returns true if the files contain a manifests directory of a registry+v1 bundle.
pub fn is_registry_v1(files: &Files) -> bool {
    crate::bundle::media_type(files, "manifests") == Ok(crate::bundle::MediaType::RegistryV1)
}

impl Findings {
    /// Adds a finding `CSVFileNotValid` about a node of the ClusterServiceVersion.
    fn csv(&mut self, level: Level, bundle: &Bundle, detail: impl AsRef<str>, pointer: &str) -> &mut Finding {
        let detail = format!("({}) {}", bundle.csv_name(), detail.as_ref());
        let at = (bundle.csv_manifest(), pointer);
        self.add(level, "CSVFileNotValid", Some(String::new()), detail, at)
    }

    /// Adds a finding `ValidationFailed` about a node of the ClusterServiceVersion.
    fn failed(
        &mut self,
        level: Level,
        bundle: &Bundle,
        detail: impl Into<String>,
        pointer: &str,
    ) -> &mut Finding {
        let value = Some(bundle.csv_name().to_owned());
        let at = (bundle.csv_manifest(), pointer);
        self.add(level, "ValidationFailed", value, detail, at)
    }
}

/// Returns the file of the labels as a manifest, so that findings can refer to its positions.
fn annotations_manifest(bundle: &Bundle) -> Manifest {
    Manifest {
        path: bundle.annotations.path.clone(),
        document: bundle.annotations.document.clone(),
    }
}

/// Escapes a key for a JSON pointer.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
