//! Marks that cite a control record that this replica has not folded: folded later, or forged.
//!
//! A mark is appended after the record that it cites. So if the control log's end, fetched after the mark was read, does
//! not lie above the cited offset, there is no such record, and the mark is refused: it must not stop a partition.

use crate::replica::{Message, Replica};
use rehome_control_log::control_partition;
use rehome_keyspace::{MoveId, Offset};
use rehome_ports::PortError;

/// A mark that waits for the control record it cites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Citation {
    /// The move whose replay waits; nothing for the live tail.
    pub replay_of: Option<MoveId>,
    pub mark: Offset,
    pub cited: Offset,
}

impl Replica {
    /// Asks for the end of the control log, once for each mark that waits.
    pub(crate) fn wait_for_citation(&mut self, citation: Citation) {
        if self.citations.get(&citation.replay_of) == Some(&citation) {
            return;
        }
        self.citations.insert(citation.replay_of, citation);
        let inbox = self.inbox.clone();
        let told = Box::new(move |end| inbox.push(Message::CitedEnd(citation, end)));
        self.config.log.end(&control_partition(), told);
    }

    pub(crate) fn cited_end(&mut self, citation: Citation, end: Result<Offset, PortError>) {
        if self.citations.get(&citation.replay_of) != Some(&citation) {
            return;
        }
        match end {
            Ok(end) if end <= citation.cited => {
                tracing::warn!(shard = %self.shard, mark = %citation.mark, cited = %citation.cited, "a mark cites nothing and is refused");
                self.core.refuse_unfounded(citation.replay_of, citation.mark);
            }
            Ok(_) => {}
            Err(_) => {
                self.citations.remove(&citation.replay_of);
            }
        }
    }
}
