//! Appends one record after another to the log in the folder given, and prints each acknowledged offset: what a kill
//! test kills. Several appenders, so that groups are larger than one record.

use rehome_embedded::{EmbeddedLog, Limits};
use rehome_ports::{Lane, Log};
use rehome_records::{Record, TopicPartition};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

const APPENDERS: usize = 4;

fn main() {
    let dir = std::env::args().nth(1).expect("usage: appends FOLDER");
    let log: Arc<dyn Log> = EmbeddedLog::open(Path::new(&dir), Limits::default()).expect("the log opens");
    log.ensure_topic("killed", 1).expect("a topic can be created");
    let (told, acknowledged) = channel();
    for number in 0.. {
        if number >= APPENDERS as u64 {
            let (offset, text): (u64, String) = acknowledged.recv().expect("every append is answered");
            writeln!(std::io::stdout(), "{offset} {text}").expect("somebody reads");
        }
        let told = told.clone();
        let text = format!("{}-{number}", std::process::id());
        let record = Record { value: Some(text.clone().into_bytes()), ..Record::default() };
        let done = move |result: Result<Vec<_>, _>| {
            let offsets: Vec<rehome_keyspace::Offset> = result.expect("the log takes a record");
            drop(told.send((offsets[0].0, text)));
        };
        log.append(&TopicPartition::new("killed", 0), Lane::Data, vec![record], Box::new(done));
    }
}
