//! Damage below the end that was synced.

use super::*;

#[test]
fn a_flipped_bit_below_the_synced_end_is_refused_and_one_above_it_is_cut_where_acknowledged_early() {
    let killed = Killed::weak(SYNCED);
    for (number, write) in killed.writes.iter().enumerate() {
        for at in bytes_of(write) {
            let dir = killed.with(&flipped(&killed, at));
            assert!(is_marked(dir.path()));
            match number < SYNCED {
                true => {
                    damaged(dir.path(), &format!("record {number}, byte {at}"));
                    let told = look(dir.path()).unwrap_err().to_string();
                    // A header of another type or file is passed over up to the next write.
                    let places = [write.bytes.start, write.bytes.end];
                    let named = |place| told.contains(&format!("at byte {place}, where everything was synced"));
                    assert!(places.into_iter().any(named), "{told}");
                }
                false => opens_with(dir.path(), number, at),
            }
        }
    }
}

#[test]
fn a_log_that_is_cut_off_below_the_synced_end_is_refused_and_one_above_it_opens() {
    let killed = Killed::weak(SYNCED);
    for (number, write) in killed.writes.iter().enumerate() {
        // Nothing lies behind that could tell.
        let length = write.bytes.end - 1;
        let dir = killed.with(&killed.bytes[..length]);
        match number < SYNCED {
            true => damaged(dir.path(), &format!("record {number}")),
            false => opens_with(dir.path(), number, length),
        }
    }
}

#[test]
fn without_a_synced_end_that_is_whole_the_log_is_cut_as_before_there_was_one() {
    for altered in [None, Some(vec![]), Some(vec![0xff; 600])] {
        let mut killed = Killed::weak(SYNCED);
        killed.others.remove("synced").unwrap();
        killed.others.extend(altered.map(|bytes| ("synced".to_owned(), bytes)));
        let at = killed.writes[1].bytes.start + 20;
        opens_with(killed.with(&flipped(&killed, at)).path(), 1, at);
    }
}

#[test]
fn the_synced_end_that_is_kept_is_what_was_synced_and_a_power_loss_opens_up_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let log = open_weak(dir.path());
    log.ensure_topic(&partition().topic, 1).unwrap();
    (0..SYNCED).for_each(|number| assert_eq!(append(&log, value(number)), Offset(number as u64)));
    log.sync().unwrap();
    let kept = synced_end::read(dir.path());
    assert_eq!(kept, Some(log.disk().synced_sequence()));
    (SYNCED..RECORDS).for_each(|number| assert_eq!(append(&log, value(number)), Offset(number as u64)));
    assert_eq!(synced_end::read(dir.path()), kept, "what is not synced is not told to be");
    for torn in [0, 1, 40] {
        let left = tempfile::tempdir().unwrap();
        log.copy_after_power_loss(left.path(), torn).unwrap();
        let killed = Killed::copy(left.path(), SYNCED);
        opens_with(left.path(), SYNCED, torn);
        // The same, and a bit is flipped in the last record that was synced.
        let last = killed.writes.last().unwrap();
        damaged(killed.with(&flipped(&killed, last.bytes.start + 20)).path(), "a power loss and a flipped bit");
    }
    log.sync().unwrap();
    assert!(synced_end::read(dir.path()) > kept);
}

#[test]
fn a_file_that_is_broken_from_its_start_is_refused_where_synced_records_lie_in_the_next() {
    let mut killed = Killed::weak(SYNCED);
    // A whole piece by its header, of a file before the newest; nothing before it tells its number.
    let piece = [&[0; 4][..], &12u16.to_le_bytes(), &[5], &3u32.to_le_bytes(), &[7; 12]].concat();
    assert!(killed.others.insert("000003.log".into(), piece).is_none());
    damaged(killed.with(&killed.bytes).path(), "the file before");
    killed.others.remove("synced").unwrap();
    let cut = look(killed.with(&killed.bytes).path()).unwrap().unwrap();
    assert!(cut.beyond_records > RECORDS as u64, "{cut:?}");
}

#[test]
fn a_log_that_is_whole_and_ends_below_the_synced_end_is_refused() {
    let killed = Killed::weak(SYNCED);
    for (number, write) in killed.writes.iter().enumerate() {
        let dir = killed.with(&killed.bytes[..write.bytes.end]);
        match number + 1 < SYNCED {
            true => damaged(dir.path(), &format!("record {number} is the last")),
            false => opens_with(dir.path(), number + 1, 0),
        }
    }
    // A header of another type or file looks as what an earlier life of the file left behind the end.
    let killed = Killed::weak(RECORDS - 1);
    let last = killed.writes[RECORDS - 2].bytes.clone();
    let bytes = &killed.bytes[..last.end];
    for at in last.clone().skip(6).take(5) {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 1;
        damaged(killed.with(&bytes).path(), &format!("byte {at}"));
    }
}

#[test]
fn where_every_record_is_synced_before_it_is_acknowledged_damage_of_the_last_is_refused() {
    let killed = Killed::new();
    let last = &killed.writes[RECORDS - 1];
    for at in bytes_of(last) {
        damaged(killed.with(&flipped(&killed, at)).path(), &format!("byte {at}"));
    }
    for length in [last.bytes.start, last.bytes.start + 1, last.bytes.end - 1] {
        damaged(killed.with(&killed.bytes[..length]).path(), &format!("cut at {length}"));
    }
    opens_with(killed.with(&killed.bytes).path(), RECORDS, 0);
}
