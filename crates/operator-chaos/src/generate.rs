//! Plans made from a run without faults.

use std::collections::BTreeSet;

use crate::plan::{Action, Fault, Plan, Point};
use crate::trace::{Event, Trace};

/// The maximum number of changes that are missing in stale lists.
const MISSING_MAX: u32 = 8;
/// Reads beyond this occurrence are repetitions.
const READS_MAX: u32 = 4;
/// The largest random delay of a request or a watch event, in milliseconds.
const LATENCY: u64 = 500;

/// A sequence of random numbers (SplitMix64).
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

    /// Returns an index below `length`; 0 if that is 0.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        let length = u64::try_from(length.max(1)).unwrap_or(1);
        usize::try_from(self.next() % length).unwrap_or(0)
    }
}

/// Returns every single fault of a run without faults. Faults of different classes alternate, so that a small budget has some of
/// each.
pub(crate) fn single_faults(reference: &Trace, hold: u32) -> Vec<Fault> {
    let mut classes: [Vec<Fault>; 5] = Default::default();
    let mut lagging: BTreeSet<String> = BTreeSet::new();
    let mut steps = 0;
    let mut has_ended = false;
    for event in reference.iter() {
        match event {
            Event::IdempotenceCheck => has_ended = true,
            _ if has_ended => {}
            Event::Step { .. } => steps += 1,
            Event::Call {
                signature,
                accepts_any_version: true,
                ..
            } if signature.verb() == "list" => {
                lagging.insert(signature.resource().to_owned());
            }
            Event::Call {
                signature,
                occurrence,
                effective,
                ..
            } if signature.verb() != "watch" && (signature.is_write() || *occurrence <= READS_MAX) => {
                let at = Point::Call {
                    call: signature.clone(),
                    occurrence: *occurrence,
                };
                for (class, action) in faults_of_call(signature.verb(), signature.is_write(), *effective) {
                    classes[class].push(Fault {
                        at: at.clone(),
                        action,
                    });
                }
            }
            Event::Delivery {
                signature,
                occurrence,
                ..
            } => {
                let at = Point::Call {
                    call: signature.clone(),
                    occurrence: *occurrence,
                };
                let held = |skip| Action::HoldWatch { seconds: hold, skip };
                let all = [
                    (1, held(false)),
                    (1, held(true)),
                    (4, Action::CutWatch),
                    (4, Action::ExpireWatch),
                ];
                for (class, action) in all {
                    classes[class].push(Fault {
                        at: at.clone(),
                        action,
                    });
                }
            }
            _ => {}
        }
    }
    for step in 1..=steps {
        let at = Point::Step { step };
        classes[0].push(Fault {
            at: at.clone(),
            action: Action::Restart,
        });
        for resource in &lagging {
            for missing in 1..=MISSING_MAX {
                let action = Action::RestartStale {
                    resource: resource.clone(),
                    missing,
                    seconds: hold,
                };
                classes[2].push(Fault {
                    at: at.clone(),
                    action,
                });
            }
        }
    }
    let mut classes = classes.map(Vec::into_iter);
    let mut all = Vec::new();
    loop {
        let before = all.len();
        all.extend(classes.iter_mut().filter_map(Iterator::next));
        if all.len() == before {
            return all;
        }
    }
}

/// Returns the faults of a call with their classes: crashes and lost answers, and errors.
fn faults_of_call(verb: &str, is_write: bool, is_effective: bool) -> Vec<(usize, Action)> {
    if !is_write {
        return vec![(3, Action::Fail(500)), (3, Action::Reset)];
    }
    if !is_effective {
        return vec![(3, Action::Fail(500)), (3, Action::CrashBefore)];
    }
    let mut all = vec![
        (0, Action::CrashAfterCommit),
        (0, Action::CrashAfterResponse),
        (0, Action::CrashBefore),
        (0, Action::ResetAfterCommit),
        (3, Action::FailAfterCommit(504)),
        (3, Action::Fail(500)),
        (3, Action::Fail(429)),
        (3, Action::Fail(503)),
        (3, Action::Reset),
    ];
    if verb != "create" {
        all.push((0, Action::ThirdPartyWrite));
    }
    if verb == "update" {
        all.push((3, Action::Fail(409)));
    }
    all
}

/// Returns a plan beyond the single faults: random delays, or two faults, one of them from a plan that showed new behavior.
pub(crate) fn combined(random: &mut Random, singles: &[Fault], corpus: &[Fault]) -> Plan {
    let seed = random.next() >> 12;
    if singles.is_empty() || random.index(4) == 0 {
        return Plan {
            seed,
            latency_ms: Some(LATENCY),
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
        seed: 0,
        latency_ms: None,
        faults: picked.into_iter().flatten().cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Signature;
    use std::time::Duration;

    #[test]
    fn an_effective_write_gets_every_fault_and_reads_few() {
        let call = |text: &str, effective| Event::Call {
            signature: Signature::new(text),
            occurrence: 1,
            code: 200,
            effective,
            accepts_any_version: false,
        };
        let mut trace = Trace::default();
        trace.push(Duration::ZERO, call("update configmaps default/a", true));
        trace.push(Duration::ZERO, call("get configmaps default/a", false));
        trace.push(
            Duration::ZERO,
            Event::Step {
                number: 1,
                text: String::new(),
            },
        );
        let faults = single_faults(&trace, 30);
        assert_eq!(faults.len(), 11 + 2 + 1);
        assert_eq!(faults[0].action, Action::CrashAfterCommit);
    }

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
                .map(|_| combined(&mut random, &singles, &[]))
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
