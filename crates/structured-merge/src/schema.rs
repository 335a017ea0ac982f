//! The merge rules of a type: scalars, atomic lists and maps, sets, map lists and granular maps ([`Schema`]).
//!
//! It has no required fields, formats or validation rules.

use std::sync::{Arc, LazyLock};

use serde_json::Value;

use crate::builtin;

mod from_builtin;
mod structural;

/// The type of objects of one kind and version. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Schema {
    pub(crate) types: Arc<Arena>,
    pub(crate) root: TypeId,
}

static BUILTIN: LazyLock<Arc<Arena>> = LazyLock::new(|| Arc::new(from_builtin::arena()));

impl Schema {
    /// Returns the type of a built-in kind.
    pub fn builtin(group: &str, version: &str, kind: &str) -> Option<Self> {
        let root = builtin::types().for_kind(group, version, kind)?;
        Some(Self {
            types: Arc::clone(&BUILTIN),
            root: from_builtin::id(root)?,
        })
    }

    /// Returns the type of a custom resource, from the `openAPIV3Schema` of one version of its CRD.
    pub fn structural(open_api: &Value) -> Self {
        structural::schema(open_api)
    }

    /// Returns the type of untyped objects: maps are granular, lists are atomic.
    pub fn deduced() -> Self {
        let mut types = Arena::new();
        let hidden = Field {
            hidden: true,
            ..Field::new("managedFields", UNTYPED)
        };
        let metadata = types.add(Atom::map(Map {
            fields: vec![hidden],
            element: Some(DEDUCED),
            atomic: false,
        }));
        let fields = vec![Field::new("metadata", metadata)];
        let root = types.add(Atom::map(Map {
            fields,
            element: Some(DEDUCED),
            atomic: false,
        }));
        Self {
            types: Arc::new(types),
            root,
        }
    }
}

/// A type within an [`Arena`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TypeId(u32);

/// Any value, owned as a whole.
pub(crate) const UNTYPED: TypeId = TypeId(0);
/// Any value; maps are granular, lists are owned as a whole.
pub(crate) const DEDUCED: TypeId = TypeId(1);
const STRING: TypeId = TypeId(2);
const NUMERIC: TypeId = TypeId(3);
const BOOLEAN: TypeId = TypeId(4);
/// A number, string or boolean.
const SCALAR: TypeId = TypeId(5);

/// The types of a schema.
#[derive(Debug)]
pub(crate) struct Arena(Vec<Atom>);

/// The possible forms of a value of a type, with at most one description of each form.
#[derive(Clone, Debug, Default)]
pub(crate) struct Atom {
    pub(crate) scalar: Option<Scalar>,
    pub(crate) list: Option<List>,
    pub(crate) map: Option<Map>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Numeric,
    String,
    Boolean,
    Untyped,
}

/// A list: atomic, a set (associative without keys), or a map list (associative with keys).
#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) element: TypeId,
    pub(crate) associative: bool,
    pub(crate) keys: Vec<Arc<str>>,
}

/// A struct or a map.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    /// The fields, ordered by name.
    pub(crate) fields: Vec<Field>,
    /// The type of undeclared entries; `None` if they are not allowed.
    pub(crate) element: Option<TypeId>,
    pub(crate) atomic: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: Arc<str>,
    pub(crate) kind: TypeId,
    pub(crate) default: Option<Value>,
    /// True for a field that is not part of the value: `metadata.managedFields` of the object itself.
    pub(crate) hidden: bool,
}

impl Field {
    fn new(name: &str, kind: TypeId) -> Self {
        Self {
            name: name.into(),
            kind,
            default: None,
            hidden: false,
        }
    }
}

impl Atom {
    fn scalar(scalar: Scalar) -> Self {
        Self {
            scalar: Some(scalar),
            ..Self::default()
        }
    }

    fn list(list: List) -> Self {
        Self {
            list: Some(list),
            ..Self::default()
        }
    }

    fn map(map: Map) -> Self {
        Self {
            map: Some(map),
            ..Self::default()
        }
    }

    fn any(element: TypeId, atomic: bool) -> Self {
        Self {
            scalar: Some(Scalar::Untyped),
            list: Some(List {
                element: UNTYPED,
                associative: false,
                keys: Vec::new(),
            }),
            map: Some(Map {
                fields: Vec::new(),
                element: Some(element),
                atomic,
            }),
        }
    }
}

impl Map {
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        let index = self
            .fields
            .binary_search_by(|field| (*field.name).cmp(name))
            .ok()?;
        self.fields.get(index)
    }

    /// Returns the type of the entry `name`, which need not be declared.
    pub(crate) fn entry(&self, name: &str) -> Option<TypeId> {
        self.field(name).map(|field| field.kind).or(self.element)
    }
}

static NOTHING: Atom = Atom {
    scalar: None,
    list: None,
    map: None,
};

impl Arena {
    fn new() -> Self {
        Self(vec![
            Atom::any(UNTYPED, true),
            Atom::any(DEDUCED, false),
            Atom::scalar(Scalar::String),
            Atom::scalar(Scalar::Numeric),
            Atom::scalar(Scalar::Boolean),
            Atom::scalar(Scalar::Untyped),
        ])
    }

    pub(crate) fn get(&self, id: TypeId) -> &Atom {
        usize::try_from(id.0)
            .ok()
            .and_then(|index| self.0.get(index))
            .unwrap_or(&NOTHING)
    }

    fn add(&mut self, atom: Atom) -> TypeId {
        let id = TypeId(u32::try_from(self.0.len()).unwrap_or(u32::MAX));
        self.0.push(atom);
        id
    }

    fn set(&mut self, id: TypeId, atom: Atom) {
        if let Some(entry) = usize::try_from(id.0).ok().and_then(|index| self.0.get_mut(index)) {
            *entry = atom;
        }
    }
}
