//! Compares two schemas of one version by keyword.

use apimachinery::field::Path;
use apimachinery::go;
use serde_json::Value;

use super::{Change, Changes, changed};
use crate::node::{AdditionalProperties, Bound, Node};
use crate::validate::validate;

/// A schema, and the JSON that it was parsed from.
type Side<'n> = (&'n Node, &'n Value);

const REFUSED: &str = "objects with other values are rejected";
const ALLOWED: &str = "all values that were allowed are still allowed";
const PRUNED: &str = "stored objects lose the field";
const OWNERSHIP: &str =
    "the field ownership of server-side apply changes, and lists with duplicates may be rejected";

pub(super) fn diff(old: Side<'_>, new: Side<'_>) -> Vec<Change> {
    let mut differ = Differ {
        changes: Changes::default(),
    };
    differ.node(old, new, &Path::default(), false);
    differ.changes.0
}

/// Returns true if values of one schema have fields that the other schema prunes.
pub(super) fn loses_fields(from: &Node, to: &Node) -> bool {
    if to.preserves_unknown_fields() {
        return false;
    }
    if from.preserves_unknown_fields() {
        return true;
    }
    let property =
        |(name, child): (&String, &Node)| to.property(name).is_none_or(|target| loses_fields(child, target));
    let inside = |from: Option<&Node>, to: Option<&Node>| match (from, to) {
        (Some(from), Some(to)) => loses_fields(from, to),
        (from, _) => from.is_some(),
    };
    from.properties.iter().any(property)
        || inside(from.additional_schema(), to.additional_schema())
        || inside(from.items.as_deref(), to.items.as_deref())
}

struct Differ {
    changes: Changes,
}

impl Differ {
    fn breaking(&mut self, path: &Path, what: impl Into<String>, why: &'static str) {
        self.changes.breaking(path.as_str(), what, why);
    }

    fn safe(&mut self, path: &Path, what: impl Into<String>, why: &'static str) {
        self.changes.safe(path.as_str(), what, why);
    }

    /// Reports a restriction that was loosened or tightened.
    fn limit(&mut self, path: &Path, what: String, looser: bool) {
        if looser {
            self.safe(path, what, ALLOWED);
        } else {
            self.breaking(path, what, REFUSED);
        }
    }

    /// Compares two schemas. `judged` is true if a rule or a combination of schemas around the value validates it as a
    /// whole.
    fn node(&mut self, old: Side<'_>, new: Side<'_>, path: &Path, judged: bool) {
        if old.1 == new.1 {
            return;
        }
        let judged = judged || judges(new.0);
        self.value_type(old.0, new.0, path, judged);
        self.allowed(old.0, new.0, path);
        self.text(old.0, new.0, path);
        self.numbers(old.0, new.0, path);
        self.sizes(old.0, new.0, path);
        self.lists(old.0, new.0, path);
        self.combinations(old.1, new.1, path);
        self.rules(old.0, new.0, path);
        self.unknown_fields(old.0, new.0, path);
        self.required(old.0, new.0, path);
        self.properties(old, new, path, judged);
        self.additional(old, new, path, judged);
        self.items(old, new, path, judged);
    }

    fn value_type(&mut self, old: &Node, new: &Node, path: &Path, judged: bool) {
        let shown = |node: &Node| match node.int_or_string {
            true => "int-or-string".to_owned(),
            false => node.kind.clone(),
        };
        let (before, after) = (shown(old), shown(new));
        if before != after {
            let why = "values of the old type are rejected, or clients cannot decode the new type";
            self.breaking(path, changed("type", &before, &after), why);
        }
        match (old.nullable, new.nullable) {
            (true, false) => self.breaking(path, "no longer nullable", "null is dropped or rejected"),
            (false, true) => self.safe(path, "nullable", ALLOWED),
            _ => {}
        }
        if old.embedded_resource != new.embedded_resource {
            let why =
                "only one of the definitions validates and keeps apiVersion, kind and metadata of the field";
            self.breaking(path, "embedded resource or not changed", why);
        }
        self.format(old, new, path, judged);
    }

