//! From what the ports know to what is sent, and back. What is sent and makes no sense is told apart as [`Senseless`].

use crate::pb;
use rehome_keyspace::{Epoch, KeyRange, KeyspaceId, MoveId, NodeId, Offset, ShardId, Version};
use rehome_ports::{
    InboundProgress, ReadAnswer, ReadKind, ReadLevel, ReadRefused, ReadRequest, ReplicaProgress, Row, VerdictBatch,
};
use rehome_records::{FirstAnswer, Verdict};

/// A message that no peer of this protocol sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Senseless(pub &'static str);

pub fn verdicts_out(batch: &VerdictBatch) -> pb::VerdictBatch {
    let judged =
        |(offset, verdict): &(Offset, Verdict)| pb::Judged { offset: offset.0, verdict: Some(verdict_out(verdict)) };
    pb::VerdictBatch {
        keyspace: batch.keyspace.0,
        shard: batch.shard.0,
        judged: batch.verdicts.iter().map(judged).collect(),
        applied: batch.applied.0,
    }
}

pub fn verdicts_in(batch: pb::VerdictBatch) -> Result<VerdictBatch, Senseless> {
    let judged = |one: pb::Judged| {
        let verdict = one.verdict.ok_or(Senseless("a verdict of a kind that is not known"))?;
        Ok((Offset(one.offset), verdict_in(verdict)))
    };
    Ok(VerdictBatch {
        keyspace: KeyspaceId(batch.keyspace),
        shard: ShardId(batch.shard),
        verdicts: batch.judged.into_iter().map(judged).collect::<Result<_, _>>()?,
        applied: Offset(batch.applied),
    })
}

fn verdict_out(verdict: &Verdict) -> pb::judged::Verdict {
    use pb::judged::Verdict as Out;
    match verdict {
        Verdict::Accepted { version } => Out::Accepted(version_out(*version)),
        Verdict::ConditionFailed { current } => Out::ConditionFailed(failed_out(*current)),
        Verdict::Repeated { first: FirstAnswer::Accepted { version } } => Out::RepeatedAccepted(version_out(*version)),
        Verdict::Repeated { first: FirstAnswer::ConditionFailed { current } } => {
            Out::RepeatedConditionFailed(failed_out(*current))
        }
        Verdict::RequestConflict => Out::RequestConflict(pb::Nothing {}),
        Verdict::SourceDone => Out::SourceDone(pb::Nothing {}),
        Verdict::StaleRoute => Out::StaleRoute(pb::Nothing {}),
        Verdict::Invalid { reason } => Out::Invalid(reason.clone()),
    }
}

fn verdict_in(verdict: pb::judged::Verdict) -> Verdict {
    use pb::judged::Verdict as In;
    match verdict {
        In::Accepted(version) => Verdict::Accepted { version: version_in(version) },
        In::ConditionFailed(failed) => Verdict::ConditionFailed { current: failed.current.map(version_in) },
        In::RepeatedAccepted(version) => {
            Verdict::Repeated { first: FirstAnswer::Accepted { version: version_in(version) } }
        }
        In::RepeatedConditionFailed(failed) => {
            Verdict::Repeated { first: FirstAnswer::ConditionFailed { current: failed.current.map(version_in) } }
        }
        In::RequestConflict(_) => Verdict::RequestConflict,
        In::SourceDone(_) => Verdict::SourceDone,
        In::StaleRoute(_) => Verdict::StaleRoute,
        In::Invalid(reason) => Verdict::Invalid { reason },
    }
}

fn version_out(version: Version) -> pb::Version {
    pb::Version { epoch: version.epoch.0, offset: version.offset.0 }
}

fn version_in(version: pb::Version) -> Version {
    Version { epoch: Epoch(version.epoch), offset: Offset(version.offset) }
}

fn failed_out(current: Option<Version>) -> pb::ConditionFailed {
    pb::ConditionFailed { current: current.map(version_out) }
}

