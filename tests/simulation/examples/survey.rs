//! Runs seeds on, although some fail, and tells how: `survey [SEEDS [FAILING_MAX]]`. For breaks that were made on purpose.
//!
//! Prints a line for each rule or finding that spoke, with the number of seeds and what the first of them said, then
//! `N of M seeds fail`; then its status is 1. Ends early when as many fail as it is to find.

use rehome_simulation::{Options, run};
use std::collections::BTreeMap;
use std::panic;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|number| number.parse::<u64>().expect("a number"));
    let seeds = arguments.next().unwrap_or(100);
    let failing_max = arguments.next().unwrap_or(u64::MAX);
    // A break may panic: that is one more way to speak.
    panic::set_hook(Box::new(|_| ()));
    let mut spoke: BTreeMap<String, (u64, String)> = BTreeMap::new();
    let (mut seed, mut failing) = (0, 0);
    while seed < seeds && failing < failing_max {
        let text = match panic::catch_unwind(|| run(&Options::from_seed(seed)).failure) {
            Ok(None) => None,
            Ok(Some(failure)) => Some(failure.0),
            Err(_) => Some("panic: run that seed by itself".into()),
        };
        failing += u64::from(text.is_some());
        let lines = text.iter().flat_map(|text| text.lines()).filter_map(|line| Some((spoken(line)?, line)));
        // A finding and its examples are one word of one seed.
        for (name, line) in lines.collect::<BTreeMap<_, _>>() {
            spoke.entry(name.to_owned()).or_insert_with(|| (0, format!("seed {seed}: {line}"))).0 += 1;
        }
        seed += 1;
    }
    for (name, (count, first)) in &spoke {
        println!("{name}: {count} seeds; {first}");
    }
    println!("{failing} of {seed} seeds fail");
    if failing > 0 {
        std::process::exit(1);
    }
}

/// Returns the rule, or the kind of finding, that a line begins with.
fn spoken(line: &str) -> Option<&str> {
    let (name, rest) = line.split_once(": ")?;
    (!line.starts_with(' ') && rest != "0").then_some(name)
}
