//! The caller's side of the wire: one stream to each node, made again whenever it breaks.

use crate::convert::{Senseless, progress_in, read_out, result_in, verdicts_in};
use crate::pb;
use crate::pb::node_client::NodeClient;
use crate::{MESSAGE_BYTES_MAX, PROTOCOL};
use rehome_keyspace::{KeyspaceId, NodeId, ShardId};
use rehome_ports::{ReadDone, ReadRefused, ReadRequest, ReplicaProgress, VerdictSink};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::AbortHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

/// Longest time to reach a node.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// A node that is silent for so long is asked whether it is there, and given up after as long again: well below what
/// a client waits.
const ALIVE_EVERY: Duration = Duration::from_secs(1);
const ALIVE_MAX: Duration = Duration::from_secs(2);
/// Waits before a node is reached for again: doubled from the first to the last.
const AGAIN_MIN: Duration = Duration::from_millis(20);
const AGAIN_MAX: Duration = Duration::from_millis(1_000);
/// Reads that go into one message.
const READS_PACKED_MAX: usize = 256;

/// Where goes what nodes tell.
#[derive(Clone, Default)]
pub struct Sinks {
    pub verdicts: Option<VerdictSink>,
    pub progress: Option<Arc<dyn Fn(ReplicaProgress) + Send + Sync>>,
}

/// The streams to other nodes. Dropping it ends them.
pub struct Peers {
    runtime: Handle,
    sinks: Sinks,
    links: Mutex<BTreeMap<NodeId, Link>>,
}

struct Link {
    address: String,
    reads: Arc<Reads>,
    task: AbortHandle,
}

/// What is asked of one node.
struct Reads {
    node: NodeId,
    address: String,
    asked: Mutex<Asked>,
}

#[derive(Default)]
struct Asked {
    /// Where reads go; nothing while there is no stream.
    stream: Option<UnboundedSender<pb::Read>>,
    waiting: BTreeMap<u64, ReadDone>,
    next: u64,
    /// Why there is no stream.
    why: String,
}

impl Peers {
    /// Returns streams to nobody yet; they run on that runtime.
    pub fn new(runtime: Handle, sinks: Sinks) -> Peers {
        Peers { runtime, sinks, links: Mutex::default() }
    }

    /// Reaches for exactly these nodes from now on, at these addresses.
    pub fn follow(&self, nodes: impl IntoIterator<Item = (NodeId, String)>) {
        let wanted: BTreeMap<NodeId, String> = nodes.into_iter().collect();
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|node, link| {
            let stays = wanted.get(node) == Some(&link.address);
            if !stays {
                link.end();
            }
            stays
        });
        for (node, address) in wanted {
            links.entry(node).or_insert_with(|| {
                let why = "it has not been reached yet".to_owned();
                let asked = Mutex::new(Asked { why, ..Asked::default() });
                let reads = Arc::new(Reads { node, address: address.clone(), asked });
                let task = self.runtime.spawn(keep(Arc::clone(&reads), self.sinks.clone())).abort_handle();
                Link { address, reads, task }
            });
        }
    }

    /// Tells whether there is a stream to the node now.
    pub fn reaches(&self, node: NodeId) -> bool {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.get(&node).is_some_and(|link| link.reads.is_open())
    }

    /// Reads at the node; `done` is always called.
    pub fn read(&self, node: NodeId, keyspace: KeyspaceId, shard: ShardId, request: &ReadRequest, done: ReadDone) {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let reads = links.get(&node).map(|link| Arc::clone(&link.reads));
        drop(links);
        match reads {
            Some(reads) => reads.ask(keyspace, shard, request, done),
            None => done(Err(ReadRefused::Unavailable { reason: format!("node {node} is not known here") })),
        }
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.follow([]);
    }
}

impl Link {
    fn end(&self) {
        self.task.abort();
        self.reads.close("it is no longer listed at this address");
    }
}

impl Reads {
    fn is_open(&self) -> bool {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).stream.is_some()
    }

    fn ask(&self, keyspace: KeyspaceId, shard: ShardId, request: &ReadRequest, done: ReadDone) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let id = asked.next;
        let sent = asked.stream.as_ref().map(|stream| stream.send(read_out(id, keyspace, shard, request)).is_ok());
        if sent == Some(true) {
            asked.next += 1;
            asked.waiting.insert(id, done);
            return;
        }
        let refused = self.unavailable(&asked.why);
        drop(asked);
        done(Err(refused));
    }

    fn unavailable(&self, why: &str) -> ReadRefused {
        ReadRefused::Unavailable { reason: format!("node {} at {}: {why}", self.node, self.address) }
    }

    fn open(&self, stream: UnboundedSender<pb::Read>) {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).stream = Some(stream);
    }

    /// Refuses everything that waits.
    fn close(&self, why: &str) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        why.clone_into(&mut asked.why);
        asked.stream = None;
        let waiting = std::mem::take(&mut asked.waiting);
        drop(asked);
        for done in waiting.into_values() {
            done(Err(self.unavailable(why)));
        }
    }

    fn answer(&self, result: pb::ReadResult) -> Result<(), Senseless> {
        let done = self.asked.lock().unwrap_or_else(PoisonError::into_inner).waiting.remove(&result.id);
        let result = result_in(result);
        match (done, result) {
            (Some(done), Ok(result)) => done(result),
            (Some(done), Err(senseless)) => {
                done(Err(self.unavailable(senseless.0)));
                return Err(senseless);
            }
            (None, _) => return Err(Senseless("an answer that nobody waits for")),
        }
        Ok(())
    }
}

