//! One append on its way: what became of each of its records, and what its caller is told in the end.

use rehome_keyspace::Offset;
use rehome_ports::{AppendDone, PortError};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What became of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    Written(Offset),
    /// Certainly not in the log.
    NotWritten(String),
    /// Perhaps in the log.
    Unknown(String),
}

/// One append on its way. Told once, after the last of its records.
pub struct Pending {
    left: AtomicUsize,
    outcome: Mutex<Outcome>,
}

struct Outcome {
    fates: Vec<Option<Fate>>,
    done: Option<AppendDone>,
}

impl Pending {
    pub fn new(records: usize, done: AppendDone) -> Arc<Pending> {
        let outcome = Outcome { fates: vec![None; records], done: Some(done) };
        Arc::new(Pending { left: AtomicUsize::new(records), outcome: Mutex::new(outcome) })
    }

    /// Notes what became of a record; tells the caller when it was the last.
    pub fn settle(&self, index: usize, fate: Fate) {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).fates[index] = Some(fate);
        // Whoever takes the last away sees what all the others noted.
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let (fates, done) = {
                let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
                (std::mem::take(&mut outcome.fates), outcome.done.take())
            };
            if let Some(done) = done {
                done(verdict(fates));
            }
        }
    }
}

/// Everything written: the offsets. Nothing written, for sure: `NotApplied`. Else `Unknown`.
fn verdict(fates: Vec<Option<Fate>>) -> Result<Vec<Offset>, PortError> {
    let records = fates.len();
    let mut offsets = Vec::with_capacity(records);
    let (mut not_written, mut unknown, mut reason) = (0, 0, None);
    for fate in fates.into_iter().flatten() {
        match fate {
            Fate::Written(offset) => offsets.push(offset),
            Fate::NotWritten(why) => {
                not_written += 1;
                reason.get_or_insert(why);
            }
            Fate::Unknown(why) => {
                unknown += 1;
                reason.get_or_insert(why);
            }
        }
    }
    let Some(reason) = reason else { return Ok(offsets) };
    if not_written == records {
        return Err(PortError::not_applied(reason));
    }
    Err(PortError::unknown(format!(
        "{reason}; of {records} records {} are in the log, {not_written} are not, of {unknown} it is not known",
        offsets.len()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rehome_ports::Remedy;
    use std::sync::mpsc::channel;

    fn told(fates: Vec<Fate>) -> Result<Vec<Offset>, PortError> {
        let (tell, told) = channel();
        let pending = Pending::new(fates.len(), Box::new(move |result| drop(tell.send(result))));
        for (index, fate) in fates.into_iter().enumerate().rev() {
            assert!(told.try_recv().is_err(), "told before its last record");
            pending.settle(index, fate);
        }
        told.try_recv().expect("told with its last record")
    }

    fn remedy(fates: Vec<Fate>) -> Remedy {
        told(fates).expect_err("not all are written").remedy
    }

    #[test]
    fn offsets_come_in_the_order_of_the_records() {
        assert_eq!(told(vec![Fate::Written(Offset(4)), Fate::Written(Offset(9))]), Ok(vec![Offset(4), Offset(9)]));
    }

    #[test]
    fn not_applied_is_told_only_when_no_record_is_there_for_sure() {
        let not = || Fate::NotWritten("no".into());
        assert_eq!(remedy(vec![not(), not()]), Remedy::NotApplied);
        assert_eq!(remedy(vec![not(), Fate::Unknown("who knows".into())]), Remedy::Unknown);
        assert_eq!(remedy(vec![Fate::Written(Offset(1)), not()]), Remedy::Unknown);
    }
}
