//! The one thread that writes.
//!
//! Order, for each group: one write, synced; then its records are readable and tails are woken; then its appends are
//! acknowledged. While one group is synced, the next one gathers in the queue. Under `Fsync::Every` a group of nothing
//! but data is not synced here: it may be read, and is acknowledged, before it is durable.

use crate::disk::{Disk, Extent};
use crate::frames::Frames;
use crate::fsync::Fsync;
use crate::partition::Partition;
use crate::queue::{Append, Queue};
use crate::syncs::{Syncs, UNSYNCED_RECORDS_MAX};
use rehome_keyspace::Offset;
use rehome_ports::{AppendDone, Lane, PortError};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// Offsets reserved at once in a partition whose records may be read before they are durable: each takes a sync, and an
/// unclean end leaves a gap of at most so many.
const RESERVED_OFFSETS: u64 = 64 << 10;

/// What the committer works with.
pub struct Committer {
    pub disk: Arc<Disk>,
    pub queue: Arc<Queue>,
    pub syncs: Arc<Syncs>,
    pub fsync: Fsync,
    pub ring_bytes_max: Arc<AtomicUsize>,
}

/// Commits groups until the queue is stopped and empty.
pub fn run(committer: &Committer) {
    let Committer { queue, syncs, ring_bytes_max, .. } = committer;
    let _stop = StopWhenGone { queue };
    while let Some(appends) = queue.take() {
        let marked = appends.iter().any(|append| append.lane == Lane::Protocol);
        let committed = prepare(appends).and_then(|prepared| {
            if let Some(error) = syncs.failed() {
                return Err((error, prepared.answers));
            }
            match write(committer, &prepared, marked) {
                Ok(()) => Ok(prepared),
                Err(error) => Err((error, prepared.answers)),
            }
        });
        let Prepared { groups, answers } = match committed {
            Ok(prepared) => prepared,
            Err((error, answers)) => {
                // What a failed sync left on disk is not known, so no later record may claim an offset.
                tracing::error!(%error, "log stopped: a group could not be made durable; mend the disk, start again");
                queue.stop(PortError::broken(format!("the log has stopped: {error}")));
                answers.into_iter().for_each(|(done, _)| done(Err(error.clone())));
                refuse_the_rest(queue);
                return;
            }
        };
        for group in groups.into_values() {
            group.partition.publish(group.frames, group.append_time_ms, ring_bytes_max);
        }
        answers.into_iter().for_each(|(done, offsets)| done(Ok(offsets)));
    }
}

struct Prepared {
    /// By number of the partition.
    groups: BTreeMap<usize, Group>,
    answers: Vec<Answer>,
}

type Answer = (AppendDone, Vec<Offset>);

/// Writes the groups, synced if they must be, and counts them before anybody can read them.
fn write(committer: &Committer, prepared: &Prepared, marked: bool) -> Result<(), PortError> {
    let Committer { disk, syncs, fsync, .. } = committer;
    let groups = prepared.groups.values();
    let records = groups.clone().map(|group| group.frames.len() as u64).sum();
    let synced = *fsync == Fsync::Always || marked || syncs.unsynced() + records > UNSYNCED_RECORDS_MAX;
    if !synced {
        let short: Vec<_> = groups.clone().filter(|group| group.end() > group.partition.reserved()).collect();
        let reserved = |group: &Group| Offset(group.end().0 + RESERVED_OFFSETS);
        if !short.is_empty() {
            let kept = short.iter().filter(|group| !group.partition.is_removed());
            disk.reserve(kept.map(|group| (&group.partition.name, reserved(group))))?;
            short.iter().for_each(|group| group.partition.set_reserved(reserved(group)));
        }
    }
    // Asked while no family can be dropped.
    let kept = groups.filter(|group| !group.partition.is_removed());
    disk.commit(kept.map(|group| (&group.partition.name, group.first, &group.frames)), synced)?;
    syncs.wrote(records, synced);
    Ok(())
}

/// The records of one partition that are committed together.
struct Group {
    partition: Arc<Partition>,
    first: Offset,
    frames: Frames,
    /// Of the last record.
    append_time_ms: u64,
}

impl Group {
    fn end(&self) -> Offset {
        Offset(self.first.0 + self.frames.len() as u64)
    }
}

/// Gives each record its offset. Append times never go back within a partition: where a later append overtook an
/// earlier one in the other lane, or the clock went back, the records get the time of those before them.
fn prepare(appends: Vec<Append>) -> Result<Prepared, (PortError, Vec<Answer>)> {
    let mut groups: BTreeMap<usize, Group> = BTreeMap::new();
    let mut answers = Vec::with_capacity(appends.len());
    for Append { partition, mut frames, append_time_ms, done, .. } in appends {
        let group = groups.entry(partition.number).or_insert_with(|| {
            let Extent { end, last_append_time_ms, .. } = partition.extent();
            Group { partition, first: end, frames: Frames::default(), append_time_ms: last_append_time_ms }
        });
        if append_time_ms < group.append_time_ms {
            match frames.stamped(group.append_time_ms) {
                Ok(stamped) => frames = stamped,
                Err(error) => {
                    answers.push((done, Vec::new()));
                    return Err((PortError::broken(format!("a queued record was altered: {error}")), answers));
                }
            }
        }
        group.append_time_ms = group.append_time_ms.max(append_time_ms);
        let first = group.first.0 + group.frames.len() as u64;
        answers.push((done, (first..).take(frames.len()).map(Offset).collect()));
        group.frames.push_all(&frames);
    }
    Ok(Prepared { groups, answers })
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
