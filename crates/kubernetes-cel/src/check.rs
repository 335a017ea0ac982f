//! The type checker: [`check`].

use std::collections::{HashMap, HashSet};

use crate::ast::{Comprehension, Expr, Issue, Kind, Literal, children};
use crate::declaration::{self, Overload};
use crate::literal;
use crate::regexp::Patterns;
use crate::types::Type;

/// The variables of an expression and their types.
///
/// A name may contain dots (`authorizer.requestResource`). A variable of an object type also declares that type, so
/// that expressions can construct it. [`types::Type::Type`] of [`types::Type::Dyn`] declares a family of types, `Name`
/// and `Name.any.field`, whose fields are not checked.
///
/// [`types::Type::Type`]: crate::types::Type::Type
/// [`types::Type::Dyn`]: crate::types::Type::Dyn
pub type Variables = HashMap<String, Type>;

/// A checked expression.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The expression, in which the names of namespaced functions are resolved.
    pub expr: Expr,
    /// The type of the expression.
    pub result: Type,
    types: HashMap<u32, Type>,
    /// The compiled constant patterns.
    pub(crate) patterns: Patterns,
    /// The lists, maps and conversions of constants. The reference implementation evaluates them once, so they have no
    /// run-time cost.
    pub(crate) constants: HashSet<u32>,
}

impl Checked {
    /// Returns the type of a subexpression.
    pub(crate) fn type_of(&self, expr: &Expr) -> &Type {
        self.types.get(&expr.id).unwrap_or(&Type::Dyn)
    }

    /// Returns the names in the expression, including those of its comprehensions, and the height of its tree.
    pub fn names(&self) -> (HashSet<&str>, usize) {
        let (mut names, mut height) = (HashSet::new(), 0);
        let mut open = vec![(&self.expr, 1)];
        while let Some((expr, depth)) = open.pop() {
            height = height.max(depth);
            if let Kind::Ident(name) = &expr.kind {
                names.insert(name.as_str());
            }
            open.extend(children(expr).into_iter().map(|child| (child, depth + 1)));
        }
        (names, height)
    }
}

/// Checks an expression.
pub fn check(mut expr: Expr, variables: &Variables) -> Result<Checked, Vec<Issue>> {
    let mut checker = Checker {
        variables,
        scopes: Vec::new(),
        types: HashMap::new(),
        bindings: Vec::new(),
        bound: Vec::new(),
        issues: Vec::new(),
    };
    let result = checker.expr(&mut expr);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let bindings = std::mem::take(&mut checker.bindings);
    let types = checker
        .types
        .into_iter()
        .map(|(id, found)| (id, resolve(&bindings, &found, true)))
        .collect();
    let mut checked = Checked {
        expr,
        result: resolve(&bindings, &result, true),
        types,
        patterns: Patterns::default(),
        constants: HashSet::new(),
    };
    is_constant(&checked.expr, &mut checked.constants);
    let mut patterns = Patterns::default();
    let issues = literal::validate(&checked.expr, &|expr| checked.type_of(expr), &mut patterns);
    checked.patterns = patterns;
    if issues.is_empty() {
        Ok(checked)
    } else {
        Err(issues)
    }
}

struct Checker<'v> {
    variables: &'v Variables,
    scopes: Vec<(String, Type)>,
    types: HashMap<u32, Type>,
    /// The types that type variables are bound to.
    bindings: Vec<Option<Type>>,
    /// The bound type variables, in the order of their binding.
    bound: Vec<usize>,
    issues: Vec<Issue>,
}

/// The maximum number of parts of a type. Nested maps of maps double a type at each step.
const MAX_PARTS: usize = 500;

/// Replaces type variables by their bindings. With `to_dyn`, unbound variables become `dyn`, and so do the parts of a
/// type that is too large.
fn resolve(bindings: &[Option<Type>], found: &Type, to_dyn: bool) -> Type {
    resolve_within(bindings, found, to_dyn, &mut { 4 * MAX_PARTS })
}

