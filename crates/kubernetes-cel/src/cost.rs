//! Estimates the maximum cost of an expression from the bounds of its variables: [`estimate`].
//!
//! The model is that of cel-go (`checker/cost.go`) with the functions of Kubernetes
//! (`k8s.io/apiserver/pkg/cel/library/cost.go`). The estimates decide which CRDs are accepted, and are shown to their
//! authors. Therefore all details are kept; for example, a value of unknown origin has the path of `self`.

mod function;
mod size;

use std::collections::HashMap;

use self::size::{Entry, Size};
use crate::ast::{Comprehension, Expr, Kind, Literal};
use crate::check::Checked;
use crate::declared::{Declared, Parts};
use crate::types::Type;

const LIST: u64 = 10;
const MAP: u64 = 30;
const STRUCT: u64 = 40;

/// The origin of a value.
#[derive(Clone, Copy, Debug)]
enum Place<'d> {
    /// The expression creates the value.
    None,
    /// The value has a path that no schema describes.
    Unknown,
    /// The value has a path in the schema.
    At(&'d Declared),
}

/// The known properties of a subexpression.
#[derive(Clone, Debug)]
struct Estimate<'d> {
    cost: u64,
    size: Option<Size>,
    place: Place<'d>,
    entry: Option<Entry>,
}

impl Estimate<'_> {
    /// Returns the bounds of the size; an unknown size is unbounded.
    fn bounds(&self) -> Size {
        self.size.unwrap_or(Size::ANY)
    }
}

/// Returns the maximum cost of an expression whose variables have these bounds.
pub fn estimate(checked: &Checked, variables: &HashMap<String, &Declared>) -> u64 {
    let mut estimator = Estimator {
        checked,
        root: variables.get("self").copied(),
        scopes: Vec::new(),
    };
    estimator.expr(&checked.expr).cost
}

struct Estimator<'c, 'd> {
    checked: &'c Checked,
    /// The bounds of `self`.
    root: Option<&'d Declared>,
    scopes: Vec<(String, Local<'d>)>,
}

/// A variable of a macro.
#[derive(Clone, Debug)]
struct Local<'d> {
    place: Place<'d>,
    size: Option<Size>,
    entry: Option<Entry>,
}

