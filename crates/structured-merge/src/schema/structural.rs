//! Builds a [`Schema`] from the structural schema of a custom resource.

use std::sync::Arc;

use serde_json::Value;

use super::{
    Arena, Atom, BOOLEAN, DEDUCED, Field, List, Map, NUMERIC, SCALAR, STRING, Scalar, Schema, TypeId, UNTYPED,
};

/// Converts an `openAPIV3Schema`. Undeclared `apiVersion`, `kind` and `metadata` are added.
pub(super) fn schema(open_api: &Value) -> Schema {
    let mut builder = Builder { types: Arena::new() };
    let metadata = builder.types.root_metadata();
    let preserve = preserves(open_api, false);
    let mut map = builder.object(open_api, preserve);
    declare(
        &mut map,
        [("apiVersion", STRING), ("kind", STRING), ("metadata", metadata)],
    );
    let root = builder.types.add(Atom::map(map));
    Schema {
        types: Arc::new(builder.types),
        root,
    }
}

struct Builder {
    types: Arena,
}

impl Builder {
    /// Adds the type of a schema. `preserve` is true if an enclosing schema preserves unknown fields.
    fn kind(&mut self, schema: &Value, preserve: bool) -> TypeId {
        let preserve = preserves(schema, preserve);
        match schema["type"].as_str().unwrap_or_default() {
            "" => {
                let (list, map) = (
                    Some(self.list(schema, preserve)),
                    Some(self.object(schema, preserve)),
                );
                self.types.add(Atom {
                    scalar: Some(Scalar::Untyped),
                    list,
                    map,
                })
            }
            "object" => {
                let map = self.object(schema, preserve);
                self.types.add(Atom::map(map))
            }
            "array" => {
                let list = self.list(schema, preserve);
                self.types.add(Atom::list(list))
            }
            "integer" | "number" => NUMERIC,
            "boolean" => BOOLEAN,
            "string" if matches!(schema["format"].as_str().unwrap_or_default(), "" | "byte") => STRING,
            _ => SCALAR,
        }
    }

    fn object(&mut self, schema: &Value, preserve: bool) -> Map {
        let mut fields: Vec<Field> = Vec::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let kind = self.kind(property, preserve);
            let default = property.get("default").cloned();
            fields.push(Field {
                name: name.as_str().into(),
                kind,
                default,
                hidden: false,
            });
        }
        let element = match &schema["additionalProperties"] {
            Value::Bool(true) => Some(DEDUCED),
            Value::Bool(false) => None,
            values @ Value::Object(_) => Some(self.kind(values, preserve)),
            _ => (preserve || fields.is_empty()).then_some(DEDUCED),
        };
        let mut map = Map {
            fields,
            element,
            atomic: schema["x-kubernetes-map-type"] == "atomic",
        };
        map.fields.sort_by(|left, right| left.name.cmp(&right.name));
        if schema["x-kubernetes-embedded-resource"] == true {
            let metadata = self.types.object_metadata();
            declare(
                &mut map,
                [("apiVersion", STRING), ("kind", STRING), ("metadata", metadata)],
            );
        }
        map
    }

    fn list(&mut self, schema: &Value, preserve: bool) -> List {
        let element = schema
            .get("items")
            .map_or(UNTYPED, |items| self.kind(items, preserve));
        let list_type = schema["x-kubernetes-list-type"].as_str().unwrap_or_default();
        let keys = match list_type {
            "map" => schema["x-kubernetes-list-map-keys"]
                .as_array()
                .map_or(&[] as &[Value], Vec::as_slice),
            _ => &[],
        };
        let keys = keys.iter().filter_map(Value::as_str).map(Arc::from).collect();
        List {
            element,
            associative: matches!(list_type, "set" | "map"),
            keys,
        }
    }
}

fn preserves(schema: &Value, outer: bool) -> bool {
    outer || schema["x-kubernetes-preserve-unknown-fields"] == true
}

fn declare(map: &mut Map, fields: [(&str, TypeId); 3]) {
    for (name, kind) in fields {
        map.fields.retain(|field| &*field.name != name);
        map.fields.push(Field::new(name, kind));
    }
    map.fields.sort_by(|left, right| left.name.cmp(&right.name));
}