fn resolve_within(bindings: &[Option<Type>], found: &Type, to_dyn: bool, left: &mut usize) -> Type {
    let Some(rest) = left.checked_sub(1) else {
        return Type::Dyn;
    };
    *left = rest;
    let mut resolve =
        |bindings: &[Option<Type>], found: &Type, to_dyn: bool| resolve_within(bindings, found, to_dyn, left);
    match found {
        Type::Var(index) => match bindings.get(*index) {
            Some(Some(bound)) => resolve(bindings, bound, to_dyn),
            _ if to_dyn => Type::Dyn,
            _ => found.clone(),
        },
        Type::List(item) => Type::list(resolve(bindings, item, to_dyn)),
        Type::Map(key, value) => Type::map(resolve(bindings, key, to_dyn), resolve(bindings, value, to_dyn)),
        Type::Optional(inner) => Type::optional(resolve(bindings, inner, to_dyn)),
        Type::Type(inner) => Type::Type(Box::new(resolve(bindings, inner, to_dyn))),
        _ => found.clone(),
    }
}

fn type_name(name: &str) -> Option<Type> {
    let found = match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "null_type" => Type::Null,
        "type" => Type::Type(Box::new(Type::Dyn)),
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "dyn" => Type::Dyn,
        "optional_type" => Type::optional(Type::Dyn),
        "google.protobuf.Timestamp" => Type::Timestamp,
        "google.protobuf.Duration" => Type::Duration,
        "net.IP" => Type::Opaque("net.IP"),
        "net.CIDR" => Type::Opaque("net.CIDR"),
        _ => return None,
    };
    Some(Type::Type(Box::new(found)))
}

