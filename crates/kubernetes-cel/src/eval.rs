//! Evaluates expressions, and limits the number of steps: [`evaluate`].

use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::{Comprehension, Expr, Kind, Literal};
use crate::check::Checked;
use crate::library;
use crate::parser::macros::RESULT;
use crate::value::{Entries, InsertError, List, Map, Value, Walk};
use crate::work::Work;

/// The reason why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// An evaluation error such as a missing key or an overflow.
    #[error("{0}")]
    Error(String),
    /// The cost limit was exceeded.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimit,
}

type Evaluated<'a> = Result<Value<'a>, Failure>;

/// The values of an expression's variables.
pub type Activation<'a> = HashMap<String, Value<'a>>;

/// A source of variables: an [`Activation`], or a host program that computes values on demand.
pub trait Lookup<'a> {
    /// Returns the value of a variable; `None` if it does not exist.
    fn lookup(&self, name: &str) -> Option<Result<Value<'a>, Failure>>;
}

impl<'a> Lookup<'a> for Activation<'a> {
    fn lookup(&self, name: &str) -> Option<Result<Value<'a>, Failure>> {
        self.get(name).cloned().map(Ok)
    }
}

/// Evaluates an expression; returns its value and its cost.
pub fn evaluate<'a>(checked: &Checked, variables: &dyn Lookup<'a>, limit: u64) -> (Evaluated<'a>, u64) {
    evaluate_with(checked, variables, limit, &Work::of_cost(limit))
}

/// Like [`evaluate`], with a work limit that several expressions can share.
pub fn evaluate_with<'a>(
    checked: &Checked,
    variables: &dyn Lookup<'a>,
    limit: u64,
    work: &Work,
) -> (Evaluated<'a>, u64) {
    let mut interpreter = Interpreter {
        checked,
        work,
        variables,
        scopes: Vec::new(),
        cost: 0,
        limit,
    };
    let result = interpreter.expr(&checked.expr);
    (result, interpreter.cost)
}

struct Interpreter<'v, 'e, 'a> {
    checked: &'e Checked,
    work: &'v Work,
    variables: &'v dyn Lookup<'a>,
    scopes: Vec<(&'e str, Value<'a>)>,
    cost: u64,
    limit: u64,
}

fn error<T>(message: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Error(message.into()))
}