    fn format(&mut self, old: &Node, new: &Node, path: &Path, judged: bool) {
        if old.format == new.format {
            return;
        }
        let what = changed("format", &old.format, &new.format);
        let (before, after) = (old.checked_format(), new.checked_format());
        // For other types, the validator derives the type from the format.
        let is_plain = matches!(old.kind.as_str(), "string" | "integer" | "number");
        let looser = match (before, after) {
            (before, after) if before == after => true,
            ("int32", "int64") | ("float", "double") => true,
            (_, "") => is_plain && !(judged && old.kind == "string"),
            _ => false,
        };
        let why = if judged && !looser {
            "rules see another type of value, or objects with other values are rejected"
        } else {
            REFUSED
        };
        if looser {
            self.safe(path, what, ALLOWED);
        } else {
            self.breaking(path, what, why);
        }
    }

    fn allowed(&mut self, old: &Node, new: &Node, path: &Path) {
        let without = |a: &Node, b: &Node| -> Vec<String> {
            let missing = a.allowed.iter().filter(|value| !b.allowed.contains(value));
            missing.map(go::json).collect()
        };
        match (old.allowed.is_empty(), new.allowed.is_empty()) {
            (true, true) => {}
            (true, false) => self.limit(path, "enum added".to_owned(), false),
            (false, true) => self.limit(path, "enum removed".to_owned(), true),
            (false, false) => {
                let (removed, added) = (without(old, new), without(new, old));
                if !removed.is_empty() {
                    self.limit(
                        path,
                        format!("enum values removed: {}", removed.join(", ")),
                        false,
                    );
                }
                if !added.is_empty() {
                    let why =
                        "all values that were allowed are still allowed; clients must handle the new ones";
                    self.safe(path, format!("enum values added: {}", added.join(", ")), why);
                }
            }
        }
    }

    fn text(&mut self, old: &Node, new: &Node, path: &Path) {
        let pattern = |node: &Node| {
            node.pattern
                .as_ref()
                .map_or(String::new(), |pattern| pattern.source.clone())
        };
        let (before, after) = (pattern(old), pattern(new));
        if before != after {
            self.limit(path, changed("pattern", &before, &after), after.is_empty());
        }
    }

    fn numbers(&mut self, old: &Node, new: &Node, path: &Path) {
        for (name, before, after, sign) in [
            ("minimum", old.minimum, new.minimum, 1.0),
            ("maximum", old.maximum, new.maximum, -1.0),
        ] {
            if before == after {
                continue;
            }
            let what = bound_change(name, before, after);
            let looser = match (before, after) {
                (_, None) => true,
                (None, Some(_)) => false,
                (Some(before), Some(after)) => is_looser(before, after, sign) && is_whole(after, new),
            };
            self.limit(path, what, looser);
        }
        if old.multiple_of != new.multiple_of {
            let shown = |factor: Option<f64>| factor.map_or(String::new(), go::json_float);
            let what = changed("multipleOf", &shown(old.multiple_of), &shown(new.multiple_of));
            let looser = match (old.multiple_of, new.multiple_of) {
                (_, None) => true,
                (Some(before), Some(after)) => {
                    let whole = |factor: f64| factor.fract() == 0.0 && factor > 0.0;
                    whole(before) && whole(after) && before % after == 0.0
                }
                _ => false,
            };
            self.limit(path, what, looser);
        }
    }

    fn sizes(&mut self, old: &Node, new: &Node, path: &Path) {
        for (name, before, after, is_minimum) in [
            ("minLength", old.min_length, new.min_length, true),
            ("maxLength", old.max_length, new.max_length, false),
            ("minItems", old.min_items, new.min_items, true),
            ("maxItems", old.max_items, new.max_items, false),
            ("minProperties", old.min_properties, new.min_properties, true),
            ("maxProperties", old.max_properties, new.max_properties, false),
        ] {
            if before == after {
                continue;
            }
            let looser = match (before, after) {
                (_, None) => true,
                (None, Some(_)) => false,
                (Some(before), Some(after)) => (after < before) == is_minimum,
            };
            let shown = |limit: Option<i64>| limit.map(|limit| limit as f64);
            self.limit(path, limit_change(name, shown(before), shown(after)), looser);
        }
        match (old.unique_items, new.unique_items) {
            (false, true) => self.limit(path, "uniqueItems added".to_owned(), false),
            (true, false) => self.limit(path, "uniqueItems removed".to_owned(), true),
            _ => {}
        }
    }

