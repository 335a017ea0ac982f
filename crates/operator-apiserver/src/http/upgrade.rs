//! Connections that change their protocol: WebSockets of watches, and connections to extension API servers.

use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio_util::sync::CancellationToken;

use crate::http::call::{Body, full};
use crate::http::websocket::{self, NORMAL, Reader};

/// The size of the length field before each event of a stream in protobuf.
const LENGTH_BYTES: usize = 4;

/// The protocol after a response with the code 101.
#[derive(Clone, Debug)]
pub(crate) enum Upgrade {
    /// Sends the parts of the body as messages of a WebSocket.
    Events { is_text: bool },
    /// Forwards bytes to and from the extension API server.
    Tunnel(OnUpgrade),
}

/// Returns the response without its body, which is sent later in the new protocol.
pub(crate) fn start(
    response: Response<Body>,
    upgrade: Upgrade,
    client: OnUpgrade,
    drain: CancellationToken,
) -> Response<Body> {
    let (parts, body) = response.into_parts();
    tokio::spawn(async move {
        let done = match upgrade {
            Upgrade::Events { is_text } => match client.await {
                Ok(client) => send_events(client, body, is_text).await,
                Err(error) => Err(std::io::Error::other(error)),
            },
            Upgrade::Tunnel(server) => tokio::select! {
                done = tunnel(client, server, body) => done,
                () = drain.cancelled() => Ok(()),
            },
        };
        if let Err(error) = done {
            tracing::debug!(%error, "upgraded connection failed");
        }
    });
    Response::from_parts(parts, full(Bytes::new()))
}

/// Sends events until the events end or the client disconnects. The body, with the guards of the request, is dropped
/// together with the connection.
async fn send_events(client: Upgraded, mut body: Body, is_text: bool) -> std::io::Result<()> {
    let mut client = TokioIo::new(client);
    let mut reader = Reader::default();
    let mut buffer = [0; 2048];
    loop {
        tokio::select! {
            part = body.frame() => {
                let Some(Ok(part)) = part else { break };
                if let Ok(event) = part.into_data() {
                    // Messages of a WebSocket have their own length.
                    let start = if is_text { 0 } else { LENGTH_BYTES };
                    let event = event.get(start..).unwrap_or_default();
                    client.write_all(&websocket::event(event, is_text)).await?;
                    client.flush().await?;
                }
            }
            count = client.read(&mut buffer) => {
                let count = count?;
                let received = reader.read(buffer.get(..count).unwrap_or_default());
                if !received.replies.is_empty() {
                    client.write_all(&received.replies).await?;
                    client.flush().await?;
                }
                if received.is_over || count == 0 {
                    break;
                }
            }
        }
    }
    client.write_all(&websocket::close(NORMAL)).await?;
    client.shutdown().await
}

/// Forwards bytes in both directions. `guards` is kept until the end.
async fn tunnel(client: OnUpgrade, server: OnUpgrade, guards: Body) -> std::io::Result<()> {
    let client = client.await.map_err(std::io::Error::other)?;
    let server = server.await.map_err(std::io::Error::other)?;
    copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(server)).await?;
    drop(guards);
    Ok(())
}
