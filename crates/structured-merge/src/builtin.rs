//! The built-in types of Kubernetes 1.36: fields, defaults, list and map types, patch strategies ([`Types`]).
//!
//! The table has the content of the server's OpenAPI v3 documents, without descriptions. It has no resources, no verbs,
//! and no validation rules that OpenAPI cannot express.
//!
//! ```
//! use structured_merge::builtin::{self, FieldKind};
//!
//! let service = builtin::types().for_kind("", "v1", "Service").unwrap();
//! let FieldKind::Ref(spec) = &service.field("spec").unwrap().kind else { unreachable!() };
//! assert_eq!(spec.resolve().field("ports").unwrap().list_map_keys, ["port", "protocol"]);
//! ```
//!
//! # The text format
//!
//! `builtin/types-1.36.txt` has one line for each package, type or field. A type belongs to the package above it, a
//! field belongs to the type above it.
//!
//! ```text
//! package ALIAS NAME
//! type NAME [is=SPECIAL] [gvk=GROUP/VERSION/KIND]... [atomic] [required=FIELD,...]
//!  FIELD KIND [default=JSON] [atomic|set|map=KEY,...|granular] [patch=STRATEGY] [key=MERGE-KEY] [|VALUE|VALUE...]
//! ```
//!
//! `KIND` is a scalar (`string`, `bytes`, `boolean`, `int32`, `int64`, `number`), `[KIND]`, `{KIND}`, or a type:
//! `.Name` in the same package, `ALIAS.Name` in another one. The values of an enumeration are at the end of the line,
//! and may contain spaces.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use serde_json::Value;

mod parse;

static TYPES: LazyLock<Types> = LazyLock::new(|| parse::table(include_str!("builtin/types-1.36.txt")));

/// Returns the table of built-in types. Its types are read when it is first used, and their fields when they are first
/// used: a program that reads a few kinds does not parse the others.
pub fn types() -> &'static Types {
    &TYPES
}

/// The beta versions that can be served: group, version and kinds. The kinds have the types of `v1`, unless the table
/// has their own.
pub const BETA: [(&str, &str, &[&str]); 5] = [
    (
        "admissionregistration.k8s.io",
        "v1beta1",
        &["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"],
    ),
    ("networking.k8s.io", "v1beta1", &["IPAddress", "ServiceCIDR"]),
    ("resource.k8s.io", "v1beta1", DEVICE_KINDS),
    ("resource.k8s.io", "v1beta2", DEVICE_KINDS),
    ("storage.k8s.io", "v1beta1", &["VolumeAttributesClass"]),
];

const DEVICE_KINDS: &[&str] = &[
    "DeviceClass",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ResourceSlice",
];

/// Returns the version with the types of a kind: `v1` for kinds of beta versions without their own types.
pub fn types_version<'a>(group: &str, version: &'a str, kind: &str) -> &'a str {
    let is_beta = BETA
        .iter()
        .any(|(of, beta, kinds)| (*of, *beta) == (group, version) && kinds.contains(&kind));
    let has_own = || types().by_kind.contains_key(&(group, version, kind));
    if is_beta && !has_own() { "v1" } else { version }
}

/// All built-in types.
#[derive(Debug, Default)]
pub struct Types {
    /// The types, ordered by name.
    types: Vec<Type>,
    /// The names of the packages, by alias.
    packages: HashMap<&'static str, &'static str>,
    by_kind: HashMap<(&'static str, &'static str, &'static str), TypeId>,
}

impl Types {
    /// Returns the type of an object with this group, version and kind.
    pub fn for_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Type> {
        let version = types_version(group, version, kind);
        self.by_kind
            .get(&(group, version, kind))
            .and_then(|id| self.get(*id))
    }

    /// Returns the type with this OpenAPI name, such as `io.k8s.api.core.v1.PodSpec`.
    pub fn named(&self, name: &str) -> Option<&Type> {
        self.id(name).and_then(|id| self.get(id))
    }

    /// Returns all types, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = &Type> {
        self.types.iter()
    }

    fn id(&self, name: &str) -> Option<TypeId> {
        let found = self.types.binary_search_by(|entry| (*entry.name).cmp(name));
        found.ok().and_then(|index| u16::try_from(index).ok()).map(TypeId)
    }

    fn get(&self, id: TypeId) -> Option<&Type> {
        self.types.get(usize::from(id.0))
    }
}

/// A reference to a type of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(u16);

static NO_TYPE: Type = Type {
    name: String::new(),
    kinds: Vec::new(),
    special: None,
    atomic: false,
    required: Vec::new(),
    package: "",
    lines: "",
    fields: OnceLock::new(),
};

impl TypeId {
    /// Returns the referenced type.
    pub fn resolve(self) -> &'static Type {
        types().get(self).unwrap_or(&NO_TYPE)
    }
}

