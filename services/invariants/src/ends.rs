//! R11: everything ends.

use crate::history::{History, Invariant, JobEnd, Violation};

/// Every job ends: completed, cancelled or failed with a reason. Asked once faults have stopped and nothing is left to
/// do.
pub fn r11_every_job_ends(history: &History) -> Result<(), Violation> {
    let violation = |text| Err(Violation { id: Invariant::R11, text });
    for job in &history.jobs {
        match &job.end {
            None => return violation(format!("job {} never ended", job.job)),
            Some(JobEnd::Failed { reason }) if reason.is_empty() => {
                return violation(format!("job {} failed without a reason", job.job));
            }
            Some(_) => {}
        }
    }
    Ok(())
}