    fn lists(&mut self, old: &Node, new: &Node, path: &Path) {
        let list_type = |node: &Node| node.list_type.clone().unwrap_or_else(|| "atomic".to_owned());
        let (before, after) = (list_type(old), list_type(new));
        if before != after {
            self.breaking(path, changed("list type", &before, &after), OWNERSHIP);
        }
        if before == after && old.list_map_keys != new.list_map_keys {
            let keys = |node: &Node| node.list_map_keys.join(", ");
            self.breaking(path, changed("list map keys", &keys(old), &keys(new)), OWNERSHIP);
        }
        let map_type = |node: &Node| node.map_type.clone().unwrap_or_else(|| "granular".to_owned());
        let (before, after) = (map_type(old), map_type(new));
        if before != after {
            let why = "the field ownership of server-side apply changes";
            self.breaking(path, changed("map type", &before, &after), why);
        }
    }

    /// Compares `allOf`, `anyOf`, `oneOf` and `not` as they are written.
    fn combinations(&mut self, old: &Value, new: &Value, path: &Path) {
        for name in ["allOf", "anyOf", "oneOf", "not"] {
            let get = |value: &Value| value.get(name).filter(|found| is_significant(found)).cloned();
            let (before, after) = (get(old), get(new));
            if before == after {
                continue;
            }
            let list = |value: &Option<Value>| {
                value
                    .as_ref()
                    .and_then(Value::as_array)
                    .cloned()
                    .unwrap_or_default()
            };
            let (had, has) = (list(&before), list(&after));
            let looser = match (&before, &after) {
                (_, None) => true,
                (None, _) => false,
                _ if name == "allOf" => has.iter().all(|schema| had.contains(schema)),
                _ if name == "anyOf" => had.iter().all(|schema| has.contains(schema)),
                _ => false,
            };
            let what = match (&before, &after) {
                (None, _) => format!("{name} added"),
                (_, None) => format!("{name} removed"),
                _ => format!("{name} changed"),
            };
            self.limit(path, what, looser);
        }
    }

    fn rules(&mut self, old: &Node, new: &Node, path: &Path) {
        let key = |rule: &crate::node::Rule| (rule.rule.trim().to_owned(), rule.optional_old_self);
        let has = |node: &Node, wanted| node.rules.iter().any(|rule| key(rule) == wanted);
        for rule in old.rules.iter().filter(|rule| !has(new, key(rule))) {
            self.safe(path, format!("rule removed: {}", rule.rule.trim()), ALLOWED);
        }
        for rule in new.rules.iter().filter(|rule| !has(old, key(rule))) {
            let why = "values that violate it are rejected; an update that does not change such a value is accepted with a warning, because rules ratchet";
            self.breaking(path, format!("rule added: {}", rule.rule.trim()), why);
        }
    }

    fn unknown_fields(&mut self, old: &Node, new: &Node, path: &Path) {
        match (old.preserves_unknown_fields(), new.preserves_unknown_fields()) {
            (true, false) => self.breaking(
                path,
                "unknown fields are pruned from now on",
                "stored objects lose them",
            ),
            (false, true) => self.safe(path, "unknown fields are kept from now on", "no field is lost"),
            _ => {}
        }
    }

    fn required(&mut self, old: &Node, new: &Node, path: &Path) {
        for name in old.required.iter().filter(|name| !new.required.contains(name)) {
            let why = "objects with the field stay valid; clients must handle objects without it";
            self.safe(&path.child(name), "no longer required", why);
        }
        for name in new.required.iter().filter(|name| !old.required.contains(name)) {
            let default = new
                .properties
                .get(name)
                .and_then(|property| property.default.as_ref());
            if default.is_some() {
                let why = "missing fields get the default";
                self.safe(&path.child(name), "required, with a default", why);
            } else {
                let why = "objects without the field are rejected";
                self.breaking(&path.child(name), "required", why);
            }
        }
    }

