//! Maps the claims of a token to a user: claims, CEL expressions, and the rules for both ([`Rules`]).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use apimachinery::go::json_kind;
use apimachinery::object;
use builtin_kinds::expression::{BUDGET, Environment, PolicyVariables, Program, Returns, Scope};
use kubernetes_cel::Variables;
use kubernetes_cel::types::{ObjectType, Type};
use kubernetes_cel::value::Value as CelValue;
use serde_json::{Value, json};

use super::super::User;
use super::configuration::{list, text};

/// The rules and mappings of one issuer.
#[derive(Debug)]
pub(super) struct Rules {
    /// Claims that must have exactly these values.
    required: Vec<(String, String)>,
    claims: Vec<Rule>,
    username: Mapping,
    groups: Option<Mapping>,
    uid: Option<Mapping>,
    extra: Vec<(String, Program)>,
    users: Vec<Rule>,
}

/// An expression that must be true, and the error message.
#[derive(Debug)]
struct Rule {
    program: Program,
    message: String,
}

#[derive(Debug)]
enum Mapping {
    Claim { name: String, prefix: String },
    Expression(Box<Program>),
}

impl Rules {
    /// Parses a validated `jwt` entry.
    pub(super) fn read(config: &Value) -> Self {
        let mapping = |field: &str| {
            let mapping = object::get(config, &["claimMappings", field])?;
            let (claim, expression) = (text(mapping, "claim"), text(mapping, "expression"));
            if !expression.is_empty() {
                let program = program(claims_environment(), expression);
                return Some(Mapping::Expression(Box::new(program)));
            }
            (!claim.is_empty()).then(|| Mapping::Claim {
                name: claim.to_owned(),
                prefix: text(mapping, "prefix").to_owned(),
            })
        };
        let rule = |environment: &Environment, rule: &Value| Rule {
            program: program(environment, text(rule, "expression")),
            message: text(rule, "message").to_owned(),
        };
        let owned = |value: &Value, field: &str| text(value, field).to_owned();
        let (required, expressions): (Vec<&Value>, Vec<&Value>) = list(config, "claimValidationRules")
            .iter()
            .partition(|rule| !text(rule, "claim").is_empty());
        let mappings = config.get("claimMappings").unwrap_or(&Value::Null);
        let extra = list(mappings, "extra").iter();
        Self {
            required: required
                .into_iter()
                .map(|one| (owned(one, "claim"), owned(one, "requiredValue")))
                .collect(),
            claims: expressions
                .into_iter()
                .map(|one| rule(claims_environment(), one))
                .collect(),
            username: mapping("username").unwrap_or(Mapping::Claim {
                name: "sub".to_owned(),
                prefix: String::new(),
            }),
            groups: mapping("groups"),
            uid: mapping("uid"),
            extra: extra
                .map(|extra| {
                    let source = text(extra, "valueExpression");
                    (
                        text(extra, "key").to_owned(),
                        program(claims_environment(), source),
                    )
                })
                .collect(),
            users: list(config, "userValidationRules")
                .iter()
                .map(|value| rule(user_environment(), value))
                .collect(),
        }
    }

    /// Returns the user that the claims of a verified token describe.
    ///
    /// # Errors
    /// Returns an error if a claim is missing or a rule is violated.
    pub(super) fn user(&self, claims: &Value) -> Result<User, String> {
        let variables = PolicyVariables::default();
        let mut scope = Scope::new(&variables);
        scope.set("claims", Some(claims));
        let name = self.username(claims, &scope)?;
        let groups = self.groups(claims, &scope)?;
        let uid = match &self.uid {
            None => String::new(),
            Some(Mapping::Claim { name, .. }) => required_claim(claims, "uid", name)?,
            Some(Mapping::Expression(program)) => expression_text(program, &scope, "uid")?,
        };
        let extra = self.extra(&scope)?;
        for (claim, value) in &self.required {
            let Some(found) = claims.get(claim) else {
                return Err(format!("required claim {claim} not present in ID token"));
            };
            let found = string(found).map_err(|why| format!("parse claim {claim}: {why}"))?;
            if found != *value {
                return Err(format!(
                    "required claim {claim} value does not match. Got = {found}, want = {value}"
                ));
            }
        }
        for rule in &self.claims {
            let held = rule.holds(&scope);
            held.map_err(|why| format!("error evaluating claim validation expression: {why}"))?;
        }
        let user = User {
            name,
            uid,
            groups,
            extra,
        };
        self.check(&user)?;
        Ok(user)
    }

    fn username(&self, claims: &Value, scope: &Scope<'_>) -> Result<String, String> {
        match &self.username {
            Mapping::Expression(program) => {
                let name = expression_text(program, scope, "username")?;
                if name.is_empty() {
                    return Err("empty username via CEL expression is not allowed".to_owned());
                }
                Ok(name)
            }
            Mapping::Claim { name, prefix } => {
                let user = required_claim(claims, "username", name)?;
                if name == "email"
                    && let Some(verified) = claims.get("email_verified")
                {
                    match verified {
                        Value::Bool(true) => {}
                        Value::Bool(false) => return Err("email not verified".to_owned()),
                        other => {
                            return Err(format!(
                                "parse 'email_verified' claim: json: cannot unmarshal {} into Go value of type bool",
                                json_kind(other)
                            ));
                        }
                    }
                }
                Ok(format!("{prefix}{user}"))
            }
        }
    }

