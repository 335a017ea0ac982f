//! Validates the keywords of `JSONSchemaProps`: unsupported keywords, and required or forbidden combinations.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::field::{Error, ErrorList, Path};
use serde_json::{Value, json};

use super::internal;
use crate::field_path;
use crate::node::{AdditionalProperties, Node, Rule, Unsupported};
use crate::prune::META_FIELDS;
use crate::rule::{Problem, compile, declare};

/// The restrictions at a position in a schema.
#[derive(Clone, Debug, Default)]
struct Place {
    inside_resource_meta: bool,
    /// The reason why defaults are forbidden here, if they are.
    no_defaults: Option<String>,
    /// The maximum number of values at this position in an object; `None` below lists and maps without limits.
    cardinality: Option<u64>,
    /// True if rules are evaluated here.
    has_rules: bool,
    /// The path of the enclosing list whose items cannot be matched with old items.
    uncorrelatable: Option<Path>,
}

impl Place {
    /// Returns the restrictions for values inside a value of `node`.
    fn below(&self, node: &Node) -> Self {
        let limit = match node.kind.as_str() {
            "array" => node.max_items,
            "object" if node.additional_schema().is_some() => node.max_properties,
            _ => Some(1),
        };
        let limit = limit.map(|limit| u64::try_from(limit).unwrap_or(0));
        let cardinality = self
            .cardinality
            .zip(limit)
            .map(|(here, limit)| here.saturating_mul(limit));
        Self {
            cardinality,
            ..self.clone()
        }
    }

    /// Returns the restrictions inside value validations, where rules are not evaluated.
    fn nested(&self) -> Self {
        Self {
            has_rules: false,
            ..self.clone()
        }
    }
}

/// Appends the errors of all keywords, followed by those of rules. `with_rules` is true if the schema is structural, so
/// that rules can be checked.
pub(super) fn validate(root: &Node, path: &Path, with_rules: bool, errors: &mut ErrorList) {
    let place = Place {
        cardinality: Some(1),
        has_rules: with_rules,
        ..Place::default()
    };
    let mut checker = Checker {
        errors,
        rules: RuleChecker::default(),
    };
    checker.node(root, path, &place, true);
    let rules = checker.rules;
    errors.extend(rules.finish(path));
}

/// Validates the schemas of an unsupported keyword.
fn unsupported(
    node: &Node,
    part: fn(&Unsupported) -> &BTreeMap<String, Node>,
) -> impl Iterator<Item = (&String, &Node)> {
    node.unsupported.as_deref().into_iter().flat_map(part)
}

/// Returns the schemas of `items` if it is a list of schemas.
fn item_list(node: &Node) -> &[Node] {
    node.unsupported
        .as_deref()
        .map_or(&[], |refused| refused.items.as_slice())
}

struct Checker<'e> {
    errors: &'e mut ErrorList,
    rules: RuleChecker,
}

