//! Several handlers behind one path.

use super::admission::{AdmissionHandler, DynAdmissionHandler};
use super::review::{AdmissionRequest, AdmissionResponse};

/// Asks several handlers one after the other. The first that refuses decides; otherwise their patches are applied in
/// this order, and the warnings and audit annotations of all are passed on.
///
/// Each sees the object as it was sent, not as those before it would have it: what they patch must not overlap.
///
/// ```
/// use operator_runtime::webhook::{AdmissionHandler, AdmissionRequest, AdmissionResponse, Denied, MultiHandler};
///
/// struct Frozen(&'static str);
///
/// impl AdmissionHandler for Frozen {
///     async fn handle(&self, request: AdmissionRequest) -> AdmissionResponse {
///         match request.namespace == self.0 {
///             true => AdmissionResponse::denied(Denied::new("nothing changes here")),
///             false => AdmissionResponse::allowed(),
///         }
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let frozen = MultiHandler::new().and(Frozen("prod")).and(Frozen("audit"));
/// let request: AdmissionRequest = serde_json::from_str(r#"{"uid": "1", "namespace": "audit"}"#).unwrap();
/// assert!(!frozen.handle(request).await.is_allowed());
/// # });
/// ```
#[derive(Default)]
#[must_use = "give it to a `Webhook` or a `WebhookServer`"]
pub struct MultiHandler {
    handlers: Vec<Box<dyn DynAdmissionHandler>>,
}

// === impl MultiHandler ===

impl MultiHandler {
    /// Nobody to ask: every request passes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks this one after those before.
    pub fn and(mut self, handler: impl AdmissionHandler) -> Self {
        self.handlers.push(Box::new(handler));
        self
    }
}

impl AdmissionHandler for MultiHandler {
    async fn handle(&self, request: AdmissionRequest) -> AdmissionResponse {
        let mut all = AdmissionResponse::allowed();
        for handler in &self.handlers {
            let response = handler.handle_boxed(request.clone()).await;
            if !response.is_allowed() {
                return response;
            }
            all.append(response);
        }
        all
    }
}

impl std::fmt::Debug for MultiHandler {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.handlers.len();
        formatter
            .debug_struct("MultiHandler")
            .field("handlers", &count)
            .finish()
    }
}
