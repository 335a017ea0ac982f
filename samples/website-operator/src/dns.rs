// SPDX-License-Identifier: Apache-2.0

//! The DNS provider, which is outside the cluster.

use operator_runtime::Result;

/// A DNS provider, which is an external service.
pub trait Dns: Send + Sync + 'static {
    /// Makes `host` the only record of an owner, or removes its record. It must be idempotent.
    ///
    /// # Errors
    /// Returns an error if the provider cannot be reached or rejects the record. The reconcile is retried then.
    fn set(&self, owner: &str, host: Option<&str>) -> impl Future<Output = Result<()>> + Send;
}

/// Logs the records. Replace it with the client of your provider.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogDns;

impl Dns for LogDns {
    async fn set(&self, owner: &str, host: Option<&str>) -> Result<()> {
        tracing::info!(owner, host, "DNS record");
        Ok(())
    }
}
