//! Validates the request policies of the capacities of devices, which several claims share.

use std::collections::HashSet;

use apimachinery::field::Path;
use apimachinery::quantity::Quantity;
use serde_json::Value;

use super::check::Check;
use super::device::has_room;
use crate::tree::{at, list};

const VALID_VALUES_MAX: usize = 10;

/// The quantities of a policy, with its path.
struct Policy<'a> {
    capacity: &'a Quantity,
    default: &'a Quantity,
    path: &'a Path,
}

/// Validates the policy of a capacity, if it has one.
pub(super) fn request_policy(check: &mut Check, capacity: &Value, path: &Path) {
    let policy = at(capacity, &["requestPolicy"]);
    let path = path.child("requestPolicy");
    let values = list(policy, &["validValues"]);
    let range = at(policy, &["validRange"]);
    let field = match (values.is_empty(), range.is_object()) {
        (false, true) => {
            let why = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time";
            return check.forbidden(path, why);
        }
        (true, false) => return,
        (false, false) => "validValues",
        (true, true) => "validRange",
    };
    let Some(default) = quantity(policy, "default") else {
        return check.required(
            path.child("default"),
            &format!("required when {field} is defined"),
        );
    };
    let policy = Policy {
        capacity: &quantity(capacity, "value").unwrap_or_default(),
        default: &default,
        path: &path.child(field),
    };
    if values.is_empty() {
        policy.check_range(check, range);
    } else {
        let values: Vec<Quantity> = values.iter().flat_map(Quantity::from_json).collect();
        policy.check_values(check, &values);
    }
}

fn quantity(parent: &Value, field: &str) -> Option<Quantity> {
    Quantity::from_json(at(parent, &[field])).ok()
}

fn invalid(check: &mut Check, path: Path, value: &Quantity, why: impl Into<String>) {
    check.invalid(path, &value.to_string().into(), why);
}

impl Policy<'_> {
    fn check_values(&self, check: &mut Check, values: &[Quantity]) {
        for (index, pair) in (1..).zip(values.windows(2)) {
            if let [before, value] = pair
                && value < before
            {
                let why = "values must be sorted in ascending order";
                invalid(check, self.path.index(index), value, why);
            }
        }
        let fits = has_room(check, values, VALID_VALUES_MAX, self.path);
        if fits {
            for (index, value) in values.iter().enumerate() {
                if value > self.capacity {
                    let why = format!("option is larger than capacity value: {}", self.capacity);
                    invalid(check, self.path.index(index), value, why);
                }
            }
            // Equal whole values are duplicates.
            let mut seen = HashSet::new();
            for (index, value) in values.iter().enumerate() {
                let whole = value.scaled_value(0);
                if !seen.insert(whole) {
                    check.duplicate(self.path.index(index), &whole.to_string().into());
                }
            }
        }
        if !fits || !values.contains(self.default) {
            let why = "default value is not valid according to the requestPolicy";
            invalid(check, self.path.clone(), self.default, why);
        }
    }

    fn check_range(&self, check: &mut Check, range: &Value) {
        let (capacity, default) = (self.capacity, self.default);
        let of_min = self.path.child("min");
        let Some(min) = quantity(range, "min") else {
            return check.required(of_min, "required when validRange is defined");
        };
        if min > *capacity {
            let why = format!("min is larger than capacity value: {capacity}");
            invalid(check, of_min.clone(), &min, why);
        }
        if *default < min {
            invalid(check, of_min, default, format!("default is less than min: {min}"));
        }
        let max = quantity(range, "max");
        if let Some(max) = &max {
            let of_max = self.path.child("max");
            if min > *max {
                let why = format!("min is larger than max: {max}");
                invalid(check, of_max.clone(), &min, why);
            }
            if max > capacity {
                let why = format!("max is larger than capacity value: {capacity}");
                invalid(check, of_max.clone(), max, why);
            }
            if default > max {
                invalid(check, of_max, default, format!("default is more than max: {max}"));
            }
        }
        if let Some(step) = quantity(range, "step") {
            self.check_step(check, &min, max.as_ref(), &step);
        }
    }

    fn check_step(&self, check: &mut Check, min: &Quantity, max: Option<&Quantity>, step: &Quantity) {
        let path = self.path.child("step");
        let first = min.plus(step);
        if first > *self.capacity {
            let why = format!(
                "one step {first} is larger than capacity value: {}",
                self.capacity
            );
            invalid(check, path.clone(), step, why);
        }
        for value in [Some(self.default), max].into_iter().flatten() {
            let distance = value.scaled_value(0).wrapping_sub(min.scaled_value(0));
            // A real server panics if the step is zero.
            let rest = distance.checked_rem(step.scaled_value(0));
            if rest.is_some_and(|rest| rest != 0) {
                let why = format!("value is not a multiple of a given step ({step}) from ({min})");
                invalid(check, path.clone(), value, why);
            }
        }
    }
}
