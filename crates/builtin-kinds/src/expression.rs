//! The CEL expressions of policies and match conditions: declares their variables, compiles and evaluates them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use kubernetes_cel::ast::describe;
use kubernetes_cel::types::{ObjectType, Type};
use kubernetes_cel::value::{Value, from_json};
use kubernetes_cel::{Activation, Checked, Failure, Lookup, Variables, check, evaluate, parse};
use serde_json::Value as Json;

/// The cost limit of one expression.
pub const PER_CALL_LIMIT: u64 = 1_000_000;
/// The cost limit of all expressions of a policy for one binding and parameter.
pub const BUDGET: u64 = 10_000_000;
/// The cost limit of all match conditions of a policy or webhook.
const CONDITIONS_BUDGET: u64 = 2_500_000;

/// The height up to which trees of variables are evaluated recursively; the parser has the same limit for one
/// expression. Higher trees are evaluated one variable after the other.
const NESTED_HEIGHT_MAX: usize = 250;
/// The maximum number of fields that are copied because an expression contains the type of `variables`.
const COPIED_FIELDS_MAX: usize = 1_000_000;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The required type of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// Any type.
    Anything,
    /// A boolean.
    Bool,
    /// A string.
    Text,
    /// A string, or null.
    TextOrNull,
    /// An `Object`: an apply configuration.
    Object,
    /// A list of `JSONPatch`.
    JsonPatch,
}

/// The optional variables of expressions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mentions {
    /// Declares `params`: the parameter object of a policy binding.
    pub params: bool,
    /// Declares `authorizer`, which checks the permissions of the user.
    pub authorizer: bool,
    /// Declares the types that mutations construct.
    pub patches: bool,
}

/// The name of the type whose fields are the variables of a policy.
const VARIABLES_TYPE: &str = "kubernetes.variables";

/// The declared variables of expressions, extended with the variables of a policy.
#[derive(Clone, Debug)]
pub struct Environment {
    names: Variables,
    /// The type of `variables`.
    composed: Arc<ObjectType>,
    copied: usize,
}

impl Environment {
    /// Returns an environment with the variables of all expressions, and those of `mentions`.
    pub fn new(mentions: Mentions) -> Self {
        let mut names = Variables::from([
            ("object".to_owned(), Type::Dyn),
            ("oldObject".to_owned(), Type::Dyn),
            ("request".to_owned(), request_type()),
            ("namespaceObject".to_owned(), namespace_type()),
        ]);
        if mentions.params {
            names.insert("params".to_owned(), Type::Dyn);
        }
        if mentions.authorizer {
            let authorizer = Type::Opaque("kubernetes.authorization.Authorizer");
            names.insert("authorizer".to_owned(), authorizer);
            let check = Type::Opaque("kubernetes.authorization.ResourceCheck");
            names.insert("authorizer.requestResource".to_owned(), check);
        }
        if mentions.patches {
            names.insert("Object".to_owned(), Type::Type(Box::new(Type::Dyn)));
            names.insert("JSONPatch".to_owned(), Type::Type(Box::new(json_patch_type())));
        }
        Self {
            names,
            composed: Arc::new(ObjectType {
                name: VARIABLES_TYPE.to_owned(),
                fields: BTreeMap::new(),
            }),
            copied: 0,
        }
    }

    /// Returns an environment with only these variables.
    pub fn of(names: Variables) -> Self {
        Self {
            names,
            ..Self::new(Mentions::default())
        }
    }

    /// Declares `variables`, even before the policy has any variable.
    #[must_use]
    pub fn composed(mut self) -> Self {
        let all = Type::Object(self.composed.clone());
        self.names.insert("variables".to_owned(), all);
        self
    }

    /// Returns the environment without the authorizer, for message expressions.
    pub fn without_authorizer(&self) -> Self {
        let mut other = self.clone();
        other.names.retain(|name, _| !name.starts_with("authorizer"));
        other
    }

    /// Declares a variable of the policy, `variables.NAME`, for later expressions.
    pub fn compose(&mut self, name: &str, kind: &Type) {
        let kind = plain(kind);
        self.names.insert(format!("variables.{name}"), kind.clone());
        self.names.remove("variables");
        match Arc::get_mut(&mut self.composed) {
            Some(composed) => drop(composed.fields.insert(name.to_owned(), kind)),
            None => {
                self.copied = self.copied.saturating_add(self.composed.fields.len());
                if self.copied <= COPIED_FIELDS_MAX {
                    let mut fields = self.composed.fields.clone();
                    fields.insert(name.to_owned(), kind);
                    let name = VARIABLES_TYPE.to_owned();
                    self.composed = Arc::new(ObjectType { name, fields });
                }
            }
        }
        let all = Type::Object(self.composed.clone());
        self.names.insert("variables".to_owned(), all);
    }