/// Returns true for types of a constant size.
fn is_scalar(kind: &Type) -> bool {
    match kind {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}

impl<'d> Estimator<'_, 'd> {
    fn expr(&mut self, expr: &Expr) -> Estimate<'d> {
        match &expr.kind {
            Kind::Literal(literal) => Estimate {
                cost: 0,
                size: Some(Size::exactly(literal_size(literal))),
                place: Place::None,
                entry: None,
            },
            Kind::Ident(name) => self.ident(expr, name),
            Kind::Select {
                operand,
                field,
                test_only,
            } => self.select(expr, operand, field, *test_only),
            Kind::Call {
                function,
                target,
                args,
            } => self.call(expr, function, target.as_deref(), args),
            Kind::List(items) => {
                let parts: Vec<Estimate<'d>> = items.iter().map(|(item, _)| self.expr(item)).collect();
                let entry = Entry {
                    is_list: true,
                    key: Size::exactly(1),
                    value: union(parts.iter()),
                };
                made(items.len(), LIST, total(&parts), entry)
            }
            Kind::Map(entries) => {
                let (mut keys, mut values) = (Vec::new(), Vec::new());
                for (key, value, _) in entries {
                    keys.push(self.expr(key));
                    values.push(self.expr(value));
                }
                let entry = Entry {
                    is_list: false,
                    key: union(keys.iter()),
                    value: union(values.iter()),
                };
                let cost = total(&keys).saturating_add(total(&values));
                made(entries.len(), MAP, cost, entry)
            }
            Kind::Struct(_, fields) => {
                let parts: Vec<Estimate<'d>> = fields.iter().map(|(_, value, _)| self.expr(value)).collect();
                self.plain(expr, total(&parts).saturating_add(STRUCT))
            }
            Kind::Comprehension(fold) if is_bind(fold) => self.bind(fold),
            Kind::Comprehension(fold) => self.fold(fold),
        }
    }

    /// Returns the estimate of a value with a known type and an unknown size.
    fn plain(&self, expr: &Expr, cost: u64) -> Estimate<'d> {
        self.placed(expr, cost, Place::None)
    }

    /// Returns the estimate of a value at a path. Its size is bounded by the schema at the path, or by its type.
    fn placed(&self, expr: &Expr, cost: u64, place: Place<'d>) -> Estimate<'d> {
        let by_type = || is_scalar(self.checked.type_of(expr)).then(|| Size::exactly(1));
        Estimate {
            cost,
            size: size_at(place).or_else(by_type),
            place,
            entry: None,
        }
    }

    /// Returns the path of `self`, which the model uses for values of unknown origin.
    fn origin(&self) -> Place<'d> {
        self.root.map_or(Place::Unknown, Place::At)
    }

    /// Returns a path inside another path.
    fn inside(&self, place: Place<'d>, step: impl Fn(&'d Declared) -> Option<&'d Declared>) -> Place<'d> {
        match place {
            Place::None => self.origin(),
            Place::Unknown => Place::Unknown,
            Place::At(declared) => step(declared).map_or(Place::Unknown, Place::At),
        }
    }

    fn ident(&self, expr: &Expr, name: &str) -> Estimate<'d> {
        let Some((_, local)) = self.scopes.iter().rev().find(|(found, _)| found == name) else {
            return self.placed(expr, 1, self.origin());
        };
        let found = self.placed(expr, 1, local.place);
        Estimate {
            size: found.size.or(local.size),
            entry: local.entry,
            ..found
        }
    }

    fn select(&mut self, expr: &Expr, operand: &Expr, field: &str, test_only: bool) -> Estimate<'d> {
        let target = self.expr(operand);
        if test_only {
            return self.plain(expr, target.cost);
        }
        let steps = matches!(
            self.checked.type_of(operand),
            Type::Map(..) | Type::Object(_) | Type::Var(_) | Type::Param(_)
        );
        let place = self.inside(target.place, |declared| match &declared.parts {
            Parts::Fields(fields) => fields.get(field),
            _ => None,
        });
        self.placed(expr, target.cost.saturating_add(u64::from(steps)), place)
    }

    fn call(&mut self, expr: &Expr, function: &str, target: Option<&Expr>, args: &[Expr]) -> Estimate<'d> {
        let parts: Vec<Estimate<'d>> = target.into_iter().chain(args).map(|arg| self.expr(arg)).collect();
        let base = total(&parts);
        match (function, parts.as_slice()) {
            ("dyn", [value]) => {
                return Estimate {
                    cost: value.cost.saturating_add(1),
                    place: Place::None,
                    ..value.clone()
                };
            }
            ("_&&_" | "_||_", _) => return self.plain(expr, base),
            ("_?_:_", [condition, yes, no]) => {
                return Estimate {
                    cost: condition.cost.saturating_add(yes.cost.max(no.cost)),
                    size: Some(yes.bounds().union(no.bounds())),
                    place: Place::None,
                    entry: Entry::union(yes.entry, no.entry),
                };
            }
            ("_[_]", [list, _]) => return self.index(expr, list, base),
            _ => {}
        }
        let kinds: Vec<&Type> = target
            .into_iter()
            .chain(args)
            .map(|arg| self.checked.type_of(arg))
            .collect();
        let sizes: Vec<Size> = parts.iter().map(Estimate::bounds).collect();
        let called = function::Call {
            is_member: target.is_some(),
            kinds: &kinds,
            sizes: &sizes,
            elements: parts.first().and_then(|list| element_size(list.place)),
            limit: args.get(1).and_then(literal_integer),
            first: args.first().and_then(literal_integer),
        };
        let (own, size) = function::estimate(function, &called);
        let entry = match (function, parts.as_slice()) {
            ("_+_", [a, b]) => Entry::union(a.entry, b.entry),
            _ => None,
        };
        let found = self.plain(expr, base.saturating_add(own));
        Estimate {
            size: size.or(found.size),
            entry,
            ..found
        }
    }

    fn index(&self, expr: &Expr, list: &Estimate<'d>, base: u64) -> Estimate<'d> {
        let place = self.inside(list.place, items_of);
        let found = self.placed(expr, base.saturating_add(1), place);
        Estimate {
            size: list.entry.map(|entry| entry.value).or(found.size),
            ..found
        }
    }

    /// Returns the variables of a loop over a list or map.
    fn loop_variables(&self, fold: &Comprehension, range: &Estimate<'d>) -> Vec<(String, Local<'d>)> {
        let kind = self.checked.type_of(&fold.range);
        let is_list = range
            .entry
            .map_or(matches!(kind, Type::List(_)), |entry| entry.is_list);
        let value = Local {
            place: self.inside(range.place, items_of),
            size: range.entry.map(|entry| entry.value),
            entry: None,
        };
        let key = Local {
            place: match range.place {
                Place::None => self.origin(),
                _ => Place::Unknown,
            },
            // Keys of a map in the schema count as empty.
            size: match range.place {
                Place::At(_) if !is_list => Some(Size::exactly(0)),
                _ => range.entry.map(|entry| entry.key),
            },
            entry: None,
        };
        match &fold.second {
            Some(second) => vec![(fold.variable.clone(), key), (second.clone(), value)],
            None if is_list => vec![(fold.variable.clone(), value)],
            None => vec![(fold.variable.clone(), key)],
        }
    }

    fn fold(&mut self, fold: &Comprehension) -> Estimate<'d> {
        let range = self.expr(&fold.range);
        let init = self.expr(&fold.init);
        let depth = self.scopes.len();
        self.scopes.push((fold.accumulator.clone(), local(&init)));
        let variables = self.loop_variables(fold, &range);
        self.scopes.extend(variables);
        let condition = self.expr(&fold.condition);
        let step = self.expr(&fold.step);
        self.scopes.truncate(depth + 1);
        let result = self.expr(&fold.result);
        self.scopes.truncate(depth);
        let rounds = range.bounds();
        let per_round = condition.cost.saturating_add(step.cost);
        let cost = [range.cost, init.cost, result.cost]
            .into_iter()
            .fold(rounds.max.saturating_mul(per_round), u64::saturating_add);
        let is_container = matches!(fold.init.kind, Kind::List(_) | Kind::Map(_));
        Estimate {
            cost,
            size: if is_container { Some(rounds) } else { init.size },
            place: Place::None,
            entry: step.entry.filter(|_| is_container),
        }
    }

    fn bind(&mut self, fold: &Comprehension) -> Estimate<'d> {
        let range = self.expr(&fold.range);
        let init = self.expr(&fold.init);
        self.scopes.push((fold.accumulator.clone(), local(&init)));
        let result = self.expr(&fold.result);
        self.scopes.pop();
        Estimate {
            cost: [range.cost, init.cost]
                .into_iter()
                .fold(result.cost, u64::saturating_add),
            place: Place::None,
            ..result
        }
    }
}

