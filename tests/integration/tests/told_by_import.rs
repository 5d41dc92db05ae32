//! What imports and exports tell an operator: how far they are, how to read what came in, how much there is.

use rehome_integration::shell::{Shell, rehome_piped};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Stdio;

fn shell() -> Shell {
    let shell = Shell::start().expect("it starts");
    shell.good("keyspace create flights --shards 2 --buckets 64");
    shell
}

/// Writes rows of one partition key each fifty, all with that value.
fn csv(shell: &Shell, rows: usize, value: &str) -> PathBuf {
    let mut text = String::from("origin,date,value\n");
    for row in 0..rows {
        writeln!(text, "key-{},day-{row},{value}", row % 50).expect("memory");
    }
    let path = shell.dir().join(format!("{value}.csv"));
    std::fs::write(&path, text).expect("a file");
    path
}

fn step(answer: &Value) -> &str {
    answer["next_steps"][0].as_str().and_then(|step| step.strip_prefix("rehome ")).expect("a command")
}

#[test]
fn without_a_terminal_progress_is_a_plain_line_now_and_then() {
    let shell = shell();
    let file = csv(&shell, 9_000, "a");
    let line = format!("import flights {} --key origin --sort date", file.display());
    let said = shell.run(&format!("{line} --progress-every 0"));
    let size = file.metadata().expect("the file").len();
    let lines: Vec<&str> = said.err.lines().collect();
    assert_eq!((said.exit, lines.len()), (0, 4), "one for each batch but the last: {said:?}");
    for line in lines {
        let is_whole =
            line.starts_with("import: ") && line.contains(" rows/s, 0 rejected, ") && line.ends_with(" s left");
        assert!(is_whole && line.contains(&format!(" of {size} bytes, about ")), "{line}");
    }
    let seldom = shell.run(&format!("{line} --progress-every 3600"));
    assert!(seldom.exit == 0 && seldom.err.is_empty(), "{seldom:?}");
    let said = rehome_piped(shell.server(), "export flights - --format csv --progress-every 0", Stdio::null());
    let lines: Vec<&str> = said.err.lines().collect();
    assert!(said.exit == 0 && lines.len() > 9, "{:?}", said.err);
    assert!(lines[0].starts_with("export: 1000 rows, ") && lines[0].ends_with(" bytes"), "{lines:?}");
    assert!(lines.last().is_some_and(|line| line.starts_with("9000 rows, ")), "{lines:?}");
    shell.stop().expect("it stops");
}

#[test]
fn a_row_with_a_row_number_in_its_sort_key_is_read_by_the_command_that_the_import_names() {
    let shell = shell();
    let path = shell.dir().join("rows.csv");
    std::fs::write(&path, "origin,date,delay\nORD,2001-01-01,3\nORD,2001-01-02,4\n").expect("a file");
    let line = format!("import flights {} --key origin --sort date", path.display());
    let text = shell.good(&line);
    assert!(text.contains("each sort key ends with a zero byte and the row number"), "{text}");
    assert!(text.ends_with("next: rehome get flights ORD --list --from 2001-01-01 --limit 1\n"), "{text}");
    let told = shell.json(&line);
    assert_eq!(told["sort_keys_end_with_row_numbers"], true, "{told}");
    let found = shell.json(step(&told));
    assert_eq!(found["rows"][0]["sort"], "2001-01-01\u{0}000000000001", "{found}");
    // As the help says it: both keys in base64.
    let help = shell.good("import --help");
    let line = help.lines().find_map(|line| line.trim().strip_prefix("rehome get flights T1JE ")).expect("its line");
    let one = shell.json(&format!("get flights T1JE {line}"));
    assert_eq!(one["rows"], found["rows"]);
    shell.good("keyspace create unique --shards 1 --buckets 64");
    let told = shell.json(&format!("import unique {} --key origin --sort date --unique", path.display()));
    assert_eq!((&told["sort_keys_end_with_row_numbers"], step(&told)), (&json!(false), "scan unique --limit 10"));
    assert!(shell.good("get unique ORD 2001-01-02").starts_with("ORD\t2001-01-02\t"));
    shell.good("put flights /w== AA== dGV4dA== --encoding base64");
    for line in ["get flights /w== AA== --encoding base64", "scan flights"] {
        let text = shell.good(line);
        let marked: Vec<&str> = text.lines().filter(|line| line.ends_with("\t(base64)")).collect();
        assert!(marked.len() == 1 && marked[0].starts_with("/w==\tAA==\t"), "{text}");
    }
    shell.stop().expect("it stops");
}

#[test]
fn a_dry_run_of_a_drop_counts_what_is_there_and_not_what_was_overwritten() {
    // More than a sample holds, in one store.
    const ROWS: usize = 120_000;
    let shell = shell();
    shell.good("keyspace create one --shards 1 --buckets 64");
    for value in ["a", "b"] {
        let file = csv(&shell, ROWS, value);
        let told = shell.json(&format!("import one {} --key origin --sort date --unique", file.display()));
        assert_eq!(told["accepted"], ROWS, "{told}");
    }
    let goes = shell.json("keyspace drop one --dry-run");
    assert_eq!((&goes["rows"], &goes["counted"]), (&json!(ROWS), &json!(true)), "{goes}");
    shell.stop().expect("it stops");
}
