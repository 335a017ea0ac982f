//! The Common Expression Language with Kubernetes' libraries: parse, check types, bound the cost, run.
//!
//! [`parse`] makes an [`ast::Expr`], [`check`] gives it types with the variables that the caller declares (of known type
//! or [`types::Type::Dyn`]), [`evaluate`] runs it. [`rule`] is `x-kubernetes-validations`. A [`Host`] brings values with
//! functions of its own, such as an authorizer.

pub mod ast;
pub mod rule;
pub mod types;
pub mod value;

pub(crate) mod cost;
pub(crate) mod declared;

mod check;
mod declaration;
mod eval;
mod lexer;
mod library;
mod literal;
mod parser;
mod work;

pub use check::{Checked, Variables, check};
pub use eval::{Activation, Failure, Lookup, evaluate};
pub use parser::parse;
pub use value::Host;

#[cfg(test)]
mod tests;
