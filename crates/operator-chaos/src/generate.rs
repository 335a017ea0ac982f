//! Random plans: schedules, and pairs of faults.

use crate::plan::{Fault, Plan, Schedule};

/// Maximum number of change points of a schedule.
const CHANGE_POINTS: usize = 2;

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

/// Returns a random plan: a schedule, or two faults, one of which is from a plan that led to new states of the cluster.
/// `events` is the number of requests and watch events without faults.
pub(crate) fn combined(random: &mut Random, singles: &[Fault], corpus: &[Fault], events: usize) -> Plan {
    let seed = random.next() >> 12;
    if singles.is_empty() || random.index(4) == 0 {
        let points = random.index(CHANGE_POINTS + 1);
        let mut change_points: Vec<u32> = (0..points)
            .map(|_| u32::try_from(random.index(events) + 1).unwrap_or(1))
            .collect();
        change_points.sort_unstable();
        change_points.dedup();
        return Plan {
            seed,
            schedule: Some(Schedule { change_points }),
            faults: Vec::new(),
        };
    }
    let pool = if corpus.is_empty() || random.index(5) == 0 {
        singles
    } else {
        corpus
    };
    let picked = [
        pool.get(random.index(pool.len())),
        singles.get(random.index(singles.len())),
    ];
    Plan {
        faults: picked.into_iter().flatten().cloned().collect(),
        ..Plan::default()
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
        let singles: Vec<Fault> = (1..5).map(fault).collect();
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..10)
                .map(|_| combined(&mut random, &singles, &[], 40))
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