pub fn progress_out(progress: &ReplicaProgress) -> pb::Progress {
    let inbound = |one: &InboundProgress| pb::Inbound {
        move_id: one.move_id.0,
        replayed_next: one.replayed_next.0,
        lag_records: one.lag_records,
        replayed_records: one.replayed_records,
    };
    let trouble = |(move_id, why): &(MoveId, String)| pb::Trouble { move_id: move_id.0, why: why.clone() };
    pb::Progress {
        keyspace: progress.keyspace.0,
        shard: progress.shard.0,
        node: progress.node.0,
        applied_next: progress.applied_next.0,
        lag_records: progress.lag_records,
        horizon: progress.horizon.map(|horizon| horizon.0),
        inbound: progress.inbound.iter().map(inbound).collect(),
        troubles: progress.troubles.iter().map(trouble).collect(),
        broken: progress.broken.clone(),
    }
}

pub fn progress_in(progress: pb::Progress) -> ReplicaProgress {
    let inbound = |one: pb::Inbound| InboundProgress {
        move_id: MoveId(one.move_id),
        replayed_next: Offset(one.replayed_next),
        lag_records: one.lag_records,
        replayed_records: one.replayed_records,
    };
    ReplicaProgress {
        keyspace: KeyspaceId(progress.keyspace),
        shard: ShardId(progress.shard),
        node: NodeId(progress.node),
        applied_next: Offset(progress.applied_next),
        lag_records: progress.lag_records,
        horizon: progress.horizon.map(Offset),
        inbound: progress.inbound.into_iter().map(inbound).collect(),
        troubles: progress.troubles.into_iter().map(|one| (MoveId(one.move_id), one.why)).collect(),
        broken: progress.broken,
    }
}

fn range_out(range: &KeyRange) -> pb::KeyRange {
    pb::KeyRange { start: range.start.clone(), end: range.end.clone() }
}

fn range_in(range: Option<pb::KeyRange>) -> Result<KeyRange, Senseless> {
    let range = range.ok_or(Senseless("a range of keys is lacking"))?;
    if range.end.as_ref().is_some_and(|end| *end <= range.start) {
        return Err(Senseless("a range of keys is empty"));
    }
    Ok(KeyRange::new(range.start, range.end))
}

pub fn read_out(id: u64, keyspace: KeyspaceId, shard: ShardId, request: &ReadRequest) -> pb::Read {
    let level = match request.level {
        ReadLevel::Eventual => pb::read::Level::Eventual(pb::Nothing {}),
        ReadLevel::Token { shard, offset } => pb::read::Level::Token(pb::Token { shard: shard.0, offset: offset.0 }),
        ReadLevel::Linearizable => pb::read::Level::Linearizable(pb::Nothing {}),
    };
    let kind = match &request.kind {
        ReadKind::Get { partition_key, sort_key } => {
            pb::read::Kind::Get(pb::Get { partition_key: partition_key.clone(), sort_key: sort_key.clone() })
        }
        ReadKind::List { partition_key, from, to, reverse, limit } => pb::read::Kind::List(pb::List {
            partition_key: partition_key.clone(),
            from: from.clone(),
            to: to.clone(),
            reverse: *reverse,
            limit: *limit as u64,
        }),
        ReadKind::Scan { range, after, limit } => {
            pb::read::Kind::Scan(pb::Scan { range: Some(range_out(range)), after: after.clone(), limit: *limit as u64 })
        }
    };
    let epoch = request.epoch.map(|epoch| epoch.0);
    pb::Read { id, keyspace: keyspace.0, shard: shard.0, epoch, level: Some(level), kind: Some(kind) }
}