impl Checker<'_> {
    fn report(&mut self, expr: &Expr, message: String) -> Type {
        self.issues.push(Issue {
            offset: expr.offset,
            message,
        });
        Type::Error
    }

    fn variable(&self, name: &str) -> Option<Type> {
        let local = self
            .scopes
            .iter()
            .rev()
            .find(|(found, _)| found == name)
            .map(|(_, found)| found);
        local.or_else(|| self.variables.get(name)).cloned()
    }

    fn shown(&self, found: &Type) -> String {
        resolve(&self.bindings, found, false).to_string()
    }

    fn expr(&mut self, expr: &mut Expr) -> Type {
        let mut found = self.expr_type(expr);
        if parts(&found, MAX_PARTS) == 0 {
            found = self.report(expr, "the type of the expression is too large".to_owned());
        }
        self.types.insert(expr.id, found.clone());
        found
    }

    fn expr_type(&mut self, expr: &mut Expr) -> Type {
        match &mut expr.kind {
            Kind::Literal(literal) => literal_type(literal),
            Kind::Ident(name) => {
                let name = name.clone();
                self.variable(&name)
                    .or_else(|| type_name(&name))
                    .unwrap_or_else(|| self.undeclared(expr, &name))
            }
            Kind::Select { .. } => self.select(expr),
            Kind::Call { .. } => self.call(expr),
            Kind::List(_) => self.list(expr),
            Kind::Map(_) => self.map(expr),
            Kind::Struct(..) => self.structure(expr),
            Kind::Comprehension(_) => self.comprehension(expr),
        }
    }

    fn undeclared(&mut self, expr: &Expr, name: &str) -> Type {
        self.report(
            expr,
            format!("undeclared reference to '{name}' (in container '')"),
        )
    }

    fn select(&mut self, expr: &mut Expr) -> Type {
        if let Some(name) = expr.dotted_name() {
            let root = name.split('.').next().unwrap_or("");
            let found = if self.scopes.iter().any(|(local, _)| local == root) {
                None
            } else if let Some(found) = self.variables.get(&name) {
                Some(found.clone())
            } else if self.variables.contains_key(root) {
                None
            } else {
                type_name(&name)
            };
            if let Some(found) = found {
                expr.kind = Kind::Ident(name);
                return found;
            }
        }
        let Kind::Select {
            operand,
            field,
            test_only,
        } = &mut expr.kind
        else {
            return Type::Error;
        };
        let (field, test_only) = (field.clone(), *test_only);
        let target = self.expr(operand);
        let found = self.field(expr, &target, &field, false);
        if test_only { Type::Bool } else { found }
    }

    /// Returns the type of a field; an optional target gives an optional field.
    fn field(&mut self, expr: &Expr, target: &Type, field: &str, optional: bool) -> Type {
        let target = resolve(&self.bindings, target, false);
        let (target, optional) = match &target {
            Type::Optional(inner) => (resolve(&self.bindings, inner, false), true),
            _ => (target, optional),
        };
        let found = match &target {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(object) => match object.fields.get(field) {
                Some(found) => found.clone(),
                None => self.report(expr, format!("undefined field '{field}'")),
            },
            Type::Dyn | Type::Error | Type::Var(_) => Type::Dyn,
            // These types are objects without declared fields.
            Type::Opaque(name) if name.starts_with("kubernetes.") => {
                self.report(expr, format!("unexpected failed resolution of '{name}'"))
            }
            other => self.report(expr, format!("type '{other}' does not support field selection")),
        };
        if optional { Type::optional(found) } else { found }
    }

    fn call(&mut self, expr: &mut Expr) -> Type {
        self.resolve_namespace(expr);
        let Kind::Call {
            function,
            target,
            args,
        } = &mut expr.kind
        else {
            return Type::Error;
        };
        let function = function.clone();
        if function == "_?._" {
            return self.optional_select(expr);
        }
        let has_target = target.is_some();
        let mut types = Vec::new();
        let mut offsets = Vec::new();
        for arg in target.as_deref_mut().into_iter().chain(args.iter_mut()) {
            types.push(self.expr(arg));
            offsets.push(arg.offset);
        }
        if function == "_&&_" || function == "_||_" {
            return self.logical(&types, &offsets);
        }
        let Some(overloads) = declaration::overloads(&function) else {
            return self.undeclared(expr, &function);
        };
        match self.overload(overloads, has_target, &types) {
            Some(result) => result,
            None => {
                let shown: Vec<String> = types
                    .iter()
                    .map(|found| resolve(&self.bindings, found, true).to_string())
                    .collect();
                let applied = match shown.split_first() {
                    Some((receiver, args)) if has_target => format!("{receiver}.({})", args.join(", ")),
                    _ => format!("({})", shown.join(", ")),
                };
                self.report(
                    expr,
                    format!("found no matching overload for '{function}' applied to '{applied}'"),
                )
            }
        }
    }

    /// Resolves a namespaced function: in `sets.contains(a, b)`, `sets` is a namespace and not a variable.
    fn resolve_namespace(&mut self, expr: &mut Expr) {
        let Kind::Call { function, target, .. } = &mut expr.kind else {
            return;
        };
        let Some(name) = target.as_deref().and_then(Expr::dotted_name) else {
            return;
        };
        if self.variable(name.split('.').next().unwrap_or("")).is_some() {
            return;
        }
        let full = format!("{name}.{function}");
        // This library only exists together with the type of its patches.
        if full.starts_with("jsonpatch.") && !self.variables.contains_key("JSONPatch") {
            return;
        }
        if declaration::overloads(&full).is_some() {
            *function = full;
            *target = None;
        }
    }

    fn optional_select(&mut self, expr: &mut Expr) -> Type {
        let Kind::Call { args, .. } = &mut expr.kind else {
            return Type::Error;
        };
        let [operand, name] = args.as_mut_slice() else {
            return Type::Error;
        };
        let target = self.expr(operand);
        self.types.insert(name.id, Type::String);
        let Kind::Literal(Literal::String(field)) = &name.kind else {
            return Type::Error;
        };
        let field = field.clone();
        self.field(expr, &target, &field, true)
    }

    fn logical(&mut self, types: &[Type], offsets: &[usize]) -> Type {
        let mut result = Type::Bool;
        for (found, offset) in types.iter().zip(offsets) {
            if !self.assign(found, &Type::Bool) {
                let message = format!("expected type 'bool' but found '{}'", self.shown(found));
                self.issues.push(Issue {
                    offset: *offset,
                    message,
                });
                result = Type::Error;
            }
        }
        result
    }

    /// Returns the result type of all matching overloads; `dyn` if they differ.
    fn overload(&mut self, overloads: &[Overload], is_member: bool, types: &[Type]) -> Option<Type> {
        let mut result: Option<Type> = None;
        for overload in overloads {
            if overload.is_member != is_member || overload.args.len() != types.len() {
                continue;
            }
            let (bound, variables) = (self.bound.len(), self.bindings.len());
            let mut params = HashMap::new();
            let wanted: Vec<Type> = overload
                .args
                .iter()
                .map(|arg| self.fresh(arg, &mut params))
                .collect();
            if types
                .iter()
                .zip(&wanted)
                .all(|(found, wanted)| self.assign(found, wanted))
            {
                let fresh = self.fresh(&overload.result, &mut params);
                let found = resolve(&self.bindings, &fresh, false);
                result = Some(match result {
                    None => found,
                    Some(previous) if previous == found => found,
                    Some(_) => Type::Dyn,
                });
            } else {
                for index in self.bound.drain(bound..) {
                    if let Some(slot) = self.bindings.get_mut(index) {
                        *slot = None;
                    }
                }
                self.bindings.truncate(variables);
            }
        }
        result
    }

    fn variable_type(&mut self) -> Type {
        self.bindings.push(None);
        Type::Var(self.bindings.len() - 1)
    }

    fn fresh(&mut self, found: &Type, params: &mut HashMap<char, Type>) -> Type {
        match found {
            Type::Param(name) => {
                if let Some(known) = params.get(name) {
                    return known.clone();
                }
                let variable = self.variable_type();
                params.insert(*name, variable.clone());
                variable
            }
            Type::List(item) => Type::list(self.fresh(item, params)),
            Type::Map(key, value) => Type::map(self.fresh(key, params), self.fresh(value, params)),
            Type::Optional(inner) => Type::optional(self.fresh(inner, params)),
            Type::Type(inner) => Type::Type(Box::new(self.fresh(inner, params))),
            _ => found.clone(),
        }
    }

    /// Returns true if a value of type `found` is assignable to `wanted`; binds type variables.
    fn assign(&mut self, found: &Type, wanted: &Type) -> bool {
        let found = resolve(&self.bindings, found, false);
        let wanted = resolve(&self.bindings, wanted, false);
        match (&found, &wanted) {
            (Type::Var(a), Type::Var(b)) if a == b => true,
            (_, Type::Var(index)) => self.bind(*index, &found),
            (Type::Var(index), _) => self.bind(*index, &wanted),
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) => true,
            (Type::Null, other) | (other, Type::Null) => matches!(
                other,
                Type::Null
                    | Type::Object(_)
                    | Type::Duration
                    | Type::Timestamp
                    | Type::Opaque(_)
                    | Type::Optional(_)
            ),
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.assign(a, b),
            (Type::Map(a, x), Type::Map(b, y)) => self.assign(a, b) && self.assign(x, y),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::Object(a), Type::Object(b)) => a == b,
            _ => found == wanted,
        }
    }

    fn bind(&mut self, index: usize, found: &Type) -> bool {
        if occurs(index, found) {
            return false;
        }
        if let Some(slot) = self.bindings.get_mut(index) {
            *slot = Some(found.clone());
            self.bound.push(index);
        }
        true
    }

    /// Joins the types of the items of a list or map; different ones become `dyn`.
    fn join(&mut self, joined: Option<Type>, found: &Type) -> Type {
        match joined {
            None => found.clone(),
            Some(joined) if self.assign(found, &joined) && !found.is_dyn() => joined,
            Some(_) => Type::Dyn,
        }
    }

    fn unwrapped(&mut self, found: Type, optional: bool, expr: &Expr) -> Type {
        if !optional {
            return found;
        }
        match resolve(&self.bindings, &found, false) {
            Type::Optional(inner) => (*inner).clone(),
            Type::Dyn | Type::Error => Type::Dyn,
            other => self.report(
                expr,
                format!("expected type 'optional_type({other})' but found '{other}'"),
            ),
        }
    }

    fn list(&mut self, expr: &mut Expr) -> Type {
        let Kind::List(items) = &mut expr.kind else {
            return Type::Error;
        };
        let mut joined = None;
        for (item, optional) in items {
            let found = self.expr(item);
            let found = self.unwrapped(found, *optional, item);
            joined = Some(self.join(joined, &found));
        }
        let item = joined.unwrap_or_else(|| self.variable_type());
        Type::list(item)
    }

    fn map(&mut self, expr: &mut Expr) -> Type {
        let Kind::Map(entries) = &mut expr.kind else {
            return Type::Error;
        };
        let (mut keys, mut values) = (None, None);
        for (key, value, optional) in entries {
            let found = self.expr(key);
            keys = Some(self.join(keys, &found));
            let found = self.expr(value);
            let found = self.unwrapped(found, *optional, value);
            values = Some(self.join(values, &found));
        }
        let key = keys.unwrap_or_else(|| self.variable_type());
        let value = values.unwrap_or_else(|| self.variable_type());
        Type::map(key, value)
    }

    /// Checks the construction of an object of a known type, or of a type in a family.
    fn structure(&mut self, expr: &mut Expr) -> Type {
        let Kind::Struct(name, fields) = &mut expr.kind else {
            return Type::Error;
        };
        let name = name.clone();
        let root = name.split('.').next().unwrap_or("");
        let declared = |name: &str| match self.variables.get(name) {
            Some(Type::Type(inner)) => Some((**inner).clone()),
            _ => None,
        };
        let known = match declared(&name) {
            Some(known @ Type::Object(_)) => known,
            _ if declared(root) == Some(Type::Dyn) => Type::family(&name),
            _ => return self.undeclared(expr, &name),
        };
        for (field, value, optional) in fields {
            let found = self.expr(value);
            let found = self.unwrapped(found, *optional, value);
            if let Type::Object(object) = &known
                && !object.fields.is_empty()
            {
                match object.fields.get(field) {
                    Some(wanted) => self.must_be_field(&found, wanted, field, value),
                    None => drop(self.report(value, format!("undefined field '{field}'"))),
                }
            }
        }
        known
    }

    fn must_be_field(&mut self, found: &Type, wanted: &Type, field: &str, value: &Expr) {
        if !self.assign(found, wanted) {
            let message = format!(
                "expected type of field '{field}' is '{}' but provided type is '{}'",
                self.shown(wanted),
                self.shown(found)
            );
            self.report(value, message);
        }
    }

    fn comprehension(&mut self, expr: &mut Expr) -> Type {
        let Kind::Comprehension(fold) = &mut expr.kind else {
            return Type::Error;
        };
        let fold: &mut Comprehension = fold;
        let found = self.expr(&mut fold.range);
        let range = resolve(&self.bindings, &found, false);
        let init = self.expr(&mut fold.init);
        let (first, second) = match &range {
            Type::List(item) if fold.second.is_some() => (Type::Int, (**item).clone()),
            Type::List(item) => ((**item).clone(), Type::Dyn),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Var(_) => (Type::Dyn, Type::Dyn),
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                (self.report(&fold.range, message), Type::Error)
            }
        };
        let depth = self.scopes.len();
        self.scopes.push((fold.accumulator.clone(), init.clone()));
        self.scopes.push((fold.variable.clone(), first));
        if let Some(name) = &fold.second {
            self.scopes.push((name.clone(), second));
        }
        let condition = self.expr(&mut fold.condition);
        self.must_be(&condition, &Type::Bool, &fold.condition);
        let step = self.expr(&mut fold.step);
        self.must_be(&step, &init, &fold.step);
        self.scopes.truncate(depth + 1);
        let result = self.expr(&mut fold.result);
        self.scopes.truncate(depth);
        resolve(&self.bindings, &result, false)
    }

    fn must_be(&mut self, found: &Type, wanted: &Type, expr: &Expr) {
        if !self.assign(found, wanted) {
            let message = format!(
                "expected type '{}' but found '{}'",
                self.shown(wanted),
                self.shown(found)
            );
            self.report(expr, message);
        }
    }
}

