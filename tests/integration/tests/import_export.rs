//! Rows from files into a keyspace and out of it again, as an operator does it.

use rehome_integration::client::{fact, row_name};
use rehome_integration::http::Http;
use rehome_integration::memory::{BUCKETS, Memory, ticks};
use rehome_integration::shell::{Shell, command, rehome, rehome_piped};
use rehome_integration::{Folder, wait};
use serde_json::{Value, json};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

const FORMATS: [&str; 3] = ["csv", "jsonl", "parquet"];
/// Nobody listens there.
const NOWHERE: &str = "http://127.0.0.1:9";

fn shell_with(keyspaces: &[&str]) -> Shell {
    let shell = Shell::start().expect("it starts");
    for keyspace in keyspaces {
        shell.good(&format!("keyspace create {keyspace} --shards 3 --buckets {BUCKETS}"));
    }
    shell
}

/// Writes a file beside the folder's data.
fn file(shell: &Shell, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = shell.dir().join(name);
    std::fs::write(&path, bytes).expect("writing a file");
    path
}

/// Returns the rows of a keyspace, as lines of an export, sorted.
fn rows(shell: &Shell, keyspace: &str) -> Vec<String> {
    let said = rehome_piped(shell.server(), &format!("export {keyspace} - --format jsonl"), Stdio::null());
    assert_eq!(said.exit, 0, "{said:?}");
    let mut lines: Vec<String> =
        String::from_utf8(said.out).expect("JSON is text").lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn counts(answer: &Value) -> [u64; 4] {
    ["rows", "accepted", "done_before", "rejected"].map(|field| answer[field].as_u64().expect("a count"))
}

/// Reads every row through the API, ends the process, and compares three ways: what was read, what lies in the stores,
/// and what the logs say must be.
fn conclude(shell: Shell, keyspaces: &[(&str, usize)]) {
    let memories: Vec<Memory> = keyspaces.iter().map(|(keyspace, _)| read_all(&shell, keyspace)).collect();
    let dir = shell.into_folder().expect("it stops");
    let folder = Folder::open(dir.path()).expect("the folder opens");
    for ((keyspace, rows), memory) in keyspaces.iter().zip(memories) {
        let compared = folder.compare(keyspace, &memory).expect("comparing");
        assert!(compared.findings.is_clean(), "{keyspace}:\n{}", compared.findings);
        assert_eq!(compared.rows_visible, *rows as u64, "{keyspace}");
    }
    folder.close().expect("the folder closes");
}

/// Returns what a reader saw of the rows that are text.
fn read_all(shell: &Shell, keyspace: &str) -> Memory {
    let (http, path) = (Http::default(), format!("/v1/keyspaces/{keyspace}/scan"));
    let mut memory = Memory::default();
    let mut after = String::new();
    loop {
        let issued_at = ticks();
        let query = [("limit", "1000"), ("after", after.as_str())];
        let query = if after.is_empty() { &query[..1] } else { &query[..] };
        let page = http.get(shell.server(), &path, query).and_then(|answer| answer.good()).expect("a page");
        for row in page["rows"].as_array().expect("rows").iter().filter(|row| row["encoding"] == "utf8") {
            memory.read(&row_name(row).expect("a name"), Some(&fact(row).expect("a fact")), issued_at);
        }
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => return memory,
        }
    }
}

/// Rows whose bytes are awkward in one format or another, as lines of an export.
fn awkward_rows() -> String {
    let text =
        |key: &str, sort: &str, value: &str| json!({"key": key, "sort": sort, "value": value, "encoding": "utf8"});
    let binary =
        |key: &str, sort: &str, value: &str| json!({"key": key, "sort": sort, "value": value, "encoding": "base64"});
    let mut rows = vec![
        text("k", "", ""),
        text("k", "\0", "\0\u{1}\u{7f}"),
        text("k\0", "a\0\u{1}", "zero bytes"),
        text(" k ", "a,b\"c\"", "line\nfeed\r\n, \"quotes\" and a \\"),
        text("\u{feff}k", "é", "ключ 🐦"),
        text("null", "0", "{\"a\":null}"),
        binary("/w==", "", "AP8="),
        binary("/wA=", "AA==", "dGV4dA=="),
        binary("//8=", "//8=", ""),
    ];
    rows.extend(
        (0..1_500).map(|row| text(&format!("key-{}", row % 70), &format!("{row:05}"), &format!("value {row}"))),
    );
    rows.iter().fold(String::new(), |text, row| text + &row.to_string() + "\n")
}