impl Checker<'_> {
    fn forbid(&mut self, path: Path, detail: impl Into<String>) {
        self.errors.push(Error::forbidden(path, detail));
    }

    fn invalid(&mut self, path: Path, value: impl Into<Value>, detail: impl Into<String>) {
        self.errors.push(Error::invalid(path, value.into(), detail));
    }

    fn node(&mut self, node: &Node, path: &Path, place: &Place, is_root: bool) {
        if self.errors.is_full() {
            return;
        }
        let errors_before = self.errors.len();
        self.unsupported(node, path, place);
        if node.unique_items {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.forbid(path.child("uniqueItems"), detail);
        }
        self.additional_properties(node, path, place);
        for (name, property) in &node.properties {
            let mut place = place.below(node);
            if (is_root || node.embedded_resource) && META_FIELDS.contains(&name.as_str()) {
                place.inside_resource_meta = true;
                if is_root {
                    place.no_defaults = Some(format!("must not be set in top-level {name}"));
                }
            }
            self.node(property, &path.child("properties").key(name), &place, false);
        }
        if let Some(not) = &node.not {
            self.node(not, &path.child("not"), &place.nested(), false);
        }
        for (name, children) in [
            ("allOf", &node.all_of),
            ("oneOf", &node.one_of),
            ("anyOf", &node.any_of),
        ] {
            for (index, child) in children.iter().enumerate() {
                self.node(child, &path.child(name).index(index), &place.nested(), false);
            }
        }
        for (name, definition) in unsupported(node, |refused| &refused.definitions) {
            let path = path.child("definitions").key(name);
            self.node(definition, &path, &place.nested(), false);
        }
        self.items(node, path, place);
        for (name, dependency) in unsupported(node, |refused| &refused.dependencies) {
            let path = path.child("dependencies").key(name);
            self.node(dependency, &path, &place.nested(), false);
        }
        self.extensions(node, path);
        self.list_map(node, path);
        self.keyed_items(node, path);
        for (index, rule) in node.rules.iter().enumerate() {
            self.rule(rule, node, &path.child("x-kubernetes-validations").index(index));
        }
        if place.has_rules && !node.rules.is_empty() && self.errors.len() == errors_before {
            self.rules.check(node, is_root, path, place);
        }
    }

    fn items(&mut self, node: &Node, path: &Path, place: &Place) {
        let mut place = place.below(node);
        if node.list_type.as_deref() != Some("map") {
            place.uncorrelatable.get_or_insert_with(|| path.clone());
        }
        let path = path.child("items");
        if let Some(items) = &node.items {
            self.node(items, &path, &place, false);
        }
        for (index, item) in item_list(node).iter().enumerate() {
            self.node(item, &path.index(index), &place, false);
        }
    }

    fn unsupported(&mut self, node: &Node, path: &Path, place: &Place) {
        const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
        if !node.kind.is_empty() && !TYPES.contains(&node.kind.as_str()) {
            let kind = node.kind.as_str().into();
            self.errors
                .push(Error::not_supported(path.child("type"), &kind, &TYPES));
        }
        if let (Some(reason), Some(_)) = (&place.no_defaults, &node.default) {
            self.forbid(path.child("default"), reason.clone());
        }
        let keywords = node
            .unsupported
            .as_ref()
            .map_or(&[][..], |refused| &refused.keywords);
        for keyword in keywords.iter().filter(|keyword| **keyword != "items") {
            self.forbid(path.child(keyword), format!("{keyword} is not supported"));
        }
        if node.kind == "null" {
            self.forbid(
                path.child("type"),
                "type cannot be set to null, use nullable as an alternative",
            );
        }
        if !item_list(node).is_empty() {
            let detail = "items must be a schema object and not an array";
            self.forbid(path.child("items"), detail);
        }
        if place.inside_resource_meta && node.embedded_resource {
            let path = path.child("x-kubernetes-embedded-resource");
            self.forbid(path, "must not be used inside of resource meta");
        }
    }

    fn additional_properties(&mut self, node: &Node, path: &Path, place: &Place) {
        let Some(additional) = &node.additional_properties else {
            return;
        };
        let path = path.child("additionalProperties");
        let is_restricted = !matches!(additional, AdditionalProperties::Allowed(true));
        if !node.properties.is_empty() && is_restricted {
            self.forbid(
                path.clone(),
                "additionalProperties and properties are mutual exclusive",
            );
        }
        if let AdditionalProperties::Schema(schema) = additional {
            let mut place = place.below(node);
            if place.inside_resource_meta {
                let reason = "must not be set inside additionalProperties applying to object metadata";
                place.no_defaults = Some(reason.to_owned());
            }
            self.node(schema, &path, &place, false);
        }
    }

    fn extensions(&mut self, node: &Node, path: &Path) {
        if node.preserve_unknown_fields == Some(false) {
            let path = path.child("x-kubernetes-preserve-unknown-fields");
            self.invalid(path, false, "must be true or undefined");
        }
        if let Some(map_type) = &node.map_type {
            self.wanted_type(node, "object", "x-kubernetes-map-type", path);
            if !["atomic", "granular"].contains(&map_type.as_str()) {
                let path = path.child("x-kubernetes-map-type");
                let error = Error::not_supported(path, &map_type.as_str().into(), &["atomic", "granular"]);
                self.errors.push(error);
            }
        }
        let Some(list_type) = &node.list_type else { return };
        if node.kind != "array" {
            self.wanted_type(node, "array", "x-kubernetes-list-type", path);
        } else if list_type == "set"
            && let Some(items) = &node.items
        {
            self.set_items(items, &path.child("items"));
        }
        if !["atomic", "set", "map"].contains(&list_type.as_str()) {
            let path = path.child("x-kubernetes-list-type");
            let error = Error::not_supported(path, &list_type.as_str().into(), &["atomic", "set", "map"]);
            self.errors.push(error);
        }
    }

    fn wanted_type(&mut self, node: &Node, kind: &str, extension: &str, path: &Path) {
        if node.kind == kind {
            return;
        }
        let detail = format!("must be {kind} if {extension} is specified");
        let path = path.child("type");
        if node.kind.is_empty() {
            self.errors.push(Error::required(path, detail));
        } else {
            self.invalid(path, node.kind.as_str(), detail);
        }
    }

    fn set_items(&mut self, items: &Node, path: &Path) {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let shown = |text: &Option<String>| text.as_deref().map_or(Value::Null, Value::from);
        match items.kind.as_str() {
            "array" if items.list_type.as_deref().is_some_and(|list| list != "atomic") => {
                self.invalid(
                    path.child("x-kubernetes-list-type"),
                    shown(&items.list_type),
                    detail,
                );
            }
            "object" if items.map_type.as_deref() != Some("atomic") => {
                self.invalid(
                    path.child("x-kubernetes-map-type"),
                    shown(&items.list_type),
                    detail,
                );
            }
            _ => {}
        }
    }

    fn list_map(&mut self, node: &Node, path: &Path) {
        let type_path = path.child("x-kubernetes-list-type");
        let keys_path = path.child("x-kubernetes-list-map-keys");
        let list_type = node.list_type.as_deref();
        if !node.list_map_keys.is_empty() {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            match list_type {
                None => self.errors.push(Error::required(type_path, detail)),
                Some("map") => {}
                Some(other) => self.invalid(type_path, other, detail),
            }
        }
        if list_type != Some("map") {
            return;
        }
        if node.list_map_keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            self.errors.push(Error::required(keys_path.clone(), detail));
        }
        let items_path = path.child("items");
        match (&node.items, item_list(node)) {
            (None, []) => {
                let detail = "must have a schema if x-kubernetes-list-type is map";
                self.errors.push(Error::required(items_path, detail));
            }
            (None, list) => {
                let detail = "must only have a single schema if x-kubernetes-list-type is map";
                let mut error = Error::invalid(items_path, Value::Null, detail);
                error.value = Some(internal::item_list(list.len()));
                self.errors.push(error);
            }
            (Some(items), _) if items.kind != "object" => {
                let detail = "must be object if parent array's x-kubernetes-list-type is map";
                self.invalid(items_path.child("type"), items.kind.as_str(), detail);
            }
            (Some(items), _) => self.list_map_keys(node, items, path, &keys_path),
        }
    }

    fn list_map_keys(&mut self, node: &Node, items: &Node, path: &Path, keys_path: &Path) {
        let mut seen = BTreeSet::new();
        for key in &node.list_map_keys {
            match items.properties.get(key) {
                Some(property) if ["array", "object"].contains(&property.kind.as_str()) => {
                    let path = path.child("items").child("properties").key(key).child("type");
                    let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    self.invalid(path, items.kind.as_str(), detail);
                }
                Some(_) => {}
                None => {
                    let detail = "entries must all be names of item properties";
                    self.invalid_keys(node, keys_path, detail);
                }
            }
            if !seen.insert(key) {
                self.invalid_keys(node, keys_path, "must not contain duplicate entries");
            }
        }
    }

    /// Reports all keys of a map list. The API server does so for each invalid key.
    fn invalid_keys(&mut self, node: &Node, path: &Path, detail: &str) {
        if !self.errors.is_full() {
            self.invalid(path.clone(), node.list_map_keys.clone(), detail);
        }
    }

    /// Checks that items of sets and map lists are not nullable, and that the keys of map lists always have a value.
    fn keyed_items(&mut self, node: &Node, path: &Path) {
        let Some(items) = &node.items else { return };
        let path = path.child("items");
        let list_type = match node.list_type.as_deref() {
            Some(list_type @ ("set" | "map")) => list_type,
            _ => return,
        };
        if items.nullable {
            let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            self.forbid(path.child("nullable"), detail);
        }
        if list_type != "map" {
            return;
        }
        for key in &node.list_map_keys {
            let Some(property) = items.properties.get(key) else {
                continue;
            };
            let path = path.child("properties").key(key);
            if !items.required.contains(key) && property.default.is_none() {
                let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                self.errors.push(Error::required(path.child("default"), detail));
            }
            if property.nullable {
                let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                self.forbid(path.child("nullable"), detail);
            }
        }
    }

    fn rule(&mut self, rule: &Rule, node: &Node, path: &Path) {
        const REASONS: [&str; 4] = [
            "FieldValueDuplicate",
            "FieldValueForbidden",
            "FieldValueInvalid",
            "FieldValueRequired",
        ];
        let has_newline = |text: &str| text.contains(['\n', '\r']);
        let (trimmed_rule, trimmed_message) = (rule.rule.trim(), rule.message.trim());
        if trimmed_rule.is_empty() {
            self.errors
                .push(Error::required(path.child("rule"), "rule is not specified"));
        } else if !rule.message.is_empty() && trimmed_message.is_empty() {
            let detail = "must be non-empty if specified";
            self.invalid(path.child("message"), rule.message.as_str(), detail);
        } else if has_newline(trimmed_message) {
            let detail = "must not contain line breaks";
            self.invalid(path.child("message"), rule.message.as_str(), detail);
        } else if has_newline(trimmed_rule) && trimmed_message.is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            self.errors.push(Error::required(path.child("message"), detail));
        }
        if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            self.errors
                .push(Error::required(path.child("messageExpression"), detail));
        }
        if let Some(reason) = &rule.reason
            && !REASONS.contains(&reason.as_str())
        {
            let error = Error::not_supported(path.child("reason"), &reason.as_str().into(), &REASONS);
            self.errors.push(error);
        }
        let field_path = path.child("fieldPath");
        if rule.field_path.is_empty() {
            return;
        }
        if rule.field_path.trim().is_empty() {
            let detail = "must be non-empty if specified";
            self.invalid(field_path.clone(), rule.field_path.as_str(), detail);
        }
        if has_newline(&rule.field_path) {
            let detail = "must not contain line breaks";
            self.invalid(field_path.clone(), rule.field_path.as_str(), detail);
        }
        if node.structural_obstacle().is_none() && field_path::resolve(&rule.field_path, node).is_err() {
            self.invalid(field_path, rule.field_path.as_str(), "must be a valid path");
        }
    }
}

