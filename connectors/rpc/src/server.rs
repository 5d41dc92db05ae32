//! The node's side of the wire.

use crate::convert::{read_in, result_out};
use crate::hub::{Hub, Listener, Out};
use crate::pb::{self, node_server};
use crate::{MESSAGE_BYTES_MAX, PROTOCOL};
use prost::Message;
use rehome_keyspace::{KeyspaceId, NodeId, ShardId};
use rehome_ports::{PortError, ReadRefused, Remedy, Replicas, Run, SnapshotStore};
use rehome_records::Manifest;
use std::fs::File;
use std::io::{Read as _, Seek, SeekFrom};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc::{self, Sender, UnboundedReceiver};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// Most reads of one caller that are under way. Reason: each answer may be a page of large rows.
const READS_UNDER_WAY_MAX: usize = 4_096;
/// Messages that are packed and wait to be sent.
const MESSAGES_QUEUED: usize = 4;
/// Things that go into one message, and bytes after which it is full.
const PACKED_MAX: usize = 512;
const PACKED_BYTES: usize = 1 << 20;
/// Bytes of a run in one message.
const CHUNK_BYTES: usize = 256 << 10;

/// Serves one node's replicas and snapshots.
pub struct NodeService {
    pub node: NodeId,
    pub hub: Hub,
    pub replicas: Arc<dyn Replicas>,
    pub snapshots: Arc<dyn SnapshotStore>,
}

type Sent<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl NodeService {
    /// Returns the service, to be added to a server.
    pub fn into_service(self) -> node_server::NodeServer<NodeService> {
        node_server::NodeServer::new(self)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }

    fn welcome(&self, first: Option<pb::ToNode>) -> Result<pb::Hello, Status> {
        let hello = first.and_then(|message| message.hello);
        let hello = hello.ok_or_else(|| Status::invalid_argument("the first message must say hello"))?;
        if hello.protocol != PROTOCOL {
            let message = format!("node {} speaks protocol {PROTOCOL}, not {}", self.node, hello.protocol);
            return Err(Status::failed_precondition(message));
        }
        if hello.node != self.node.0 {
            return Err(Status::not_found(format!("this is node {}, not {}", self.node, hello.node)));
        }
        Ok(hello)
    }
}

#[tonic::async_trait]
impl node_server::Node for NodeService {
    type AttachStream = Sent<pb::FromNode>;
    type GetRunStream = Sent<pb::RunChunk>;