    /// Compiles an expression.
    ///
    /// # Errors
    /// Returns the validation error of the expression.
    pub fn compile(&self, source: &str, returns: Returns) -> Result<Checked, String> {
        let checked = parse(source)
            .and_then(|expr| check(expr, &self.names))
            .map_err(|issues| format!("compilation failed: {}", describe(source, &issues)))?;
        let wanted = match returns {
            Returns::Anything => return Ok(checked),
            Returns::Bool if checked.result == Type::Bool => return Ok(checked),
            Returns::Text if checked.result == Type::String => return Ok(checked),
            Returns::TextOrNull if matches!(checked.result, Type::String | Type::Null) => return Ok(checked),
            Returns::Object if is_object(&checked.result, "Object") => return Ok(checked),
            Returns::JsonPatch => match &checked.result {
                Type::List(item) if is_object(item, "JSONPatch") => return Ok(checked),
                _ => "list(JSONPatch)",
            },
            Returns::Bool => "bool",
            Returns::Text => "string",
            Returns::Object => "Object",
            Returns::TextOrNull => "one of [string null_type]",
        };
        Err(format!("must evaluate to {wanted} but got {}", checked.result))
    }
}

/// Returns the type of a variable for later expressions; the types of objects and library values become `dyn`.
fn plain(kind: &Type) -> Type {
    match kind {
        Type::List(item) => Type::list(plain(item)),
        Type::Map(key, value) => Type::map(plain(key), plain(value)),
        Type::Object(_) | Type::Opaque(_) | Type::Optional(_) | Type::Type(_) => Type::Dyn,
        other => other.clone(),
    }
}

fn is_object(found: &Type, name: &str) -> bool {
    matches!(found, Type::Object(object) if object.name == name)
}

fn object_type(name: &str, fields: &[(&str, Type)]) -> Type {
    let fields = fields
        .iter()
        .map(|(name, kind)| ((*name).to_owned(), kind.clone()));
    Type::Object(Arc::new(ObjectType {
        name: name.to_owned(),
        fields: fields.collect(),
    }))
}

/// Returns the type of an `admission.k8s.io/v1` AdmissionRequest with the fields that expressions can use.
fn request_type() -> Type {
    let text = || Type::String;
    let kind = object_type(
        "kubernetes.GroupVersionKind",
        &[("group", text()), ("version", text()), ("kind", text())],
    );
    let resource = object_type(
        "kubernetes.GroupVersionResource",
        &[("group", text()), ("version", text()), ("resource", text())],
    );
    let user = object_type(
        "kubernetes.UserInfo",
        &[
            ("username", text()),
            ("uid", text()),
            ("groups", Type::list(text())),
            ("extra", Type::map(text(), Type::list(text()))),
        ],
    );
    object_type(
        "kubernetes.AdmissionRequest",
        &[
            ("kind", kind.clone()),
            ("resource", resource.clone()),
            ("subResource", text()),
            ("requestKind", kind),
            ("requestResource", resource),
            ("requestSubResource", text()),
            ("name", text()),
            ("namespace", text()),
            ("operation", text()),
            ("userInfo", user),
            ("dryRun", Type::Bool),
            ("options", Type::Dyn),
        ],
    )
}

/// Returns the type of a `v1` Namespace with the fields that expressions can use.
fn namespace_type() -> Type {
    let text = || Type::String;
    let texts = || Type::map(text(), text());
    let metadata = object_type(
        "kubernetes.NamespaceMetadata",
        &[
            ("name", text()),
            ("generateName", text()),
            ("namespace", text()),
            ("labels", texts()),
            ("annotations", texts()),
            ("UID", text()),
            ("creationTimestamp", Type::Timestamp),
            ("deletionGracePeriodSeconds", Type::Int),
            ("deletionTimestamp", Type::Timestamp),
            ("generation", Type::Int),
            ("resourceVersion", text()),
            ("finalizers", Type::list(text())),
        ],
    );
    let condition = object_type(
        "kubernetes.NamespaceCondition",
        &[
            ("status", text()),
            ("type", text()),
            ("lastTransitionTime", Type::Timestamp),
            ("message", text()),
            ("reason", text()),
        ],
    );
    let status = object_type(
        "kubernetes.NamespaceStatus",
        &[("conditions", Type::list(condition)), ("phase", text())],
    );
    let spec = object_type("kubernetes.NamespaceSpec", &[("finalizers", Type::list(text()))]);
    object_type(
        "kubernetes.Namespace",
        &[("metadata", metadata), ("spec", spec), ("status", status)],
    )
}

