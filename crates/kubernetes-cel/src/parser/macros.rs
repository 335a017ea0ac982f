//! Expands macros to comprehensions.

use super::Parser;
use crate::ast::{Comprehension, Expr, Kind, Literal};

/// The name of the accumulator, which cannot occur in a source.
pub(crate) const RESULT: &str = "@result";
const UNUSED: &str = "#unused";

impl Parser {
    pub(super) fn macro_or_call(
        &mut self,
        offset: usize,
        function: String,
        target: Option<Expr>,
        args: Vec<Expr>,
    ) -> Expr {
        match (&target, function.as_str(), args.len()) {
            (None, "has", 1) => return self.has(offset, args),
            (Some(_), "all" | "exists" | "exists_one" | "filter", 2) | (Some(_), "map", 2 | 3) => {
                return self.loop_macro(offset, &function, target, args);
            }
            (Some(_), "all" | "exists" | "existsOne" | "exists_one" | "transformList", 3)
            | (Some(_), "transformList" | "transformMap" | "transformMapEntry", 4)
            | (Some(_), "transformMap" | "transformMapEntry", 3) => {
                return self.loop_macro_of_two(offset, &function, target, args);
            }
            (Some(_), "sortBy", 2) => return self.sort_by(offset, target, args),
            (Some(_), "optMap" | "optFlatMap", 2) => {
                return self.optional_macro(offset, &function, target, args);
            }
            _ => {}
        }
        self.new_expr(
            offset,
            Kind::Call {
                function,
                target: target.map(Box::new),
                args,
            },
        )
    }

    fn has(&mut self, offset: usize, args: Vec<Expr>) -> Expr {
        let Some(arg) = args.into_iter().next() else {
            return self.failed();
        };
        match arg.kind {
            Kind::Select { operand, field, .. } => self.new_expr(
                offset,
                Kind::Select {
                    operand,
                    field,
                    test_only: true,
                },
            ),
            _ => {
                self.report(arg.offset, "invalid argument to has() macro".to_owned());
                self.new_expr(offset, Kind::Literal(Literal::Bool(false)))
            }
        }
    }

    fn name(&mut self, expr: &Expr) -> String {
        match &expr.kind {
            Kind::Ident(name) => name.clone(),
            _ => {
                self.report(expr.offset, "argument must be a simple name".to_owned());
                String::new()
            }
        }
    }

    fn ident(&mut self, offset: usize, name: &str) -> Expr {
        self.new_expr(offset, Kind::Ident(name.to_owned()))
    }

    fn constant(&mut self, offset: usize, literal: Literal) -> Expr {
        self.new_expr(offset, Kind::Literal(literal))
    }

    fn append(&mut self, offset: usize, item: Expr) -> Expr {
        let accumulator = self.ident(offset, RESULT);
        let list = self.new_expr(offset, Kind::List(vec![(item, false)]));
        self.call(offset, "_+_", vec![accumulator, list])
    }

    /// Builds `if condition then step else accumulator`.
    fn guarded(&mut self, offset: usize, condition: Option<Expr>, step: Expr) -> Expr {
        let Some(condition) = condition else { return step };
        let accumulator = self.ident(offset, RESULT);
        self.call(offset, "_?_:_", vec![condition, step, accumulator])
    }

    fn loop_macro(&mut self, offset: usize, function: &str, target: Option<Expr>, args: Vec<Expr>) -> Expr {
        let mut args = args.into_iter();
        let (Some(range), Some(variable), Some(first)) = (target, args.next(), args.next()) else {
            return self.failed();
        };
        let variable = self.name(&variable);
        let second = args.next();
        let body = match (function, second) {
            ("map", Some(item)) => Body::Collect(Some(first), item),
            ("map", None) => Body::Collect(None, first),
            ("filter", _) => {
                let item = self.ident(offset, &variable);
                Body::Collect(Some(first), item)
            }
            ("all", _) => Body::All(first),
            ("exists", _) => Body::Exists(first),
            _ => Body::ExistsOne(first),
        };
        self.comprehension(offset, range, variable, None, body)
    }

    fn loop_macro_of_two(
        &mut self,
        offset: usize,
        function: &str,
        target: Option<Expr>,
        args: Vec<Expr>,
    ) -> Expr {
        let mut args = args.into_iter();
        let (Some(range), Some(variable), Some(second), Some(first)) =
            (target, args.next(), args.next(), args.next())
        else {
            return self.failed();
        };
        let (variable, second) = (self.name(&variable), self.name(&second));
        let last = args.next();
        let (filter, value) = match last {
            Some(last) => (Some(first), last),
            None => (None, first),
        };
        let body = match function {
            "all" => Body::All(value),
            "exists" => Body::Exists(value),
            "existsOne" | "exists_one" => Body::ExistsOne(value),
            "transformList" => Body::Collect(filter, value),
            "transformMap" => {
                let key = self.ident(offset, &variable);
                Body::Insert(filter, vec![key, value])
            }
            _ => Body::Insert(filter, vec![value]),
        };
        self.comprehension(offset, range, variable, Some(second), body)
    }

