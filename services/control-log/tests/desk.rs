//! The desk when the control log does not answer.

use rehome_control_log::{ControlDesk, control_partition};
use rehome_memory::{Broker, Faults};
use rehome_ports::{Log, Role};
use std::sync::Arc;

#[test]
fn a_desk_that_cannot_read_the_control_log_looks_again_by_itself() {
    let broker = Broker::new(1, Faults::default());
    let log: Arc<dyn Log> = broker.handle("desk");
    log.ensure_topic(&control_partition().topic, 1).expect("a new topic");
    let mut desk = ControlDesk::new(log, Arc::new(|| ())).expect("the topic exists");
    assert_eq!(desk.turn(1_000).wake_at_ms, None, "an idle desk waits for its signal");
    broker.cut("desk");
    assert!(desk.turn(2_000).wake_at_ms.is_some_and(|at| at > 2_000 && at < 3_000));
}
