//! Evaluates policies repeatedly until all decisions of authorization webhooks that their expressions request are
//! known, because an expression cannot wait for a webhook.

use super::attributes::Attributes;
use super::mutation::{MutatedObject, Reinvocation};
use super::policy::{Bound, Unconverted, mutating, validating};
use crate::status::Status;

/// The maximum number of evaluations: each may request decisions that depend on the previous ones.
pub(super) const ROUNDS_MAX: usize = 16;

/// Evaluates the validating policies.
pub(super) async fn validate(
    attributes: &Attributes<'_>,
    policies: &[Bound<validating::Checks>],
    unconverted: &Unconverted,
) -> Result<(), Status> {
    let authorizer = &attributes.admission.authorizer;
    if authorizer.has_webhooks() {
        let write = attributes.write;
        for _ in 1..ROUNDS_MAX {
            let before = write.warnings.save();
            let result = validating::validate(attributes, policies, unconverted);
            if !authorizer.fill(&write.decisions).await {
                return result;
            }
            write.warnings.restore(before);
        }
    }
    validating::validate(attributes, policies, unconverted)
}

/// Evaluates the mutating policies.
pub(super) async fn mutate(
    mutated: &mut MutatedObject<'_>,
    policies: &[Bound<mutating::Mutations>],
    unconverted: &Unconverted,
    reinvocation: &mut Reinvocation,
) -> Result<(), Status> {
    let (authorizer, write) = mutated.parts();
    if authorizer.has_webhooks() {
        for _ in 1..ROUNDS_MAX {
            let before = write.warnings.save();
            let (mut changed, mut invoked) = (mutated.clone(), reinvocation.clone());
            let result = mutating::mutate(&mut changed, policies, unconverted, &mut invoked);
            if !authorizer.fill(&write.decisions).await {
                (*mutated, *reinvocation) = (changed, invoked);
                return result;
            }
            write.warnings.restore(before);
        }
    }
    mutating::mutate(mutated, policies, unconverted, reinvocation)
}