/// Returns the type of one JSON patch operation, which an expression constructs.
fn json_patch_type() -> Type {
    object_type(
        "JSONPatch",
        &[
            ("op", Type::String),
            ("path", Type::String),
            ("from", Type::String),
            ("value", Type::Dyn),
        ],
    )
}

/// A compiled expression with its source. If the expression does not compile, because it was stored before the rules
/// became stricter, its evaluation fails.
#[derive(Clone, Debug)]
pub struct Program {
    /// The text of the expression.
    pub source: String,
    compiled: Result<Checked, String>,
}

/// The error of an exhausted budget: no more expressions of the policy are evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{OUT_OF_BUDGET}")]
pub struct OutOfBudget;

impl Program {
    /// Compiles an expression. A compilation error is reported when the expression is evaluated.
    pub fn new(environment: &Environment, source: &str, returns: Returns) -> Self {
        Self {
            source: source.to_owned(),
            compiled: environment.compile(source, returns),
        }
    }

    /// Returns the type of the result; `dyn` if the expression does not compile.
    pub fn result(&self) -> Type {
        let result = self.compiled.as_ref().map(|checked| checked.result.clone());
        result.unwrap_or(Type::Dyn)
    }

    /// Evaluates the expression; returns its value or the error.
    pub fn run<'a>(
        &self,
        scope: &Scope<'a>,
        budget: &mut u64,
    ) -> Result<Result<Value<'a>, String>, OutOfBudget> {
        let checked = match &self.compiled {
            Ok(checked) => checked,
            Err(why) => return Ok(Err(format!("compilation error: {why}"))),
        };
        let (result, cost) = evaluate(checked, scope, PER_CALL_LIMIT);
        let cost = cost.saturating_add(scope.spent.take());
        *budget = budget.checked_sub(cost).ok_or(OutOfBudget)?;
        let source = &self.source;
        Ok(result.map_err(|failure| format!("expression '{source}' resulted in error: {failure}")))
    }
}

/// The variables of a policy, in order. A variable can use the variables before it.
#[derive(Debug, Default)]
pub struct PolicyVariables {
    list: Vec<Variable>,
    /// The last variable of each name.
    by_name: HashMap<String, usize>,
}

#[derive(Debug)]
struct Variable {
    name: String,
    program: Program,
    /// The earlier variables that the expression uses.
    needs: Vec<usize>,
    /// The height of the expression's tree, including the trees of the variables that it uses.
    height: usize,
    /// The previous variable with the same name.
    hides: Option<usize>,
}

impl PolicyVariables {
    /// Adds a variable.
    pub fn push(&mut self, name: &str, program: Program) {
        let (mut needs, mut height) = (Vec::new(), 0);
        if let Ok(checked) = &program.compiled {
            let (names, own) = checked.names();
            let needed = names
                .into_iter()
                .filter_map(|name| name.strip_prefix("variables."));
            needs = needed
                .filter_map(|name| self.by_name.get(name).copied())
                .collect();
            let below = needs.iter().filter_map(|index| self.list.get(*index));
            let below = below.map(|variable| variable.height).max().unwrap_or(0);
            height = own.saturating_add(below);
        }
        let hides = self.by_name.insert(name.to_owned(), self.list.len());
        self.list.push(Variable {
            name: name.to_owned(),
            program,
            needs,
            height,
            hides,
        });
    }

    /// Returns the last variable with a name among the first `visible` ones.
    fn find(&self, name: &str, visible: usize) -> Option<usize> {
        let mut found = self.by_name.get(name).copied();
        while let Some(index) = found.filter(|index| *index >= visible) {
            found = self.list.get(index)?.hides;
        }
        found
    }
}

/// The values for the expressions of one policy in one request. A variable of the policy is evaluated when it is first
/// read.
#[derive(Debug)]
pub struct Scope<'a> {
    values: Activation<'a>,
    variables: &'a PolicyVariables,
    known: RefCell<HashMap<usize, Result<Value<'a>, Failure>>>,
    /// The number of visible variables: a variable can use only the variables before it.
    visible: Cell<usize>,
    /// The cost of variables that has not been charged yet.
    spent: Cell<u64>,
}

