//! Tests of properties of all types, objects and sequences of managers.
#![expect(
    clippy::unwrap_used,
    reason = "a write that fails where it must not fails the test"
)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use structured_merge::managed_fields::{Managed, entries};
use structured_merge::{FieldManager, FieldSet, PathElement, Schema, Settings};

/// The type of a part of a random custom resource.
#[derive(Clone, Debug)]
enum Shape {
    Text,
    Number,
    Struct(Vec<Shape>),
    Map,
    AtomicMap,
    AtomicList,
    Set,
    Items(Vec<Shape>),
}

fn shapes() -> impl Strategy<Value = Shape> {
    let leaf = prop_oneof![
        Just(Shape::Text),
        Just(Shape::Number),
        Just(Shape::Map),
        Just(Shape::AtomicMap),
        Just(Shape::AtomicList),
        Just(Shape::Set),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(Shape::Struct),
            prop::collection::vec(inner, 1..3).prop_map(Shape::Items),
        ]
    })
}

fn field(index: usize) -> String {
    format!("f{index}")
}

fn schema(shape: &Shape) -> Value {
    let text = json!({"type": "string"});
    let properties = |parts: &[Shape]| -> Map<String, Value> {
        parts
            .iter()
            .enumerate()
            .map(|(index, part)| (field(index), schema(part)))
            .collect()
    };
    match shape {
        Shape::Text => text,
        Shape::Number => json!({"type": "integer"}),
        Shape::Struct(parts) => json!({"type": "object", "properties": properties(parts)}),
        Shape::Map => json!({"type": "object", "additionalProperties": text}),
        Shape::AtomicMap => {
            json!({"type": "object", "additionalProperties": text, "x-kubernetes-map-type": "atomic"})
        }
        Shape::AtomicList => json!({"type": "array", "items": text}),
        Shape::Set => json!({"type": "array", "items": text, "x-kubernetes-list-type": "set"}),
        Shape::Items(parts) => {
            let mut properties = properties(parts);
            properties.insert("name".to_owned(), text);
            json!({
                "type": "array", "items": {"type": "object", "properties": properties},
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            })
        }
    }
}

/// A stream of small numbers from a seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn word(&mut self) -> String {
        ["a", "b", "c", "d"][usize::try_from(self.roll(4)).unwrap()].to_owned()
    }

    fn words(&mut self) -> Vec<String> {
        let mut words: Vec<String> = (0..self.roll(4)).map(|_| self.word()).collect();
        let mut seen = Vec::new();
        words.retain(|word| {
            let new = !seen.contains(word);
            seen.push(word.clone());
            new
        });
        words
    }

    fn parts(&mut self, parts: &[Shape]) -> Map<String, Value> {
        let mut out = Map::new();
        for (index, part) in parts.iter().enumerate() {
            if self.roll(3) > 0 {
                out.insert(field(index), self.value(part));
            }
        }
        out
    }

    fn value(&mut self, shape: &Shape) -> Value {
        match shape {
            Shape::Text => self.word().into(),
            Shape::Number => self.roll(3).into(),
            Shape::Struct(parts) => self.parts(parts).into(),
            Shape::Map | Shape::AtomicMap => self
                .words()
                .into_iter()
                .map(|word| (word, Value::from(self.word())))
                .collect(),
            Shape::AtomicList | Shape::Set => self.words().into(),
            Shape::Items(parts) => {
                let item = |name: String, dice: &mut Self| {
                    let mut item = dice.parts(parts);
                    item.insert("name".to_owned(), name.into());
                    Value::from(item)
                };
                self.words().into_iter().map(|name| item(name, self)).collect()
            }
        }
    }

    fn object(&mut self, shape: &Shape) -> Value {
        object(&self.value(shape))
    }
}

fn object(spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec})
}

fn manager(shape: &Shape) -> FieldManager {
    let open_api = json!({"type": "object", "properties": {"spec": schema(shape)}});
    FieldManager::new(Settings {
        group: "example.com".to_owned(),
        version: "v1".to_owned(),
        kind: "Thing".to_owned(),
        subresource: String::new(),
        schemas: BTreeMap::from([("example.com/v1".to_owned(), Schema::structural(&open_api))]),
        reset_fields: BTreeMap::new(),
        converter: None,
    })
}

const NOW: &str = "2026-01-01T00:00:00Z";

fn managed(object: &Value) -> Managed {
    Managed::decode(entries(object).unwrap_or_default()).unwrap()
}

