//! Collects the errors of an object, with the checks that many kinds share ([`Check`]).

use apimachinery::field::{Error, ErrorList, ErrorType, Path, render};
use apimachinery::names;
use apimachinery::quantity::Quantity;
use serde_json::Value;

use crate::tree::{at, entries, is_zero, list, text};

/// The errors so far.
#[derive(Default)]
pub(super) struct Check {
    pub errors: ErrorList,
}

impl Check {
    pub(super) fn required(&mut self, path: Path, detail: &str) {
        self.errors.push(Error::required(path, detail));
    }

    pub(super) fn forbidden(&mut self, path: Path, detail: impl Into<String>) {
        self.errors.push(Error::forbidden(path, detail));
    }

    pub(super) fn invalid(&mut self, path: Path, value: &Value, detail: impl Into<String>) {
        if !self.errors.is_full() {
            self.errors.push(Error::invalid(path, value.clone(), detail));
        }
    }

    /// Reports an invalid value with its text in Go's format.
    pub(super) fn invalid_text(&mut self, path: Path, value: String, detail: impl Into<String>) {
        self.errors.push(Error {
            kind: ErrorType::Invalid,
            field: path,
            value: Some(value),
            detail: detail.into(),
        });
    }

    pub(super) fn duplicate(&mut self, path: Path, value: &Value) {
        self.errors.push(Error::duplicate(path, value));
    }

    pub(super) fn not_found(&mut self, path: Path, value: &Value, detail: impl Into<String>) {
        self.errors.push(Error {
            kind: ErrorType::NotFound,
            field: path,
            value: Some(render(value)),
            detail: detail.into(),
        });
    }

    /// Reports an unsupported value with its text in Go's format.
    pub(super) fn unsupported_text(&mut self, path: Path, value: String, supported: &[&str]) {
        let mut error = Error::not_supported(path, &Value::Null, supported);
        error.value = Some(value);
        self.errors.push(error);
    }

    /// Reports the value at a path below `parent` if it is not one of the supported ones. A missing value counts as "".
    pub(super) fn one_of(&mut self, parent: &Value, path: &Path, name: &str, supported: &[&str]) {
        let value = text(parent, &[name]);
        if !supported.contains(&value) {
            let error = Error::not_supported(path.child(name), &value.into(), supported);
            self.errors.push(error);
        }
    }

    /// Like [`Check::one_of`], but a missing value is valid.
    pub(super) fn optional_one_of(&mut self, parent: &Value, path: &Path, name: &str, supported: &[&str]) {
        if at(parent, &[name]).is_string() {
            self.one_of(parent, path, name, supported);
        }
    }

    /// Reports an invalid value once for each message.
    pub(super) fn faults(&mut self, path: &Path, value: &str, faults: Vec<String>) {
        for fault in faults {
            self.invalid(path.clone(), &value.into(), fault);
        }
    }

    /// Checks a required string with a format.
    pub(super) fn required_form(
        &mut self,
        parent: &Value,
        path: &Path,
        name: &str,
        form: fn(&str) -> Vec<String>,
    ) {
        let value = text(parent, &[name]);
        let path = path.child(name);
        if value.is_empty() {
            self.required(path, "");
        } else {
            self.faults(&path, value, form(value));
        }
    }

    /// Checks an optional string with a format.
    pub(super) fn optional_form(
        &mut self,
        parent: &Value,
        path: &Path,
        name: &str,
        form: fn(&str) -> Vec<String>,
    ) {
        let value = text(parent, &[name]);
        if !value.is_empty() {
            self.faults(&path.child(name), value, form(value));
        }
    }

    /// Checks an optional string with a format; an empty string is also checked, because the field is a pointer in Go.
    pub(super) fn pointer_form(
        &mut self,
        parent: &Value,
        path: &Path,
        name: &str,
        form: fn(&str) -> Vec<String>,
    ) {
        if let Some(value) = at(parent, &[name]).as_str() {
            self.faults(&path.child(name), value, form(value));
        }
    }

    /// Checks a required string.
    pub(super) fn required_text(&mut self, parent: &Value, path: &Path, name: &str) {
        if text(parent, &[name]).is_empty() {
            self.required(path.child(name), "");
        }
    }