pub fn read_in(read: pb::Read) -> Result<ReadRequest, Senseless> {
    let level = match read.level.ok_or(Senseless("a read of no level"))? {
        pb::read::Level::Eventual(_) => ReadLevel::Eventual,
        pb::read::Level::Token(token) => ReadLevel::Token { shard: ShardId(token.shard), offset: Offset(token.offset) },
        pb::read::Level::Linearizable(_) => ReadLevel::Linearizable,
    };
    let limit = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
    let kind = match read.kind.ok_or(Senseless("a read of nothing"))? {
        pb::read::Kind::Get(get) => ReadKind::Get { partition_key: get.partition_key, sort_key: get.sort_key },
        pb::read::Kind::List(list) => ReadKind::List {
            partition_key: list.partition_key,
            from: list.from,
            to: list.to,
            reverse: list.reverse,
            limit: limit(list.limit),
        },
        pb::read::Kind::Scan(scan) => {
            ReadKind::Scan { range: range_in(scan.range)?, after: scan.after, limit: limit(scan.limit) }
        }
    };
    Ok(ReadRequest { kind, epoch: read.epoch.map(Epoch), level })
}

pub fn result_out(id: u64, result: Result<ReadAnswer, ReadRefused>) -> pb::ReadResult {
    use pb::read_result::Result as Out;
    let result = match result {
        Ok(answer) => Out::Answer(answer_out(answer)),
        Err(ReadRefused::NotOwner) => Out::NotOwner(pb::Nothing {}),
        Err(ReadRefused::Overloaded) => Out::Overloaded(pb::Nothing {}),
        Err(ReadRefused::Unavailable { reason }) => Out::Unavailable(reason),
    };
    pb::ReadResult { id, result: Some(result) }
}

pub fn result_in(result: pb::ReadResult) -> Result<Result<ReadAnswer, ReadRefused>, Senseless> {
    use pb::read_result::Result as In;
    Ok(match result.result.ok_or(Senseless("a read's result of a kind that is not known"))? {
        In::Answer(answer) => Ok(answer_in(answer)?),
        In::NotOwner(_) => Err(ReadRefused::NotOwner),
        In::Overloaded(_) => Err(ReadRefused::Overloaded),
        In::Unavailable(reason) => Err(ReadRefused::Unavailable { reason }),
    })
}

fn answer_out(answer: ReadAnswer) -> pb::ReadAnswer {
    let row = |row: Row| pb::Row {
        partition_key: row.partition_key,
        sort_key: row.sort_key,
        value: row.value,
        version: Some(version_out(row.version)),
    };
    let covered = |(range, epoch): &(KeyRange, Epoch)| pb::Covered { range: Some(range_out(range)), epoch: epoch.0 };
    pb::ReadAnswer {
        rows: answer.rows.into_iter().map(row).collect(),
        shard: answer.shard.0,
        applied: answer.applied.map(|applied| applied.0),
        covered: answer.covered.iter().map(covered).collect(),
        more_after: answer.more_after,
    }
}

