//! Validates the expressions that select devices.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use apimachinery::field::{Error, Path};
use kubernetes_cel::ast::describe;
use kubernetes_cel::types::{ObjectType, Type};
use kubernetes_cel::{Variables, check as check_types, parse};

use super::check::Check;

const EXPRESSION_BYTES_MAX: usize = 10 * 1024;

/// The variable `device` and its fields.
static VARIABLES: LazyLock<Variables> = LazyLock::new(|| {
    let by_domain = |value: Type| Type::map(Type::String, Type::map(Type::String, value));
    let fields = BTreeMap::from([
        ("driver".to_owned(), Type::String),
        ("attributes".to_owned(), by_domain(Type::Dyn)),
        (
            "capacity".to_owned(),
            by_domain(Type::Opaque("kubernetes.Quantity")),
        ),
        ("allowMultipleAllocations".to_owned(), Type::Bool),
    ]);
    let name = "kubernetes.DRADevice".to_owned();
    let device = Type::Object(Arc::new(ObjectType { name, fields }));
    Variables::from([("device".to_owned(), device)])
});

/// Checks that an expression about a device returns a boolean.
pub(super) fn expression(check: &mut Check, source: &str, path: &Path) {
    if source.len() > EXPRESSION_BYTES_MAX {
        check
            .errors
            .push(Error::too_long(path.clone(), EXPRESSION_BYTES_MAX));
        return;
    }
    let compiled = parse(source).and_then(|expr| check_types(expr, &VARIABLES));
    let why = match compiled {
        Ok(compiled) if matches!(compiled.result, Type::Bool | Type::Dyn) => return,
        Ok(compiled) => format!(
            "must evaluate to bool or the unknown type, not {}",
            compiled.result
        ),
        Err(issues) => format!("compilation failed: {}", describe(source, &issues)),
    };
    check.invalid(path.clone(), &source.into(), why);
}
