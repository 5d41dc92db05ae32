//! A replica that has just opened owes nothing to any move until it has folded what the control log held then; everything
//! that its earlier lives told lies below that.

use crate::replica::{Message, Replica};
use rehome_control_log::control_partition;

impl Replica {
    /// Tells whether everything is folded that was there when the replica opened.
    pub(crate) fn has_started(&mut self, now_ms: u64) -> bool {
        if self.opening.asks(now_ms) {
            let inbox = self.inbox.clone();
            let told = Box::new(move |end| inbox.push(Message::StartEnd(end)));
            self.config.log.end(&control_partition(), told);
        }
        self.opening.is_over(self.follower.state().folded_next())
    }
}
