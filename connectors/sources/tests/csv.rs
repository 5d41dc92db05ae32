//! CSV files as a person might hand them in: quoting, missing columns, repeated sort values, broken rows.

use std::path::PathBuf;

use rehome_sources::{Columns, OpenError, RowReader, SourceRow};
use tempfile::TempDir;

struct Sample {
    _dir: TempDir,
    path: PathBuf,
}

fn sample(name: &str, bytes: impl AsRef<[u8]>) -> Sample {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).expect("writing the sample");
    Sample { _dir: dir, path }
}

fn columns(key: &str, sort: Option<&str>) -> Columns {
    Columns { key: key.to_string(), sort: sort.map(str::to_string) }
}

fn row(partition_key: &str, sort_key: &str, value: &str) -> SourceRow {
    SourceRow {
        partition_key: partition_key.as_bytes().to_vec(),
        sort_key: sort_key.as_bytes().to_vec(),
        value: value.as_bytes().to_vec(),
    }
}

/// Reads everything, broken rows as their messages.
fn read(sample: &Sample, columns: &Columns) -> Vec<Result<SourceRow, String>> {
    let rows = RowReader::open(&sample.path, columns).expect("the file opens");
    rows.map(|row| row.map_err(|error| error.to_string())).collect()
}

#[test]
fn quoted_fields_keep_commas_quotes_and_line_breaks() {
    let sample = sample("a.csv", "city,note\nOslo,\"a, \"\"b\"\"\nc\"\nBergen,plain\n");
    assert_eq!(
        read(&sample, &columns("city", None)),
        [
            Ok(row("Oslo", "000000000001", r#"{"city":"Oslo","note":"a, \"b\"\nc"}"#)),
            Ok(row("Bergen", "000000000002", r#"{"city":"Bergen","note":"plain"}"#)),
        ]
    );
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_are_no_part_of_the_rows() {
    let sample = sample("a.csv", "\u{feff}k,v\r\na,1\r\n");
    assert_eq!(read(&sample, &columns("k", None)), [Ok(row("a", "000000000001", r#"{"k":"a","v":"1"}"#))]);
}

#[test]
fn rows_with_one_sort_value_stay_apart_and_in_order() {
    let sample = sample("a.csv", "k,day\na,2001-01-02\na,2001-01-01\na,2001-01-01\n");
    let mut sort_keys: Vec<_> =
        read(&sample, &columns("k", Some("day"))).into_iter().map(|row| row.expect("a good row").sort_key).collect();
    sort_keys.sort();
    assert_eq!(
        sort_keys,
        [&b"2001-01-01\x00000000000002"[..], b"2001-01-01\x00000000000003", b"2001-01-02\x00000000000001"]
    );
}

#[test]
fn a_unique_sort_column_stands_alone() {
    let sample = sample("a.csv", "k,id\na,x\n");
    let mut rows = RowReader::open(&sample.path, &columns("k", Some("id"))).expect("the file opens").with_unique_sort();
    assert_eq!(rows.next(), Some(Ok(row("a", "x", r#"{"k":"a","id":"x"}"#))));
    assert_eq!(rows.next(), None);
}

#[test]
fn a_missing_column_names_those_that_there_are() {
    let sample = sample("a.csv", "origin,date\nORD,1\n");
    for columns in [columns("orign", None), columns("origin", Some("orign"))] {
        let error = RowReader::open(&sample.path, &columns).expect_err("there is no such column");
        assert!(matches!(error, OpenError::UnknownColumn { .. }));
        assert!(error.to_string().ends_with("has no column \"orign\"; its columns are origin, date"), "{error}");
    }
}

#[test]
fn two_columns_of_one_name_are_refused() {
    let sample = sample("a.csv", "k,v,v\na,1,2\n");
    let error = RowReader::open(&sample.path, &columns("k", None)).expect_err("the JSON would be ambiguous");
    assert!(matches!(error, OpenError::DuplicateColumn { .. }));
}

#[test]
fn an_unknown_extension_and_a_missing_file_are_told_apart() {
    let sample = sample("a.txt", "k\n");
    let error = RowReader::open(&sample.path, &columns("k", None)).expect_err("not a known format");
    assert!(matches!(error, OpenError::UnknownFormat { .. }));
    let error = RowReader::open(sample.path.with_file_name("b.csv"), &columns("k", None)).expect_err("no such file");
    assert!(matches!(error, OpenError::Io { .. }));
}

#[test]
fn broken_rows_are_reported_with_their_line_and_the_rest_is_read() {
    let sample = sample("a.csv", b"k,v\na,1\nb\nc,2,3\n,4\n\"d\nd\",\xff\ne,5\n");
    assert_eq!(
        read(&sample, &columns("k", None)),
        [
            Ok(row("a", "000000000001", r#"{"k":"a","v":"1"}"#)),
            Err("row 2 (line 3): it has 1 fields, the header has 2".to_string()),
            Err("row 3 (line 4): it has 3 fields, the header has 2".to_string()),
            Err("row 4 (line 5): column \"k\", the partition key, is empty".to_string()),
            Err("row 5 (line 6): field 2 is not UTF-8".to_string()),
            Ok(row("e", "000000000006", r#"{"k":"e","v":"5"}"#)),
        ]
    );
}

#[test]
fn empty_lines_and_windows_line_ends_do_not_shift_the_line_of_an_error() {
    for line_end in ["\n", "\r\n"] {
        let text = ["k,v", "a,1", "", "", "b", "", "c,2"].join(line_end);
        let sample = sample("a.csv", text);
        let mut rows = RowReader::open(&sample.path, &columns("k", None)).expect("the file opens");
        assert_eq!((rows.next().map(|row| row.is_ok()), rows.line()), (Some(true), Some(2)));
        assert_eq!(rows.raw(), Some((b"a,1".to_vec(), true)));
        let error = rows.next().expect("a second row").expect_err("a field is lacking");
        assert_eq!((error.row, error.line), (2, Some(5)), "{error}");
        assert_eq!(rows.raw(), Some((b"b".to_vec(), true)));
        assert_eq!((rows.next().map(|row| row.is_ok()), rows.line()), (Some(true), Some(7)));
        assert_eq!(rows.raw(), Some((b"c,2".to_vec(), true)));
    }
}

#[test]
fn a_long_row_is_shown_cut() {
    let sample = sample("a.csv", format!("k,v\na,{}\nb,1\n", "x".repeat(100_000)));
    let mut rows = RowReader::open(&sample.path, &columns("k", None)).expect("the file opens");
    assert!(rows.next().is_some_and(|row| row.is_ok()));
    let (raw, is_whole) = rows.raw().expect("CSV has lines");
    assert!(raw.len() == 64 << 10 && raw.starts_with(b"a,xxx") && !is_whole);
    assert!(rows.next().is_some_and(|row| row.is_ok()), "showing a row leaves the reading alone");
    assert_eq!(rows.next(), None);
}

#[test]
fn a_quote_left_open_ends_the_reading_instead_of_filling_the_memory() {
    let mut text = b"k,v\na,\"".to_vec();
    text.resize(65 << 20, b'x');
    let rows = read(&sample("a.csv", text), &columns("k", None));
    assert_eq!(rows.len(), 1);
    let error = rows[0].as_ref().expect_err("the row never ends");
    assert!(error.contains("is a quote left open?"), "{error}");
}

#[test]
fn a_quote_that_swallows_the_rest_of_the_file_is_an_error_that_names_its_line() {
    for (end, line_end) in [("", "\n"), ("\n", "\n"), ("\r\n", "\r\n")] {
        let text = ["k,v", "a,1", "\"b", "b\",\"2", "c,3"].join(line_end) + end;
        let rows = read(&sample("a.csv", &text), &columns("k", None));
        assert_eq!(rows.len(), 2, "{rows:?}");
        let error = rows[1].as_ref().expect_err("the rest is swallowed");
        assert!(error.starts_with("row 2 (line 4): a quote is opened in line 4 and never closed"), "{error}");
    }
    let swallowed_header = sample("a.csv", "\u{feff}\"k,v\na,1\n");
    let error = RowReader::open(&swallowed_header.path, &columns("k", None)).expect_err("the header never ends");
    assert!(error.to_string().contains("opened in line 1 and never closed"), "{error}");
    let closed = sample("a.csv", "k,v\na,\"1\"");
    assert_eq!(read(&closed, &columns("k", None)), [Ok(row("a", "000000000001", r#"{"k":"a","v":"1"}"#))]);
}

#[test]
fn a_header_without_commas_hints_at_the_delimiter() {
    for header in ["k;v\n", "k\tv\n"] {
        let error = RowReader::open(&sample("a.csv", header).path, &columns("k", None)).expect_err("one column");
        assert!(error.to_string().contains("separated by commas"), "{error}");
    }
}

#[test]
fn progress_goes_from_none_to_all() {
    let sample = sample("a.csv", "k\n".to_string() + &"some key\n".repeat(100_000));
    let mut rows = RowReader::open(&sample.path, &columns("k", None)).expect("the file opens");
    assert_eq!(rows.rows_total(), None);
    assert!(rows.fraction_read() < 0.01);
    assert_eq!(rows.by_ref().take(50_000).count(), 50_000);
    assert!((0.49..0.51).contains(&rows.fraction_read()), "{}", rows.fraction_read());
    assert_eq!(rows.by_ref().count(), 50_000);
    assert!((0.999..=1.0).contains(&rows.fraction_read()));
}

#[test]
fn an_empty_file_is_said_to_be_empty_and_a_header_alone_has_no_rows() {
    let error = RowReader::open(&sample("a.csv", "").path, &columns("k", None)).expect_err("no columns");
    assert!(error.to_string().ends_with("the file is empty"), "{error}");
    assert_eq!(read(&sample("a.csv", "k,v\n"), &columns("k", None)), []);
}
