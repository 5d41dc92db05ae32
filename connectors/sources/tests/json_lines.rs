//! JSON lines as people send them in: numbers as keys, broken lines, lines without an end.

use std::path::PathBuf;

use rehome_sources::{Columns, RowReader, SourceRow};
use tempfile::TempDir;

struct Sample {
    _dir: TempDir,
    path: PathBuf,
}

fn sample(bytes: impl AsRef<[u8]>) -> Sample {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("rows.jsonl");
    std::fs::write(&path, bytes).expect("writing the sample");
    Sample { _dir: dir, path }
}

fn open(sample: &Sample, key: &str, sort: Option<&str>) -> RowReader {
    let columns = Columns { key: key.to_string(), sort: sort.map(str::to_string) };
    RowReader::open(&sample.path, &columns).expect("the file opens")
}

fn row(partition_key: &str, sort_key: &str, value: &str) -> SourceRow {
    SourceRow { partition_key: partition_key.into(), sort_key: sort_key.into(), value: value.into() }
}

/// Reads everything, broken rows as their messages.
fn read(bytes: impl AsRef<[u8]>, key: &str, sort: Option<&str>) -> Vec<Result<SourceRow, String>> {
    open(&sample(bytes), key, sort).map(|row| row.map_err(|error| error.to_string())).collect()
}

#[test]
fn the_value_is_the_line_as_it_stands_and_keys_keep_their_digits() {
    let text = "{\"k\": 1.50, \"v\": [1, {\"k\": 2}]}\n  {\"k\":true}\r\n{\"v\":\"\\u00e9\",\"k\":\"\\u00e9\\n\"}";
    assert_eq!(
        read(text, "k", None),
        [
            Ok(row("1.50", "000000000001", "{\"k\": 1.50, \"v\": [1, {\"k\": 2}]}")),
            Ok(row("true", "000000000002", "{\"k\":true}")),
            Ok(row("é\n", "000000000003", "{\"v\":\"\\u00e9\",\"k\":\"\\u00e9\\n\"}")),
        ]
    );
}

#[test]
fn a_sort_field_goes_before_the_row_number_and_may_be_the_key_too() {
    let text = "{\"k\":\"a\",\"day\":7}\n{\"k\":\"a\",\"day\":null}\n";
    let sort_keys =
        |sort| read(text, "k", Some(sort)).into_iter().map(|row| row.expect("a good row").sort_key).collect::<Vec<_>>();
    assert_eq!(sort_keys("day"), [&b"7\x00000000000001"[..], b"\x00000000000002"]);
    assert_eq!(sort_keys("k"), [&b"a\x00000000000001"[..], b"a\x00000000000002"]);
}

#[test]
fn a_unique_sort_field_stands_alone_and_null_is_none() {
    let sample = sample("{\"k\":\"a\",\"id\":\"x\"}\n{\"k\":\"a\",\"id\":null}\n");
    let rows = open(&sample, "k", Some("id")).with_unique_sort();
    let rows: Vec<_> = rows.map(|row| row.map_err(|error| error.to_string())).collect();
    let null = "row 2 (line 2): column \"id\", the sort key, is null";
    assert_eq!(rows, [Ok(row("a", "x", "{\"k\":\"a\",\"id\":\"x\"}")), Err(null.to_string())]);
}

#[test]
fn broken_lines_are_reported_with_their_line_and_the_rest_is_read() {
    let cases: [(&[u8], &str); 14] = [
        (b"{\"k\":\"a\"", "not a JSON object: column 8: EOF while parsing an object"),
        (b"{\"k\":\"a\"}}", "not a JSON object: column 10: trailing characters"),
        (b"{\"k\":\"a\"} {}", "not a JSON object: column 11: trailing characters"),
        (b"{'k':1}", "not a JSON object: column 2: key must be a string"),
        (b"{\"k\":\"a\",\"v\":nul}", "not a JSON object: column 17: expected ident"),
        (b"[1]", "not a JSON object: column 0: invalid type: sequence, expected an object"),
        (b"7", "not a JSON object: column 1: invalid type: integer `7`, expected an object"),
        (b"{\"v\":1}", "there is no field \"k\""),
        (b"{\"k\":null}", "column \"k\", the partition key, is empty"),
        (b"{\"k\":\"\"}", "column \"k\", the partition key, is empty"),
        (b"{\"k\":{\"a\":1}}", "field \"k\" is an object or a list, which is no key"),
        (b"{\"k\":\"a\",\"k\":\"b\"}", "comes twice"),
        (b"{\"k\":\"\xff\"}", "byte 7 is not UTF-8"),
        (b"{\"k\":\"\\ud800\"}", "field \"k\": "),
    ];
    for (line, reason) in cases {
        let text = [b"\n{\"k\":\"first\"}\n\n", line, b"\n{\"k\":\"last\"}\n"].concat();
        let sample = sample(text);
        let mut rows = open(&sample, "k", None);
        assert!(rows.next().is_some_and(|row| row.is_ok_and(|row| row.partition_key == b"first")));
        let error = rows.next().expect("a second row").expect_err("a broken line");
        assert!(error.row == 2 && error.line == Some(4) && error.reason.contains(reason), "{error}");
        assert_eq!(rows.raw(), Some((line.to_vec(), true)));
        assert!(rows.next().is_some_and(|row| row.is_ok_and(|row| row.partition_key == b"last")), "after {error}");
        assert_eq!((rows.next(), rows.row()), (None, 3));
    }
}

#[test]
fn a_line_without_end_is_skipped_without_filling_the_memory() {
    let long = "x".repeat(64 << 20);
    let rows = read(format!("{{\"k\":\"{long}\"}}\n{{\"k\":\"a\"}}\n"), "k", None);
    let longer = "row 1 (line 1): the line is longer than 67108864 bytes".to_string();
    // Not shown when it differs: it may be all of that.
    assert!(rows == [Err(longer), Ok(row("a", "000000000002", "{\"k\":\"a\"}"))]);
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_row() {
    assert_eq!(read("\u{feff}{\"k\":\"a\"}", "k", None), [Ok(row("a", "000000000001", "{\"k\":\"a\"}"))]);
}

#[test]
fn an_empty_file_and_empty_lines_are_no_rows() {
    for text in ["", "\n \n\n"] {
        let sample = sample(text);
        let mut rows = open(&sample, "k", None);
        assert_eq!((rows.next(), rows.row(), rows.fraction_read()), (None, 0, 1.0));
    }
}