    fn comprehension(
        &mut self,
        offset: usize,
        range: Expr,
        variable: String,
        second: Option<String>,
        body: Body,
    ) -> Expr {
        let accumulator = self.ident(offset, RESULT);
        let mut result = self.ident(offset, RESULT);
        let mut condition = self.constant(offset, Literal::Bool(true));
        let (init, step) = match body {
            Body::All(predicate) => {
                let go_on = self.ident(offset, RESULT);
                condition = self.call(offset, "@not_strictly_false", vec![go_on]);
                let step = self.call(offset, "_&&_", vec![accumulator, predicate]);
                (self.constant(offset, Literal::Bool(true)), step)
            }
            Body::Exists(predicate) => {
                let found = self.ident(offset, RESULT);
                let go_on = self.call(offset, "!_", vec![found]);
                condition = self.call(offset, "@not_strictly_false", vec![go_on]);
                let step = self.call(offset, "_||_", vec![accumulator, predicate]);
                (self.constant(offset, Literal::Bool(false)), step)
            }
            Body::ExistsOne(predicate) => {
                let one = self.constant(offset, Literal::Int(1));
                let more = self.call(offset, "_+_", vec![accumulator, one]);
                let step = self.guarded(offset, Some(predicate), more);
                let one = self.constant(offset, Literal::Int(1));
                result = self.call(offset, "_==_", vec![result, one]);
                (self.constant(offset, Literal::Int(0)), step)
            }
            Body::Collect(filter, item) => {
                let step = self.append(offset, item);
                let step = self.guarded(offset, filter, step);
                (self.new_expr(offset, Kind::List(Vec::new())), step)
            }
            Body::Insert(filter, entry) => {
                let args = std::iter::once(accumulator).chain(entry).collect();
                let step = self.call(offset, "cel.@mapInsert", args);
                let step = self.guarded(offset, filter, step);
                (self.new_expr(offset, Kind::Map(Vec::new())), step)
            }
        };
        let accumulator = RESULT.to_owned();
        let fold = Comprehension {
            variable,
            second,
            range,
            accumulator,
            init,
            condition,
            step,
            result,
        };
        self.new_expr(offset, Kind::Comprehension(Box::new(fold)))
    }

    /// Builds `target.hasValue() ? optional.of(BODY) : optional.none()`, in which the value is bound to the name.
    fn optional_macro(
        &mut self,
        offset: usize,
        function: &str,
        target: Option<Expr>,
        args: Vec<Expr>,
    ) -> Expr {
        let mut args = args.into_iter();
        let (Some(target), Some(variable), Some(body)) = (target, args.next(), args.next()) else {
            return self.failed();
        };
        let variable = self.name(&variable);
        // The target is bound to a name because it is used twice.
        let name = format!("@target{}", self.next_id);
        let method = |parser: &mut Self, function: &str| {
            let target = Some(Box::new(parser.ident(offset, &name)));
            parser.new_expr(
                offset,
                Kind::Call {
                    function: function.to_owned(),
                    target,
                    args: Vec::new(),
                },
            )
        };
        let has_value = method(self, "hasValue");
        let value = method(self, "value");
        let bound = self.bind(offset, variable, value, body);
        let yes = if function == "optMap" {
            self.call(offset, "optional.of", vec![bound])
        } else {
            bound
        };
        let no = self.call(offset, "optional.none", Vec::new());
        let chosen = self.call(offset, "_?_:_", vec![has_value, yes, no]);
        self.bind(offset, name, target, chosen)
    }

    /// Builds `target.sortBy(x, KEY)`. The target is bound to a name, and sorted by the keys that a comprehension over
    /// it computes.
    fn sort_by(&mut self, offset: usize, target: Option<Expr>, args: Vec<Expr>) -> Expr {
        let Some(target) = target else {
            return self.failed();
        };
        if matches!(target.kind, Kind::Literal(_) | Kind::Map(_) | Kind::Struct(..)) {
            let problem =
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            self.report(target.offset, problem.to_owned());
            return self.failed();
        }
        let name = format!("@__sortBy_input__{}", self.next_id);
        let items = self.ident(offset, &name);
        let keys = self.loop_macro(offset, "map", Some(items), args);
        let items = self.ident(offset, &name);
        let sorted = self.new_expr(
            offset,
            Kind::Call {
                function: "@sortByAssociatedKeys".to_owned(),
                target: Some(Box::new(items)),
                args: vec![keys],
            },
        );
        self.bind(offset, name, target, sorted)
    }

    /// Binds `value` to a name in `body`, by a comprehension over an empty range.
    fn bind(&mut self, offset: usize, name: String, value: Expr, body: Expr) -> Expr {
        let fold = Comprehension {
            variable: UNUSED.to_owned(),
            second: None,
            range: self.new_expr(offset, Kind::List(Vec::new())),
            init: value,
            condition: self.constant(offset, Literal::Bool(false)),
            step: self.ident(offset, &name),
            accumulator: name,
            result: body,
        };
        self.new_expr(offset, Kind::Comprehension(Box::new(fold)))
    }
}

/// The step of a comprehension.
enum Body {
    All(Expr),
    Exists(Expr),
    ExistsOne(Expr),
    /// Appends to a list, if the filter is true.
    Collect(Option<Expr>, Expr),
    /// Inserts into a map, if the filter is true: a key and a value, or a map with one entry.
    Insert(Option<Expr>, Vec<Expr>),
}