/// Keeps a stream to the node for ever.
async fn keep(reads: Arc<Reads>, sinks: Sinks) {
    let mut again = AGAIN_MIN;
    let mut said = String::new();
    loop {
        let mut reached = false;
        let why = match attach(&reads, &sinks, &mut reached).await {
            Ok(()) => "it has ended the stream".to_owned(),
            Err(status) => told(&status),
        };
        if reached {
            again = AGAIN_MIN;
        }
        if reached || why != said {
            tracing::info!(node = %reads.node, address = reads.address, why, "no stream to the node; it is tried again");
            said.clone_from(&why);
        }
        reads.close(&why);
        // tidy: sleep because another process is reached for, which cannot wake this one.
        tokio::time::sleep(again).await;
        again = (again * 2).min(AGAIN_MAX);
    }
}

fn told(status: &Status) -> String {
    match status.message() {
        "" => format!("{:?}", status.code()),
        message => message.to_owned(),
    }
}

/// One stream, from its start to its end.
async fn attach(reads: &Reads, sinks: &Sinks, reached: &mut bool) -> Result<(), Status> {
    let mut client = client(connect(&reads.address).await?);
    let (send, sent) = mpsc::channel(4);
    let (verdicts, progress) = (sinks.verdicts.is_some(), sinks.progress.is_some());
    let hello = pb::Hello { protocol: PROTOCOL, node: reads.node.0, verdicts, progress };
    let first = pb::ToNode { hello: Some(hello), reads: Vec::new() };
    send.send(first).await.map_err(|_| Status::internal("the stream has ended before its start"))?;
    let mut told = client.attach(ReceiverStream::new(sent)).await?.into_inner();
    let (stream, asked) = mpsc::unbounded_channel();
    let welcome = told.message().await?.and_then(|message| message.welcome);
    if welcome.is_none_or(|welcome| welcome.node != reads.node.0) {
        return Err(Status::failed_precondition("it does not speak this protocol"));
    }
    *reached = true;
    tracing::info!(node = %reads.node, address = reads.address, "the node is reached");
    reads.open(stream);
    let sending = send_reads(asked, send);
    tokio::pin!(sending);
    loop {
        let message = tokio::select! {
            message = told.message() => message?,
            () = &mut sending => return Ok(()),
        };
        let Some(message) = message else { return Ok(()) };
        take(reads, sinks, message).map_err(|senseless| Status::internal(senseless.0))?;
    }
}

fn take(reads: &Reads, sinks: &Sinks, message: pb::FromNode) -> Result<(), Senseless> {
    for batch in message.verdicts {
        let batch = verdicts_in(batch)?;
        if let Some(sink) = &sinks.verdicts {
            sink(batch);
        }
    }
    for progress in message.progress {
        if let Some(sink) = &sinks.progress {
            sink(progress_in(progress));
        }
    }
    message.results.into_iter().try_for_each(|result| reads.answer(result))
}

async fn send_reads(mut asked: UnboundedReceiver<pb::Read>, send: mpsc::Sender<pb::ToNode>) {
    let mut some = Vec::with_capacity(READS_PACKED_MAX);
    while asked.recv_many(&mut some, READS_PACKED_MAX).await > 0 {
        let message = pb::ToNode { hello: None, reads: std::mem::take(&mut some) };
        if send.send(message).await.is_err() {
            return;
        }
    }
}

pub(crate) async fn connect(address: &str) -> Result<Channel, Status> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .map_err(|error| Status::invalid_argument(format!("{address} is no address: {error}")))?;
    let endpoint = endpoint
        .connect_timeout(CONNECT_MAX)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(ALIVE_EVERY)
        .keep_alive_timeout(ALIVE_MAX)
        .keep_alive_while_idle(true);
    endpoint.connect().await.map_err(|error| {
        // The outer error only says that there was one.
        let cause = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        Status::unavailable(format!("it cannot be reached: {cause}"))
    })
}

pub(crate) fn client(channel: Channel) -> NodeClient<Channel> {
    NodeClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX).max_encoding_message_size(MESSAGE_BYTES_MAX)
}