#[test]
fn every_format_brings_the_same_rows_to_another_keyspace_while_shards_move() {
    let shell = shell_with(&["first", "csv", "jsonl", "parquet"]);
    let input = file(&shell, "first.jsonl", awkward_rows());
    let imported = shell.json(&format!("import first {} --exported", input.display()));
    assert_eq!(counts(&imported), [1_509, 1_509, 0, 0], "{imported}");
    let expected = rows(&shell, "first");
    let mut given: Vec<Value> = awkward_rows().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut found: Vec<Value> = expected.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    given.sort_by_key(Value::to_string);
    found.sort_by_key(Value::to_string);
    assert_eq!(found, given);

    let job = shell.json("reshard first --shards 5")["job"].as_u64().expect("a job");
    for format in FORMATS {
        let path = shell.dir().join(format!("rows.{format}"));
        let exported = shell.json(&format!("export first {}", path.display()));
        assert_eq!((exported["rows"].as_u64(), exported["format"].as_str()), (Some(1_509), Some(format)), "{exported}");
        let bytes = std::fs::read(&path).expect("the file is there");
        assert_eq!(exported["bytes"].as_u64(), Some(bytes.len() as u64));
        let binary = if format == "parquet" { 0 } else { 3 };
        assert_eq!(exported["rows_base64"].as_u64(), Some(binary), "{exported}");
        let piped = rehome_piped(shell.server(), &format!("export first - --format {format}"), Stdio::null());
        assert!(piped.exit == 0 && piped.out == bytes, "{format}: standard output and a file differ: {}", piped.err);

        // In through standard input, and then the same bytes as a file: nothing is doubled.
        let stdin = File::open(&path).expect("the file opens");
        let line = format!("import {format} - --format {format} --exported --json");
        let piped = rehome_piped(shell.server(), &line, stdin);
        let imported: Value = serde_json::from_slice(&piped.out).unwrap_or_else(|_| panic!("{piped:?}"));
        assert_eq!(counts(&imported), [1_509, 1_509, 0, 0], "{imported}");
        let again = shell.json(&format!("import {format} {} --exported", path.display()));
        assert_eq!(counts(&again), [1_509, 0, 1_509, 0], "{again}");
        assert_eq!(rows(&shell, format), expected, "{format}");
    }
    shell.good(&format!("wait {job} --timeout 60"));
    assert_eq!(rows(&shell, "first"), expected, "after the reshard");
    conclude(shell, &[("first", 1_509), ("csv", 1_509), ("jsonl", 1_509), ("parquet", 1_509)]);
}

/// Lines of a CSV file: good ones, and one of each wrong kind.
fn csv_with_wrong_rows() -> Vec<u8> {
    let mut text =
        b"city,day,note\nOslo,1,good\nBergen,2\nBergen,3,a,b\n,4,no key\n\n\"Oslo\",5,\"two\nlines\"\n".to_vec();
    text.extend_from_slice(b"Oslo,6,\xff\n");
    text.extend_from_slice(format!("{},7,long key\n", "k".repeat(4_097)).as_bytes());
    text.extend_from_slice(format!("Oslo,{},long sort key\n", "8".repeat(4_097)).as_bytes());
    text.extend_from_slice(format!("Oslo,9,{}\n", "v".repeat(1 << 20)).as_bytes());
    text.extend_from_slice(b"Oslo,10,good\n");
    text
}

