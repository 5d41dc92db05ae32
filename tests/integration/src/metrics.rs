//! `GET /metrics`, read as Prometheus reads it.

use anyhow::{Context, ensure};
use std::collections::{BTreeMap, BTreeSet};

/// The samples of one page.
pub struct Page {
    samples: BTreeMap<String, f64>,
}

impl Page {
    /// Errors: it is not in the text format, or a metric is not introduced by its help and its type.
    pub fn read(text: &str) -> anyhow::Result<Page> {
        let (mut helps, mut kinds) = (BTreeSet::new(), BTreeMap::new());
        let mut page = Page { samples: BTreeMap::new() };
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, help) = help.split_once(' ').with_context(|| format!("{line:?} explains nothing"))?;
                ensure!(!help.is_empty() && helps.insert(name), "{line:?}: empty, or told twice");
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').with_context(|| format!("{line:?} tells no type"))?;
                ensure!(kinds.insert(name, kind).is_none(), "{line:?}: told twice");
                ensure!(["counter", "gauge", "histogram"].contains(&kind), "{line:?}: no such type");
                ensure!(
                    name.ends_with("_total") == (kind == "counter"),
                    "{line:?}: a counter, and no other, is a total"
                );
            } else {
                let (sample, value) = line.rsplit_once(' ').with_context(|| format!("{line:?} has no value"))?;
                let name = sample.split('{').next().unwrap_or_default();
                let told = |name: &str| helps.contains(name) && kinds.contains_key(name);
                let whole = ["_bucket", "_sum", "_count"].iter().filter_map(|part| name.strip_suffix(part));
                let of_histogram = whole.clone().any(|name| told(name) && kinds[name] == "histogram");
                let alone = told(name) && kinds[name] != "histogram";
                ensure!(alone || of_histogram, "{line:?} is not introduced");
                let value = value.parse().with_context(|| format!("{line:?} has no number"))?;
                ensure!(page.samples.insert(sample.to_owned(), value).is_none(), "{line:?} comes twice");
            }
        }
        ensure!(helps.iter().all(|name| kinds.contains_key(name)), "a metric has a help and no type");
        kinds
            .iter()
            .filter(|(_, kind)| **kind == "histogram")
            .try_for_each(|(name, _)| page.histogram(name).map(drop))?;
        Ok(page)
    }

    /// Returns a sample, named with its labels.
    pub fn value(&self, sample: &str) -> anyhow::Result<f64> {
        self.samples.get(sample).copied().with_context(|| format!("no {sample} among {:?}", self.samples.keys()))
    }

    /// Returns the bounds of a histogram with the count up to each; the last is without bound.
    ///
    /// Errors: the counts fall, or the last one is not the count of all.
    pub fn histogram(&self, name: &str) -> anyhow::Result<Vec<(f64, f64)>> {
        let prefix = format!("{name}_bucket{{le=\"");
        let bound = |sample: &str| sample.strip_prefix(&prefix)?.strip_suffix("\"}")?.parse::<f64>().ok();
        let mut buckets: Vec<(f64, f64)> =
            self.samples.iter().filter_map(|(sample, count)| Some((bound(sample)?, *count))).collect();
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (count, sum) = (self.value(&format!("{name}_count"))?, self.value(&format!("{name}_sum"))?);
        ensure!(buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{name} falls: {buckets:?}");
        ensure!(buckets.last() == Some(&(f64::INFINITY, count)), "{name} counts {count}: {buckets:?}");
        // The sum lies between what the buckets allow.
        let (mut least, mut before) = (0.0, (0.0, 0.0));
        for bucket in &buckets {
            least += before.0 * (bucket.1 - before.1);
            before = *bucket;
        }
        ensure!(least <= sum + 1e-9, "{name} adds up to {sum}, and its buckets to {least} at least");
        Ok(buckets)
    }
}
