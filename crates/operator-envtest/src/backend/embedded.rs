//! The embedded API server and its control plane.

use kube::Client;
use operator_apiserver::{ApiServer, ListenOptions, Listener};
use operator_controlplane::{ControlPlane, Options, Processes, Program};
use tokio::sync::OnceCell;

use super::binaries::Folder;
use crate::error::Error;

#[derive(Debug)]
pub(crate) struct Embedded {
    listener: OnceCell<Listener>,
    control_plane: Option<ControlPlane>,
    server: ApiServer,
    /// The directory of the pods that run as processes.
    _folder: Option<Folder>,
}

impl Embedded {
    /// Starts the server. Pods with the image of a program run as processes, which need the address of a listener.
    pub(crate) async fn start(mut options: Options, programs: Vec<(String, Program)>) -> Result<Self, Error> {
        let server = ApiServer::builder().build()?;
        let listener = OnceCell::new();
        let mut folder = None;
        if !programs.is_empty() {
            let made = Folder::create()?;
            let listen = || server.listen(ListenOptions::default());
            let processes = Processes::new(&server, listener.get_or_try_init(listen).await?, &made.0);
            for (image, program) in programs {
                processes.add(image, program);
            }
            options.root_ca = listener
                .get()
                .map(|listener| listener.authority().to_owned())
                .unwrap_or_default();
            options.signer = listener.get().map(Listener::certificate_signer);
            options.processes = Some(processes);
            folder = Some(made);
        }
        Ok(Self {
            listener,
            control_plane: Some(ControlPlane::start(&server.client(), options)),
            server,
            _folder: folder,
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