#[test]
fn wrong_rows_go_to_the_rejects_with_line_and_reason_and_the_rest_is_written() {
    let shell = shell_with(&["cities"]);
    let input = file(&shell, "rows.csv", csv_with_wrong_rows());
    let rejects = shell.dir().join("rejects.jsonl");
    let line = format!("import cities {} --key city --sort day", input.display());

    let stopped = shell.run(&line);
    assert_eq!((stopped.exit, stopped.out.as_str()), (1, ""), "{stopped:?}");
    for part in ["row 2 (line 3): it has 2 fields, the header has 3", "before it: 1 row written", "--rejects"] {
        assert!(stopped.err.contains(part), "no {part:?} in {stopped:?}");
    }
    assert_eq!(rows(&shell, "cities").len(), 1, "what came before the wrong row, and nothing else");

    let line = format!("{line} --rejects {}", rejects.display());
    let dry = shell.json(&format!("{line} --dry-run"));
    assert_eq!((counts(&dry), dry["dry_run"].as_bool()), ([10, 0, 0, 7], Some(true)), "{dry}");
    assert_eq!(rows(&shell, "cities").len(), 1);
    let dry_rejects = std::fs::read(&rejects).expect("a rejects file");

    let imported = shell.json(&line);
    assert_eq!(counts(&imported), [10, 2, 1, 7], "{imported}");
    assert_eq!(imported["rejects"].as_str(), rejects.to_str());
    assert_eq!(rows(&shell, "cities").len(), 3);
    assert_eq!(std::fs::read(&rejects).expect("a rejects file"), dry_rejects);
    let text = String::from_utf8(dry_rejects).expect("JSON is text");
    let told: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect();
    let expected = [
        (2, 3, "it has 2 fields, the header has 3", "Bergen,2"),
        (3, 4, "it has 4 fields, the header has 3", "Bergen,3,a,b"),
        (4, 5, "column \"city\", the partition key, is empty", ",4,no key"),
        (6, 9, "field 3 is not UTF-8", "T3Nsbyw2LP8="),
        (7, 10, "a partition key has at most 4096 bytes, not 4097", "kkk"),
        (8, 11, "a sort key has at most 4096 bytes, not 4110", "Oslo,888"),
        (9, 12, "a value has at most 1048576 bytes, not 1048611", "Oslo,9,vvv"),
    ];
    assert_eq!(told.len(), expected.len(), "{text:.1000}");
    for (reject, (row, line, reason, start)) in told.iter().zip(expected) {
        assert_eq!((reject["row"].as_u64(), reject["line"].as_u64()), (Some(row), Some(line)));
        assert_eq!(reject["reason"].as_str(), Some(reason));
        assert!(reject["text"].as_str().is_some_and(|text| text.starts_with(start)), "row {row}");
        assert_eq!(reject["encoding"].as_str(), (row == 6).then_some("base64"));
        assert_eq!(reject["cut"].as_bool(), (row == 9).then_some(true));
    }
    let again = shell.json(&line);
    assert_eq!(counts(&again), [10, 0, 3, 7], "{again}");
    conclude(shell, &[("cities", 3)]);
}

#[test]
fn a_second_row_of_the_same_keys_is_a_wrong_row_where_they_are_said_to_be_unique() {
    let shell = shell_with(&["numbered", "unique"]);
    let lines = [
        "{\"k\":\"a\",\"id\":1}",
        "{\"k\":\"a\",\"id\":2}",
        "{\"k\":\"a\",\"id\":1,\"v\":2}",
        "{\"k\":\"b\",\"id\":1}",
    ];
    let input = file(&shell, "rows.jsonl", lines.join("\n"));
    let line = |keyspace| format!("import {keyspace} {} --key k --sort id", input.display());
    assert_eq!(counts(&shell.json(&line("numbered"))), [4, 4, 0, 0]);
    let stopped = shell.run(&format!("{} --unique", line("unique")));
    assert!(
        stopped.exit == 1 && stopped.err.contains("row 3 (line 3): an earlier row of the file has the same"),
        "{stopped:?}"
    );
    let rejects = shell.dir().join("rejects.jsonl");
    let imported = shell.json(&format!("{} --unique --rejects {}", line("unique"), rejects.display()));
    assert_eq!(counts(&imported), [4, 1, 2, 1], "{imported}");
    let first = shell.json("get unique a 1");
    assert!(first.to_string().contains("{\\\"k\\\":\\\"a\\\",\\\"id\\\":1}"), "the first one stays: {first}");
    conclude(shell, &[("numbered", 4), ("unique", 3)]);
}

