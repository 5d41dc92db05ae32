//! Parquet files written here and read back: types, nulls, codecs, several row groups, damage.

use std::path::PathBuf;
use std::sync::Arc;

use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use rehome_sources::{Columns, InputDigest, OpenError, RowReader, SourceRow};
use tempfile::TempDir;

const FLIGHTS: &str = "message flights {
    required binary origin (UTF8);
    optional int64 date (TIMESTAMP(MILLIS, false));
    optional int32 delay;
    optional double distance;
}";

struct Sample {
    _dir: TempDir,
    path: PathBuf,
}

fn columns(key: &str, sort: Option<&str>) -> Columns {
    Columns { key: key.to_string(), sort: sort.map(str::to_string) }
}

fn write_column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, std::fs::File>,
    values: &[T::T],
    levels: Option<&[i16]>,
) {
    let mut column = group.next_column().expect("a column is left").expect("a column is left");
    column.typed::<T>().write_batch(values, levels, None).expect("writing values");
    column.close().expect("closing the column");
}

/// Writes row groups of `rows` flights each. Row i of a group has a null delay if i is a multiple of 3.
fn flights(groups: usize, rows: usize, codec: Compression) -> Sample {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("flights.parquet");
    let schema = Arc::new(parse_message_type(FLIGHTS).expect("the schema parses"));
    let properties = Arc::new(WriterProperties::builder().set_compression(codec).build());
    let file = std::fs::File::create(&path).expect("creating the sample");
    let mut writer = SerializedFileWriter::new(file, schema, properties).expect("starting the file");
    for group in 0..groups {
        let mut out = writer.next_row_group().expect("starting a row group");
        let at = |row: usize| group * rows + row;
        let origins: Vec<ByteArray> = (0..rows).map(|row| format!("O\"{}", at(row) % 7).as_str().into()).collect();
        write_column::<ByteArrayType>(&mut out, &origins, None);
        let all = vec![1i16; rows];
        let dates: Vec<i64> = (0..rows).map(|row| 978_307_200_000 + 60_000 * (at(row) as i64 / 2)).collect();
        write_column::<Int64Type>(&mut out, &dates, Some(&all));
        let some: Vec<i16> = (0..rows).map(|row| i16::from(row % 3 != 0)).collect();
        let delays: Vec<i32> = (0..rows).filter(|row| row % 3 != 0).map(|row| row as i32 - 5).collect();
        write_column::<Int32Type>(&mut out, &delays, Some(&some));
        let distances: Vec<f64> = (0..rows).map(|row| row as f64 + 0.5).collect();
        write_column::<DoubleType>(&mut out, &distances, Some(&all));
        out.close().expect("closing the row group");
    }
    writer.close().expect("closing the file");
    Sample { _dir: dir, path }
}

fn read(sample: &Sample, columns: &Columns) -> Vec<SourceRow> {
    let rows = RowReader::open(&sample.path, columns).expect("the file opens");
    rows.map(|row| row.expect("a good row")).collect()
}

#[test]
fn typed_cells_become_json_in_the_order_of_the_columns() {
    let rows = read(&flights(1, 3, Compression::UNCOMPRESSED), &columns("origin", Some("date")));
    let values: Vec<_> = rows.iter().map(|row| std::str::from_utf8(&row.value).expect("JSON is text")).collect();
    assert_eq!(
        values,
        [
            r#"{"origin":"O\"0","date":"2001-01-01T00:00:00.000","delay":null,"distance":0.5}"#,
            r#"{"origin":"O\"1","date":"2001-01-01T00:00:00.000","delay":-4,"distance":1.5}"#,
            r#"{"origin":"O\"2","date":"2001-01-01T00:01:00.000","delay":-3,"distance":2.5}"#,
        ]
    );
    assert_eq!(rows[1].partition_key, b"O\"1");
    assert_eq!(rows[1].sort_key, b"2001-01-01T00:00:00.000\x00000000000002");
}

#[test]
fn every_codec_and_any_batch_boundary_gives_the_same_rows() {
    let columns = columns("origin", Some("date"));
    let digest = |codec| {
        let mut digest = InputDigest::default();
        for row in read(&flights(3, 5_000, codec), &columns) {
            digest.add(&row);
        }
        assert_eq!(digest.rows(), 15_000);
        digest.to_string()
    };
    let plain = digest(Compression::UNCOMPRESSED);
    for codec in [
        Compression::SNAPPY,
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::default()),
        Compression::GZIP(GzipLevel::default()),
    ] {
        assert_eq!(digest(codec), plain, "{codec:?}");
    }
}