/// The cost limit of one rule.
const RULE_COST_LIMIT: u64 = 10_000_000;
/// The cost limit of all rules of a schema.
const SCHEMA_COST_LIMIT: u64 = 100_000_000;

/// Compiles rules and adds their estimated costs.
#[derive(Default)]
struct RuleChecker {
    errors: ErrorList,
    total: u64,
    /// The most expensive expressions, in descending order.
    most_expensive: Vec<(Path, u64)>,
}

impl RuleChecker {
    fn check(&mut self, node: &Node, is_root: bool, path: &Path, place: &Place) {
        let Some(declared) = declare(node, is_root || node.embedded_resource) else {
            return;
        };
        for (index, rule) in node.rules.iter().enumerate() {
            let path = path.child("x-kubernetes-validations").index(index);
            let (compiled, problems) = compile(rule, node, &declared);
            if let Some(compiled) = &compiled {
                let cardinality = place.cardinality.unwrap_or(declared.max_cardinality());
                let cost = compiled.max_cost.saturating_mul(cardinality);
                self.observe(&path.child("rule"), "estimated rule cost", cost);
                let message_cost = compiled.message_cost.unwrap_or(0);
                if compiled.message_cost.is_some() {
                    self.observe(
                        &path.child("messageExpression"),
                        "estimated messageExpression cost",
                        message_cost,
                    );
                }
            }
            for problem in problems {
                let (name, detail) = match problem {
                    Problem::Rule(detail) => ("rule", detail),
                    Problem::MessageExpression(detail) => ("messageExpression", detail),
                };
                let mut error = Error::invalid(path.child(name), Value::Null, detail);
                error.value = Some(shown(rule));
                self.errors.push(error);
            }
            let uses_old_self = compiled.is_some_and(|compiled| compiled.uses_old_self);
            self.old_self(rule, uses_old_self, &path, place);
        }
    }