// tidy: long because it reads as a table
#[test]
fn broken_files_are_refused_with_a_next_step_and_nothing_changes() {
    let shell = shell_with(&["rows", "large"]);
    let input = file(&shell, "first.jsonl", awkward_rows());
    shell.good(&format!("import rows {} --exported", input.display()));
    let parquet = shell.dir().join("good.parquet");
    shell.good(&format!("export rows {}", parquet.display()));
    let whole = std::fs::read(&parquet).expect("the export");
    let mut damaged = whole.clone();
    damaged[4..60].fill(0xff); // the header of the first page
    let csv = b"key,sort,value,encoding\na,b,c,utf8\n".as_slice();
    let files: [(&str, &[u8]); 12] = [
        ("cut.parquet", &whole[..whole.len() / 2]),
        ("few.parquet", &whole[..6]),
        ("none.parquet", b""),
        ("damaged.parquet", &damaged),
        ("text.parquet", csv),
        ("none.csv", b""),
        ("binary.csv", &whole),
        ("open.csv", b"key,\"sort\na,b\n"),
        ("swallowed.csv", b"key,v\n\"a,1\nb,2\n"),
        ("twice.csv", b"key,v,v\na,1,2\n"),
        ("array.jsonl", b"[{\"key\":\"a\"}]\n"),
        ("good.csv", csv),
    ];
    for (name, bytes) in files {
        file(&shell, name, bytes);
    }
    let cases = [
        ("large", "cut.parquet --key key", 2, "is not readable as Parquet: "),
        ("large", "few.parquet --key key", 2, "is not readable as Parquet: "),
        ("large", "none.parquet --key key", 2, "is not readable as Parquet: "),
        ("large", "text.parquet --key key", 2, "is the file whole, and is it Parquet?"),
        ("large", "damaged.parquet --exported", 1, "row 1: 1509 rows from here on are skipped"),
        ("large", "none.csv --key key", 2, "the file is empty"),
        ("large", "binary.csv --key key", 2, ""),
        ("large", "open.csv --key key", 2, "a quote is opened in line 1 and never closed"),
        ("large", "swallowed.csv --key key", 1, "a quote is opened in line 2 and never closed"),
        ("large", "twice.csv --key key", 2, "more than one column \"v\""),
        ("large", "array.jsonl --key key", 1, "row 1 (line 1): not a JSON object"),
        ("large", "good.csv --key city", 2, "has no column \"city\"; its columns are key, sort, value, encoding"),
        ("large", "good.csv --key key --sort day", 2, "has no column \"day\""),
        ("large", "twice.csv --exported", 2, "more than one column"),
        ("large", "good.csv --format parquet --key key", 2, "is not readable as Parquet"),
        ("large", "nothing.csv --key key", 2, "cannot open"),
        ("large", "data --format csv --key key", 2, "is a folder"),
        ("large", "process.log --key key", 2, "--format csv|jsonl|parquet"),
        ("nothing", "good.csv --key key", 4, "there is no keyspace"),
        ("large", "good.csv --key key --rejects good.csv", 2, "would overwrite the input"),
        ("large", "good.csv --key key --rejects nowhere/rejects", 2, "cannot write the rejects"),
    ];
    let expected = rows(&shell, "rows");
    let mut wrong = Vec::new();
    for (keyspace, rest, exit, part) in cases {
        let rest = rest.replace("--rejects ", &format!("--rejects {}/", shell.dir().display()));
        let said = shell.run(&format!("import {keyspace} {}/{rest}", shell.dir().display()));
        if said.exit != exit || !said.out.is_empty() || !said.err.contains(part) || !said.err.contains("next: rehome ")
        {
            wrong.push(format!("{rest}: expected exit code {exit}, {part:?} and a next step, got {said:?}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    let unnamed = rehome_piped(shell.server(), "import large - --key key", Stdio::null());
    assert!(unnamed.exit == 2 && unnamed.err.contains("--format"), "{unnamed:?}");
    let rejects = shell.dir().join("rejects.jsonl");
    let line =
        format!("import large {}/damaged.parquet --exported --rejects {}", shell.dir().display(), rejects.display());
    assert_eq!(counts(&shell.json(&line)), [1_509, 0, 0, 1_509], "a damaged stretch counts as its rows");
    let reject: Value = serde_json::from_slice(&std::fs::read(&rejects).expect("rejects")).expect("one JSON line");
    assert_eq!((reject["row"].as_u64(), reject["rows"].as_u64()), (Some(1), Some(1_509)), "{reject}");
    assert_eq!(std::fs::read(shell.dir().join("good.csv")).expect("the input"), csv, "the input is left alone");
    assert_eq!(rows(&shell, "rows"), expected);
    conclude(shell, &[("rows", 1_509), ("large", 0)]);
}

#[test]
fn large_values_pass_in_every_format_with_bounded_pages() {
    let shell = shell_with(&["large", "csv", "jsonl", "parquet"]);
    // Control characters take six times as much in JSON: the worst case for a page.
    let line = |row: usize| {
        let value = if row.is_multiple_of(2) { "\u{1}".repeat(1 << 20) } else { format!("{row}").repeat(200_000) };
        json!({"key": format!("k{}", row % 3), "sort": format!("{row:03}"), "value": value, "encoding": "utf8"})
    };
    let text = (0..40).fold(String::new(), |text, row| text + &line(row).to_string() + "\n");
    let input = file(&shell, "large.jsonl", text);
    assert_eq!(counts(&shell.json(&format!("import large {} --exported", input.display()))), [40, 40, 0, 0]);
    let expected = rows(&shell, "large");
    assert_eq!(expected.len(), 40);
    for format in FORMATS {
        let path = shell.dir().join(format!("large.{format}"));
        shell.good(&format!("export large {}", path.display()));
        assert_eq!(counts(&shell.json(&format!("import {format} {} --exported", path.display()))), [40, 40, 0, 0]);
        assert!(rows(&shell, format) == expected, "{format}: the rows differ");
    }
    conclude(shell, &[("large", 40), ("csv", 40), ("jsonl", 40), ("parquet", 40)]);
}

#[test]
fn an_export_that_fails_leaves_what_was_there() {
    let shell = shell_with(&["rows"]);
    let old = file(&shell, "old.csv", "old");
    let names = |dir: &Path| {
        let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names(shell.dir());
    let line = format!("export rows {}", old.display());
    let cases = [
        (shell.run(&format!("export nothing {}", old.display())), 4, "there is no keyspace"),
        (rehome(NOWHERE, &line), 5, "nothing was written to"),
        (shell.run("export rows /dev/null --format csv"), 1, "no regular file"),
        (shell.run("export rows /no/such/folder/rows.csv"), 1, "cannot write to"),
        (shell.run("export rows rows.txt"), 2, "--format"),
        (shell.run("export rows - --format csv --json"), 2, "--json needs a file"),
    ];
    for (said, exit, part) in cases {
        assert!(said.exit == exit && said.out.is_empty(), "{part}: {said:?}");
        assert!(said.err.contains(part) && said.err.contains("next: rehome "), "{part}: {said:?}");
    }
    assert_eq!((names(shell.dir()), std::fs::read(&old).unwrap()), (before, b"old".to_vec()));
    shell.good(&line);
    assert_eq!(std::fs::read(&old).unwrap(), b"key,sort,value,encoding\n", "no rows are a complete file too");
    shell.stop().expect("it stops");
}

#[test]
fn an_import_whose_server_is_killed_goes_on_where_it_was() {
    const ROWS: u64 = 100_000;
    let shell = shell_with(&["rows"]);
    let text = (0..ROWS).fold("key,v\n".to_owned(), |text, row| text + &format!("key-{},{row}\n", row % 997));
    let input = file(&shell, "rows.csv", text);
    let line = format!("import rows {} --key key", input.display());
    let mut import = command(shell.server(), &line);
    import.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let import = import.spawn().expect("the import starts");
    wait::until("the first rows", Duration::from_secs(60), || {
        let page = Http::default().get(shell.server(), "/v1/keyspaces/rows/scan", &[("limit", "1")])?.good()?;
        Ok(page["rows"].as_array().is_some_and(|rows| !rows.is_empty()).then_some(()))
    })
    .expect("rows come in");
    let shell = shell.kill_and_start().expect("it starts again");
    let cut = import.wait_with_output().expect("the import ends");
    let told = String::from_utf8_lossy(&cut.stderr);
    assert_eq!(cut.status.code(), Some(5), "{told}");
    assert!(told.contains("it doubles nothing") && told.contains(&format!("next: rehome {line}")), "{told}");
    let rest = shell.json(&line);
    let [rows, accepted, done_before, rejected] = counts(&rest);
    assert_eq!((rows, accepted + done_before, rejected), (ROWS, ROWS, 0), "{rest}");
    assert!(accepted > 0 && done_before > 0, "it was cut in the middle: {rest}");
    conclude(shell, &[("rows", ROWS as usize)]);
}
