//! Rows are written in each format and read back: the same rows, whatever bytes they hold.

use std::fs::File;
use std::io::{Seek, Write};

use proptest::prelude::*;
use rehome_sources::{Columns, Format, Layout, OpenError, RowReader, RowWriter, SourceRow};

const FORMATS: [Format; 3] = [Format::Csv, Format::JsonLines, Format::Parquet];

fn row(partition_key: &[u8], sort_key: &[u8], value: &[u8]) -> SourceRow {
    SourceRow { partition_key: partition_key.to_vec(), sort_key: sort_key.to_vec(), value: value.to_vec() }
}

/// Returns a file of these rows, to be read from its start.
fn written(format: Format, rows: &[SourceRow]) -> File {
    let mut writer = RowWriter::new(format, tempfile::tempfile().expect("a temporary file")).expect("starting");
    rows.iter().for_each(|row| writer.write(row.clone()).expect("writing a row"));
    assert_eq!(writer.rows(), rows.len() as u64);
    let mut file = writer.finish().expect("ending the file");
    file.rewind().expect("back to the start");
    file
}

fn read(format: Format, file: File) -> Vec<SourceRow> {
    let rows = RowReader::from_file(file, "rows", format, &Layout::Exported).expect("the file opens");
    rows.map(|row| row.expect("a good row")).collect()
}

fn text(format: Format, rows: &[SourceRow]) -> String {
    std::io::read_to_string(written(format, rows)).expect("text")
}

fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let awkward = prop::sample::select(b"\0\"',\\\r\n \xef\xbb\xbf\xffa".as_slice());
    prop_oneof![prop::collection::vec(awkward, 0..8), "\\PC{0,6}".prop_map(String::into_bytes), any::<Vec<u8>>()]
}

proptest! {
    #[test]
    fn every_format_gives_the_same_rows_back(
        rows in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 1..5), any_bytes(), any_bytes()).prop_map(|(key, sort, value)| row(&key, &sort, &value)),
            0..20,
        )
    ) {
        for format in FORMATS {
            prop_assert_eq!(&read(format, written(format, &rows)), &rows, "{}", format);
        }
    }
}

#[test]
fn large_rows_and_many_row_groups_come_back() {
    let value = |seed: usize| (0..1 << 20).map(|at: usize| ((at * seed) >> 3) as u8).collect::<Vec<u8>>();
    let large: Vec<SourceRow> = (0..40).map(|seed| row(&[7; 4096], &[seed as u8; 4096], &value(seed))).collect();
    for format in FORMATS {
        assert!(read(format, written(format, &large)) == large, "{format}");
    }
    let many: Vec<SourceRow> = (0..300_000_u32).map(|number| row(b"k", &number.to_be_bytes(), b"")).collect();
    assert!(read(Format::Parquet, written(Format::Parquet, &many)) == many);
}

#[test]
fn text_is_written_as_text_and_other_bytes_as_base64() {
    let rows = [row(b"ORD", b"2001", b"a \"late\" one"), row(b"\xff", b"", b"v")];
    let csv = "key,sort,value,encoding\nORD,2001,\"a \"\"late\"\" one\",utf8\n/w==,,dg==,base64\n";
    assert_eq!(text(Format::Csv, &rows), csv);
    let lines = [
        r#"{"key":"ORD","sort":"2001","value":"a \"late\" one","encoding":"utf8"}"#,
        r#"{"key":"/w==","sort":"","value":"dg==","encoding":"base64"}"#,
    ];
    assert_eq!(text(Format::JsonLines, &rows), lines.join("\n") + "\n");
}

#[test]
fn an_export_of_no_rows_is_a_whole_file() {
    for format in FORMATS {
        assert_eq!(read(format, written(format, &[])), [], "{format}");
    }
    assert_eq!(text(Format::Csv, &[]), "key,sort,value,encoding\n");
}

#[test]
fn what_is_no_export_is_refused_as_a_whole_or_by_row() {
    let file = |text: &str| {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(text.as_bytes()).and_then(|()| file.rewind()).expect("writing the sample");
        file
    };
    let open = |format, text| RowReader::from_file(file(text), "rows", format, &Layout::Exported);
    let error = open(Format::Csv, "key,sort,value\na,b,c\n").expect_err("a column is lacking");
    assert!(matches!(error, OpenError::UnknownColumn { ref column, .. } if column == "encoding"), "{error}");
    let reasons = |format, text| {
        let rows = open(format, text).expect("the file opens");
        rows.map(|row| row.expect_err("a wrong row").to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        reasons(Format::Csv, "key,sort,value,encoding\n,b,c,utf8\na,b,c,latin1\na,b,c,base64\n"),
        [
            "row 1 (line 2): column \"key\", the partition key, is empty",
            "row 2 (line 3): encoding \"latin1\" is neither utf8 nor base64",
            "row 3 (line 4): column \"key\" is not base64: Invalid input length: 1",
        ]
    );
    let number = r#"{"key":"k","sort":"","value":7,"encoding":"utf8"}"#;
    let lacking = r#"{"key":"k","sort":"","value":"7"}"#;
    let reasons = reasons(Format::JsonLines, &format!("{number}\n{lacking}\n"));
    assert!(
        reasons[0].contains("\"value\" is no text") && reasons[1].contains("\"encoding\" is no text"),
        "{reasons:?}"
    );
}

#[test]
fn a_parquet_export_has_three_binary_columns() {
    let file = written(Format::Parquet, &[row(b"k", b"s", b"v")]);
    let columns = Columns { key: "key".to_string(), sort: None };
    let rows =
        RowReader::from_file(file, "rows", Format::Parquet, &Layout::Columns(columns)).expect("plain columns too");
    let rows: Vec<_> = rows.map(|row| row.expect("a good row")).collect();
    assert_eq!(rows, [row(b"k", b"000000000001", br#"{"key":"k","sort":"s","value":"v"}"#)]);
}
