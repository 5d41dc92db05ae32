//! `rehome serve`: some roles of the system in this process, over Kafka.

use super::serving::{self, Ends};
use super::up::value_bytes;
use crate::args::KafkaArgs;
use crate::cluster::{Cluster, NodeRole, Parts, Roles, StartError, Wire};
use crate::exit::{Exit, Failure};
use crate::failpoints::Hooks;
use crate::wire::ServeShape;
use anyhow::Context;
use clap::ValueEnum;
use rehome_kafka::KafkaLog;
use rehome_keyspace::NodeId;
use rehome_router::RouterLimits;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

/// What a process can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Hosts replicas: stores, copies, reads
    Node,
    /// Takes reads and writes of clients
    Router,
    /// Drives moves to their end
    Controller,
}

/// Run some roles of the system in this process; Kafka is the log, and other processes have the rest
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  rehome serve --kafka-brokers 127.0.0.1:9092     # all roles\n  rehome serve --roles node --data /var/lib/rehome --advertise 10.0.0.5:8190 --node-listen 0.0.0.0:8190 --kafka-brokers k1:9092,k2:9092\n  rehome serve --roles router,controller --listen 0.0.0.0:8090 --kafka-brokers k1:9092 --kafka-file kafka.properties\n\nAny number of processes, any mix of roles, started in any order. Nodes find each other in the control log. Several\ncontrollers may run at once: each step counts once, whoever takes it. Ends cleanly on SIGTERM."
)]
pub struct Args {
    /// Roles of this process
    #[arg(long, value_enum, value_delimiter = ',', default_value = "node,router,controller")]
    roles: Vec<Role>,
    #[command(flatten)]
    kafka: KafkaArgs,
    /// Folder of the node: its stores, copies and its number; made if it does not exist
    #[arg(long, default_value = "./rehome-node")]
    data: PathBuf,
    /// Number of the node, for ever; without it a new folder draws one, and a folder keeps its own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    node: Option<u64>,
    /// Address of the API; port 0 takes any free one
    #[arg(long, default_value = "127.0.0.1:8090")]
    listen: SocketAddr,
    /// Address at which other processes reach the node; port 0 takes any free one
    #[arg(long, default_value = "127.0.0.1:8190")]
    node_listen: SocketAddr,
    /// HOST:PORT that other processes are told, where it is not the one of --node-listen
    #[arg(long, value_name = "HOST:PORT")]
    advertise: Option<String>,
    /// Bytes that a value may have, 1KiB to 8MiB. Larger ones that are there already stay, and move
    #[arg(long, default_value = "1MiB", value_name = "BYTES", value_parser = value_bytes)]
    value_bytes_max: usize,
    /// Print one JSON object instead of text, when the API answers
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    super::log_to_stderr("info");
    let hooks = Hooks::from_environment()?;
    serving::run(|runtime| serve(args, hooks, runtime))
}

/// The folder of a node, held as long as this lives.
struct Folder {
    /// The lock ends with it.
    _held: File,
    node: NodeId,
}

async fn serve(args: &Args, hooks: Hooks, runtime: Handle) -> Result<(), Failure> {
    let ends = Ends::listen()?;
    let has = |role| args.roles.contains(&role);
    let folder = has(Role::Node).then(|| Folder::take(&args.data, args.node)).transpose()?;
    let config = args.kafka.config()?;
    let listener = listen(args.listen, "--listen").await?;
    let address = listener.local_addr().context("the listener has no address")?;
    let (node, incoming) = match &folder {
        None => (None, None),
        Some(folder) => {
            let incoming = listen(args.node_listen, "--node-listen").await?;
            let bound = incoming.local_addr().context("the listener has no address")?;
            let address = advertised(args, bound)?;
            (Some(NodeRole { id: folder.node, address }), Some(incoming))
        }
    };
    let limits = RouterLimits { value_bytes_max: args.value_bytes_max, ..RouterLimits::STANDARD };
    let roles =
        Roles { node: node.clone(), router: has(Role::Router).then_some(limits), controller: has(Role::Controller) };
    let (dir, serving) = (args.data.clone(), runtime.clone());
    let start = move || {
        let log = KafkaLog::open(config).map_err(|error| Failure::usage(error.to_string()))?;
        let wire = Wire::new(
            runtime,
            Box::new(move |service| {
                let Some(incoming) = incoming else { return };
                let serve = Server::builder()
                    .tcp_nodelay(true)
                    .add_service(service.into_service())
                    .serve_with_incoming(TcpIncoming::from(incoming).with_nodelay(Some(true)));
                serving.spawn(async move {
                    if let Err(error) = serve.await {
                        tracing::error!(%error, "the node's service has ended; other processes cannot reach it");
                    }
                });
            }),
        );
        let parts = Parts {
            log,
            close_log: Box::new(|| Ok(())),
            before_flush: None,
            dir: &dir,
            roles,
            hooks,
            wire: Some(wire),
        };
        Cluster::start_parts(parts).map_err(|error| refused(&error))
    };
    let starting = tokio::task::spawn_blocking(start).await;
    let cluster = Arc::new(starting.context("the start was cut short")??);
    let data = if folder.is_some() { args.data.display().to_string() } else { String::new() };
    serving::until_told(cluster, listener, data, ends, || announce(args, address, node.as_ref())).await?;
    drop(folder);
    Ok(())
}

