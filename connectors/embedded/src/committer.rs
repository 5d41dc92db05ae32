//! The one thread that writes.
//!
//! Order, for each group: one synced write; then its records are readable and tails are woken; then its appends are
//! acknowledged. While one group is synced, the next one gathers in the queue.

use crate::disk::Disk;
use crate::partition::Partition;
use crate::queue::{Append, Queue};
use rehome_keyspace::Offset;
use rehome_ports::{AppendDone, PortError};
use rehome_records::Logged;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{SystemTime, UNIX_EPOCH};

/// Commits groups until the queue is stopped and empty.
pub fn run(disk: &Disk, queue: &Queue, ring_bytes_max: &AtomicUsize) {
    let _stop = StopWhenGone { queue };
    while let Some(appends) = queue.take() {
        let Prepared { groups, answers } = prepare(appends, now_ms());
        let committed = disk.commit(groups.values().map(|(partition, records)| (&partition.name, records.as_slice())));
        if let Err(error) = committed {
            // What a failed sync left on disk is not known, so no later record may claim an offset.
            tracing::error!(%error, "log stopped: a group could not be made durable; free the disk and start again");
            queue.stop(PortError::broken(format!("the log has stopped: {error}")));
            answers.into_iter().for_each(|(done, _)| done(Err(error.clone())));
            refuse_the_rest(queue);
            return;
        }
        for (partition, records) in groups.into_values() {
            partition.publish(records, ring_bytes_max);
        }
        answers.into_iter().for_each(|(done, offsets)| done(Ok(offsets)));
    }
}

struct Prepared {
    /// By number of the partition.
    groups: BTreeMap<usize, (Arc<Partition>, Vec<Logged>)>,
    answers: Vec<(AppendDone, Vec<Offset>)>,
}

/// Gives each record its offset and its append time, which never goes back within a partition.
fn prepare(appends: Vec<Append>, now_ms: u64) -> Prepared {
    let mut groups: BTreeMap<usize, (Arc<Partition>, Vec<Logged>)> = BTreeMap::new();
    let mut answers = Vec::with_capacity(appends.len());
    for Append { partition, records, done, .. } in appends {
        let (partition, group) = groups.entry(partition.number).or_insert_with(|| (partition, Vec::new()));
        let extent = partition.extent();
        let append_time_ms = extent.last_append_time_ms.max(now_ms);
        let mut offset = group.last().map_or(extent.end, |last: &Logged| last.offset.next());
        let mut offsets = Vec::with_capacity(records.len());
        for record in records {
            offsets.push(offset);
            group.push(Logged { offset, append_time_ms, record });
            offset = offset.next();
        }
        answers.push((done, offsets));
    }
    Prepared { groups, answers }
}

fn refuse_the_rest(queue: &Queue) {
    while let Some(appends) = queue.take() {
        for append in appends {
            (append.done)(Err(PortError::not_applied("the log stopped before it was taken")));
        }
    }
}

/// Nobody may wait for a committer that is gone, however it went.
struct StopWhenGone<'a> {
    queue: &'a Queue,
}

impl Drop for StopWhenGone<'_> {
    fn drop(&mut self) {
        self.queue.stop(PortError::broken("the log's committer is gone"));
        if std::thread::panicking() {
            refuse_the_rest(self.queue);
        }
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