fn answer_in(answer: pb::ReadAnswer) -> Result<ReadAnswer, Senseless> {
    let row = |row: pb::Row| {
        let version = version_in(row.version.ok_or(Senseless("a row without a version"))?);
        Ok(Row { partition_key: row.partition_key, sort_key: row.sort_key, value: row.value, version })
    };
    let covered = |one: pb::Covered| Ok((range_in(one.range)?, Epoch(one.epoch)));
    Ok(ReadAnswer {
        rows: answer.rows.into_iter().map(row).collect::<Result<_, _>>()?,
        shard: ShardId(answer.shard),
        applied: answer.applied.map(Offset),
        covered: answer.covered.into_iter().map(covered).collect::<Result<_, _>>()?,
        more_after: answer.more_after,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: Version = Version { epoch: Epoch(7), offset: Offset(9) };

    #[test]
    fn every_verdict_comes_back_as_it_went() {
        let all = [
            Verdict::Accepted { version: VERSION },
            Verdict::ConditionFailed { current: None },
            Verdict::ConditionFailed { current: Some(VERSION) },
            Verdict::Repeated { first: FirstAnswer::Accepted { version: VERSION } },
            Verdict::Repeated { first: FirstAnswer::ConditionFailed { current: Some(VERSION) } },
            Verdict::RequestConflict,
            Verdict::SourceDone,
            Verdict::StaleRoute,
            Verdict::Invalid { reason: "why".into() },
        ];
        let verdicts = (3..).map(Offset).zip(all).collect();
        let batch = VerdictBatch { keyspace: KeyspaceId(1), shard: ShardId(2), verdicts, applied: Offset(40) };
        assert_eq!(verdicts_in(verdicts_out(&batch)), Ok(batch));
    }

    #[test]
    fn every_read_and_every_result_comes_back_as_it_went() {
        let range = KeyRange::new(vec![1], Some(vec![2, 0]));
        let kinds = [
            ReadKind::Get { partition_key: vec![0, 255], sort_key: Vec::new() },
            ReadKind::List { partition_key: vec![1], from: vec![2], to: Some(Vec::new()), reverse: true, limit: 5 },
            ReadKind::List { partition_key: vec![1], from: vec![], to: None, reverse: false, limit: usize::MAX },
            ReadKind::Scan { range: range.clone(), after: Some(vec![9]), limit: 1 },
            ReadKind::Scan { range: KeyRange::all(), after: None, limit: 1 },
        ];
        let levels =
            [ReadLevel::Eventual, ReadLevel::Token { shard: ShardId(3), offset: Offset(4) }, ReadLevel::Linearizable];
        for kind in kinds {
            for level in levels {
                for epoch in [None, Some(Epoch(0)), Some(Epoch(8))] {
                    let request = ReadRequest { kind: kind.clone(), epoch, level };
                    let sent = read_out(5, KeyspaceId(1), ShardId(2), &request);
                    assert_eq!((sent.id, sent.keyspace, sent.shard), (5, 1, 2));
                    assert_eq!(read_in(sent), Ok(request));
                }
            }
        }
        let row = Row { partition_key: vec![1], sort_key: vec![0], value: vec![255], version: VERSION };
        let answer = |rows: Vec<Row>| ReadAnswer {
            rows,
            shard: ShardId(1),
            applied: Some(Offset(0)),
            covered: vec![(range.clone(), Epoch(4)), (KeyRange::all(), Epoch(5))],
            more_after: Some(Vec::new()),
        };
        let none = ReadAnswer { applied: None, covered: Vec::new(), more_after: None, ..answer(Vec::new()) };
        let refused = [ReadRefused::NotOwner, ReadRefused::Overloaded, ReadRefused::Unavailable { reason: "r".into() }];
        for result in [Ok(answer(vec![row])), Ok(none)].into_iter().chain(refused.into_iter().map(Err)) {
            assert_eq!(result_in(result_out(6, result.clone())), Ok(result));
        }
    }

    #[test]
    fn progress_comes_back_as_it_went() {
        let inbound =
            InboundProgress { move_id: MoveId(1), replayed_next: Offset(2), lag_records: 3, replayed_records: 4 };
        let progress = ReplicaProgress {
            keyspace: KeyspaceId(1),
            shard: ShardId(2),
            node: NodeId(u64::MAX),
            applied_next: Offset(4),
            lag_records: 5,
            horizon: Some(Offset(0)),
            inbound: vec![inbound],
            troubles: vec![(MoveId(6), "disk".into())],
            broken: Some("why".into()),
        };
        assert_eq!(progress_in(progress_out(&progress)), progress);
    }

    #[test]
    fn what_makes_no_sense_is_told_apart() {
        let read = pb::Read { id: 1, keyspace: 1, shard: 1, epoch: None, level: None, kind: None };
        assert_eq!(read_in(read.clone()), Err(Senseless("a read of no level")));
        let level = Some(pb::read::Level::Eventual(pb::Nothing {}));
        assert_eq!(read_in(pb::Read { level, ..read.clone() }), Err(Senseless("a read of nothing")));
        let range = Some(pb::KeyRange { start: vec![1], end: Some(vec![1]) });
        let kind = Some(pb::read::Kind::Scan(pb::Scan { range, after: None, limit: 1 }));
        assert_eq!(read_in(pb::Read { level, kind, ..read }), Err(Senseless("a range of keys is empty")));
        assert!(result_in(pb::ReadResult { id: 1, result: None }).is_err());
        let judged = vec![pb::Judged { offset: 1, verdict: None }];
        assert!(verdicts_in(pb::VerdictBatch { keyspace: 1, shard: 1, judged, applied: 1 }).is_err());
    }
}