impl<'a> Scope<'a> {
    /// Returns a scope without values for the variables of a policy.
    pub fn new(variables: &'a PolicyVariables) -> Self {
        Self {
            values: Activation::new(),
            variables,
            known: RefCell::default(),
            visible: Cell::new(variables.list.len()),
            spent: Cell::new(0),
        }
    }

    /// Sets a variable to a JSON value.
    pub fn set(&mut self, name: &str, value: Option<&'a Json>) {
        let value = value.map_or(Value::Null, |value| from_json(value, None));
        self.values.insert(name.to_owned(), value);
    }

    /// Sets a variable to a CEL value.
    pub fn set_value(&mut self, name: &str, value: Value<'a>) {
        self.values.insert(name.to_owned(), value);
    }

    /// Returns the value of the last visible variable with a name.
    fn variable(&self, name: &str) -> Option<Result<Value<'a>, Failure>> {
        let index = self.variables.find(name, self.visible.get())?;
        if let Some(known) = self.known.borrow().get(&index) {
            return Some(known.clone());
        }
        if self.spent.get() > BUDGET {
            return Some(Err(Failure::CostLimit));
        }
        let variable = self.variables.list.get(index)?;
        if variable.height > NESTED_HEIGHT_MAX {
            for needed in self.needed(variable) {
                self.evaluate(needed);
            }
        }
        self.evaluate(index)
    }

    /// Returns the variables that a variable uses directly or indirectly and that have no value yet, in their order.
    fn needed(&self, variable: &Variable) -> BTreeSet<usize> {
        let known = self.known.borrow();
        let mut needed = BTreeSet::new();
        let mut open = variable.needs.clone();
        while let Some(index) = open.pop() {
            if known.contains_key(&index) || !needed.insert(index) {
                continue;
            }
            let needs = self.variables.list.get(index).map(|variable| &variable.needs);
            open.extend(needs.into_iter().flatten());
        }
        needed
    }

    fn evaluate(&self, index: usize) -> Option<Result<Value<'a>, Failure>> {
        if self.spent.get() > BUDGET {
            return Some(Err(Failure::CostLimit));
        }
        let Variable { name, program, .. } = self.variables.list.get(index)?;
        let outer = self.visible.replace(index);
        let result = match &program.compiled {
            Ok(checked) => {
                let (result, cost) = evaluate(checked, self, PER_CALL_LIMIT);
                self.spent.set(self.spent.get().saturating_add(cost));
                result.map_err(|failure| {
                    let message = format!("composited variable {name:?} fails to evaluate: {failure}");
                    Failure::Error(message)
                })
            }
            Err(why) => {
                let message = format!("composited variable {name:?} fails to compile: {why}");
                Err(Failure::Error(message))
            }
        };
        self.visible.set(outer);
        self.known.borrow_mut().insert(index, result.clone());
        Some(result)
    }
}

impl<'a> Lookup<'a> for Scope<'a> {
    fn lookup(&self, name: &str) -> Option<Result<Value<'a>, Failure>> {
        match name.strip_prefix("variables.") {
            Some(variable) => self.variable(variable),
            None => self.values.get(name).cloned().map(Ok),
        }
    }
}

/// The match conditions of a policy or a webhook, which must all be true.
#[derive(Clone, Debug, Default)]
pub struct Conditions(Vec<Program>);

impl Conditions {
    /// Parses `matchConditions`.
    pub fn read(parent: &Json, mentions: Mentions) -> Self {
        let list = parent.get("matchConditions").and_then(Json::as_array);
        let list = list.map_or(&[] as &[Json], Vec::as_slice);
        if list.is_empty() {
            return Self::default();
        }
        let environment = Environment::new(mentions);
        let programs = list.iter().map(|condition| {
            let source = apimachinery::object::text(condition, &["expression"]);
            Program::new(&environment, source, Returns::Bool)
        });
        Self(programs.collect())
    }

    /// Returns true if there are no conditions.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if all conditions are true. A condition that is false takes precedence over errors of others.
    ///
    /// # Errors
    /// Returns the errors of the conditions if no condition is false.
    pub fn hold(&self, scope: &Scope<'_>) -> Result<bool, String> {
        let mut budget = CONDITIONS_BUDGET;
        let mut errors = Vec::new();
        for program in &self.0 {
            match program
                .run(scope, &mut budget)
                .map_err(|error| error.to_string())?
            {
                Ok(Value::Bool(true)) => {}
                Ok(_) => return Ok(false),
                Err(why) => errors.push(why),
            }
        }
        match errors.as_slice() {
            [] => Ok(true),
            [only] => Err(only.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }
}
