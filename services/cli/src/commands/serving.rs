//! What every process that serves does alike: its API until somebody ends it, then a clean end.

use crate::api::{self, Stage};
use crate::cluster::Cluster;
use crate::exit::{Exit, Failure};
use crate::notify::{State, tell_manager};
use anyhow::Context;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::timeout;

/// Longest time for requests that are under way at the end. Reason: longer than a cutover holds a write back.
const UNDER_WAY_MAX: Duration = Duration::from_secs(5);
/// Longest time for telling the rest that they are not answered.
const CUT_MAX: Duration = Duration::from_secs(1);
/// Longest time for making stores durable and ending threads. Reason: below what service managers wait; what was
/// acknowledged is in the log, so a later start only takes longer.
const STOP_MAX: Duration = Duration::from_secs(20);

/// The signals that end a process, taken from now on.
pub struct Ends {
    terminate: Signal,
    interrupt: Signal,
}

impl Ends {
    pub fn listen() -> Result<Ends, Failure> {
        let terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
        let interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
        Ok(Ends { terminate, interrupt })
    }

    async fn told(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Runs it on a runtime of its own.
pub fn run<F: Future<Output = Result<(), Failure>>>(serve: impl FnOnce(Handle) -> F) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the API's threads")?;
    let served = runtime.block_on(serve(runtime.handle().clone()));
    // What has not ended in its time is not waited for.
    runtime.shutdown_background();
    served
}

/// Serves the API until a signal comes; then refuses what comes, answers what is under way, and stops the cluster.
pub async fn until_told(
    cluster: Arc<Cluster>,
    listener: TcpListener,
    data: String,
    mut ends: Ends,
    announce: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (stage, stages) = watch::channel(Stage::Serving);
    let routes = api::routes(Arc::clone(&cluster), data, stages.clone());
    let mut ending = stages;
    let end = async move { drop(ending.wait_for(|stage| *stage != Stage::Serving).await) };
    let mut server = tokio::spawn(axum::serve(listener, routes).with_graceful_shutdown(end).into_future());
    announce()?;
    tell_manager(State::Ready);
    let failed = tokio::select! {
        ended = &mut server => ended.context("the API has stopped").and_then(|served| served.context("the API has stopped")).err(),
        () = ends.told() => None,
    };
    tell_manager(State::Stopping);
    tracing::info!("ending");
    if failed.is_none() {
        stage.send_replace(Stage::Refusing);
        if timeout(UNDER_WAY_MAX, &mut server).await.is_err() {
            stage.send_replace(Stage::Cut);
            if timeout(CUT_MAX, &mut server).await.is_err() {
                tracing::warn!("connections are dropped that did not take their answer");
            }
        }
    }
    // Handlers that still run hold the cluster; it is stopped whatever they hold.
    let stopping = tokio::task::spawn_blocking(move || cluster.stop());
    match timeout(STOP_MAX, stopping).await {
        Ok(stopped) => {
            let stopped = stopped.context("the end was cut short")?;
            stopped.map_err(|error| Failure::new(Exit::Failed, "stop_failed", error.message))?;
        }
        Err(_) => tracing::warn!("stores are not durable in time; the next start reads more of the log"),
    }
    failed.map_or(Ok(()), |error| Err(error.into()))
}
