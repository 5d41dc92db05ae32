//! Every format that is written down, byte for byte: record bodies, headers, store keys and values, hashes.
//!
//! `REHOME_BLESS=1 cargo test -p rehome-records --test golden` writes the files of formats that have none yet. It never
//! changes one that is there: what was written once stays readable for ever, so a changed type needs the next format
//! number and a sample under another name.

#[path = "golden_formats/control.rs"]
mod control;
#[path = "golden_formats/data.rs"]
mod data;
#[path = "golden_formats/foreign.rs"]
mod foreign;
#[path = "golden_formats/store.rs"]
mod store;

use rehome_records::{Record, record::Header};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs;
use std::path::PathBuf;
use std::sync::Once;

/// Lines of a name and bytes.
pub type Lines = Vec<(String, Vec<u8>)>;

/// One thing that is written down.
pub struct Sample {
    name: String,
    lines: Lines,
    /// Reads such lines and compares what they mean.
    read: Box<dyn Fn(&Lines)>,
}

impl Sample {
    /// A sample of what is only written, or compared: keys, hashes.
    pub fn written(name: &str, lines: impl IntoIterator<Item = (&'static str, Vec<u8>)>) -> Sample {
        let lines = lines.into_iter().map(|(what, bytes)| (what.to_owned(), bytes)).collect();
        Sample { name: name.to_owned(), lines, read: Box::new(|_| ()) }
    }

    /// A sample of bytes that are read back as the value.
    pub fn framed<T: PartialEq + Debug + 'static, E: PartialEq + Debug>(
        name: &str,
        value: T,
        bytes: Vec<u8>,
        read: impl Fn(&[u8]) -> Result<T, E> + 'static,
    ) -> Sample {
        let read = move |lines: &Lines| assert_eq!(read(&lines[0].1).as_ref(), Ok(&value));
        Sample { read: Box::new(read), ..Sample::written(name, [("bytes", bytes)]) }
    }

    /// A sample of a record's key, headers and value, of which the record is made anew and handed to `read`. Lines that
    /// are added for comparison only are told by `is_note`.
    pub fn record(name: &str, record: Record, is_note: fn(&str) -> bool, read: impl Fn(Record) + 'static) -> Sample {
        let mut lines = Lines::new();
        lines.extend(record.key.map(|key| ("key".to_owned(), key)));
        lines.extend(record.headers.into_iter().map(|header| (header.name.into_owned(), header.value)));
        lines.extend(record.value.map(|value| ("value".to_owned(), value)));
        let read = move |lines: &Lines| {
            let mut record = Record::default();
            for (what, bytes) in lines.iter().filter(|(what, _)| !is_note(what)) {
                match what.as_str() {
                    "key" => record.key = Some(bytes.clone()),
                    "value" => record.value = Some(bytes.clone()),
                    header => {
                        record.headers.push(Header { name: Cow::Owned(header.to_owned()), value: bytes.clone() });
                    }
                }
            }
            read(record);
        };
        Sample { name: name.to_owned(), lines, read: Box::new(read) }
    }

    fn path(&self) -> PathBuf {
        folder().join(format!("{}.hex", self.name))
    }

    fn golden(&self) -> Lines {
        let path = self.path();
        let text = fs::read_to_string(&path).unwrap_or_else(|error| {
            panic!("{}: {error}; a new format is blessed with REHOME_BLESS=1", path.display());
        });
        let lines = text.lines().map(|line| line.split_once(' ').expect("a name and bytes"));
        lines.map(|(what, bytes)| (what.to_owned(), unhex(bytes))).collect()
    }

    fn bless(&self) {
        if !self.path().exists() {
            let lines: Vec<String> =
                self.lines.iter().map(|(what, bytes)| format!("{what} {}\n", hex(bytes))).collect();
            fs::write(self.path(), lines.concat()).expect("the folder of golden files can be written");
        }
    }
}

/// Returns every sample; blesses the new ones first when asked to.
fn samples() -> Vec<Sample> {
    let samples: Vec<Sample> =
        [control::samples(), data::samples(), foreign::samples(), store::samples()].into_iter().flatten().collect();
    static BLESSED: Once = Once::new();
    if std::env::var_os("REHOME_BLESS").is_some() {
        BLESSED.call_once(|| samples.iter().for_each(Sample::bless));
    }
    samples
}

#[test]
fn every_format_is_written_as_ever() {
    for sample in samples() {
        assert_eq!(sample.golden(), sample.lines, "{} is written differently", sample.name);
    }
}

#[test]
fn every_format_ever_written_is_read() {
    for sample in samples() {
        (sample.read)(&sample.golden());
    }
}

#[test]
fn every_golden_file_belongs_to_a_sample_and_every_sample_has_its_own() {
    let samples = samples();
    let named: BTreeSet<PathBuf> = samples.iter().map(Sample::path).collect();
    assert_eq!(named.len(), samples.len(), "two samples share a name");
    let found: BTreeSet<PathBuf> = fs::read_dir(folder())
        .expect("the folder exists")
        .map(|entry| entry.expect("it can be listed").path())
        .collect();
    assert_eq!(found, named);
}

fn folder() -> PathBuf {
    // Asked when it runs: two checkouts that share a target folder share what was built in it.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo tells every test where it belongs");
    PathBuf::from(here).join("golden")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().map(|digit| (digit as char).to_digit(16).expect("hexadecimal") as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
