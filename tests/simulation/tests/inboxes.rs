//! Records of producers that know no routes are accepted exactly once, those of a key in their order, whatever forwarder
//! crashes, freezes, or is one of two. More seeds by hand: `REHOME_SIM_SEEDS=1000`.

use rehome_simulation::{Counts, Options, run};

const SEEDS_FIXED: u64 = 80;

#[test]
fn every_record_of_an_inbox_is_accepted_once_and_in_order() {
    let number = |name: &str| std::env::var(name).ok().and_then(|number| number.parse().ok());
    let (first, seeds) = (number("REHOME_SIM_FIRST").unwrap_or(0), number("REHOME_SIM_SEEDS").unwrap_or(SEEDS_FIXED));
    let mut all = Counts::default();
    for seed in first..first + seeds {
        let options = Options { inbox_records: 150, ops_per_client: 20, ..Options::from_seed(seed) };
        let report = run(&options);
        if let Some(failure) = &report.failure {
            panic!("seed {seed} fails; again with REHOME_SIM_FIRST={seed}\n{options:?}\n{}\n{failure}", report.counts);
        }
        all.add(&report.counts);
    }
    println!("{seeds} seeds: {all}");
    if seeds >= SEEDS_FIXED {
        assert!(all.inbox_accepted > seeds * 60, "few records were accepted: {all}");
        assert!(all.inbox_copies > 0 && all.inbox_takeovers > 0 && all.cutovers > 0, "too little happened: {all}");
    }
}