    fn groups(&self, claims: &Value, scope: &Scope<'_>) -> Result<Vec<String>, String> {
        match &self.groups {
            None => Ok(Vec::new()),
            Some(Mapping::Expression(program)) => {
                let why = |why: String| format!("error evaluating group claim expression: {why}");
                let value = evaluate(program, scope).map_err(why)?;
                strings(&value).map_err(why)
            }
            Some(Mapping::Claim { name, prefix }) => {
                let groups = match claims.get(name) {
                    None | Some(Value::Null) => Vec::new(),
                    Some(Value::Array(groups)) if groups.iter().all(Value::is_string) => {
                        let groups = groups.iter().filter_map(Value::as_str);
                        groups.map(str::to_owned).collect()
                    }
                    Some(other) => {
                        let only = string(other);
                        vec![only.map_err(|why| format!("parse groups claim \"{name}\": {why}"))?]
                    }
                };
                Ok(groups
                    .into_iter()
                    .map(|group| format!("{prefix}{group}"))
                    .collect())
            }
        }
    }

    fn extra(&self, scope: &Scope<'_>) -> Result<BTreeMap<String, Vec<String>>, String> {
        let mut extra = BTreeMap::new();
        for (key, program) in &self.extra {
            let why = |why: String| format!("error evaluating extra claim expression: {why}");
            let value = evaluate(program, scope).map_err(why)?;
            let values = strings(&value).map_err(|error| why(format!("{}: {error}", program.source)))?;
            if !values.is_empty() {
                extra.insert(key.clone(), values);
            }
        }
        Ok(extra)
    }

    fn check(&self, user: &User) -> Result<(), String> {
        if self.users.is_empty() {
            return Ok(());
        }
        let mut info = user.info();
        for (field, empty) in [
            ("username", json!("")),
            ("uid", json!("")),
            ("groups", json!([])),
            ("extra", json!({})),
        ] {
            if info.get(field).is_none() {
                info[field] = empty;
            }
        }
        let variables = PolicyVariables::default();
        let mut scope = Scope::new(&variables);
        scope.set("user", Some(&info));
        for rule in &self.users {
            let held = rule.holds(&scope);
            held.map_err(|why| format!("error evaluating user info validation rule: {why}"))?;
        }
        Ok(())
    }
}

impl Rule {
    fn holds(&self, scope: &Scope<'_>) -> Result<(), String> {
        match evaluate(&self.program, scope)? {
            Value::Bool(true) => Ok(()),
            _ => Err(format!(
                "validation expression '{}' failed: {}",
                self.program.source, self.message
            )),
        }
    }
}

fn program(environment: &Environment, source: &str) -> Program {
    Program::new(environment, source, Returns::Anything)
}

/// Evaluates an expression to JSON.
fn evaluate(program: &Program, scope: &Scope<'_>) -> Result<Value, String> {
    let mut budget = BUDGET;
    let value = program
        .run(scope, &mut budget)
        .map_err(|spent| spent.to_string())??;
    match value {
        CelValue::Optional(None) => Ok(Value::Null),
        CelValue::Optional(Some(value)) => value.to_json(),
        value => value.to_json(),
    }
}

fn expression_text(program: &Program, scope: &Scope<'_>, what: &str) -> Result<String, String> {
    let why = |why: String| format!("error evaluating {what} claim expression: {why}");
    match evaluate(program, scope).map_err(why)? {
        Value::String(text) => Ok(text),
        _ => Err(why(format!("{what} claim expression must return a string"))),
    }
}

/// Returns the non-empty strings of a value.
fn strings(value: &Value) -> Result<Vec<String>, String> {
    let all: Option<Vec<&str>> = match value {
        Value::Null => Some(Vec::new()),
        Value::String(only) => Some(vec![only]),
        Value::Array(several) => several.iter().map(Value::as_str).collect(),
        _ => None,
    };
    let all = all.ok_or("expression must return a string or a list of strings")?;
    let all = all.into_iter().filter(|text| !text.is_empty());
    Ok(all.map(str::to_owned).collect())
}

fn required_claim(claims: &Value, what: &str, name: &str) -> Result<String, String> {
    let plural = if what == "username" { "claims" } else { "claim" };
    let why = |why: &str| format!("parse {what} {plural} \"{name}\": {why}");
    match claims.get(name) {
        None | Some(Value::Null) => Err(why("claim not present")),
        Some(value) => string(value).map_err(|error| why(&error)),
    }
}

fn string(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        other => Err(format!(
            "json: cannot unmarshal {} into Go value of type string",
            json_kind(other)
        )),
    }
}

/// Returns the environment with the variable `claims`.
pub(super) fn claims_environment() -> &'static Environment {
    static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
        let claims = Type::map(Type::String, Type::Dyn);
        Environment::of(Variables::from([("claims".to_owned(), claims)]))
    });
    &ENVIRONMENT
}

/// Returns the environment with the variable `user`.
pub(super) fn user_environment() -> &'static Environment {
    static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
        let text = || Type::String;
        let fields = [
            ("username", text()),
            ("uid", text()),
            ("groups", Type::list(text())),
            ("extra", Type::map(text(), Type::list(text()))),
        ];
        let fields = fields.into_iter().map(|(name, kind)| (name.to_owned(), kind));
        let user = Type::Object(std::sync::Arc::new(ObjectType {
            name: "kubernetes.UserInfo".to_owned(),
            fields: fields.collect(),
        }));
        Environment::of(Variables::from([("user".to_owned(), user)]))
    });
    &ENVIRONMENT
}