async fn listen(address: SocketAddr, flag: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let message = format!("cannot listen on {address}: {error}");
        Failure::new(Exit::Failed, "listen_failed", message)
            .next(super::command_again(&[flag, &SocketAddr::new(address.ip(), 0).to_string()]))
    })
}

/// Returns the address that other processes are told.
fn advertised(args: &Args, bound: SocketAddr) -> Result<String, Failure> {
    match &args.advertise {
        Some(address) if is_host_and_port(address) => Ok(address.clone()),
        Some(address) => Err(Failure::usage(format!("--advertise {address} is no HOST:PORT"))),
        None if bound.ip().is_unspecified() => {
            let message =
                format!("other processes cannot reach a node at {bound}: say with --advertise HOST:PORT where");
            Err(Failure::usage(message).next(super::command_again(&["--advertise", &format!("HOST:{}", bound.port())])))
        }
        None => Ok(bound.to_string()),
    }
}

fn is_host_and_port(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0))
}

/// File in the folder that holds the node's number; locked as long as a process runs on the folder.
const NODE_FILE: &str = "node";

impl Folder {
    fn take(dir: &Path, asked: Option<u64>) -> Result<Folder, Failure> {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let path = dir.join(NODE_FILE);
        let shown = path.display();
        let mut file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
        let file =
            file.as_mut().map_err(|error| Failure::new(Exit::Failed, "data_unusable", format!("{shown}: {error}")))?;
        let held = file.try_clone().with_context(|| format!("cannot hold {shown}"))?;
        match held.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let message = format!("{} is in use by another process", dir.display());
                let next = super::command_again(&["--data", "OTHER"]);
                return Err(Failure::new(Exit::Refused, "data_held", message).next(next));
            }
            Err(TryLockError::Error(error)) => return Err(anyhow::anyhow!("cannot hold {shown}: {error}").into()),
        }
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {shown}"))?;
        let known = match text.trim() {
            "" => None,
            text => Some(text.parse::<u64>().with_context(|| format!("{shown} holds no number of a node: {text:?}"))?),
        };
        let node = match (known, asked) {
            (Some(known), Some(asked)) if known != asked => {
                let message = format!("{} is the folder of node {known}, not of {asked}", dir.display());
                return Err(Failure::new(Exit::Refused, "other_node", message).next("rehome serve --data OTHER"));
            }
            (Some(known), _) => known,
            (None, asked) => {
                // A number that people can tell and type; two of a few hundred nodes are alike once in 100,000.
                let number = asked.unwrap_or_else(|| u64::from(rand::random::<u32>().max(1)));
                write_whole(&path, &format!("{number}\n")).with_context(|| format!("cannot write {shown}"))?;
                number
            }
        };
        Ok(Folder { _held: held, node: NodeId(node) })
    }
}

/// Writes in place, since the file is locked; a crash leaves it empty or whole, being shorter than a block.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Err(ErrorKind::NotFound.into()),
    }
}

fn announce(args: &Args, address: SocketAddr, node: Option<&NodeRole>) -> Result<(), Failure> {
    let server = format!("http://{address}");
    let shape = ServeShape {
        pid: std::process::id(),
        roles: args.roles.iter().filter_map(|role| Some(role.to_possible_value()?.get_name().to_owned())).collect(),
        node: node.map(|node| node.id.0),
        node_address: node.map(|node| node.address.clone()),
        next_steps: vec![format!("rehome status --server {server}")],
        server,
    };
    let text = if args.json {
        serde_json::to_string(&shape).context("the address is no JSON")?
    } else {
        let node = shape.node.map_or_else(String::new, |node| {
            format!(" (node {node} at {})", shape.node_address.as_deref().unwrap_or_default())
        });
        format!(
            "rehome serves {}{node}, API at {}\nnext: {}",
            shape.roles.join(", "),
            shape.server,
            shape.next_steps.join("\nnext: ")
        )
    };
    let mut out = std::io::stdout().lock();
    // Nobody may be listening.
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
    Ok(())
}

fn refused(error: &StartError) -> Failure {
    Failure::new(Exit::Failed, "start_failed", error.to_string())
        .next("look whether the brokers answer at --kafka-brokers, then start it again")
}
