//! The embedded API server and its control plane.

use kube::Client;
use operator_apiserver::{ApiServer, ListenOptions, Listener};
use operator_controlplane::{ControlPlane, Options};
use tokio::sync::OnceCell;

use crate::error::Error;

#[derive(Debug)]
pub(crate) struct Embedded {
    listener: OnceCell<Listener>,
    control_plane: Option<ControlPlane>,
    server: ApiServer,
}

impl Embedded {
    pub(crate) fn start(options: Options) -> Result<Self, Error> {
        let server = ApiServer::builder().build()?;
        Ok(Self {
            listener: OnceCell::new(),
            control_plane: Some(ControlPlane::start(&server.client(), options)),
            server,
        })
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.server.clone(), "default")
    }

    pub(crate) fn server(&self) -> &ApiServer {
        &self.server
    }

    pub(crate) async fn kubeconfig(&self) -> Result<String, Error> {
        let listen = || self.server.listen(ListenOptions::default());
        Ok(self.listener.get_or_try_init(listen).await?.kubeconfig())
    }

    pub(crate) async fn stop(mut self) {
        if let Some(control_plane) = self.control_plane.take() {
            control_plane.shutdown().await;
        }
        if let Some(listener) = self.listener.take() {
            listener.shutdown().await;
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.control_plane.take();
        self.server.shutdown();
    }
}
