//! Where a demo runs: everything in this process on an embedded log, or over Kafka, with the nodes in processes of their own.

use crate::cluster::{Cluster, Parts, Roles, Wire};
use crate::failpoints::Hooks;
use crate::over_kafka::{OverKafka, topics};
use anyhow::{Context, ensure};
use rehome_keyspace::{KeyspaceId, NodeId, ShardId};
use rehome_ports::{Signal, Store};
use rehome_rocks::RocksNode;
use rehome_router::RouterLimits;
use rustix::process::{Pid, Signal as Told, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Processes that are nodes.
const NODES: usize = 2;
/// Longest time until a node is known to the others.
const REGISTER_MAX: Duration = Duration::from_secs(60);

/// A running system.
pub struct Place {
    cluster: Arc<Cluster>,
    apart: Option<Apart>,
}

/// What runs beside the router and the controller of this process.
struct Apart {
    nodes: Vec<NodeProcess>,
    broker: OverKafka,
    /// Held: streams to the nodes run on it.
    _runtime: Runtime,
}

impl Place {
    /// Starts everything in this process, on that folder.
    pub fn here(dir: &Path) -> anyhow::Result<Place> {
        Ok(Place { cluster: Arc::new(Cluster::start(dir, "in-process", Hooks::default())?), apart: None })
    }

    /// Starts router and controller in this process and nodes in others, each on a folder in that one.
    pub fn apart(dir: &Path, broker: OverKafka) -> anyhow::Result<Place> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let nodes = (1..=NODES).map(|number| NodeProcess::start(&dir.join(format!("node-{number}")), &broker));
        let nodes = nodes.collect::<anyhow::Result<Vec<_>>>()?;
        let roles = Roles { node: None, router: Some(RouterLimits::STANDARD), controller: true };
        let cluster = Cluster::start_parts(Parts {
            log: broker.log(),
            close_log: Box::new(|| Ok(())),
            before_flush: None,
            dir,
            roles,
            hooks: Hooks::default(),
            wire: Some(Wire::new(runtime.handle().clone(), Box::new(drop))),
        })?;
        let place = Place { cluster: Arc::new(cluster), apart: Some(Apart { nodes, broker, _runtime: runtime }) };
        place.wait_registered()?;
        Ok(place)
    }

    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// A keyspace is spread over the nodes that are there when it is created.
    fn wait_registered(&self) -> anyhow::Result<()> {
        let (signal, desk) = (Signal::new(), self.cluster.desk());
        desk.watch(signal.waker());
        let deadline = Instant::now() + REGISTER_MAX;
        while desk.state().nodes().count() < NODES {
            ensure!(Instant::now() < deadline, "{NODES} nodes are not registered after {REGISTER_MAX:?}");
            signal.wait(Some(deadline));
        }
        Ok(())
    }

    /// Ends the nodes of other processes as their operator would, so that their stores can be read.
    pub fn stop_nodes(&mut self) -> anyhow::Result<()> {
        self.apart.iter_mut().flat_map(|apart| &mut apart.nodes).try_for_each(NodeProcess::stop)
    }

    /// Returns the store of a shard. Requires: nodes of other processes have stopped.
    pub fn store(&self, keyspace: KeyspaceId, shard: ShardId) -> anyhow::Result<Arc<dyn Store>> {
        let Some(apart) = &self.apart else { return Ok(self.cluster.store(keyspace, shard)?) };
        let state = self.cluster.desk().state();
        let hosts = state.keyspace(keyspace).context("the keyspace is gone")?.replicas_of(shard);
        let node = apart.nodes.iter().find(|node| hosts.contains(&node.id));
        let node = node.with_context(|| format!("no node of the demo hosts shard {shard}"))?;
        Ok(RocksNode::open(&node.dir.join("stores"))?.store(keyspace, shard)?)
    }

    /// Ends everything; topics on brokers that stay are removed.
    pub fn stop(mut self) -> anyhow::Result<()> {
        let stopped = self.stop_nodes();
        let topics = topics(&self.cluster);
        self.cluster.stop().map_err(|error| anyhow::anyhow!("cannot stop cleanly: {error}"))?;
        if let Some(apart) = &self.apart {
            apart.broker.forget(&topics).context("the demo's topics are not removed")?;
        }
        stopped
    }
}

/// One `rehome serve --roles node`, killed with this if it was not stopped.
struct NodeProcess {
    child: Child,
    id: NodeId,
    dir: PathBuf,
}

impl NodeProcess {
    fn start(dir: &Path, broker: &OverKafka) -> anyhow::Result<NodeProcess> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(program);
        command.args(["serve", "--roles", "node", "--json", "--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0"]);
        command.arg("--data").arg(dir).args(broker.words());
        if std::env::var_os("REHOME_LOG").is_none() {
            command.env("REHOME_LOG", "warn");
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start a node")?;
        let mut node = NodeProcess { child, id: NodeId(0), dir: dir.to_owned() };
        let mut line = String::new();
        let told = node.child.stdout.take().context("the node has no output")?;
        BufReader::new(told).read_line(&mut line)?;
        let told: Value = serde_json::from_str(&line).context("the node has not started; it told why above")?;
        node.id = NodeId(told["node"].as_u64().context("the node told no number")?);
        Ok(node)
    }

    fn stop(&mut self) -> anyhow::Result<()> {
        if self.child.try_wait()?.is_none() {
            let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("the node has no number")?;
            kill_process(pid, Told::TERM)?;
        }
        let status = self.child.wait()?;
        ensure!(status.success(), "node {} ended with {status}", self.id);
        Ok(())
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        // Harmless where it has ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