    fn properties(&mut self, old: Side<'_>, new: Side<'_>, path: &Path, judged: bool) {
        for (name, before) in &old.0.properties {
            let path = path.child(name);
            let old_source = property_of(old.1, name);
            if let Some(after) = new.0.properties.get(name) {
                let new_source = property_of(new.1, name);
                self.default(before, after, new.0, &path, judged);
                self.node((before, old_source), (after, new_source), &path, judged);
            } else if let Some(after) = new.0.additional_schema() {
                let new_source = child_of(new.1, "additionalProperties");
                self.default(before, after, new.0, &path, judged);
                self.node((before, old_source), (after, new_source), &path, judged);
            } else if new.0.preserves_unknown_fields() {
                let what = "field removed, but unknown fields are kept";
                self.safe(&path, what, "the new definition does not validate the field");
            } else {
                self.breaking(&path, "field removed", PRUNED);
            }
        }
        for (name, after) in &new.0.properties {
            if !old.0.properties.contains_key(name) {
                self.added(old.0, after, new.0, &path.child(name), judged);
            }
        }
    }

    fn added(&mut self, old: &Node, property: &Node, parent: &Node, path: &Path, judged: bool) {
        if old.preserves_unknown_fields() || old.additional_properties.is_some() {
            let why = "existing objects may have any value in this field, which is now validated";
            self.breaking(path, "field added where unknown fields were kept", why);
        } else if property.default.is_some() {
            self.default_added(
                property,
                parent,
                path,
                judged,
                "field added with a default",
                "objects without it get the default",
            );
        } else {
            self.safe(path, "field added", "objects without it stay valid");
        }
    }

    fn default(&mut self, old: &Node, new: &Node, parent: &Node, path: &Path, judged: bool) {
        if old.default == new.default {
            return;
        }
        match (&old.default, &new.default) {
            (None, None) => {}
            (None, Some(default)) => {
                let what = format!("default added: {}", go::json(default));
                let why = "objects without the field get the default, also when they are read";
                self.default_added(new, parent, path, judged, &what, why);
            }
            (Some(_), None) => {
                let why = "objects without the field no longer get a default";
                self.breaking(path, "default removed", why);
            }
            (Some(before), Some(after)) => {
                let what = changed("default", &go::json(before), &go::json(after));
                let why = "clients that omit the field get another value";
                self.breaking(path, what, why);
            }
        }
    }

    /// Reports the added default of `node`. It makes objects larger, which may exceed limits or violate enclosing rules. The API
    /// server does not check defaults below `additionalProperties`, so that a default can violate its own schema.
    fn default_added(
        &mut self,
        node: &Node,
        parent: &Node,
        path: &Path,
        judged: bool,
        what: &str,
        why: &'static str,
    ) {
        let is_valid = |default: &Value| validate(default, None, node, path).is_empty();
        if !node.default.as_ref().is_none_or(is_valid) {
            self.breaking(path, what, "the default violates the schema of the field");
        } else if judged || parent.max_properties.is_some() {
            let why =
                "rules, combinations or maxProperties around the field may reject objects with the default";
            self.breaking(path, what, why);
        } else {
            self.safe(path, what, why);
        }
    }

    fn additional(&mut self, old: Side<'_>, new: Side<'_>, path: &Path, judged: bool) {
        use AdditionalProperties::{Allowed, Schema};
        let below = path.key("*");
        match (&old.0.additional_properties, &new.0.additional_properties) {
            (None, None) => {}
            (Some(Allowed(before)), Some(Allowed(after))) if before == after => {}
            (Some(Schema(before)), Some(Schema(after))) => {
                let name = "additionalProperties";
                let (old_source, new_source) = (child_of(old.1, name), child_of(new.1, name));
                self.default(before, after, new.0, &below, judged);
                self.node((before, old_source), (after, new_source), &below, judged);
            }
            (None, Some(Schema(_))) if !old.0.preserves_unknown_fields() => {
                self.safe(&below, "other fields allowed", "they were pruned before");
            }
            (Some(Schema(_)), None) if new.0.preserves_unknown_fields() => {
                self.safe(&below, "other fields no longer checked", ALLOWED);
            }
            (Some(_), None) => self.breaking(&below, "other fields no longer allowed", PRUNED),
            _ => {
                let why = "other fields are kept, validated or rejected differently";
                self.breaking(&below, "additionalProperties changed", why);
            }
        }
    }

