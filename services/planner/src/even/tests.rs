//! Properties of the policy `even`, by name.

use super::*;
use proptest::prelude::*;

fn owners(counts: &[u32]) -> Vec<ShardId> {
    let shards = counts.iter().zip(0..);
    shards.flat_map(|(count, shard)| std::iter::repeat_n(ShardId(shard), *count as usize)).collect()
}

fn counts(owners: &[ShardId]) -> BTreeMap<ShardId, usize> {
    let mut counts = BTreeMap::new();
    owners.iter().for_each(|owner| *counts.entry(*owner).or_default() += 1);
    counts
}

/// Does the moves; fails if a move names a slot that its source does not own.
fn done(owners: &[ShardId], moves: &[MoveWanted]) -> Vec<ShardId> {
    let mut after = owners.to_vec();
    for wanted in moves {
        for slot in wanted.slots.iter().flat_map(|span| span.slots()) {
            assert_eq!(after[slot.0 as usize], wanted.source, "slot {slot} is owned by the source, and named once");
            after[slot.0 as usize] = wanted.destination;
        }
    }
    after
}

fn arbitrary_owners() -> impl Strategy<Value = Vec<ShardId>> {
    (1u32..9).prop_flat_map(|shards| proptest::collection::vec((0..shards).prop_map(ShardId), 1..200))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn every_wanted_shard_owns_its_share_and_no_other_owns_any(owners in arbitrary_owners(), wanted in 1u32..12) {
        prop_assume!(wanted as usize <= owners.len());
        let after = match even(&owners, wanted) {
            Ok(moves) => done(&owners, &moves),
            Err(refused) => {
                prop_assert_eq!(refused, PlanRefused::NothingToMove { shards: wanted });
                owners.clone()
            }
        };
        prop_assert_eq!(after.len(), owners.len());
        let counts = counts(&after);
        prop_assert_eq!(counts.len(), wanted as usize);
        prop_assert!(counts.keys().all(|shard| shard.0 < wanted));
        let (least, most) = (counts.values().min().unwrap(), counts.values().max().unwrap());
        prop_assert!(most - least <= 1, "{:?}", counts);
    }

    #[test]
    fn no_plan_moves_fewer_slots(owners in arbitrary_owners(), wanted in 1u32..12) {
        prop_assume!(wanted as usize <= owners.len());
        let moves = even(&owners, wanted).unwrap_or_default();
        let moved: usize = moves.iter().flat_map(|wanted| &wanted.slots).map(|span| span.count() as usize).sum();
        // Another way to count: keep as much as any even layout allows. `rest` shards may keep one more than the others.
        let (share, mut rest) = (owners.len() / wanted as usize, owners.len() % wanted as usize);
        let counts = counts(&owners);
        let mut kept = 0;
        for shard in (0..wanted).map(ShardId) {
            let count = counts.get(&shard).copied().unwrap_or(0);
            kept += count.min(share);
            if count > share && rest > 0 {
                kept += 1;
                rest -= 1;
            }
        }
        prop_assert_eq!(moved, owners.len() - kept);
    }

    #[test]
    fn planning_again_gives_nothing(owners in arbitrary_owners(), wanted in 1u32..12) {
        prop_assume!(wanted as usize <= owners.len());
        let after = done(&owners, &even(&owners, wanted).unwrap_or_default());
        prop_assert_eq!(even(&after, wanted), Err(PlanRefused::NothingToMove { shards: wanted }));
    }

    #[test]
    fn each_pair_of_shards_has_one_move_with_ascending_spans(owners in arbitrary_owners(), wanted in 1u32..12) {
        prop_assume!(wanted as usize <= owners.len());
        let moves = even(&owners, wanted).unwrap_or_default();
        let mut pairs: Vec<_> = moves.iter().map(|wanted| (wanted.source, wanted.destination)).collect();
        let all = pairs.len();
        pairs.dedup();
        prop_assert_eq!(all, pairs.len());
        for wanted in &moves {
            prop_assert!(wanted.source != wanted.destination && !wanted.slots.is_empty());
            prop_assert!(wanted.slots.windows(2).all(|pair| pair[0].last.0 + 1 < pair[1].first.0));
        }
        prop_assert_eq!(&moves, &even(&owners, wanted).unwrap_or_default());
    }
}

/// Source, destination, and spans of slots, both ends included.
type Expected<'a> = &'a [(u32, u32, &'a [(u32, u32)])];

fn check(owners: &[ShardId], wanted: u32, expected: Expected) {
    let span = |(first, last): &(u32, u32)| SlotSpan { first: SlotId(*first), last: SlotId(*last) };
    let expected: Vec<MoveWanted> = expected
        .iter()
        .map(|(source, destination, slots)| MoveWanted {
            source: ShardId(*source),
            destination: ShardId(*destination),
            slots: slots.iter().map(span).collect(),
        })
        .collect();
    assert_eq!(even(owners, wanted), Ok(expected));
}

#[test]
fn three_shards_become_five_and_five_become_two() {
    let three = owners(&[10, 10, 10]);
    let to_five: Expected = &[(0, 3, &[(6, 9)]), (1, 3, &[(16, 17)]), (1, 4, &[(18, 19)]), (2, 4, &[(26, 29)])];
    check(&three, 5, to_five);
    let five = done(&three, &even(&three, 5).unwrap());
    let to_two: Expected =
        &[(2, 0, &[(20, 25)]), (3, 0, &[(6, 8)]), (3, 1, &[(9, 9), (16, 17)]), (4, 1, &[(18, 19), (26, 29)])];
    check(&five, 2, to_two);
}

#[test]
fn the_shards_that_own_most_keep_the_slot_that_is_left_over() {
    check(&owners(&[3, 4, 4, 0]), 4, &[(1, 3, &[(6, 6)]), (2, 3, &[(10, 10)])]);
}

#[test]
fn plans_that_cannot_be_are_refused_with_what_to_do() {
    let owners = owners(&[2, 2]);
    for (shards, code, text) in [
        (0, "plan-no-shards", "0 shards cannot own anything; give `--shards` of at least 1"),
        (5, "plan-more-shards-than-slots", "5 shards cannot share 4 slots; give `--shards` of at most 4"),
        (
            2,
            "plan-nothing-to-move",
            "the slots lie evenly on 2 shards already, nothing is to be done; run `rehome status`",
        ),
    ] {
        let refused = even(&owners, shards).unwrap_err();
        assert_eq!((refused.code(), refused.to_string().as_str()), (code, text));
    }
    assert_eq!(even(&[], 1), Err(PlanRefused::MoreShardsThanSlots { shards: 1, slots: 0 }));
}
