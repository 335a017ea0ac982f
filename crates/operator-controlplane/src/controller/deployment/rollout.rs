//! The number of replicas of each ReplicaSet of a Deployment: pure arithmetic.

use std::sync::Arc;

use serde_json::Value;

use crate::controller::deployment::{Rollout, is_recreate, replicas, resize, revision};
use crate::object::Object;
use crate::plan::Action;

/// Returns the number of replicas above the desired number, and the number that may be unavailable.
pub(super) fn bounds(deployment: &Value, wanted: i64) -> (i64, i64) {
    if is_recreate(deployment) {
        return (0, 0);
    }
    let share = |field: &str, up: bool| {
        let value = deployment.pointer(&format!("/spec/strategy/rollingUpdate/{field}"));
        scaled(value.unwrap_or(&Value::Null), wanted, up)
    };
    let surge = share("maxSurge", true);
    let unavailable = share("maxUnavailable", false);
    if surge == 0 && unavailable == 0 {
        return (0, 1);
    }
    (surge, unavailable.min(wanted))
}

/// Converts a number, or a percentage of a total, to a number, rounded up or down and limited to the largest number of
/// replicas. A missing value is 25 %.
pub(crate) fn scaled(value: &Value, total: i64, up: bool) -> i64 {
    unlimited(value, total, up).min(i32::MAX.into())
}

fn unlimited(value: &Value, total: i64, up: bool) -> i64 {
    if let Some(number) = value.as_i64() {
        return number;
    }
    let text = value.as_str().unwrap_or("25%");
    let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
    let product = percent.saturating_mul(total);
    if up {
        product.saturating_add(99) / 100
    } else {
        product / 100
    }
}

/// Returns the maximum total number of replicas; zero if none are desired.
pub(super) fn allowed(rollout: &Rollout<'_>) -> i64 {
    let wanted = rollout.wanted();
    let (surge, _) = bounds(rollout.deployment, wanted);
    if wanted == 0 { 0 } else { wanted + surge }
}

/// Returns the number of replicas that the new ReplicaSet can have now.
pub(super) fn new_replicas(rollout: &Rollout<'_>) -> i64 {
    let wanted = rollout.wanted();
    let now = rollout.new.as_deref().map_or(0, replicas);
    if is_recreate(rollout.deployment) || now >= wanted {
        return wanted;
    }
    let (surge, _) = bounds(rollout.deployment, wanted);
    let total: i64 = rollout.sets().map(|set| replicas(set)).sum();
    let room = (wanted + surge - total).max(0);
    now + room.min(wanted - now)
}

/// Returns the old ReplicaSets to scale down, with their new sizes: first unhealthy replicas, then as many as the
/// availability allows.
pub(super) fn shrink(rollout: &Rollout<'_>) -> Vec<(Arc<Value>, i64)> {
    let total: i64 = rollout.sets().map(|set| replicas(set)).sum();
    let wanted = rollout.wanted();
    let (_, unavailable) = bounds(rollout.deployment, wanted);
    let minimum = wanted - unavailable;
    let new_unavailable = rollout
        .new
        .as_deref()
        .map_or(0, |new| replicas(new) - available(new));
    let room = total - minimum - new_unavailable;
    if room <= 0 {
        return Vec::new();
    }
    let unhealthy = take(rollout, room, |set| replicas(set) - available(set));
    if !unhealthy.is_empty() {
        return unhealthy;
    }
    let spare = rollout.sets().map(|set| available(set)).sum::<i64>() - minimum;
    take(rollout, spare, replicas)
}

fn take(rollout: &Rollout<'_>, mut left: i64, from: impl Fn(&Value) -> i64) -> Vec<(Arc<Value>, i64)> {
    let mut taken = Vec::new();
    for set in &rollout.old {
        let part = from(set).min(left);
        if part > 0 {
            taken.push((set.clone(), replicas(set) - part));
            left -= part;
        }
    }
    taken
}

fn available(set: &Value) -> i64 {
    set.int("/status/availableReplicas").unwrap_or(0)
}

/// Returns true if the desired number of replicas changed since the last reconciliation.
pub(super) fn is_scaled(rollout: &Rollout<'_>) -> bool {
    let mut active = rollout.sets().filter(|set| replicas(set) > 0);
    active.any(|set| revision::desired(set).is_some_and(|desired| desired != rollout.wanted()))
}

/// Applies a change of the number of replicas to the ReplicaSets, without continuing the rollout.
pub(super) fn scale(rollout: &Rollout<'_>) -> Vec<Action> {
    let wanted = rollout.wanted();
    let active: Vec<&Arc<Value>> = rollout.sets().filter(|set| replicas(set) > 0).collect();
    let only = match active.as_slice() {
        [] => rollout.new.as_ref().or(rollout.old.last()),
        [one] => Some(*one),
        _ => None,
    };
    if let Some(only) = only {
        let is_right =
            replicas(only) == wanted && revision::desired(only).is_none_or(|desired| desired == wanted);
        return if is_right {
            Vec::new()
        } else {
            vec![resize(rollout, only, wanted)]
        };
    }
    if rollout
        .new
        .as_deref()
        .is_some_and(|new| is_saturated(new, wanted))
    {
        let old = rollout.old.iter().filter(|set| replicas(set) > 0);
        return old.map(|set| resize(rollout, set, 0)).collect();
    }
    if is_recreate(rollout.deployment) {
        return Vec::new();
    }
    let sizes = proportional(rollout, active);
    let changed = sizes
        .into_iter()
        .filter(|(set, size)| replicas(set) != *size || revision::desired(set) != Some(wanted));
    changed.map(|(set, size)| resize(rollout, &set, size)).collect()
}

fn is_saturated(set: &Value, wanted: i64) -> bool {
    replicas(set) == wanted && revision::desired(set) == Some(wanted) && available(set) == wanted
}

/// Distributes a change over the active ReplicaSets in proportion to their sizes; the largest one gets the remainder.
fn proportional(rollout: &Rollout<'_>, active: Vec<&Arc<Value>>) -> Vec<(Arc<Value>, i64)> {
    let total: i64 = active.iter().map(|set| replicas(set)).sum();
    let change = allowed(rollout) - total;
    let mut sets: Vec<Arc<Value>> = active.into_iter().cloned().collect();
    // Among equal sizes, the youngest is scaled up first, and the oldest is scaled down first; `sets` is sorted by age.
    if change > 0 {
        sets.reverse();
    }
    sets.sort_by_key(|set| std::cmp::Reverse(replicas(set)));
    let mut added = 0;
    let mut sizes: Vec<(Arc<Value>, i64)> = Vec::new();
    for set in sets {
        let part = part(rollout, &set, change, added);
        added += part;
        let size = replicas(&set) + part;
        sizes.push((set, size));
    }
    if let Some((_, first)) = sizes.first_mut() {
        *first = (*first + change - added).max(0);
    }
    sizes
}

fn part(rollout: &Rollout<'_>, set: &Value, change: i64, added: i64) -> i64 {
    if change == 0 || change == added {
        return 0;
    }
    let before = match revision::maximum(set) {
        Some(maximum) if maximum > 0 => maximum,
        _ => rollout.deployment.int("/status/replicas").unwrap_or(0),
    };
    let fraction = if rollout.wanted() == 0 || before <= 0 {
        -replicas(set)
    } else {
        let scaled = replicas(set) * allowed(rollout);
        (2 * scaled + before).div_euclid(2 * before) - replicas(set)
    };
    let left = change - added;
    if change > 0 {
        fraction.min(left)
    } else {
        fraction.max(left)
    }
}
