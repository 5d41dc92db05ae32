//! What disagrees, counted by kind, with a bounded number of examples.

use std::fmt;

/// Examples kept of each kind. Reason: enough to start looking, few enough to print.
const EXAMPLES_MAX: usize = 5;

/// A way in which a history, a store and the fold can disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// An acknowledged write that is not accepted, or is newer than the row at the owner.
    Lost,
    /// A request done twice, or a row visible at two owners.
    Duplicated,
    /// A row visible at the owner although its newest accepted write is a delete.
    Resurrected,
    /// A linearizable read older than a write acknowledged before it was asked, or of something never written.
    StaleRead,
    /// A row, request id or source position in a store that does not own it and takes part in no open move of it.
    MisplacedRow,
    /// Two sums that must be equal and are not: of a copy, of a cutover, or of a store and the fold.
    DigestMismatch,
}

impl Finding {
    pub const ALL: [Finding; 6] = [
        Finding::Lost,
        Finding::Duplicated,
        Finding::Resurrected,
        Finding::StaleRead,
        Finding::MisplacedRow,
        Finding::DigestMismatch,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Finding::Lost => "lost",
            Finding::Duplicated => "duplicated",
            Finding::Resurrected => "resurrected",
            Finding::StaleRead => "stale_reads",
            Finding::MisplacedRow => "misplaced_rows",
            Finding::DigestMismatch => "digest_mismatches",
        }
    }
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    counts: [u64; Finding::ALL.len()],
    examples: [Vec<String>; Finding::ALL.len()],
}

impl Findings {
    /// Counts one finding; its text is made only while examples of this kind are still kept.
    pub fn note(&mut self, finding: Finding, text: impl FnOnce() -> String) {
        let at = finding as usize;
        self.counts[at] += 1;
        if self.examples[at].len() < EXAMPLES_MAX {
            self.examples[at].push(text());
        }
    }

    pub fn count(&self, finding: Finding) -> u64 {
        self.counts[finding as usize]
    }

    pub fn examples(&self, finding: Finding) -> &[String] {
        &self.examples[finding as usize]
    }

    /// Tells whether nothing disagrees.
    pub fn is_clean(&self) -> bool {
        self.counts.iter().all(|&count| count == 0)
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in Finding::ALL {
            writeln!(f, "{}: {}", finding.name(), self.count(finding))?;
            for example in self.examples(finding) {
                writeln!(f, "  {example}")?;
            }
        }
        Ok(())
    }
}
