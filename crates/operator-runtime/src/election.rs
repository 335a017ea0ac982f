//! Leader election: of several instances of an operator one acts.
//! It never knows what the leader does.

use futures::future::BoxFuture;

use crate::error::{Error, Result};

/// The right to act, which one of several instances holds at a time.
///
/// The manager calls `acquire`, starts the controllers, calls `keep`, and at the end, when nothing runs any more,
/// `release`. It may drop the future of `acquire` or `keep` at any `await` and call the method again.
pub trait Election: Send + 'static {
    /// Waits until this instance leads.
    fn acquire(&mut self) -> BoxFuture<'_, Result<()>>;

    /// Keeps leading; ends with the reason when leadership is lost. Everything that needs it is aborted then.
    fn keep(&mut self) -> BoxFuture<'_, Error>;

    /// Gives leadership back, so that the next instance need not wait for it to expire.
    fn release(&mut self) -> BoxFuture<'_, ()>;
}
