//! The most that an expression can cost, known from the bounds of its variables before it ever runs.

use std::collections::HashMap;

use super::ast::{Comprehension, Expr, Kind, Literal};
use super::check::Checked;
use super::declared::{Declared, Parts};
use super::types::Type;

/// What is known of a part of an expression.
#[derive(Clone, Debug)]
struct Estimate<'d> {
    cost: u64,
    /// The largest size; absent when nothing is known.
    size: Option<u64>,
    /// The schema's view, when the value comes from a variable.
    declared: Option<&'d Declared>,
}

/// The highest cost of an expression.
pub(crate) fn estimate(checked: &Checked, variables: &HashMap<String, &Declared>) -> u64 {
    let mut estimator = Estimator {
        checked,
        variables,
        scopes: Vec::new(),
    };
    estimator.expr(&checked.expr).cost
}

struct Estimator<'c, 'd> {
    checked: &'c Checked,
    variables: &'c HashMap<String, &'d Declared>,
    scopes: Vec<(String, Estimate<'d>)>,
}

fn unknown<'d>(cost: u64) -> Estimate<'d> {
    Estimate {
        cost,
        size: None,
        declared: None,
    }
}

/// A tenth, rounded up.
fn tenth(size: u64) -> u64 {
    size.div_ceil(10)
}

fn is_scalar(kind: &Type) -> bool {
    !matches!(
        kind,
        Type::String
            | Type::Bytes
            | Type::List(_)
            | Type::Map(..)
            | Type::Object(_)
            | Type::Dyn
            | Type::Optional(_)
    )
}

impl<'d> Estimator<'_, 'd> {
    fn expr(&mut self, expr: &Expr) -> Estimate<'d> {
        match &expr.kind {
            Kind::Literal(literal) => Estimate {
                size: Some(literal_size(literal)),
                ..unknown(0)
            },
            Kind::Ident(name) => self.ident(name),
            Kind::Select {
                operand,
                field,
                test_only,
            } => {
                let target = self.expr(operand);
                let cost = target.cost.saturating_add(1);
                let declared = target.declared.and_then(|declared| part(declared, field));
                Estimate {
                    declared: declared.filter(|_| !test_only),
                    ..unknown(cost)
                }
            }
            Kind::Call {
                function,
                target,
                args,
            } => self.call(function, target.as_deref(), args),
            Kind::List(items) => {
                let parts: Vec<Estimate<'d>> = items.iter().map(|(item, _)| self.expr(item)).collect();
                let cost = total(parts.iter().map(|part| part.cost)).saturating_add(10);
                Estimate {
                    size: Some(items.len() as u64),
                    ..unknown(cost)
                }
            }
            Kind::Map(entries) => {
                let mut cost = 30_u64;
                for (key, value, _) in entries {
                    cost = cost
                        .saturating_add(self.expr(key).cost)
                        .saturating_add(self.expr(value).cost);
                }
                Estimate {
                    size: Some(entries.len() as u64),
                    ..unknown(cost)
                }
            }
            Kind::Struct(_, fields) => {
                let parts: Vec<u64> = fields.iter().map(|(_, value, _)| self.expr(value).cost).collect();
                unknown(total(parts.into_iter()).saturating_add(40))
            }
            Kind::Comprehension(fold) => self.fold(fold),
        }
    }

    fn ident(&mut self, name: &str) -> Estimate<'d> {
        if let Some((_, found)) = self.scopes.iter().rev().find(|(found, _)| found == name) {
            return Estimate {
                cost: 1,
                ..found.clone()
            };
        }
        Estimate {
            declared: self.variables.get(name).copied(),
            ..unknown(1)
        }
    }

    fn size(&self, expr: &Expr, found: &Estimate<'d>) -> u64 {
        if let Some(size) = found.size {
            return size;
        }
        let kind = self.checked.type_of(expr);
        if is_scalar(kind) {
            return 1;
        }
        found.declared.map_or(u64::MAX, |declared| declared.max_elements)
    }

    fn call(&mut self, function: &str, target: Option<&Expr>, args: &[Expr]) -> Estimate<'d> {
        let exprs: Vec<&Expr> = target.into_iter().chain(args).collect();
        let parts: Vec<Estimate<'d>> = exprs.iter().map(|expr| self.expr(expr)).collect();
        let base = total(parts.iter().map(|part| part.cost));
        if let ("_?_:_", [condition, yes, no]) = (function, parts.as_slice()) {
            return self.choice(condition, (yes, no), &exprs);
        }
        if matches!(function, "_&&_" | "_||_" | "@not_strictly_false") {
            return unknown(base);
        }
        let sizes: Vec<u64> = exprs
            .iter()
            .zip(&parts)
            .map(|(expr, part)| self.size(expr, part))
            .collect();
        let at = |index: usize| sizes.get(index).copied().unwrap_or(0);
        let kind = exprs
            .first()
            .map_or(&Type::Dyn, |expr| self.checked.type_of(expr));
        let (own, size) = call_cost(function, kind, &at, &parts);
        let declared = match function {
            "_[_]" | "_[?_]" => parts.first().and_then(|part| part.declared).and_then(items_of),
            "_?._" => match args.get(1).map(|arg| &arg.kind) {
                Some(Kind::Literal(Literal::String(field))) => parts
                    .first()
                    .and_then(|target| target.declared)
                    .and_then(|declared| part(declared, field)),
                _ => None,
            },
            "value" | "orValue" | "or" | "optional.of" | "dyn" | "_+_" | "reverse" | "sort" | "distinct"
            | "slice" => parts.first().and_then(|part| part.declared),
            _ => None,
        };
        Estimate {
            cost: base.saturating_add(own),
            size,
            declared,
        }
    }

    fn choice(
        &self,
        condition: &Estimate<'d>,
        (yes, no): (&Estimate<'d>, &Estimate<'d>),
        exprs: &[&Expr],
    ) -> Estimate<'d> {
        let sizes = exprs
            .iter()
            .skip(1)
            .zip([yes, no])
            .map(|(expr, part)| self.size(expr, part));
        Estimate {
            cost: condition.cost.saturating_add(yes.cost.max(no.cost)),
            size: sizes.max().filter(|size| *size != u64::MAX),
            declared: yes.declared.or(no.declared),
        }
    }

    fn fold(&mut self, fold: &Comprehension) -> Estimate<'d> {
        let range = self.expr(&fold.range);
        let init = self.expr(&fold.init);
        let count = self.size(&fold.range, &range);
        let is_map = matches!(self.checked.type_of(&fold.range), Type::Map(..));
        let item = Estimate {
            declared: range.declared.and_then(items_of),
            ..unknown(1)
        };
        let key = if is_map {
            unknown(1)
        } else {
            Estimate {
                size: Some(1),
                ..unknown(1)
            }
        };
        let depth = self.scopes.len();
        let is_bind = fold.variable.starts_with('#');
        let accumulator = Estimate {
            size: if is_bind { init.size } else { Some(count) },
            ..init.clone()
        };
        self.scopes.push((fold.accumulator.clone(), accumulator.clone()));
        match &fold.second {
            Some(second) => {
                self.scopes.push((fold.variable.clone(), key));
                self.scopes.push((second.clone(), item));
            }
            None => self
                .scopes
                .push((fold.variable.clone(), if is_map { key } else { item })),
        }
        let per_item = self
            .expr(&fold.condition)
            .cost
            .saturating_add(self.expr(&fold.step).cost);
        self.scopes.truncate(depth + 1);
        let result = self.expr(&fold.result);
        self.scopes.truncate(depth);
        let cost = total([range.cost, init.cost, result.cost, count.saturating_mul(per_item)].into_iter());
        let is_list = matches!(self.checked.type_of(&fold.init), Type::List(_) | Type::Map(..));
        let size = if is_bind {
            result.size
        } else {
            is_list.then_some(count)
        };
        // What a filter keeps has the items' own bounds.
        let declared = if is_bind { result.declared } else { None };
        Estimate { cost, size, declared }
    }
}

