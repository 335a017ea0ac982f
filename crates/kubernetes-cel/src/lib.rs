//! The Common Expression Language (CEL) with the libraries of Kubernetes, as pure functions.
//!
//! [`parse`] returns an [`ast::Expr`]. [`check`] determines its types, given the variables that the caller declares (of
//! known type or [`types::Type::Dyn`]). [`cost::estimate`] returns an upper bound of its cost, and [`evaluate`]
//! evaluates it. A [`Schema`] determines the types of JSON values in expressions. A [`Host`] provides values with
//! additional functions, such as an authorizer.
//!
//! ```
//! use kubernetes_cel::types::Type;
//! use kubernetes_cel::value::{Value, from_json};
//! use kubernetes_cel::{Activation, Variables, check, evaluate, parse};
//!
//! let expression = parse("self.replicas <= 3").map_err(|_| "syntax error")?;
//! let program = check(expression, &Variables::from([("self".to_owned(), Type::Dyn)])).map_err(|_| "type error")?;
//! let object = serde_json::json!({"replicas": 5});
//! let variables = Activation::from([("self".to_owned(), from_json(&object, None))]);
//! let (result, _cost) = evaluate(&program, &variables, 1_000);
//! assert!(matches!(result, Ok(Value::Bool(false))));
//! # Ok::<(), &str>(())
//! ```

pub mod ast;
pub mod cost;
pub mod declared;
pub mod regexp;
pub mod types;
pub mod value;
pub mod work;

mod check;
mod declaration;
mod eval;
mod lexer;
mod library;
mod literal;
mod parser;
mod schema;
mod semver;

pub use check::{Checked, Variables, check};
pub use eval::{Activation, Failure, Lookup, evaluate, evaluate_with};
pub use literal::plan;
pub use parser::parse;
pub use schema::Schema;
pub use value::Host;

#[cfg(test)]
mod tests;
