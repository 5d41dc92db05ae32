//! How long clients were held up while keys changed their owner, counted by length.

/// Upper bounds of what is counted together, in milliseconds. Reason: a cutover should hold nobody for more than 25 ms; a
/// second is far above what a predicted pause may be.
pub const BOUNDS_MS: [u64; 10] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000];

/// Pauses that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pauses {
    /// At most as long as the bound of the same place, and longer than the one before.
    counts: [u64; BOUNDS_MS.len()],
    /// Longer than every bound.
    longer: u64,
    sum_ms: u64,
}

impl Pauses {
    pub(crate) fn note(&mut self, pause_ms: u64) {
        let place = BOUNDS_MS.iter().position(|bound_ms| pause_ms <= *bound_ms);
        *place.map_or(&mut self.longer, |place| &mut self.counts[place]) += 1;
        self.sum_ms += pause_ms;
    }

    /// Returns each bound in milliseconds with the number of pauses up to it.
    pub fn up_to(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut sum = 0;
        BOUNDS_MS.into_iter().zip(self.counts).map(move |(bound_ms, count)| {
            sum += count;
            (bound_ms, sum)
        })
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.longer
    }

    pub fn sum_ms(&self) -> u64 {
        self.sum_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_counts_from_the_first_bound_that_it_does_not_pass() {
        let mut pauses = Pauses::default();
        [0, 1, 2, 3, 25, 26, 1_000, 1_001, 9_000].into_iter().for_each(|pause_ms| pauses.note(pause_ms));
        let counts: Vec<u64> = pauses.up_to().map(|(_, count)| count).collect();
        assert_eq!(counts, [2, 3, 4, 4, 5, 6, 6, 6, 6, 7]);
        assert_eq!((pauses.count(), pauses.sum_ms()), (9, 11_058));
    }
}