fn total(costs: impl Iterator<Item = u64>) -> u64 {
    costs.fold(0, u64::saturating_add)
}

fn literal_size(literal: &Literal) -> u64 {
    match literal {
        Literal::String(text) => text.chars().count() as u64,
        Literal::Bytes(bytes) => bytes.len() as u64,
        _ => 1,
    }
}

fn part<'d>(declared: &'d Declared, field: &str) -> Option<&'d Declared> {
    match &declared.parts {
        Parts::Fields(fields) => fields.get(field),
        Parts::Items(items) => Some(items),
        Parts::None => None,
    }
}

fn items_of(declared: &Declared) -> Option<&Declared> {
    match &declared.parts {
        Parts::Items(items) => Some(items),
        _ => None,
    }
}

/// What a call adds to the cost of its arguments, and the size of its result.
fn call_cost(
    function: &str,
    kind: &Type,
    size: &dyn Fn(usize) -> u64,
    parts: &[Estimate<'_>],
) -> (u64, Option<u64>) {
    let is_text = matches!(kind, Type::String | Type::Bytes | Type::Dyn);
    let element = || {
        let items = parts.first().and_then(|part| part.declared).and_then(items_of);
        match kind {
            Type::List(item) if is_scalar(item) => 1,
            _ => items.map_or(u64::MAX, |items| items.max_elements),
        }
    };
    match function {
        "matches" | "find" | "findAll" => {
            let cost = tenth(size(0).saturating_add(1)).saturating_mul(size(1).div_ceil(4));
            (cost, (function != "matches").then(|| size(0)))
        }
        "contains" => (tenth(size(0)).saturating_mul(tenth(size(1))), None),
        "startsWith" | "endsWith" => (tenth(size(1)), None),
        "_==_" | "_!=_" => (tenth(size(0).min(size(1))), None),
        "_<_" | "_<=_" | "_>_" | "_>=_" if is_text => (tenth(size(0).min(size(1))), None),
        "_+_" if matches!(kind, Type::String | Type::Bytes) => {
            let sum = size(0).saturating_add(size(1));
            (tenth(sum), Some(sum))
        }
        "_+_" if matches!(kind, Type::List(_)) => (1, Some(size(0).saturating_add(size(1)))),
        "@in" if parts.len() == 2 => (size(1).max(1), None),
        "sets.contains" | "sets.equivalent" | "sets.intersects" => {
            let factor = if function == "sets.equivalent" { 2 } else { 1 };
            (size(0).saturating_mul(size(1)).saturating_mul(factor), None)
        }
        "isSorted" | "sum" | "min" | "max" => (size(0).saturating_mul(tenth(element()).max(1)), None),
        "indexOf" | "lastIndexOf" if matches!(kind, Type::List(_)) => {
            (size(0).saturating_mul(tenth(element()).max(1)), None)
        }
        "indexOf" | "lastIndexOf" => (tenth(size(0)).saturating_mul(tenth(size(1)).max(1)), None),
        "distinct" => (size(0).saturating_mul(size(0)), Some(size(0))),
        "sort" | "reverse" | "slice" => (size(0), Some(size(0))),
        "join" => {
            let sum =
                size(0).saturating_mul(element().saturating_add(if parts.len() > 1 { size(1) } else { 0 }));
            (sum, Some(sum))
        }
        "lowerAscii" | "upperAscii" | "substring" | "trim" => (tenth(size(0)), Some(size(0))),
        "charAt" => (tenth(size(0)), Some(1)),
        "replace" => {
            let largest = size(0).saturating_mul(size(2).max(1));
            (tenth(size(0)).saturating_mul(2), Some(largest))
        }
        "split" => (tenth(size(0)), Some(size(0))),
        "strings.quote" => (tenth(size(0)), Some(size(0).saturating_mul(2).saturating_add(2))),
        "url" | "isURL" | "quantity" | "isQuantity" | "ip" | "isIP" | "ip.isCanonical" | "cidr"
        | "isCIDR" | "semver" | "isSemver" => (tenth(size(0)), None),
        "validate" => (tenth(size(1).min(MAX_VALIDATED)), None),
        "bytes" | "string" if is_text => (tenth(size(0)), Some(size(0))),
        "dyn" | "value" | "optional.of" => (1, parts.first().and_then(|part| part.size)),
        _ => (1, None),
    }
}

/// Formats look at no more of a text.
const MAX_VALIDATED: u64 = 3 << 20;
