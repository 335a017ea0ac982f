//! Sorts the keys of mappings.

use std::cmp::Ordering;

/// Sorts keys as Go's YAML encoder does: letters after other characters, runs of digits by value.
///
/// That order is not transitive, for example for `1`, `1a` and `01a`; the sort of the standard library may panic on it.
pub(super) fn in_order(keys: Vec<&String>) -> Vec<&String> {
    if keys.len() > INSERTION_MAX {
        let mut left = keys;
        let right = left.split_off(left.len() / 2);
        let (left, right) = (in_order(left), in_order(right));
        let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
        return std::iter::from_fn(|| match (left.peek(), right.peek()) {
            (Some(a), Some(b)) if natural(b, a).is_lt() => right.next(),
            (Some(_), _) => left.next(),
            (None, _) => right.next(),
        })
        .collect();
    }
    let mut sorted: Vec<&String> = Vec::with_capacity(keys.len());
    for key in keys {
        let after = sorted.iter().rposition(|before| !natural(key, before).is_lt());
        sorted.insert(after.map_or(0, |after| after + 1), key);
    }
    sorted
}

/// The number of keys up to which Go uses insertion sort.
const INSERTION_MAX: usize = 12;

/// Compares keys: letters after other characters, runs of digits by value.
fn natural(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = a.iter().zip(&b).position(|(a, b)| a != b) else {
        return a.len().cmp(&b.len());
    };
    let (Some(x), Some(y)) = (a.get(at), b.get(at)) else {
        return Ordering::Equal;
    };
    match (x.is_alphabetic(), y.is_alphabetic()) {
        (true, true) => x.cmp(y),
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => number_at(&a, at).cmp(&number_at(&b, at)).then(x.cmp(y)),
    }
}

/// Returns the value and the length of the run of digits at a position. Zeros inside a number count for it.
fn number_at(letters: &[char], at: usize) -> (u128, usize) {
    let before = letters.get(..at).unwrap_or_default();
    let inside = before
        .iter()
        .rev()
        .take_while(|letter| letter.is_ascii_digit())
        .any(|digit| *digit != '0');
    let digits = letters
        .get(at..)
        .unwrap_or_default()
        .iter()
        .map_while(|letter| letter.to_digit(10))
        .take(30);
    digits.fold((u128::from(inside), 0), |(value, length), digit| {
        (
            value.saturating_mul(10).saturating_add(u128::from(digit)),
            length + 1,
        )
    })
}