/// A built-in type: a struct, or (see [`Type::special`]) a scalar or free-form value with its own format.
#[derive(Debug)]
pub struct Type {
    /// The OpenAPI name, such as `io.k8s.api.core.v1.PodSpec`.
    pub name: String,
    /// The group, version and kind of the objects of this type; empty for types of parts of objects.
    pub kinds: Vec<(&'static str, &'static str, &'static str)>,
    /// The kind of the value if the type is not a struct. Fields of such a type have this kind.
    pub special: Option<FieldKind>,
    /// True for `x-kubernetes-map-type: atomic`: the struct is owned and replaced as a whole.
    pub atomic: bool,
    /// The names of required fields, in the order of the Go struct.
    pub required: Vec<&'static str>,
    /// The alias of the package.
    package: &'static str,
    /// The lines with the fields, in the order of their names.
    lines: &'static str,
    fields: OnceLock<Vec<Field>>,
}

impl Type {
    /// Returns the fields, ordered by name.
    pub fn fields(&self) -> &[Field] {
        self.fields.get_or_init(|| parse::fields(self, types()))
    }

    /// Returns the field with this JSON name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        let fields = self.fields();
        let found = fields.binary_search_by(|field| field.name.cmp(name));
        found.ok().and_then(|index| fields.get(index))
    }

    /// Returns true if a path, such as `spec.config[0].parameters.x`, leads into an embedded object of any type.
    pub fn is_inside_raw(&self, path: &str) -> bool {
        let mut of_type = self;
        let mut segments = path.split(['.', '[', ']']).filter(|segment| !segment.is_empty());
        while let Some(segment) = segments.next() {
            let Some(field) = of_type.field(segment) else {
                return false;
            };
            let mut kind = &field.kind;
            while let FieldKind::List(items) | FieldKind::Map(items) = kind {
                // The index or the key.
                segments.next();
                kind = items;
            }
            match kind {
                FieldKind::Raw => return segments.next().is_some(),
                FieldKind::Ref(part) => of_type = part.resolve(),
                _ => return false,
            }
        }
        false
    }

    /// Returns an empty Go struct of this type as JSON, as far as the types determine it: embedded structs and scalars
    /// with a zero default are present, other required fields are null, and all other fields are omitted.
    pub fn zero(&self) -> Value {
        let is_zero = |default: &Value| *default == "" || *default == 0 || *default == false;
        let value = |field: &Field| match (&field.kind, &field.default) {
            (FieldKind::Ref(part), Some(_)) => Some(part.resolve().zero()),
            (_, Some(default)) => is_zero(default).then(|| default.clone()),
            (_, None) => field.required.then_some(Value::Null),
        };
        let fields = self
            .fields()
            .iter()
            .filter_map(|field| Some((field.name.to_owned(), value(field)?)));
        Value::Object(fields.collect())
    }
}

/// A field of a struct.
#[derive(Debug)]
pub struct Field {
    /// The JSON name.
    pub name: &'static str,
    /// The kind of its value.
    pub kind: FieldKind,
    /// True if the field must be present.
    pub required: bool,
    /// The OpenAPI default, which is used for missing keys of map lists. The crate builtin-kinds has the defaults that
    /// the server sets.
    pub default: Option<Value>,
    /// The values of an enumeration, for the field or its list items; empty if any value is allowed.
    pub values: Vec<&'static str>,
    /// The merge rule of a list; `None` if the type declares none, which means atomic.
    pub list_type: Option<ListType>,
    /// The keys of a map list.
    pub list_map_keys: Vec<&'static str>,
    /// The merge rule of a map or struct, if the field declares one; otherwise the type's rule applies.
    pub map_type: Option<MapType>,
    /// `x-kubernetes-patch-strategy`, for strategic merge patches.
    pub patch_strategy: Option<&'static str>,
    /// `x-kubernetes-patch-merge-key`, for strategic merge patches.
    pub patch_merge_key: Option<&'static str>,
}

/// The kind of a value in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A string.
    String,
    /// A base64 string.
    Bytes,
    /// `true` or `false`.
    Boolean,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// Any number.
    Number,
    /// A whole number or a string.
    IntOrString,
    /// A quantity such as `100m`: a string or a number.
    Quantity,
    /// An RFC 3339 time with whole seconds.
    Time,
    /// An RFC 3339 time with microseconds.
    MicroTime,
    /// A struct.
    Ref(TypeId),
    /// A list of items of one kind.
    List(Box<FieldKind>),
    /// A map from strings to values of one kind.
    Map(Box<FieldKind>),
    /// A free-form object whose entries are owned separately (`FieldsV1`).
    Object,
    /// An embedded object of any type (`RawExtension`), owned as a whole.
    Raw,
    /// Any JSON value.
    Any,
}

/// `x-kubernetes-list-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// Replaced as a whole.
    Atomic,
    /// Scalars, each at most once.
    Set,
    /// Objects, identified by the values of their keys.
    Map,
}

/// `x-kubernetes-map-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapType {
    /// Replaced as a whole.
    Atomic,
    /// Each entry has its own owner.
    Granular,
}
