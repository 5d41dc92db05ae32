//! Inboxes: once, for good.

use super::world::*;
use crate::{Accepted, Decision};
use rehome_keyspace::KeyspaceId;
use rehome_records::ControlEvent;

#[test]
fn a_keyspace_gets_an_inbox_once_and_its_partitions_never_change() {
    let mut world = World::new();
    let keyspace = world.keyspace().id;
    let open = |partitions| ControlEvent::InboxOpened { keyspace, partitions };
    assert_eq!(world.keyspace().inbox_partitions, 0);
    assert_eq!(word(&world.tell(open(0))), "inbox-partitions-invalid");
    assert_eq!(word(&world.tell(open(crate::INBOX_PARTITIONS_MAX + 1))), "inbox-partitions-invalid");
    assert_eq!(world.tell(open(4)), Decision::Accepted(Accepted::InboxOpened(keyspace)));
    assert_eq!(word(&world.tell(open(4))), "done");
    assert_eq!(word(&world.tell(open(8))), "inbox-fixed");
    assert_eq!(world.keyspace().inbox_partitions, 4);
    let unknown = ControlEvent::InboxOpened { keyspace: KeyspaceId(u64::MAX), partitions: 4 };
    assert_eq!(word(&world.tell(unknown)), "keyspace-unknown");
}
