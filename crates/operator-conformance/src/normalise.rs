//! Normalises responses like the recordings: values that differ from run to run are replaced by names.
//!
//! uids become `U1`, `U2`… in order of appearance, resource versions `RV1` < `RV2`… by rank, times `TIME`, generated
//! suffixes `GEN`, addresses `IP`, node ports `PORT`, tokens `TOKEN`, continue tokens `CONTINUE`, and the scenario's
//! namespace and group `NS` and `GROUP`.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use crate::scenario::{Step, Variables};

/// Normalises all responses of one run.
pub(crate) fn answers(steps: &[Step], mut answers: Vec<Value>, variables: &Variables) -> Vec<Value> {
    for (step, answer) in steps.iter().zip(&mut answers) {
        for path in &step.ignore {
            let parts: Vec<&str> = path.split('.').collect();
            drop_path(answer, &parts);
        }
    }
    let mut versions = BTreeSet::new();
    answers
        .iter()
        .for_each(|answer| collect_versions(answer, &mut versions));
    let ranks = versions
        .iter()
        .enumerate()
        .map(|(rank, version)| (version.to_string(), format!("RV{}", rank + 1)));
    let Some(mut normaliser) = Normaliser::new(ranks.collect(), variables) else {
        return answers;
    };
    answers.iter().map(|answer| normaliser.walk(answer, "")).collect()
}

/// Returns the part of a value at a dotted path, or null.
pub(crate) fn dig(value: &Value, path: &str) -> Value {
    let step = |value: &Value, part: &str| match value {
        Value::Array(items) => part
            .parse::<usize>()
            .ok()
            .and_then(|index| items.get(index).cloned()),
        Value::Object(fields) => fields.get(part).cloned(),
        _ => None,
    };
    let mut found = value.clone();
    for part in path.split('.') {
        found = step(&found, part).unwrap_or_default();
    }
    found
}

fn drop_path(value: &mut Value, parts: &[&str]) {
    let Some((first, rest)) = parts.split_first() else {
        return;
    };
    match value {
        Value::Array(items) if *first == "*" => items.iter_mut().for_each(|item| drop_path(item, rest)),
        Value::Array(items) => {
            if let Some(item) = first.parse::<usize>().ok().and_then(|index| items.get_mut(index)) {
                drop_path(item, rest);
            }
        }
        Value::Object(fields) if *first == "*" => {
            fields.values_mut().for_each(|value| drop_path(value, rest));
        }
        Value::Object(fields) if rest.is_empty() => {
            fields.remove(*first);
        }
        Value::Object(fields) => {
            if let Some(value) = fields.get_mut(*first) {
                drop_path(value, rest);
            }
        }
        _ => {}
    }
}

fn collect_versions(value: &Value, found: &mut BTreeSet<u64>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let (true, Value::String(text)) = (name == "resourceVersion", value)
                    && let Ok(version @ 1..) = text.parse()
                {
                    found.insert(version);
                }
                collect_versions(value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_versions(item, found)),
        _ => {}
    }
}

/// The patterns of strings that differ from run to run.
struct Patterns {
    time: Regex,
    uid: Regex,
    number: Regex,
    version_message: Regex,
}

static PATTERNS: LazyLock<Option<Patterns>> = LazyLock::new(|| {
    let pattern = |text: &str| Regex::new(text).ok();
    Some(Patterns {
        time: pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")?,
        uid: pattern(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")?,
        number: pattern(r"[\w.-]+")?,
        version_message: pattern("(?i)resource ?version")?,
    })
});

struct Normaliser<'a> {
    ranks: HashMap<String, String>,
    variables: &'a Variables,
    uids: HashMap<String, String>,
    patterns: &'static Patterns,
}

impl<'a> Normaliser<'a> {
    fn new(ranks: HashMap<String, String>, variables: &'a Variables) -> Option<Self> {
        Some(Self {
            ranks,
            variables,
            uids: HashMap::new(),
            patterns: PATTERNS.as_ref()?,
        })
    }

    fn text(&mut self, text: &str) -> String {
        let variable = |name: &str| self.variables.get(name).cloned().unwrap_or_default();
        let text = text
            .replace(&variable("ns"), "NS")
            .replace(&variable("group"), "GROUP");
        let text = self.patterns.time.replace_all(&text, "TIME").into_owned();
        let uids = &mut self.uids;
        let replace = |found: &regex::Captures<'_>| {
            let next = format!("U{}", uids.len() + 1);
            uids.entry(found[0].to_owned()).or_insert(next).clone()
        };
        self.patterns.uid.replace_all(&text, replace).into_owned()
    }

    fn walk(&mut self, value: &Value, key: &str) -> Value {
        match value {
            Value::Object(fields) => self.object(fields),
            Value::Array(items) => items.iter().map(|item| self.walk(item, key)).collect(),
            Value::String(text) => {
                let text = self.text(text);
                let versioned = key == "message" && self.patterns.version_message.is_match(&text);
                if versioned { self.ranked(&text) } else { text }.into()
            }
            other => other.clone(),
        }
    }

    /// Replaces standalone numbers that are resource versions.
    fn ranked(&self, text: &str) -> String {
        let replace = |found: &regex::Captures<'_>| {
            self.ranks
                .get(&found[0])
                .cloned()
                .unwrap_or_else(|| found[0].to_owned())
        };
        self.patterns.number.replace_all(text, replace).into_owned()
    }

    fn object(&mut self, fields: &Map<String, Value>) -> Value {
        let generate_name = fields
            .get("generateName")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let mut names: Vec<&String> = fields.keys().collect();
        names.sort();
        let mut normalised = Map::new();
        for name in names {
            let Some(value) = fields.get(name) else { continue };
            match self.named(name, value, generate_name) {
                Some(named) => normalised.insert(name.clone(), named),
                None => {
                    let walked = self.walk(value, name);
                    normalised.insert(self.text(name), walked)
                }
            };
        }
        Value::Object(normalised)
    }

    /// Returns the name for the value of a field that is recognized by the name of the field.
    fn named(&mut self, name: &str, value: &Value, generate_name: &str) -> Option<Value> {
        let text = value.as_str();
        match (name, value, text) {
            ("resourceVersion", _, Some(version)) => self.ranks.get(version).cloned().map(Value::from),
            ("name", _, Some(text)) if !generate_name.is_empty() && text.starts_with(generate_name) => {
                Some(format!("{}GEN", self.text(generate_name)).into())
            }
            ("continue", _, Some(text)) if !text.is_empty() => Some("CONTINUE".into()),
            // The recordings replace the schema of a field with this name too.
            ("continue", Value::Object(_), _) => Some("CONTINUE".into()),
            ("clusterIP" | "podIP" | "hostIP", _, Some("None" | "")) => None,
            ("clusterIP" | "podIP" | "hostIP", ..) => Some("IP".into()),
            ("clusterIPs", Value::Array(addresses), _)
                if !addresses.is_empty() && addresses[..] != [Value::from("None")] =>
            {
                Some(addresses.iter().map(|_| Value::from("IP")).collect())
            }
            ("nodePort", Value::Number(port), _) if port.as_i64() != Some(0) => Some("PORT".into()),
            ("token", _, Some(text)) if text.matches('.').count() == 2 => Some("TOKEN".into()),
            ("status", _, Some(_)) => Some(value.clone()),
            _ => None,
        }
    }
}
