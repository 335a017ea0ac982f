//! Helpers that some operators need: the counterpart of Go's `operator-lib`.
//!
//! * [`prune`] deletes old objects, such as finished Jobs.
//! * [`LeaderForLife`](leader::LeaderForLife) is an election whose leader stays until its pod is gone.
//! * [`OperatorCondition`](operator_condition::OperatorCondition) tells OLM whether the operator can be upgraded.
//! * [`proxy`] passes the proxy variables of the operator on to the containers that it creates.

pub mod leader;
pub mod operator_condition;
pub mod proxy;
pub mod prune;