impl<'e, 'a> Interpreter<'_, 'e, 'a> {
    fn spend(&mut self, cost: u64) -> Result<(), Failure> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit || self.work.is_exhausted() {
            Err(Failure::CostLimit)
        } else {
            Ok(())
        }
    }

    fn expr(&mut self, expr: &'e Expr) -> Evaluated<'a> {
        if !self.work.spend(1) {
            return Err(Failure::CostLimit);
        }
        match &expr.kind {
            Kind::Literal(literal) => Ok(Value::of(literal)),
            Kind::Ident(name) => self.ident(name),
            Kind::Select {
                operand,
                field,
                test_only,
            } => self.select(operand, field, *test_only),
            Kind::Call {
                function,
                target,
                args,
            } => self.call(expr.id, function, target.as_deref(), args),
            Kind::List(items) => self.list(expr.id, items),
            Kind::Map(entries) => self.map(expr.id, entries),
            Kind::Struct(name, fields) => self.structure(name, fields),
            Kind::Comprehension(fold) => self.fold(fold),
        }
    }

    fn ident(&mut self, name: &str) -> Evaluated<'a> {
        self.spend(1)?;
        self.variable(name)
    }

    fn variable(&mut self, name: &str) -> Evaluated<'a> {
        let local = self
            .scopes
            .iter()
            .rev()
            .find(|(found, _)| *found == name)
            .map(|(_, value)| Ok(value.clone()));
        if let Some(value) = local.or_else(|| self.variables.lookup(name)) {
            return value;
        }
        let name = match name {
            "int" | "uint" | "double" | "string" | "bytes" | "bool" | "list" | "map" | "null_type"
            | "type" | "optional_type" => name.to_owned(),
            _ if name.contains('.') => name.to_owned(),
            _ => return error(format!("no such attribute(s): {name}")),
        };
        Ok(Value::Type(name.into()))
    }

    fn select(&mut self, operand: &'e Expr, field: &str, test_only: bool) -> Evaluated<'a> {
        let target = self.expr(operand)?;
        self.field(&target, field, test_only)
    }

    fn field(&mut self, target: &Value<'a>, field: &str, test_only: bool) -> Evaluated<'a> {
        self.spend(1)?;
        let found = match target {
            Value::Map(map) => map.select(field),
            Value::Optional(inner) => {
                let found = optional_field(inner.as_deref(), field)?;
                let present = found.is_some();
                return Ok(if test_only {
                    Value::Bool(present)
                } else {
                    Value::Optional(found.map(Box::new))
                });
            }
            // A value without fields, such as `null` or a number, does not have this field.
            _ => None,
        };
        if test_only {
            return Ok(Value::Bool(found.is_some()));
        }
        found.map_or_else(|| error(format!("no such key: {field}")), Ok)
    }

    fn call(
        &mut self,
        id: u32,
        function: &'e str,
        target: Option<&'e Expr>,
        args: &'e [Expr],
    ) -> Evaluated<'a> {
        match (function, args) {
            ("_&&_", [left, right]) => return self.logical(left, right, false),
            ("_||_", [left, right]) => return self.logical(left, right, true),
            ("_?_:_", [condition, yes, no]) => {
                return match self.expr(condition)? {
                    Value::Bool(true) => self.branch(yes),
                    Value::Bool(false) => self.branch(no),
                    _ => error("no such overload"),
                };
            }
            ("@not_strictly_false", [arg]) => {
                let value = self.expr(arg);
                return match value {
                    Err(Failure::CostLimit) => value,
                    Ok(Value::Bool(false)) => Ok(Value::Bool(false)),
                    _ => Ok(Value::Bool(true)),
                };
            }
            ("_?._", [operand, name]) => return self.optional_select(operand, name),
            ("_+_" | "cel.@mapInsert", [first, rest @ ..]) if matches!(&first.kind, Kind::Ident(name) if name == RESULT) =>
            {
                return self.accumulate(function, rest);
            }
            ("orValue" | "or", [default]) => {
                if let Some(target) = target {
                    return self.or_value(function, target, default);
                }
            }
            _ => {}
        }
        let mut values = Vec::with_capacity(args.len() + 1);
        for arg in target.into_iter().chain(args) {
            values.push(self.expr(arg)?);
        }
        if self.is_constant(id) {
            return library::call(function, &values, &self.checked.patterns, self.work)
                .map_err(Failure::Error);
        }
        self.library(function, &values)
    }

    fn is_constant(&self, id: u32) -> bool {
        self.checked.constants.contains(&id)
    }

    /// Evaluates a branch of a condition. A variable has no cost there; its fields have their usual cost.
    fn branch(&mut self, expr: &'e Expr) -> Evaluated<'a> {
        match &expr.kind {
            Kind::Ident(name) => self.variable(name),
            Kind::Select {
                operand,
                field,
                test_only: false,
            } => {
                let target = self.branch(operand)?;
                self.field(&target, field, false)
            }
            _ => self.expr(expr),
        }
    }

    fn library(&mut self, function: &str, values: &[Value<'a>]) -> Evaluated<'a> {
        self.spend(library::cost(function, values))?;
        self.work.spend(library::effort(function, values));
        let result = library::call(function, values, &self.checked.patterns, self.work);
        if self.work.is_exhausted() {
            return Err(Failure::CostLimit);
        }
        result.map_err(Failure::Error)
    }

    /// Appends to the result of a comprehension. This is done in place, because the result has no other owner.
    fn accumulate(&mut self, function: &'e str, rest: &'e [Expr]) -> Evaluated<'a> {
        self.spend(1)?;
        let mut values = vec![Value::Null];
        for arg in rest {
            values.push(self.expr(arg)?);
        }
        let slot = self.scopes.iter_mut().rev().find(|(name, _)| *name == RESULT);
        let Some((_, accumulator)) = slot else {
            return error("no such overload");
        };
        let accumulator = std::mem::replace(accumulator, Value::Null);
        match (accumulator, values.as_mut_slice()) {
            (Value::List(List::Owned(mut list)), [_, Value::List(added)])
                if Arc::strong_count(&list) == 1 =>
            {
                self.spend(1)?;
                if !self.work.make(added.len().saturating_mul(size_of::<Value<'_>>())) {
                    return Err(Failure::CostLimit);
                }
                Arc::make_mut(&mut list).extend(added.iter());
                Ok(Value::List(List::Owned(list)))
            }
            (Value::Map(Map::Owned(mut map)), [_, added @ ..]) if Arc::strong_count(&map) == 1 => {
                self.spend(1)?;
                let entries = match added {
                    [key, value] => vec![(key.clone(), value.clone())],
                    [Value::Map(added)] => added.entries(),
                    _ => return error("no such overload"),
                };
                let entry = 4 * size_of::<Value<'_>>();
                if !self.work.make(entries.len().saturating_mul(entry)) {
                    return Err(Failure::CostLimit);
                }
                for (key, value) in entries {
                    let inserted = Arc::make_mut(&mut map).insert(key.clone(), value);
                    inserted.map_err(|why| Failure::Error(library::insert_error(why, &key)))?;
                }
                Ok(Value::Map(Map::Owned(map)))
            }
            (accumulator, values) => {
                if let Some(first) = values.first_mut() {
                    *first = accumulator;
                }
                self.library(function, values)
            }
        }
    }

    fn or_value(&mut self, function: &str, target: &'e Expr, default: &'e Expr) -> Evaluated<'a> {
        let value = self.expr(target)?;
        self.spend(1)?;
        match value {
            Value::Optional(Some(inner)) if function == "orValue" => Ok(*inner),
            Value::Optional(Some(_)) => Ok(value),
            Value::Optional(None) => self.expr(default),
            _ => error("no such overload"),
        }
    }

    /// Evaluates a logical operator. One side may fail if the other side determines the result.
    fn logical(&mut self, left: &'e Expr, right: &'e Expr, decisive: bool) -> Evaluated<'a> {
        let left = self.expr(left);
        match left {
            Err(Failure::CostLimit) => return left,
            Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(decisive)),
            _ => {}
        }
        let right = self.expr(right);
        match (&left, &right) {
            (_, Err(Failure::CostLimit)) => right,
            (_, Ok(Value::Bool(value))) if *value == decisive => Ok(Value::Bool(decisive)),
            (Ok(Value::Bool(_)), Ok(Value::Bool(_))) => Ok(Value::Bool(!decisive)),
            (Err(_), _) => left,
            (_, Err(_)) => right,
            _ => error("no such overload"),
        }
    }

    fn optional_select(&mut self, operand: &'e Expr, name: &'e Expr) -> Evaluated<'a> {
        let target = self.expr(operand)?;
        self.spend(1)?;
        let Kind::Literal(Literal::String(field)) = &name.kind else {
            return error("no such overload");
        };
        let found = match &target {
            Value::Optional(inner) => optional_field(inner.as_deref(), field)?,
            other => optional_field(Some(other), field)?,
        };
        Ok(Value::Optional(found.map(Box::new)))
    }

    fn list(&mut self, id: u32, items: &'e [(Expr, bool)]) -> Evaluated<'a> {
        if !self.is_constant(id) {
            self.spend(10)?;
        }
        let mut values = Vec::with_capacity(items.len());
        for (item, optional) in items {
            match (self.expr(item)?, optional) {
                (Value::Optional(inner), true) => values.extend(inner.map(|inner| *inner)),
                (value, _) => values.push(value),
            }
        }
        Ok(Value::List(List::new(values)))
    }

    fn map(&mut self, id: u32, entries: &'e [(Expr, Expr, bool)]) -> Evaluated<'a> {
        if !self.is_constant(id) {
            self.spend(30)?;
        }
        let mut values = Entries::default();
        for (key, value, optional) in entries {
            let key = self.expr(key)?;
            let value = match (self.expr(value)?, optional) {
                (Value::Optional(None), true) => continue,
                (Value::Optional(Some(inner)), true) => *inner,
                (value, _) => value,
            };
            match values.insert(key, value) {
                Ok(()) => {}
                Err(InsertError::NoKey) => return error("unsupported key type"),
                Err(InsertError::Repeated) => return error("Failed with repeated key"),
            }
        }
        Ok(Value::Map(Map::new(values)))
    }

    fn structure(&mut self, name: &str, fields: &'e [(String, Expr, bool)]) -> Evaluated<'a> {
        self.spend(40)?;
        let mut values = Entries::default();
        for (field, value, optional) in fields {
            let value = match (self.expr(value)?, optional) {
                (Value::Optional(None), true) => continue,
                (Value::Optional(Some(inner)), true) => *inner,
                (value, _) => value,
            };
            // If a field is duplicated, its first value is kept.
            let _ = values.insert(Value::text(field.clone()), value);
        }
        Ok(Value::Map(Map::object(name, values)))
    }

    fn fold(&mut self, fold: &'e Comprehension) -> Evaluated<'a> {
        let range = self.expr(&fold.range)?;
        let init = self.expr(&fold.init)?;
        let items = match range {
            Value::List(list) if fold.second.is_none() => Walk::Items(list, 0),
            Value::List(list) => Walk::Numbered(list, 0),
            Value::Map(map) => Walk::of_map(&map),
            _ => return error("no such overload"),
        };
        let depth = self.scopes.len();
        self.scopes.push((&fold.accumulator, init));
        let result = self.steps(fold, items, depth);
        let result = result.and_then(|()| self.expr(&fold.result));
        self.scopes.truncate(depth);
        result
    }

    fn steps(&mut self, fold: &'e Comprehension, mut items: Walk<'a>, depth: usize) -> Result<(), Failure> {
        // A later item of `all` or `exists` may override an error, so an error is kept until the end.
        let mut pending: Option<Failure> = None;
        let is_logical = matches!(&fold.step.kind, Kind::Call { function, .. } if function == "_&&_" || function == "_||_");
        while let Some((first, second)) = items.next() {
            self.scopes.push((&fold.variable, first));
            if let Some(name) = &fold.second {
                self.scopes.push((name, second));
            }
            let go_on = matches!(self.expr(&fold.condition)?, Value::Bool(true));
            let next = if go_on { Some(self.expr(&fold.step)) } else { None };
            self.scopes.truncate(depth + 1);
            match next {
                None => break,
                Some(Ok(value)) => {
                    if let Some((_, accumulator)) = self.scopes.get_mut(depth) {
                        *accumulator = value;
                    }
                }
                Some(Err(Failure::Error(message))) if is_logical => {
                    pending.get_or_insert(Failure::Error(message));
                }
                Some(Err(failure)) => return Err(failure),
            }
        }
        let Some(failure) = pending else { return Ok(()) };
        let decided = match (&fold.step.kind, self.scopes.get(depth)) {
            (Kind::Call { function, .. }, Some((_, Value::Bool(value)))) => *value == (function == "_||_"),
            _ => false,
        };
        if decided { Ok(()) } else { Err(failure) }
    }
}

fn optional_field<'a>(target: Option<&Value<'a>>, field: &str) -> Result<Option<Value<'a>>, Failure> {
    match target {
        Some(Value::Map(map)) => Ok(map.select(field)),
        _ => Ok(None),
    }
}