    fn old_self(&mut self, rule: &Rule, uses_old_self: bool, path: &Path, place: &Place) {
        if !uses_old_self {
            if let Some(optional) = rule.optional_old_self {
                let detail = "may not be set if oldSelf is not used in rule";
                self.errors.push(Error::invalid(
                    path.child("optionalOldSelf"),
                    optional.into(),
                    detail,
                ));
            }
        } else if let Some(list) = &place.uncorrelatable {
            let detail =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
            self.errors.push(Error::invalid(
                path.child("rule"),
                rule.rule.as_str().into(),
                detail,
            ));
        }
    }

    fn observe(&mut self, path: &Path, name: &str, cost: u64) {
        if cost > RULE_COST_LIMIT {
            self.errors.push(Error::forbidden(
                path.clone(),
                cost_message(name, cost, RULE_COST_LIMIT),
            ));
        }
        self.total = self.total.saturating_add(cost);
        // Rules below one percent of the limit are not reported.
        if cost < SCHEMA_COST_LIMIT / 100 {
            return;
        }
        let at = self.most_expensive.partition_point(|(_, other)| *other >= cost);
        self.most_expensive.insert(at, (path.clone(), cost));
        self.most_expensive.truncate(4);
    }

    fn finish(self, root: &Path) -> ErrorList {
        let Self {
            mut errors,
            total,
            most_expensive,
        } = self;
        if total > SCHEMA_COST_LIMIT {
            let detail =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            errors.extend(
                most_expensive
                    .into_iter()
                    .map(|(path, _)| Error::forbidden(path, detail)),
            );
            let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
            errors.push(Error::forbidden(
                root.clone(),
                cost_message(name, total, SCHEMA_COST_LIMIT),
            ));
        }
        errors
    }
}

fn shown(rule: &Rule) -> String {
    internal::rule(&json!({
        "rule": rule.rule,
        "message": rule.message,
        "messageExpression": rule.message_expression,
        "reason": rule.reason,
        "fieldPath": rule.field_path,
        "optionalOldSelf": rule.optional_old_self,
    }))
}

#[expect(clippy::cast_precision_loss, reason = "the factor is shown with one digit")]
fn cost_message(name: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