    fn items(&mut self, old: Side<'_>, new: Side<'_>, path: &Path, judged: bool) {
        let below = Path::new(&format!("{path}[*]"));
        match (&old.0.items, &new.0.items) {
            (None, None) => {}
            (Some(before), Some(after)) => {
                let (old_source, new_source) = (child_of(old.1, "items"), child_of(new.1, "items"));
                self.default(before, after, new.0, &below, judged);
                self.node((before, old_source), (after, new_source), &below, judged);
            }
            (Some(_), None) if new.0.preserves_unknown_fields() => {
                self.safe(&below, "items no longer checked", ALLOWED);
            }
            _ => self.breaking(
                &below,
                "schema of items added or removed",
                "items are validated or pruned differently",
            ),
        }
    }
}

static NULL: Value = Value::Null;

fn child_of<'v>(source: &'v Value, name: &str) -> &'v Value {
    source.get(name).unwrap_or(&NULL)
}

fn property_of<'v>(source: &'v Value, name: &str) -> &'v Value {
    child_of(child_of(source, "properties"), name)
}

/// Returns true if a schema validates its values as a whole, so that a nested default may change the result.
fn judges(node: &Node) -> bool {
    !node.rules.is_empty()
        || !node.all_of.is_empty()
        || !node.any_of.is_empty()
        || !node.one_of.is_empty()
        || node.not.is_some()
        || !node.allowed.is_empty()
}

fn is_significant(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}

/// Returns true if the old limit rejected every value that the new limit rejects; `sign` is 1 for a minimum and -1 for
/// a maximum.
///
/// The server truncates limits of integers, so the limits and their truncated values are compared.
fn is_looser(before: Bound, after: Bound, sign: f64) -> bool {
    let beyond = |a: f64, b: f64| (b - a) * sign > 0.0 || !after.exclusive && a == b || before == after;
    let same_exclusive = before.exclusive == after.exclusive;
    let value = beyond(after.value, before.value) || same_exclusive && after.value == before.value;
    let (a, b) = (after.value.trunc(), before.value.trunc());
    value && (beyond(a, b) || same_exclusive && a == b)
}

/// Returns true if a limit of an integer can be represented in the integer's format. Other limits are reported with
/// every value.
fn is_whole(bound: Bound, node: &Node) -> bool {
    let range = match node.checked_format() {
        "int32" => f64::from(i32::MIN)..=f64::from(i32::MAX),
        _ => -9.0e15..=9.0e15,
    };
    node.kind != "integer" || bound.value.fract() == 0.0 && range.contains(&bound.value)
}

fn bound_change(name: &str, before: Option<Bound>, after: Option<Bound>) -> String {
    match (before, after) {
        (Some(before), Some(after)) if before.value == after.value => {
            let now = if after.exclusive { "excluded" } else { "included" };
            format!("{name} {} is now {now}", go::json_float(after.value))
        }
        _ => {
            let value = |bound: Option<Bound>| bound.map(|bound| bound.value);
            limit_change(name, value(before), value(after))
        }
    }
}

fn limit_change(name: &str, before: Option<f64>, after: Option<f64>) -> String {
    match (before, after) {
        (None, None) => format!("{name} unchanged"),
        (None, Some(after)) => format!("{name} added: {}", go::json_float(after)),
        (Some(before), None) => format!("{name} removed, it was {}", go::json_float(before)),
        (Some(before), Some(after)) => {
            let direction = if after < before { "lowered" } else { "raised" };
            let (before, after) = (go::json_float(before), go::json_float(after));
            format!("{name} {direction} from {before} to {after}")
        }
    }
}
