//! One file for each command. A command takes its arguments, prints its answer, and returns a failure or nothing.

pub mod bench;
pub mod delete;
pub mod demo;
pub mod explain;
pub mod export;
#[cfg(feature = "failpoints")]
pub mod fail_points;
pub mod format;
pub mod get;
pub mod import;
pub mod job;
pub mod keyspace;
pub mod progress;
pub mod put;
pub mod rejects;
pub mod reshard;
pub mod scan;
pub mod serve;
mod serving;
pub mod span;
pub mod status;
pub mod stop;
pub mod up;
pub mod wait;
pub mod watch;

use crate::args::Command;
use crate::exit::{Failure, print_line};
use serde::Serialize;
use std::io::IsTerminal;

pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Up(args) => up::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Keyspace(args) => keyspace::run(&args.command),
        Command::Put(args) => put::run(&args),
        Command::Get(args) => get::run(&args),
        Command::Delete(args) => delete::run(&args),
        Command::Scan(args) => scan::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Plan(args) => reshard::plan(&args),
        Command::Reshard(args) => reshard::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Stop(args) => stop::run(&args),
        Command::List(args) => job::list(&args),
        Command::Show(args) => job::show(&args),
        Command::Wait(args) => wait::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Pause(args) => job::pause(&args),
        Command::Resume(args) => job::resume(&args),
        Command::Cancel(args) => job::cancel(&args),
        Command::Complete(args) => job::complete(&args),
        Command::Rejects(args) => rejects::run(&args.command),
        #[cfg(feature = "failpoints")]
        Command::FailPoints(_) => fail_points::run(),
    }
}

/// Writes what the system logs to standard error; `REHOME_LOG` chooses how much.
fn log_to_stderr(level: &str) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("REHOME_LOG");
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}

/// Prints the answer as one JSON object with `next_steps`, or as text; no text is no line.
fn print<T: Serialize>(json: bool, answer: &T, text: impl FnOnce(&T) -> String) {
    if json {
        let mut answer = serde_json::to_value(answer).expect("these shapes always are JSON");
        if let Some(fields) = answer.as_object_mut() {
            // Every answer has them, so that scripts need not ask; most verbs leave nothing to be done.
            fields.entry("next_steps").or_insert_with(|| serde_json::Value::Array(Vec::new()));
        }
        print_line(&answer.to_string());
        return;
    }
    let text = text(answer);
    if !text.trim_end().is_empty() {
        print_line(text.trim_end());
    }
}

/// The same, with commands to run next that only JSON tells here.
fn print_with<T: Serialize>(json: bool, answer: &T, next_steps: Vec<String>, text: impl FnOnce(&T) -> String) {
    #[derive(Serialize)]
    struct Answer<'a, T> {
        #[serde(flatten)]
        answer: &'a T,
        next_steps: Vec<String>,
    }
    print(json, &Answer { answer, next_steps }, |all| text(all.answer));
}

/// Returns a table without lines, its columns as wide as they need.
fn table<R: IntoIterator<Item = String>>(head: &[&str], rows: impl IntoIterator<Item = R>) -> String {
    let mut table = comfy_table::Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_header(head);
    for row in rows {
        table.add_row(row.into_iter().collect::<Vec<_>>());
    }
    table.to_string()
}

/// Returns a number of things: `1 row`, `2 rows`.
pub fn count(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// Returns the commands to run next, one a line.
fn next_lines(next_steps: &[String]) -> String {
    next_steps.iter().fold(String::new(), |out, step| out + "\nnext: " + step)
}

/// Returns a word of a command line as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_./:@,=+%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Returns the command line of this process again, with those words added.
fn command_again(more: &[&str]) -> String {
    let words = std::env::args().skip(1).chain(more.iter().map(|word| (*word).to_owned()));
    words.fold("rehome".to_owned(), |line, word| line + " " + &quoted(&word))
}

/// Reads a request id: 32 hex digits.
fn request_id(text: &str) -> Result<String, String> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex { Ok(text.to_ascii_lowercase()) } else { Err("a request id is 32 hex digits".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_no_plural() {
        assert_eq!([0, 1, 2].map(|number| count(number, "row")), ["0 rows", "1 row", "2 rows"]);
    }

    #[test]
    fn words_are_quoted_where_a_shell_would_read_them_otherwise() {
        assert_eq!(["ORD", "", "a b", "it's"].map(quoted), ["ORD", "''", "'a b'", r"'it'\''s'"]);
    }
}
