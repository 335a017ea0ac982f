//! Expressions run on values, with every step counted against a limit.

use std::collections::{BTreeMap, HashMap};

use super::ast::{Comprehension, Expr, Kind, Literal};
use super::check::Checked;
use super::library;
use super::value::{Key, List, Map, Value};

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A key that is missing, a number that is too large, and the like.
    #[error("{0}")]
    Error(String),
    /// Too many steps.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimit,
}

type Evaluated<'a> = Result<Value<'a>, Failure>;

/// The values of an expression's variables.
pub type Activation<'a> = HashMap<String, Value<'a>>;

/// Where an expression finds its variables: an [`Activation`], or a host that works them out when they are asked for.
pub trait Lookup<'a> {
    /// The value of a variable, or `None` if there is none of that name.
    fn lookup(&self, name: &str) -> Option<Result<Value<'a>, Failure>>;
}

impl<'a> Lookup<'a> for Activation<'a> {
    fn lookup(&self, name: &str) -> Option<Result<Value<'a>, Failure>> {
        self.get(name).cloned().map(Ok)
    }
}

/// Runs an expression: its value, and what it cost.
pub fn evaluate<'a>(checked: &Checked, variables: &dyn Lookup<'a>, limit: u64) -> (Evaluated<'a>, u64) {
    let mut interpreter = Interpreter {
        variables,
        scopes: Vec::new(),
        cost: 0,
        limit,
    };
    let result = interpreter.expr(&checked.expr);
    (result, interpreter.cost)
}

struct Interpreter<'v, 'e, 'a> {
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
        if self.cost > self.limit {
            Err(Failure::CostLimit)
        } else {
            Ok(())
        }
    }

    fn expr(&mut self, expr: &'e Expr) -> Evaluated<'a> {
        match &expr.kind {
            Kind::Literal(literal) => Ok(constant(literal)),
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
            } => self.call(function, target.as_deref(), args),
            Kind::List(items) => self.list(items),
            Kind::Map(entries) => self.map(entries),
            Kind::Struct(name, fields) => self.structure(name, fields),
            Kind::Comprehension(fold) => self.fold(fold),
        }
    }

    fn ident(&mut self, name: &str) -> Evaluated<'a> {
        self.spend(1)?;
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
        self.spend(1)?;
        let found = match &target {
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
            // What has no fields has none of this name: `null`, a number.
            _ => None,
        };
        if test_only {
            return Ok(Value::Bool(
                found.is_some_and(|value| !matches!(value, Value::Null)),
            ));
        }
        found.map_or_else(|| error(format!("no such key: {field}")), Ok)
    }

    fn call(&mut self, function: &'e str, target: Option<&'e Expr>, args: &'e [Expr]) -> Evaluated<'a> {
        match (function, args) {
            ("_&&_", [left, right]) => return self.logical(left, right, false),
            ("_||_", [left, right]) => return self.logical(left, right, true),
            ("_?_:_", [condition, yes, no]) => {
                return match self.expr(condition)? {
                    Value::Bool(true) => self.expr(yes),
                    Value::Bool(false) => self.expr(no),
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
        self.spend(library::cost(function, &values))?;
        library::call(function, &values).map_err(Failure::Error)
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

    /// Either side may fail if the other one decides.
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

    fn list(&mut self, items: &'e [(Expr, bool)]) -> Evaluated<'a> {
        self.spend(10)?;
        let mut values = Vec::with_capacity(items.len());
        for (item, optional) in items {
            match (self.expr(item)?, optional) {
                (Value::Optional(inner), true) => values.extend(inner.map(|inner| *inner)),
                (value, _) => values.push(value),
            }
        }
        Ok(Value::List(List::new(values)))
    }

    fn map(&mut self, entries: &'e [(Expr, Expr, bool)]) -> Evaluated<'a> {
        self.spend(30)?;
        let mut values = BTreeMap::new();
        for (key, value, optional) in entries {
            let key = self.expr(key)?;
            let value = match (self.expr(value)?, optional) {
                (Value::Optional(None), true) => continue,
                (Value::Optional(Some(inner)), true) => *inner,
                (value, _) => value,
            };
            let Some(found) = Key::of(&key) else {
                return error("unsupported key type");
            };
            if values.insert(found, (key, value)).is_some() {
                return error("Failed with repeated key");
            }
        }
        Ok(Value::Map(Map::new(values)))
    }

    fn structure(&mut self, name: &str, fields: &'e [(String, Expr, bool)]) -> Evaluated<'a> {
        self.spend(40)?;
        let mut values = BTreeMap::new();
        for (field, value, optional) in fields {
            let value = match (self.expr(value)?, optional) {
                (Value::Optional(None), true) => continue,
                (Value::Optional(Some(inner)), true) => *inner,
                (value, _) => value,
            };
            let key = Value::text(field.clone());
            values.insert(Key::Text(field.clone()), (key, value));
        }
        Ok(Value::Map(Map::object(name, values)))
    }

    fn fold(&mut self, fold: &'e Comprehension) -> Evaluated<'a> {
        let range = self.expr(&fold.range)?;
        let init = self.expr(&fold.init)?;
        let items: Vec<(Value<'a>, Value<'a>)> = match range {
            Value::List(list) if fold.second.is_none() => {
                list.items().into_iter().map(|item| (item, Value::Null)).collect()
            }
            Value::List(list) => list
                .items()
                .into_iter()
                .enumerate()
                .map(|(index, item)| (Value::Int(i64::try_from(index).unwrap_or(i64::MAX)), item))
                .collect(),
            Value::Map(map) => map.entries(),
            _ => return error("no such overload"),
        };
        let depth = self.scopes.len();
        self.scopes.push((&fold.accumulator, init));
        let result = self.steps(fold, items, depth);
        let result = result.and_then(|()| self.expr(&fold.result));
        self.scopes.truncate(depth);
        result
    }

    fn steps(
        &mut self,
        fold: &'e Comprehension,
        items: Vec<(Value<'a>, Value<'a>)>,
        depth: usize,
    ) -> Result<(), Failure> {
        // An error inside `all` or `exists` may be outweighed by a later item: it is kept until the end.
        let mut pending: Option<Failure> = None;
        let is_logical = matches!(&fold.step.kind, Kind::Call { function, .. } if function == "_&&_" || function == "_||_");
        for (first, second) in items {
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

pub(super) fn constant<'a>(literal: &Literal) -> Value<'a> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(value) => Value::text(value.clone()),
        Literal::Bytes(value) => Value::Bytes(value.as_slice().into()),
    }
}