/// Returns the fields that an apply of an object owns.
fn fields_of(manager: &FieldManager, object: &Value) -> FieldSet {
    let mut config = object.clone();
    config["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("managedFields");
    let applied = manager.apply(None, &config, "lister", true, NOW).unwrap();
    let owners = managed(&applied).owners;
    owners
        .values()
        .next()
        .map(|owned| (*owned.fields).clone())
        .unwrap_or_default()
}

fn stored(mut object: Value) -> Value {
    object["metadata"]["uid"] = "u".into();
    object
}

fn paths(set: &FieldSet) -> Vec<Vec<PathElement>> {
    let mut paths = Vec::new();
    let visited: Result<(), ()> = set.try_for_each_path(|path| {
        paths.push(path.to_vec());
        Ok(())
    });
    visited.unwrap();
    paths
}

fn shaped() -> impl Strategy<Value = (Shape, Vec<u64>)> {
    let parts = prop::collection::vec(shapes(), 1..4).prop_map(Shape::Struct);
    (parts, prop::collection::vec(any::<u64>(), 2..8))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn an_apply_is_idempotent((shape, seeds) in shaped()) {
        let manager = manager(&shape);
        let base = stored(manager.update(None, Dice(seeds[0]).object(&shape), "creator", NOW));
        let config = Dice(seeds[1]).object(&shape);
        let once = manager.apply(Some(&base), &config, "m", true, NOW).unwrap();
        let twice = manager.apply(Some(&once), &config, "m", false, "2026-01-01T00:00:09Z").unwrap();
        prop_assert_eq!(&once, &twice);
        prop_assert!(!manager.would_change(&once, &config, "m"));
    }

    #[test]
    fn applied_fields_exist_and_are_owned((shape, seeds) in shaped()) {
        let manager = manager(&shape);
        let base = stored(manager.update(None, Dice(seeds[0]).object(&shape), "creator", NOW));
        let config = Dice(seeds[1]).object(&shape);
        let applied = manager.apply(Some(&base), &config, "m", true, NOW).unwrap();
        let wanted = fields_of(&manager, &config);
        for path in paths(&wanted) {
            prop_assert!(path_value(&applied, &path).is_some(), "{} is not there", structured_merge::path::display(&path));
        }
        let owners = managed(&applied).owners;
        let mine = owners.values().find(|owned| owned.applied).map(|owned| (*owned.fields).clone());
        prop_assert_eq!(mine.unwrap_or_default(), wanted);
    }

    #[test]
    fn an_unforced_apply_takes_nothing_from_others((shape, seeds) in shaped()) {
        let manager = manager(&shape);
        let mut live = stored(manager.update(None, Dice(seeds[0]).object(&shape), "creator", NOW));
        for (index, seed) in seeds.iter().enumerate().skip(1) {
            let name = format!("m{}", index % 3);
            let config = Dice(*seed).object(&shape);
            let Ok(applied) = manager.apply(Some(&live), &config, &name, false, NOW) else { continue };
            let (before, after) = (managed(&live), managed(&applied));
            for (owner, owned) in &before.owners {
                if !owned.applied || !format!("{owner:?}").contains(&name) {
let now = after.owners.get(owner).map(|owned| (*owned.fields).clone()).unwrap_or_default();
                    let lost = owned.fields.difference(&now);
                    // When the last items of a list are removed, the containing field may be removed, too, because
                    // nobody owns an empty list.
                    for path in paths(&lost) {
                        let text = structured_merge::path::display(&path);
                        prop_assert!(path_value(&applied, &path).is_none(), "{owner:?} lost {text} on {live}");
                    }
                }
            }
            live = applied;
        }
    }

    #[test]
    fn giving_everything_up_leaves_nothing((shape, seeds) in shaped()) {
        let manager = manager(&shape);
        let live = manager.apply(None, &Dice(seeds[0]).object(&shape), "m", false, NOW).unwrap();
        prop_assume!(!managed(&live).owners.is_empty());
        let nothing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}});
        let left = manager.apply(Some(&stored(live)), &nothing, "m", false, NOW).unwrap();
        // Nobody owns an empty list, so nobody gives it up.
        prop_assert!(fields_of(&manager, &left).is_empty(), "left: {}", left);
        prop_assert!(managed(&left).owners.is_empty());
    }

    #[test]
    fn extracted_configurations_change_nothing((shape, seeds) in shaped()) {
        let manager = manager(&shape);
        let base = stored(manager.update(None, Dice(seeds[0]).object(&shape), "creator", NOW));
        let applied = manager.apply(Some(&base), &Dice(seeds[1]).object(&shape), "m", true, NOW).unwrap();
        prop_assert_eq!(manager.extract(&applied, "nobody"), None);
        if let Some(config) = manager.extract(&applied, "m") {
            let again = manager.apply(Some(&applied), &config, "m", false, NOW).unwrap();
            prop_assert_eq!(&again["spec"], &applied["spec"]);
        }
    }
}

/// Returns the value at a path, if it exists.
fn path_value<'v>(object: &'v Value, path: &[PathElement]) -> Option<&'v Value> {
    path.iter().try_fold(object, |value, element| match element {
        PathElement::Field(name) => value.get(&**name),
        PathElement::Key(keys) => value.as_array()?.iter().find(|item| {
            keys.iter()
                .all(|(name, wanted)| item.get(&**name) == Some(wanted))
        }),
        PathElement::Value(wanted) => value.as_array()?.iter().find(|item| **item == **wanted),
        PathElement::Index(index) => value.as_array()?.get(usize::try_from(*index).ok()?),
    })
}