    async fn attach(&self, request: Request<Streaming<pb::ToNode>>) -> Result<Response<Self::AttachStream>, Status> {
        let mut asked = request.into_inner();
        let hello = self.welcome(asked.message().await?)?;
        let (out, outs) = mpsc::unbounded_channel();
        let (send, sent) = mpsc::channel(MESSAGES_QUEUED);
        let welcome = pb::Welcome { protocol: PROTOCOL, node: self.node.0 };
        // The channel is empty and its receiver is here.
        let _ = send.send(Ok(pb::FromNode { welcome: Some(welcome), ..pb::FromNode::default() })).await;
        let verdicts_queued = Arc::new(AtomicUsize::new(0));
        self.hub.listen(Listener {
            out: out.clone(),
            verdicts_queued: Arc::clone(&verdicts_queued),
            wants_verdicts: hello.verdicts,
            wants_progress: hello.progress,
        });
        tokio::spawn(pack(outs, verdicts_queued, send));
        let replicas = Arc::clone(&self.replicas);
        tokio::spawn(async move {
            let under_way = Arc::new(AtomicUsize::new(0));
            // An end or an error: the caller has gone, or makes a new stream.
            while let Ok(Some(message)) = asked.message().await {
                for read in message.reads {
                    start_read(&*replicas, read, &under_way, &out);
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(sent))))
    }

    async fn get_manifest(&self, request: Request<pb::ManifestRequest>) -> Result<Response<pb::ManifestReply>, Status> {
        let name = request.into_inner().name;
        let manifest = manifest(Arc::clone(&self.snapshots), name).await?;
        Ok(Response::new(pb::ManifestReply { manifest: manifest.encode() }))
    }

    async fn get_run(&self, request: Request<pb::RunRequest>) -> Result<Response<Self::GetRunStream>, Status> {
        let request = request.into_inner();
        let manifest = manifest(Arc::clone(&self.snapshots), request.name.clone()).await?;
        let run = manifest.runs.into_iter().find(|run| run.name == request.run);
        let run = run.ok_or_else(|| Status::not_found(format!("{} has no run {}", request.name, request.run)))?;
        let snapshots = Arc::clone(&self.snapshots);
        let (send, sent) = mpsc::channel(MESSAGES_QUEUED);
        tokio::task::spawn_blocking(move || {
            let opened = snapshots.run(&request.name, &run).map_err(|error| refused(&error));
            let sending = opened.and_then(|run| match run {
                Run::SortedFile(path) => send_file(&path, request.offset, &send),
                Run::Entries(_) => Err(Status::unimplemented("these snapshots are in memory")),
            });
            if let Err(status) = sending {
                // The caller may have gone.
                let _ = send.blocking_send(Err(status));
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(sent))))
    }
}

/// Starts a read; its result comes out whenever it is there.
fn start_read(replicas: &dyn Replicas, read: pb::Read, under_way: &Arc<AtomicUsize>, out: &mpsc::UnboundedSender<Out>) {
    let (id, keyspace, shard) = (read.id, KeyspaceId(read.keyspace), ShardId(read.shard));
    // Whoever asked may have gone.
    let answer = move |out: &mpsc::UnboundedSender<Out>, result| drop(out.send(Out::Result(result_out(id, result))));
    let request = match read_in(read) {
        Ok(request) => request,
        Err(senseless) => return answer(out, Err(ReadRefused::Unavailable { reason: senseless.0.into() })),
    };
    if under_way.fetch_add(1, Ordering::Relaxed) >= READS_UNDER_WAY_MAX {
        under_way.fetch_sub(1, Ordering::Relaxed);
        return answer(out, Err(ReadRefused::Overloaded));
    }
    let (out, under_way) = (out.clone(), Arc::clone(under_way));
    replicas.read(
        keyspace,
        shard,
        request,
        Box::new(move |result| {
            under_way.fetch_sub(1, Ordering::Relaxed);
            answer(&out, result);
        }),
    );
}

/// Packs what goes to a caller into messages, as many things at once as have come.
async fn pack(
    mut outs: UnboundedReceiver<Out>,
    verdicts_queued: Arc<AtomicUsize>,
    send: Sender<Result<pb::FromNode, Status>>,
) {
    let mut some = Vec::with_capacity(PACKED_MAX);
    while outs.recv_many(&mut some, PACKED_MAX).await > 0 {
        let (mut message, mut bytes) = (pb::FromNode::default(), 0);
        for out in some.drain(..) {
            match out {
                Out::Verdicts(batch) => {
                    verdicts_queued.fetch_sub(batch.judged.len(), Ordering::Relaxed);
                    bytes += batch.encoded_len();
                    message.verdicts.push(batch);
                }
                Out::Progress(progress) => message.progress.push(progress),
                Out::Result(result) => {
                    bytes += result.encoded_len();
                    message.results.push(result);
                }
            }
            if bytes >= PACKED_BYTES {
                bytes = 0;
                if send.send(Ok(std::mem::take(&mut message))).await.is_err() {
                    return;
                }
            }
        }
        if message != pb::FromNode::default() && send.send(Ok(message)).await.is_err() {
            return;
        }
    }
}

async fn manifest(snapshots: Arc<dyn SnapshotStore>, name: String) -> Result<Manifest, Status> {
    let missing = format!("there is no snapshot {name} here");
    let looked = tokio::task::spawn_blocking(move || snapshots.manifest(&name)).await;
    let found = looked.map_err(|error| Status::internal(error.to_string()))?.map_err(|error| refused(&error))?;
    found.ok_or_else(|| Status::not_found(missing))
}

fn send_file(path: &PathBuf, offset: u64, send: &Sender<Result<pb::RunChunk, Status>>) -> Result<(), Status> {
    let unread = |error: std::io::Error| Status::unavailable(format!("{}: {error}", path.display()));
    let mut file = File::open(path).map_err(unread)?;
    file.seek(SeekFrom::Start(offset)).map_err(unread)?;
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let count = file.read(&mut buffer).map_err(unread)?;
        let chunk = pb::RunChunk { bytes: buffer[..count].to_vec() };
        if count == 0 || send.blocking_send(Ok(chunk)).is_err() {
            return Ok(());
        }
    }
}

/// `DATA_LOSS` tells that the snapshot is useless, anything else that another try may do.
fn refused(error: &PortError) -> Status {
    match error.remedy {
        Remedy::Broken => Status::data_loss(&error.message),
        Remedy::NotApplied | Remedy::Unknown | Remedy::Fenced => Status::unavailable(&error.message),
    }
}