    /// Checks that an optional number is not negative.
    pub(super) fn non_negative(&mut self, parent: &Value, path: &Path, name: &str) {
        let value = at(parent, &[name]);
        if value.as_i64().is_some_and(|number| number < 0) {
            self.invalid(path.child(name), value, NEGATIVE);
        }
    }

    /// Checks the number or name of a port.
    pub(super) fn port(&mut self, value: &Value, path: &Path) {
        match value {
            Value::String(name) => {
                let faults = names::port_name(name);
                self.faults(path, name, faults);
            }
            number => {
                for fault in names::port_number(number.as_i64().unwrap_or(0)) {
                    self.invalid(path.clone(), number, fault);
                }
            }
        }
    }

    /// Checks a non-negative number or a percentage.
    pub(super) fn int_or_percent(&mut self, value: &Value, path: &Path) {
        match value {
            Value::String(percent) if !is_percent(percent) => {
                self.invalid(path.clone(), value, PERCENT);
            }
            Value::Number(number) if number.as_i64().is_some_and(|number| number < 0) => {
                self.invalid(path.clone(), value, NEGATIVE);
            }
            _ => {}
        }
    }

    /// Checks a percentage of at most 100.
    pub(super) fn at_most_all(&mut self, value: &Value, path: &Path) {
        let percent = value.as_str().filter(|text| is_percent(text));
        let number = percent.and_then(|text| text.trim_end_matches('%').parse::<i64>().ok());
        if number.is_some_and(|number| number > 100) {
            self.invalid(path.clone(), value, "must not be greater than 100%");
        }
    }

    /// Checks that a quantity is not negative.
    pub(super) fn non_negative_quantity(&mut self, value: &Value, path: &Path) {
        if Quantity::from_json(value).is_ok_and(|quantity| quantity.is_negative()) {
            self.invalid(path.clone(), value, NEGATIVE);
        }
    }

    /// Checks an immutable field.
    pub(super) fn immutable(&mut self, new: &Value, old: &Value, path: Path) {
        if new != old {
            self.invalid_text(path, render_selector(new), "field is immutable");
        }
    }

    /// Checks the keys and values of labels.
    pub(super) fn labels(&mut self, labels: &Value, path: &Path) {
        for (key, value) in entries(labels, &[]) {
            self.faults(path, key, names::qualified_name(key));
            let value = value.as_str().unwrap_or_default();
            self.faults(path, value, names::label_value(value));
        }
    }

    /// Checks that an apiVersion, which may be empty, has at most a group and a version.
    pub(super) fn api_version(&mut self, version: &str, path: &Path) -> bool {
        let is_valid = version.matches('/').count() <= 1;
        if !is_valid {
            let detail = format!("unexpected GroupVersion string: {version}");
            self.invalid(path.clone(), &version.into(), detail);
        }
        is_valid
    }

    /// Checks a name such as `example.com/controller`.
    pub(super) fn domain_prefixed_path(&mut self, name: &str, path: &Path) {
        match name.split_once('/') {
            _ if name.is_empty() => self.required(path.clone(), ""),
            Some((host, rest)) if !host.is_empty() && !rest.is_empty() => {
                self.faults(path, host, names::dns1123_subdomain(host));
                let is_path =
                    |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
                if !rest.bytes().all(is_path) {
                    let why =
                        "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
                    self.invalid(path.clone(), &rest.into(), why);
                }
            }
            _ => self.invalid(
                path.clone(),
                &name.into(),
                "must be a domain-prefixed path (such as \"acme.io/foo\")",
            ),
        }
    }

    /// Checks the keys of annotations, which have the format of label keys but are case-insensitive.
    pub(super) fn annotations(&mut self, annotations: &Value, path: &Path) {
        for (key, _) in entries(annotations, &[]) {
            self.faults(path, key, names::qualified_name(&key.to_lowercase()));
        }
    }

    /// Checks a label selector with `matchLabels` and `matchExpressions`.
    pub(super) fn label_selector(&mut self, selector: &Value, path: &Path) {
        self.labels(at(selector, &["matchLabels"]), &path.child("matchLabels"));
        let expressions = path.child("matchExpressions");
        for (index, expression) in list(selector, &["matchExpressions"]).iter().enumerate() {
            self.requirement(expression, &expressions.index(index));
        }
    }

