//! Random plans: schedules, and pairs of faults.

use crate::plan::{Fault, Plan, Schedule};
use crate::single::Single;

/// Maximum number of change points of a schedule.
const CHANGE_POINTS: usize = 2;
/// One of this number of random plans is a schedule, and one is a pair of faults of the whole workload.
const WHOLE: usize = 16;

/// A generator of random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns an index below `length`, or 0 if `length` is 0.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        let length = u64::try_from(length.max(1)).unwrap_or(1);
        usize::try_from(self.next() % length).unwrap_or(0)
    }
}

/// A random plan.
#[derive(Debug, PartialEq)]
pub(crate) enum Combined {
    /// A plan from the first to the last step.
    Whole(Plan),
    /// Two faults that occur in the same part of the workload.
    Pair([Single; 2]),
}

/// The faults that random plans combine.
pub(crate) struct Pool<'a> {
    /// The single faults of all runs.
    pub(crate) singles: &'a [Single],
    /// The single faults that led to new states of the cluster.
    pub(crate) corpus: &'a [Single],
    /// The single faults of the run without faults.
    pub(crate) faults: &'a [Fault],
    /// The number of requests and watch events without faults.
    pub(crate) events: usize,
}

/// Returns a random plan: usually two faults in the same part of the workload, one of which is from a plan that led to new
/// states of the cluster. If the cluster has recovered between two faults, they have been run separately.
pub(crate) fn combined(random: &mut Random, pool: &Pool<'_>) -> Combined {
    match random.index(WHOLE) {
        0 => Combined::Whole(schedule(random, pool.events)),
        1 => Combined::Whole(any_pair(random, pool.faults)),
        _ => match pair(random, pool) {
            Some(pair) => Combined::Pair(pair),
            None => Combined::Whole(schedule(random, pool.events)),
        },
    }
}

fn pair(random: &mut Random, pool: &Pool<'_>) -> Option<[Single; 2]> {
    let first = match pool.corpus.is_empty() || random.index(5) == 0 {
        true => pool.singles,
        false => pool.corpus,
    };
    let first = first.get(random.index(first.len()))?;
    let others = || pool.singles.iter().filter(|other| other.fork == first.fork);
    let second = others().nth(random.index(others().count()))?;
    Some([first.clone(), second.clone()])
}

fn any_pair(random: &mut Random, faults: &[Fault]) -> Plan {
    let picked = [0, 1].map(|_| faults.get(random.index(faults.len())));
    Plan {
        faults: picked.into_iter().flatten().cloned().collect(),
        ..Plan::default()
    }
}

fn schedule(random: &mut Random, events: usize) -> Plan {
    let points = random.index(CHANGE_POINTS + 1);
    let mut change_points: Vec<u32> = (0..points)
        .map(|_| u32::try_from(random.index(events) + 1).unwrap_or(1))
        .collect();
    change_points.sort_unstable();
    change_points.dedup();
    Plan {
        seed: random.next() >> 12,
        schedule: Some(Schedule { change_points }),
        faults: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Action, Point};

    #[test]
    fn combined_plans_are_repeatable() {
        let fault = |step| Fault {
            at: Point::Step { step },
            action: Action::Restart,
        };
        let faults: Vec<Fault> = (1..9).map(fault).collect();
        let single = |(index, fault): (u32, &Fault)| Single {
            fork: (index % 2 == 0).then_some(index % 3),
            fault: fault.clone(),
        };
        let singles: Vec<Single> = (0..).zip(&faults).map(single).collect();
        let pool = Pool {
            singles: &singles,
            corpus: &[],
            faults: &faults,
            events: 40,
        };
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..50).map(|_| combined(&mut random, &pool)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let is_whole = |plan: &&Combined| matches!(plan, Combined::Whole(_));
        assert!((1..25).contains(&draw(1).iter().filter(is_whole).count()));
        let is_split = |plan: &Combined| matches!(plan, Combined::Pair([a, b]) if a.fork != b.fork);
        assert!(!draw(1).iter().any(is_split));
    }
}
