//! `rehome up`: the whole system in one process.

use crate::api;
use crate::cluster::{Cluster, StartError};
use crate::exit::{Exit, Failure};
use crate::failpoints::Hooks;
use anyhow::Context;
use rehome_embedded::OpenError;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Run log, stores, node, router, controller and API in one process, on one folder
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  rehome up\n  rehome up --data /var/lib/rehome --listen 127.0.0.1:9000\n\nEnds cleanly on SIGTERM or SIGINT; after kill -9 it goes on where it was."
)]
pub struct Args {
    /// Folder that holds everything; made if it does not exist
    #[arg(long, default_value = "./rehome-data")]
    data: PathBuf,
    /// Address of the API; port 0 takes any free one
    #[arg(long, default_value = "127.0.0.1:8090")]
    listen: SocketAddr,
}

/// File in the folder that holds the URL of the API.
const ADDRESS: &str = "address";

pub fn run(args: &Args) -> Result<(), Failure> {
    super::log_to_stderr("info");
    let hooks = Hooks::from_environment()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the API's threads")?;
    runtime.block_on(serve(args, hooks))
}

async fn serve(args: &Args, hooks: Hooks) -> Result<(), Failure> {
    // The folder first: a second process on it is told who holds it, not that the port is taken.
    let log = Cluster::take(&args.data).map_err(|error| refused(args, error))?;
    let address_file = args.data.join(ADDRESS);
    // Of whoever held the folder before; there may be none.
    let _ = std::fs::remove_file(&address_file);
    let listener = TcpListener::bind(args.listen).await.map_err(|error| {
        let message = format!("cannot listen on {}: {error}", args.listen);
        Failure::new(Exit::Failed, "listen-failed", message).next("rehome up --listen 127.0.0.1:0")
    })?;
    let address = listener.local_addr().context("the listener has no address")?;
    std::fs::write(&address_file, format!("http://{address}\n")).context("cannot write the address")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let cluster =
        Cluster::start_on(log, &args.data, &address.to_string(), hooks).map_err(|error| refused(args, error))?;
    let cluster = Arc::new(cluster);
    let routes = api::routes(Arc::clone(&cluster), args.data.display().to_string());
    println!("rehome is up on {}, API at http://{address}", args.data.display());
    println!("next: rehome status --server http://{address}");
    let served = tokio::select! {
        served = axum::serve(listener, routes) => served.context("the API has stopped"),
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    };
    tracing::info!("ending");
    // Handlers that still run hold the cluster; it is stopped whatever they hold.
    let stopped = tokio::task::spawn_blocking(move || cluster.stop()).await.context("the end was cut short")?;
    stopped.map_err(|error| Failure::new(Exit::Failed, "stop-failed", error.message))?;
    Ok(served?)
}

fn refused(args: &Args, error: StartError) -> Failure {
    match error {
        StartError::Log(OpenError::Held { .. }) => {
            // Only while the folder is held: whoever takes it removes the address of the one before.
            let address = std::fs::read_to_string(args.data.join(ADDRESS)).unwrap_or_default();
            let (answers, server) = match address.trim() {
                "" => (String::new(), String::new()),
                address => (format!(", which answers at {address}"), format!(" --server {address}")),
            };
            let message = format!("{} is in use: {error}{answers}", args.data.display());
            let failure = Failure::new(Exit::Refused, "data-held", message);
            failure.next(format!("rehome status{server}")).next("rehome up --data OTHER")
        }
        error => Failure::new(Exit::Failed, "start-failed", error.to_string()),
    }
}