/// Returns true if an expression is a constant, and collects its constant parts.
fn is_constant(expr: &Expr, found: &mut HashSet<u32>) -> bool {
    let mut parts_are = true;
    for part in children(expr) {
        parts_are &= is_constant(part, found);
    }
    let is = match &expr.kind {
        Kind::Literal(_) => return true,
        Kind::List(items) => parts_are && !items.iter().any(|(_, optional)| *optional),
        Kind::Map(entries) => parts_are && !entries.iter().any(|(.., optional)| *optional),
        Kind::Call { function, args, .. } => {
            parts_are && args.len() == 1 && literal::accepted_by(function).is_some()
        }
        _ => false,
    };
    if is {
        found.insert(expr.id);
    }
    is
}

/// Returns the number of parts that remain after a type was counted.
fn parts(found: &Type, left: usize) -> usize {
    let left = left.saturating_sub(1);
    match found {
        _ if left == 0 => 0,
        Type::List(inner) | Type::Optional(inner) => parts(inner, left),
        Type::Type(inner) => parts(inner, left),
        Type::Map(key, value) => parts(value, parts(key, left)),
        _ => left,
    }
}

fn occurs(index: usize, found: &Type) -> bool {
    match found {
        Type::Var(other) => *other == index,
        Type::List(inner) | Type::Optional(inner) => occurs(index, inner),
        Type::Map(key, value) => occurs(index, key) || occurs(index, value),
        Type::Type(inner) => occurs(index, inner),
        _ => false,
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}