// === Field sets ===

fn elements() -> impl Strategy<Value = PathElement> {
    let scalar = prop_oneof![
        "[a-z./\"]{0,4}".prop_map(Value::from),
        (-3i64..3).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
    ];
    prop_oneof![
        4 => "[a-c.:]{1,3}".prop_map(|name| PathElement::field(&name)),
        1 => scalar.clone().prop_map(PathElement::value),
        1 => prop::collection::btree_map("[a-b]{1,2}", scalar, 1..3).prop_map(PathElement::key),
        1 => (0i64..3).prop_map(PathElement::Index),
    ]
}

fn sets() -> impl Strategy<Value = FieldSet> {
    let path = prop::collection::vec(elements(), 1..4);
    prop::collection::vec(path, 0..8).prop_map(|paths| FieldSet::from_paths(paths.iter().map(Vec::as_slice)))
}

proptest! {
    #[test]
    fn field_sets_round_trip_as_values_and_as_text(set in sets()) {
        prop_assert_eq!(FieldSet::from_value(&set.to_value()), Ok(set.clone()));
        let text: Value = serde_json::from_str(&set.to_text()).unwrap();
        prop_assert_eq!(text, set.to_value());
    }

    #[test]
    fn field_sets_are_sets(a in sets(), b in sets(), c in sets()) {
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
        prop_assert_eq!(a.union(&a), a.clone());
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.intersection(&b), a.difference(&a.difference(&b)));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
        prop_assert!(a.recursive_difference(&b).is_subset(&a.difference(&b)));
        prop_assert!(a.is_subset(&a.union(&b)) && a.intersection(&b).is_subset(&b));
        prop_assert_eq!(a.len(), paths(&a).len());
        prop_assert!(paths(&a).iter().all(|path| a.contains(path)));
    }
}

/// An empty associative list is not a field itself, so it does not keep its parents. When an applier gives up the last
/// sibling, the parents are removed, even if other managers own them. The API server does the same. Therefore it is not
/// guaranteed that every owned field exists.
#[test]
fn an_empty_list_does_not_hold_its_parents() {
    let items = || Shape::Items(vec![Shape::Text]);
    let manager = manager(&Shape::Struct(vec![Shape::Struct(vec![items(), items()])]));
    let item = object(&json!({"f0": {"f1": [{"name": "a"}]}}));
    let applied = stored(manager.apply(None, &item, "m1", false, NOW).unwrap());
    let mut with_list = applied.clone();
    with_list["spec"]["f0"]["f0"] = json!([]);
    let live = manager.update(Some(&applied), with_list, "m2", NOW);
    let owns_the_list = |live: &Value| {
        live["metadata"]["managedFields"]
            .to_string()
            .contains("f:f0\":{\"f:f0\"")
    };
    assert!(owns_the_list(&live), "{live}");
    let left = manager
        .apply(Some(&live), &object(&json!({})), "m1", false, NOW)
        .unwrap();
    assert_eq!(left.get("spec"), None);
}

#[test]
fn a_small_set_is_compared_with_a_large_one() {
    let set = |numbers: &mut dyn Iterator<Item = usize>| {
        let fields: Map<String, Value> = numbers
            .map(|number| (format!("f:k{number:03}"), json!({})))
            .collect();
        FieldSet::from_value(&Value::Object(fields)).unwrap()
    };
    let large = set(&mut (0..200).step_by(2));
    let small = set(&mut [3, 4, 150, 199].into_iter());
    assert_eq!(small.intersection(&large), set(&mut [4, 150].into_iter()));
    assert_eq!(large.intersection(&small), set(&mut [4, 150].into_iter()));
    assert_eq!(small.difference(&large), set(&mut [3, 199].into_iter()));
    assert_eq!(small.recursive_difference(&large), set(&mut [3, 199].into_iter()));
}

#[test]
fn an_update_normalizes_the_entries_that_the_client_sent() {
    let manager = FieldManager::builtin("", "v1", "ConfigMap").unwrap();
    let object = |fields: Value| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "a", "uid": "u",
                "managedFields": [{
                    "manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields,
                }],
            },
            "data": {"x": "1"},
        })
    };
    let normal = json!({"f:data": {".": {}, "f:x": {}}});
    let live = object(normal.clone());
    for sent in [
        normal.clone(),
        json!({"f:data": {".": {}, "f:x": null}}),
        json!({"f:data": {".": {}, "f:x": {}, "y:unknown": {}}}),
        json!({"f:data": {".": {"f:no": {}}, "f:x": {".": {}}}, ".": {}}),
    ] {
        let updated = manager.update(Some(&live), object(sent.clone()), "m", "2026-01-01T00:00:00Z");
        assert_eq!(
            updated["metadata"]["managedFields"][0]["fieldsV1"], normal,
            "{sent}"
        );
    }
}
