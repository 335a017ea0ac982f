//! Families of requests: each generates sequences of one type.

mod definition;
mod delete;
mod expression;
mod field;
mod path;
mod policy;
mod read;
mod value;
mod write;

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::catalog::{Catalog, Kind};
use super::mutation::mutate;
use super::random::Random;
use super::sequence::{Sequence, send};
use crate::scenario::Step;

/// A type of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// POST requests of objects with random changes.
    Create,
    /// PUT requests of objects with random changes.
    Update,
    /// PATCH requests with all four patch types.
    Patch,
    /// Requests to `status`, `scale` and other subresources.
    Subresource,
    /// GET requests of objects and collections in several formats, with selectors and pages.
    List,
    /// Watches, and the events of some writes.
    Watch,
    /// Unknown and duplicate fields, in JSON and YAML.
    FieldValidation,
    /// DELETE requests of objects and collections.
    Delete,
    /// CustomResourceDefinitions.
    Definitions,
    /// Custom resources in several versions.
    Conversion,
    /// Limit ranges, quotas, pod security, and admission policies.
    Admission,
    /// Roles, bindings, access reviews, and impersonation.
    Rbac,
    /// Admission policies with CEL expressions.
    Policies,
    /// Paths and methods, most of which do not exist.
    Paths,
    /// Unusual values: times, quantities, base64, formats, selectors, YAML and expressions.
    Values,
    /// POST requests with an unusual value in one field, which may be deep in an object.
    Fields,
}

impl Family {
    /// All families.
    pub const ALL: [Self; 16] = [
        Self::Create,
        Self::Update,
        Self::Patch,
        Self::Subresource,
        Self::List,
        Self::Watch,
        Self::FieldValidation,
        Self::Delete,
        Self::Definitions,
        Self::Conversion,
        Self::Admission,
        Self::Rbac,
        Self::Policies,
        Self::Paths,
        Self::Values,
        Self::Fields,
    ];

    /// Returns the name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Subresource => "subresource",
            Self::List => "list",
            Self::Watch => "watch",
            Self::FieldValidation => "field-validation",
            Self::Delete => "delete",
            Self::Definitions => "definitions",
            Self::Conversion => "conversion",
            Self::Admission => "admission",
            Self::Rbac => "rbac",
            Self::Policies => "policies",
            Self::Paths => "paths",
            Self::Values => "values",
            Self::Fields => "fields",
        }
    }

    /// Returns one of the families. Families that wait for CRDs or policies are chosen rarely, because they take
    /// seconds.
    pub(crate) fn pick(families: &[Self], random: &mut Random) -> Self {
        let weight = |family: &Self| match family {
            Self::Definitions | Self::Conversion | Self::Policies => 1,
            _ => 10,
        };
        let weighted: Vec<Self> = families
            .iter()
            .flat_map(|family| std::iter::repeat_n(*family, weight(family)))
            .collect();
        random.pick(&weighted).copied().unwrap_or(Self::Create)
    }

    /// Generates the sequence with this number.
    pub(crate) fn sequence(self, making: &mut Making<'_>) -> Sequence {
        match self {
            Self::Create => write::create(making),
            Self::Update => write::update(making),
            Self::Patch => write::patches(making),
            Self::Subresource => write::subresource(making),
            Self::FieldValidation => write::field_validation(making),
            Self::Delete => delete::delete(making),
            Self::List => read::list(making),
            Self::Watch => read::watch(making),
            Self::Definitions => definition::definitions(making),
            Self::Conversion => definition::conversion(making),
            Self::Admission => policy::admission(making),
            Self::Rbac => policy::rbac(making),
            Self::Policies => expression::policies(making),
            Self::Paths => path::paths(making),
            Self::Values => value::values(making),
            Self::Fields => field::fields(making),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Family {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|family| family.name() == text)
            .ok_or_else(|| {
                let names: Vec<&str> = Self::ALL.iter().map(|family| family.name()).collect();
                format!("unknown family \"{text}\": use one of {}", names.join(", "))
            })
    }
}

/// The inputs from which a sequence is generated.
pub(crate) struct Making<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) random: Random,
    /// The number of the sequence, which is a part of the names of objects.
    pub(crate) number: u64,
    pub(crate) namespace: &'a str,
}

impl Making<'_> {
    /// Returns a random kind that supports a verb.
    fn kind(&mut self, verb: &str) -> Kind {
        let kinds: Vec<&Kind> = self
            .catalog
            .kinds
            .iter()
            .filter(|kind| kind.allows(verb))
            .collect();
        let kinds = if kinds.is_empty() {
            self.catalog.kinds.iter().collect()
        } else {
            kinds
        };
        self.random
            .pick(&kinds)
            .map(|kind| (*kind).clone())
            .unwrap_or_else(|| self.catalog.kinds[0].clone())
    }

    /// Returns a valid object of a kind.
    fn object(&mut self, kind: &Kind) -> Value {
        kind.object(self.number, &mut self.random)
    }

    /// Makes one to three random changes to an object.
    fn change(&mut self, kind: &Kind, object: &mut Value) {
        let count = 1 + self.random.below(3);
        mutate(
            self.catalog,
            self.catalog.schema(kind),
            object,
            count,
            &mut self.random,
        );
    }

    /// Starts a sequence about a kind; the object is deleted at the end.
    fn begin(&self, kind: &Kind, object: &Value) -> Sequence {
        Sequence {
            subject: format!("{}/{}", kind.api_version, kind.resource),
            steps: Vec::new(),
            cleanup: vec![self.path(kind, object)],
        }
    }

    /// Returns the path of an object.
    fn path(&self, kind: &Kind, object: &Value) -> String {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        format!("{}/{name}", kind.collection(self.namespace))
    }

    /// Returns a POST of an object.
    fn create(&self, kind: &Kind, object: &Value) -> Step {
        send("POST", kind.collection(self.namespace), object.clone())
    }
}