    fn requirement(&mut self, expression: &Value, path: &Path) {
        let values = list(expression, &["values"]);
        match text(expression, &["operator"]) {
            "In" | "NotIn" if values.is_empty() => self.required(
                path.child("values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            ),
            "Exists" | "DoesNotExist" if !values.is_empty() => self.forbidden(
                path.child("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => self.invalid(
                path.child("operator"),
                at(expression, &["operator"]),
                "not a valid selector operator",
            ),
        }
        let key = text(expression, &["key"]);
        self.faults(&path.child("key"), key, names::qualified_name(key));
        for (index, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            let path = path.child("values").index(index);
            self.faults(&path, value, names::label_value(value));
        }
    }
}

pub(super) const NEGATIVE: &str = "must be greater than or equal to 0";
const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";

fn is_percent(text: &str) -> bool {
    let digits = text.strip_suffix('%').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The fields of `ObjectMeta` in the order of the Go struct.
pub(super) const OBJECT_META: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Returns the number in a number or percentage; 0 if it is missing.
pub(super) fn number_of(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.trim_end_matches('%').parse().unwrap_or(0),
        value => value.as_i64().unwrap_or(0),
    }
}

/// Formats a selector as Go prints it, with `matchLabels` before `matchExpressions`.
pub(super) fn render_selector(selector: &Value) -> String {
    let labels = at(selector, &["matchLabels"]);
    let expressions = at(selector, &["matchExpressions"]);
    if labels.is_null() || expressions.is_null() {
        return render(selector);
    }
    format!(
        "{{\"matchLabels\":{},\"matchExpressions\":{}}}",
        render(labels),
        render(expressions)
    )
}

/// Returns true if a selector is valid.
pub(super) fn selector_is_valid(selector: &Value) -> bool {
    let mut check = Check::default();
    check.label_selector(selector, &Path::default());
    check.errors.is_empty()
}

/// Returns true if a selector matches labels. Null matches nothing; an empty selector matches everything.
pub fn selects(selector: &Value, labels: &Value) -> bool {
    apimachinery::selector::selects(selector, |name| at(labels, &[name]).as_str())
}

/// Returns true if a selector has no requirement.
pub fn is_empty_selector(selector: &Value) -> bool {
    ["matchLabels", "matchExpressions"]
        .iter()
        .all(|field| is_zero(at(selector, &[field])))
}

/// The format of a field of a Go struct without JSON tags: its Go name, its JSON name, the fields of its struct.
pub(super) struct GoPrint(pub &'static str, pub &'static str, pub &'static [GoPrint]);

/// The fields of a non-pointer string: empty if missing.
pub(super) const TEXT: &[GoPrint] = &[GoPrint("", "", &[])];

/// Formats an object, or a list of them, as Go's internal struct: in the order of the struct, with nulls.
pub(super) fn render_go(value: &Value, fields: &[GoPrint]) -> String {
    if let Some(items) = value.as_array() {
        let items: Vec<String> = items.iter().map(|item| render_go(item, fields)).collect();
        return format!("[{}]", items.join(","));
    }
    if !value.is_object() {
        return "null".to_owned();
    }
    let print = |GoPrint(go_name, name, below): &GoPrint| {
        let field = at(value, &[name]);
        let text = if let [GoPrint("", "", _)] = below {
            render(&field.as_str().unwrap_or_default().into())
        } else if below.is_empty() {
            render(field)
        } else {
            render_go(field, below)
        };
        format!("\"{go_name}\":{text}")
    };
    let fields: Vec<String> = fields.iter().map(print).collect();
    format!("{{{}}}", fields.join(","))
}

/// Checks that a path stays below its base directory.
pub(super) fn descending_path(check: &mut Check, value: &str, path: &Path) {
    if value.starts_with('/') {
        check.invalid(path.clone(), &value.into(), "must be a relative path");
    }
    no_backsteps(check, value, path);
}

/// Checks that a path has no `..`.
pub(super) fn no_backsteps(check: &mut Check, value: &str, path: &Path) {
    if value.split('/').any(|part| part == "..") {
        check.invalid(path.clone(), &value.into(), "must not contain '..'");
    }
}