/// Returns true for a comprehension over an empty range, which binds a value to a name.
fn is_bind(fold: &Comprehension) -> bool {
    fold.variable.starts_with('#')
}

fn local<'d>(found: &Estimate<'d>) -> Local<'d> {
    Local {
        place: found.place,
        size: found.size,
        entry: found.entry,
    }
}

fn made<'d>(len: usize, own: u64, parts: u64, entry: Entry) -> Estimate<'d> {
    Estimate {
        cost: parts.saturating_add(own),
        size: Some(Size::exactly(len as u64)),
        place: Place::None,
        entry: Some(entry),
    }
}

fn union<'e, 'd: 'e>(parts: impl Iterator<Item = &'e Estimate<'d>>) -> Size {
    parts
        .map(Estimate::bounds)
        .reduce(Size::union)
        .unwrap_or(Size::exactly(0))
}

fn total(parts: &[Estimate<'_>]) -> u64 {
    parts
        .iter()
        .fold(0, |sum: u64, part| sum.saturating_add(part.cost))
}

fn literal_size(literal: &Literal) -> u64 {
    match literal {
        Literal::String(text) => text.chars().count() as u64,
        Literal::Bytes(bytes) => bytes.len() as u64,
        _ => 1,
    }
}

/// Returns a constant; a negative one counts as zero.
fn literal_integer(expr: &Expr) -> Option<u64> {
    match expr.kind {
        Kind::Literal(Literal::Int(value)) => Some(u64::try_from(value).unwrap_or(0)),
        _ => None,
    }
}

/// Returns the size in the schema. Only strings, lists and maps have one; it is zero for other types.
fn size_at(place: Place<'_>) -> Option<Size> {
    let Place::At(declared) = place else { return None };
    let max = match declared.kind {
        Type::Bool | Type::Int | Type::Double | Type::Object(_) => 0,
        _ => declared.max_elements,
    };
    Some(Size { min: 0, max })
}

fn items_of(declared: &Declared) -> Option<&Declared> {
    match &declared.parts {
        Parts::Items(items) => Some(items),
        _ => None,
    }
}

/// Returns the size of the items of a list, if the schema declares it.
fn element_size(place: Place<'_>) -> Option<Size> {
    match place {
        Place::At(declared) => size_at(items_of(declared).map_or(Place::Unknown, Place::At)),
        _ => None,
    }
}
