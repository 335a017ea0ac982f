//! Shortens a sequence of requests that shows a difference.

use super::sequence::Sequence;
use crate::scenario::Ordered;

/// The maximum number of runs of one minimisation.
const RUNS_MAX: usize = 150;

/// Decides whether a shortened sequence still shows the difference.
pub(crate) trait Judge {
    /// Returns true if the sequence still shows the difference.
    fn still_differs(&mut self, sequence: &Sequence) -> impl Future<Output = bool> + Send;
}

/// Removes steps, and then parts of bodies, the largest parts first.
pub(crate) async fn minimise(mut sequence: Sequence, judge: &mut impl Judge) -> Sequence {
    let mut runs = 0;
    let mut index = sequence.steps.len();
    while index > 0 && runs < RUNS_MAX {
        index -= 1;
        let mut shorter = sequence.clone();
        shorter.steps.remove(index);
        runs += 1;
        if judge.still_differs(&shorter).await {
            sequence = shorter;
        }
    }
    for step in 0..sequence.steps.len() {
        let mut place = 0;
        while runs < RUNS_MAX {
            let mut shorter = sequence.clone();
            let Some(body) = shorter.steps[step].body.as_mut() else {
                break;
            };
            let mut left = place;
            if !remove_part(body, &mut left) {
                break;
            }
            runs += 1;
            if judge.still_differs(&shorter).await {
                sequence = shorter;
            } else {
                place += 1;
            }
        }
    }
    sequence
}

/// Removes the part of a tree with a number, counted from the root. Returns false if there are fewer parts.
fn remove_part(tree: &mut Ordered, number: &mut usize) -> bool {
    match tree {
        Ordered::Object(fields) => {
            for index in 0..fields.len() {
                if *number == 0 {
                    fields.remove(index);
                    return true;
                }
                *number -= 1;
                if remove_part(&mut fields[index].1, number) {
                    return true;
                }
            }
            false
        }
        Ordered::Array(items) => {
            for index in 0..items.len() {
                if *number == 0 {
                    items.remove(index);
                    return true;
                }
                *number -= 1;
                if remove_part(&mut items[index], number) {
                    return true;
                }
            }
            false
        }
        Ordered::Scalar(_) => false,
    }
}
