//! Builds an [`Arena`] from the table of built-in types.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::{Arena, Atom, BOOLEAN, DEDUCED, Field, List, Map, NUMERIC, SCALAR, STRING, TypeId, UNTYPED};
use crate::builtin::{self, FieldKind, ListType, MapType, Type};

/// The position of each built-in type in the arena of [`arena`]: after the fixed types, in the order of the table.
static IDS: LazyLock<HashMap<&'static str, TypeId>> = LazyLock::new(|| {
    let first = Arena::new().0.len();
    let number = |index: usize| TypeId(u32::try_from(first + index).unwrap_or(u32::MAX));
    builtin::types()
        .iter()
        .enumerate()
        .map(|(index, entry)| (entry.name.as_str(), number(index)))
        .collect()
});

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Returns the position of a built-in type in the arena of all built-in types.
pub(super) fn id(entry: &Type) -> Option<TypeId> {
    IDS.get(entry.name.as_str()).copied()
}

/// Returns an arena with all built-in types.
pub(super) fn arena() -> Arena {
    let mut types = Arena::new();
    for _ in builtin::types().iter() {
        types.add(Atom::default());
    }
    let metadata = types.root_metadata_with(&Preloaded);
    for entry in builtin::types().iter() {
        let mut atom = types.atom(entry, &Preloaded);
        if !entry.kinds.is_empty() {
            hide_managed_fields(&mut atom, metadata);
        }
        if let Some(id) = id(entry) {
            types.set(id, atom);
        }
    }
    types
}

/// Hides the managed fields in the `metadata` of an object. They are not hidden in other types that contain metadata.
fn hide_managed_fields(atom: &mut Atom, metadata: TypeId) {
    let fields = atom.map.iter_mut().flat_map(|map| &mut map.fields);
    fields
        .filter(|field| &*field.name == "metadata")
        .for_each(|field| field.kind = metadata);
}

/// Resolves references to types while an arena is filled.
trait Resolve {
    fn resolve(&self, types: &mut Arena, entry: &'static Type) -> TypeId;
}

/// Resolves references in an arena in which all types already have their position.
struct Preloaded;

impl Resolve for Preloaded {
    fn resolve(&self, _: &mut Arena, entry: &'static Type) -> TypeId {
        id(entry).unwrap_or(UNTYPED)
    }
}

/// Copies types when they are referenced, for arenas that need few types. The types must not be recursive.
struct Copied;

impl Resolve for Copied {
    fn resolve(&self, types: &mut Arena, entry: &'static Type) -> TypeId {
        let atom = types.atom(entry, self);
        types.add(atom)
    }
}

impl Arena {
    /// Returns the type `ObjectMeta` for metadata that is embedded in other types.
    pub(super) fn object_metadata(&mut self) -> TypeId {
        builtin::types()
            .named(OBJECT_META)
            .map_or(DEDUCED, |entry| Copied.resolve(self, entry))
    }

    /// Returns the type `ObjectMeta` for the metadata of an object itself.
    pub(super) fn root_metadata(&mut self) -> TypeId {
        self.root_metadata_with(&Copied)
    }

    fn root_metadata_with(&mut self, resolve: &impl Resolve) -> TypeId {
        let Some(entry) = builtin::types().named(OBJECT_META) else {
            return DEDUCED;
        };
        let mut atom = self.atom(entry, resolve);
        let fields = atom.map.iter_mut().flat_map(|map| &mut map.fields);
        fields
            .filter(|field| &*field.name == "managedFields")
            .for_each(|field| field.hidden = true);
        self.add(atom)
    }

    fn atom(&mut self, entry: &'static Type, resolve: &impl Resolve) -> Atom {
        if let Some(special) = &entry.special {
            let id = self.kind(special, resolve);
            return self.get(id).clone();
        }
        let fields: Vec<Field> = entry
            .fields()
            .iter()
            .map(|field| self.field(field, resolve))
            .collect();
        let element = fields.is_empty().then_some(DEDUCED);
        Atom::map(Map {
            fields,
            element,
            atomic: entry.atomic,
        })
    }

    fn field(&mut self, field: &'static builtin::Field, resolve: &impl Resolve) -> Field {
        let mut kind = self.kind(&field.kind, resolve);
        if let Some(list_type) = field.list_type {
            kind = self.list(kind, list_type, &field.list_map_keys);
        }
        if let Some(map_type) = field.map_type {
            kind = self.map(&field.kind, kind, map_type, resolve);
        }
        let default = field.default.clone().filter(|default| !default.is_object());
        Field {
            name: field.name.into(),
            kind,
            default,
            hidden: false,
        }
    }

    fn list(&mut self, kind: TypeId, list_type: ListType, keys: &[&str]) -> TypeId {
        let Some(list) = self.get(kind).list.clone() else {
            return kind;
        };
        let keys = keys.iter().map(|key| Arc::from(*key)).collect();
        self.add(Atom::list(List {
            associative: list_type != ListType::Atomic,
            keys,
            ..list
        }))
    }

    /// Returns the type of a map or struct whose field declares its merge rule. It is built again, because the struct
    /// may not be in its position yet.
    fn map(&mut self, kind: &FieldKind, id: TypeId, map_type: MapType, resolve: &impl Resolve) -> TypeId {
        let mut atom = match kind {
            FieldKind::Ref(entry) => self.atom(entry.resolve(), resolve),
            _ => self.get(id).clone(),
        };
        if let Some(map) = &mut atom.map {
            map.atomic = map_type == MapType::Atomic;
        }
        self.add(atom)
    }

    fn kind(&mut self, kind: &'static FieldKind, resolve: &impl Resolve) -> TypeId {
        match kind {
            FieldKind::String | FieldKind::Bytes => STRING,
            FieldKind::Boolean => BOOLEAN,
            FieldKind::Int32 | FieldKind::Int64 | FieldKind::Number => NUMERIC,
            FieldKind::Quantity | FieldKind::Time | FieldKind::MicroTime => SCALAR,
            FieldKind::IntOrString | FieldKind::Any => DEDUCED,
            FieldKind::Raw => UNTYPED,
            FieldKind::Object => self.add(Atom::map(Map {
                fields: Vec::new(),
                element: Some(DEDUCED),
                atomic: false,
            })),
            FieldKind::Ref(entry) => resolve.resolve(self, entry.resolve()),
            FieldKind::List(item) => {
                let element = self.kind(item, resolve);
                self.add(Atom::list(List {
                    element,
                    associative: false,
                    keys: Vec::new(),
                }))
            }
            FieldKind::Map(value) => {
                let element = Some(self.kind(value, resolve));
                self.add(Atom::map(Map {
                    fields: Vec::new(),
                    element,
                    atomic: false,
                }))
            }
        }
    }
}