#[test]
fn the_total_is_known_before_reading_and_sort_keys_are_unique() {
    let sample = flights(2, 3_000, Compression::SNAPPY);
    let mut rows = RowReader::open(&sample.path, &columns("origin", Some("date"))).expect("the file opens");
    assert_eq!(rows.rows_total(), Some(6_000));
    let mut sort_keys: Vec<_> = rows.by_ref().map(|row| row.expect("a good row").sort_key).collect();
    assert!(sort_keys.is_sorted(), "the file is sorted by date");
    sort_keys.dedup();
    assert_eq!(sort_keys.len(), 6_000);
    assert_eq!(rows.fraction_read(), 1.0);
    assert_eq!(rows.next(), None);
}

#[test]
fn a_row_without_a_partition_key_is_reported_and_the_rest_is_read() {
    let sample = flights(1, 4, Compression::SNAPPY);
    let rows = RowReader::open(&sample.path, &columns("delay", None)).expect("the file opens");
    let rows: Vec<_> = rows.map(|row| row.map(|row| row.partition_key).map_err(|error| error.to_string())).collect();
    let empty = |row: u64| Err(format!("row {row}: column \"delay\", the partition key, is empty"));
    assert_eq!(rows, [empty(1), Ok(b"-4".to_vec()), Ok(b"-3".to_vec()), empty(4)]);
}

#[test]
fn a_damaged_row_group_is_reported_and_the_next_is_read() {
    let sample = flights(2, 1_000, Compression::SNAPPY);
    let mut bytes = std::fs::read(&sample.path).expect("reading the sample");
    bytes[4..40].fill(0xff); // the first page header of the first column
    std::fs::write(&sample.path, bytes).expect("writing the damage");
    let rows = RowReader::open(&sample.path, &columns("origin", None)).expect("the footer is whole");
    let rows: Vec<_> = rows.collect();
    assert_eq!(rows.len(), 1 + 1_000);
    let error = rows[0].as_ref().expect_err("the first group is damaged").to_string();
    assert!(error.starts_with("row 1: 1000 rows from here on are skipped: "), "{error}");
    assert_eq!(rows[1].as_ref().expect("a good row").sort_key, b"000000001001");
}

#[test]
fn a_missing_column_names_those_that_there_are() {
    let sample = flights(1, 1, Compression::SNAPPY);
    let error = RowReader::open(&sample.path, &columns("orign", None)).expect_err("there is no such column");
    assert!(error.to_string().ends_with("its columns are origin, date, delay, distance"), "{error}");
}

#[test]
fn lists_are_refused_by_name_and_no_parquet_at_all_as_such() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("a.parquet");
    let schema = parse_message_type("message m { required int32 k; repeated int32 tags; }").expect("parses");
    let file = std::fs::File::create(&path).expect("creating the sample");
    SerializedFileWriter::new(file, Arc::new(schema), Arc::default()).expect("starting").close().expect("closing");
    let error = RowReader::open(&path, &columns("k", None)).expect_err("lists are not supported");
    assert!(matches!(error, OpenError::NestedColumn { ref column, .. } if column == "tags"), "{error}");

    std::fs::write(&path, "k,v\na,1\n").expect("writing the sample");
    let error = RowReader::open(&path, &columns("k", None)).expect_err("it is CSV");
    assert!(matches!(error, OpenError::Unreadable { .. }), "{error}");
}

/// Whatever a file holds, reading it ends in rows and errors: every byte is damaged once, and every length tried.
#[test]
fn damage_anywhere_never_stops_the_process() {
    let whole = std::fs::read(&flights(1, 3, Compression::SNAPPY).path).expect("reading the sample");
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("a.parquet");
    let mut refused = 0;
    let check = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("writing the damage");
        let rows = RowReader::open(&path, &columns("origin", Some("date")));
        rows.map(|rows| rows.take(100).count()).is_err()
    };
    for at in 0..whole.len() {
        for wrong in [0xff, whole[at] ^ 1] {
            let mut bytes = whole.clone();
            bytes[at] = wrong;
            refused += usize::from(check(&bytes));
        }
    }
    assert!(refused > whole.len() / 4, "only {refused} damaged files were refused");
    assert!((0..whole.len()).all(|bytes| check(&whole[..bytes])), "a file that is cut anywhere is refused as a whole");
}
