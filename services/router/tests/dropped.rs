//! What becomes of everything that waits when a keyspace is dropped.

mod world;

use rehome_keyspace::{Offset, ShardId, SlotId, Version};
use rehome_ports::{ReadKind, ReadLevel, ReadRefused, VerdictBatch};
use rehome_records::Verdict;
use rehome_router::{AskId, Effect, Input, ReadAsk, RouterCore, RouterLimits, ScanAsk};
use world::{KEYSPACE, first_routes, key_in, put, routes};

const LATE_MS: u64 = 1_000_000;

fn refusals(effects: &[Effect]) -> Vec<(u64, &'static str)> {
    let refusal = |effect: &Effect| match effect {
        Effect::AnswerWrite { ask, answer: Err(refused) } => (ask.0, refused.code),
        Effect::AnswerRead { ask, answer: Err(refused) } => (ask.0, refused.code),
        Effect::AnswerScan { ask, answer: Err(refused) } => (ask.0, refused.code),
        other => panic!("unexpected {other:?}"),
    };
    effects.iter().map(refusal).collect()
}

#[test]
fn whatever_waits_is_answered_and_what_comes_later_changes_nothing() {
    let mut core = RouterCore::new(RouterLimits::STANDARD);
    core.step(0, Input::Routes(routes(1, first_routes())));
    let key = key_in(SlotId(0), 0);
    core.step(0, Input::Write { ask: AskId(1), write: put(&key, 1, LATE_MS) });
    let sent = core.step(0, Input::TurnEnded);
    let [Effect::Append { append, .. }] = sent.as_slice() else { panic!("{sent:?}") };
    core.step(0, Input::Write { ask: AskId(2), write: put(&key, 2, LATE_MS) });
    let kind = ReadKind::Get { partition_key: key.clone(), sort_key: b"s".to_vec() };
    let read = ReadAsk { keyspace: KEYSPACE, kind, level: ReadLevel::Eventual, deadline_ms: LATE_MS };
    let asked = core.step(0, Input::Read { ask: AskId(3), read });
    let [Effect::Read { read, .. }] = asked.as_slice() else { panic!("{asked:?}") };
    let scan = ScanAsk { keyspace: KEYSPACE, level: ReadLevel::Eventual, limit: 9, after: None, deadline_ms: LATE_MS };
    core.step(0, Input::Scan { ask: AskId(4), scan });

    let answered = core.step(1, Input::Dropped(KEYSPACE));
    let unknown = |ask| (ask, "keyspace_unknown");
    assert_eq!(refusals(&answered), [1, 2, 3, 4].map(unknown));
    let verdicts = vec![(
        Offset(0),
        Verdict::Accepted { version: Version { epoch: rehome_keyspace::Epoch(1), offset: Offset(0) } },
    )];
    let batch = VerdictBatch { keyspace: KEYSPACE, shard: ShardId(0), verdicts, applied: Offset(0) };
    for late in [
        Input::Appended { append: *append, result: Ok(vec![Offset(0)]) },
        Input::Verdicts(batch),
        Input::ReadEnded { read: *read, result: Err(ReadRefused::NotOwner) },
        Input::Dropped(KEYSPACE),
        Input::TurnEnded,
    ] {
        assert_eq!(core.step(2, late), []);
    }
    assert_eq!(core.wake_at_ms(), None, "nothing is waited for");
    let later = core.step(3, Input::Write { ask: AskId(5), write: put(&key, 5, LATE_MS) });
    assert_eq!(refusals(&later), [(5, "keyspace_not_ready")]);
}
