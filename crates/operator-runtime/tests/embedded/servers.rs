//! The HTTP servers of a manager: health checks and added servers.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::Response;
use http_body_util::{Full, StreamBody};
use hyper::body::Frame;
use operator_runtime::election::Election;
use operator_runtime::manager::{ManagerOptions, Server, ServerOptions};
use operator_runtime::prelude::*;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};

use crate::support::{Bench, Widget, get, in_time, observe_widgets, probe, run};

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn hello() -> Response<Full<Bytes>> {
    Response::new(Full::new(Bytes::from("hello")))
}

/// An election that the test decides.
struct TestElection(Arc<Notify>);

impl Election for TestElection {
    fn acquire(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            self.0.notified().await;
            Ok(())
        })
    }

    fn keep(&mut self) -> BoxFuture<'_, Error> {
        Box::pin(std::future::pending())
    }

    fn release(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

#[tokio::test]
async fn server_runs_on_every_instance_or_on_the_leader() {
    let (bench, won) = (Bench::without_widgets(), Arc::<Notify>::default());
    let manager = Manager::new(
        "tester",
        ManagerOptions {
            election: Some(Box::new(TestElection(won.clone()))),
            ..ManagerOptions::from(bench.client.clone())
        },
    )
    .await
    .unwrap();
    let (everywhere, address) = listener().await;
    manager
        .add(Server::new(
            "everywhere",
            everywhere,
            ServerOptions::default(),
            |request| async move {
                let path = request.uri().path().to_owned();
                // The body consists of several frames.
                let pieces = ["you asked for ".to_owned(), path]
                    .map(|piece| Ok::<_, Infallible>(Frame::data(Bytes::from(piece))));
                Response::new(StreamBody::new(futures::stream::iter(pieces)))
            },
        ))
        .unwrap();
    let (leader, leader_address) = listener().await;
    let only_when_leader = ServerOptions {
        only_when_leader: true,
        ..ServerOptions::default()
    };
    manager
        .add(Server::new("leader", leader, only_when_leader, |_| async {
            hello()
        }))
        .unwrap();
    let running = run(&manager);
    let (code, text) = get(address, "/report").await;
    assert_eq!(code, 200);
    assert!(
        text.contains("you asked for ") && text.contains("/report"),
        "{text}"
    );
    let early = tokio::time::timeout(Duration::from_millis(50), get(leader_address, "/"));
    assert!(early.await.is_err(), "nobody leads");
    won.notify_one();
    assert_eq!(get(leader_address, "/").await, (200, "hello".to_owned()));
    running.end().await.unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn running_requests_have_the_shutdown_timeout() {
    let bench = Bench::without_widgets();
    for patient in [true, false] {
        let manager = bench.manager().await;
        let (listener, address) = listener().await;
        let (entered, mut inside) = mpsc::unbounded_channel();
        let gate = Arc::<Notify>::default();
        let opened = gate.clone();
        let options = ServerOptions {
            shutdown_timeout: (!patient).then_some(Duration::from_millis(50)),
            ..ServerOptions::default()
        };
        let server = Server::new("slow", listener, options, move |_| {
            let (opened, entered) = (opened.clone(), entered.clone());
            async move {
                let _ = entered.send(());
                opened.notified().await;
                hello()
            }
        });
        manager.add(server).unwrap();
        let running = run(&manager);
        let client = tokio::spawn(async move { get(address, "/").await });
        in_time(inside.recv()).await.unwrap();
        let mut ended = running.stop();
        if patient {
            let early = tokio::time::timeout(Duration::from_millis(200), &mut ended).await;
            assert!(early.is_err(), "the request was cut off");
            gate.notify_one();
            assert_eq!(in_time(client).await.unwrap().1, "hello");
        }
        in_time(ended).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn endpoints_can_be_renamed() {
    let bench = Bench::without_widgets();
    let manager = Manager::new(
        "tester",
        ManagerOptions {
            health_probe_bind_address: "127.0.0.1:0".to_owned(),
            liveness_endpoint: "/probes/live".to_owned(),
            readiness_endpoint: "/probes/ready".to_owned(),
            ..ManagerOptions::from(bench.client.clone())
        },
    )
    .await
    .unwrap();
    manager
        .add_ready_check("database", || async { Err(Error::msg("it is gone")) })
        .unwrap();
    manager.add_health_check("mood", || async { Ok(()) }).unwrap();
    let running = run(&manager);
    assert_eq!(probe(&manager, "/probes/live").await, (200, "ok".to_owned()));
    assert_eq!(probe(&manager, "/probes/live/mood").await.0, 200);
    let (code, text) = probe(&manager, "/probes/ready").await;
    assert_eq!(code, 500);
    assert!(text.contains("[-]database failed: reason withheld\n"), "{text}");
    assert_eq!(probe(&manager, "/probes/ready/database").await.0, 500);
    assert_eq!(probe(&manager, "/healthz").await.0, 404);
    let late = manager.add_health_check("late", || async { Ok(()) }).unwrap_err();
    assert_eq!(
        late.to_string(),
        "unable to add new checker because healthz endpoint has already been created"
    );
    let late = manager.add_ready_check("late", || async { Ok(()) }).unwrap_err();
    assert!(late.to_string().contains("readyz endpoint"), "{late}");
    running.end().await.unwrap();
}

#[tokio::test]
async fn instance_that_does_not_lead_answers_probes_and_fills_its_cache() {
    let bench = Bench::new().await;
    bench.create("a", 1).await;
    let manager = Manager::new(
        "tester",
        ManagerOptions {
            health_probe_bind_address: "127.0.0.1:0".to_owned(),
            metrics_bind_address: "127.0.0.1:0".to_owned(),
            metrics_secure: false,
            election: Some(Box::new(TestElection(Arc::default()))),
            ..ManagerOptions::from(bench.client.clone())
        },
    )
    .await
    .unwrap();
    let mut told = observe_widgets(&manager);
    let running = run(&manager);
    assert_eq!(manager.client().list::<Widget>().await.unwrap().len(), 1);
    assert_eq!(probe(&manager, "/readyz").await.0, 200);
    assert_eq!(get(manager.metrics_address().unwrap(), "/metrics").await.0, 200);
    running.end().await.unwrap();
    assert_eq!(told.unheard(), []);
}
