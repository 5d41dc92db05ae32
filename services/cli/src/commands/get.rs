//! `rehome get`.

use super::{print_with, quoted};
use crate::args::Remote;
use crate::client::{Client, segment};
use crate::exit::{Exit, Failure, tell};
use crate::wire::{Encoding, RowShape, RowsQuery, RowsShape};

/// The level of a read that names none.
pub const LINEARIZABLE: &str = "linearizable";

/// Read one row, or the rows of one partition key
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  rehome get flights ORD 2001-01-01\n  rehome get flights ORD --list --limit 10 --reverse\n\nA line is partition key, sort key, version and value, with tabs between; where (base64) follows, the row is no text,\nand keys and value are base64: --encoding base64 takes its keys as they stand there. --json is for programs."
)]
pub struct Args {
    keyspace: String,
    /// Partition key
    key: String,
    /// Sort key; '' for a row without one
    #[arg(required_unless_present = "list", conflicts_with = "list")]
    sort: Option<String>,
    /// List the rows of the partition key
    #[arg(long)]
    list: bool,
    /// First sort key of a list
    #[arg(long, requires = "list")]
    from: Option<String>,
    /// Sort key before which a list ends
    #[arg(long, requires = "list")]
    to: Option<String>,
    /// Last sort key first
    #[arg(long, requires = "list")]
    reverse: bool,
    /// Rows of a list
    #[arg(long, requires = "list", default_value_t = 100)]
    limit: usize,
    /// Where an earlier page of the same list ended
    #[arg(long, requires = "list", value_name = "NEXT")]
    after: Option<String>,
    /// How keys are written
    #[arg(long, value_enum, default_value_t)]
    encoding: Encoding,
    /// linearizable, eventual, or a token from a write's answer
    #[arg(long, default_value = LINEARIZABLE)]
    level: String,
    #[command(flatten)]
    pub remote: Remote,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let query = RowsQuery {
        key: args.key.clone(),
        sort: args.sort.clone(),
        from: args.from.clone(),
        to: args.to.clone(),
        reverse: args.reverse,
        after: args.after.clone(),
        limit: args.list.then_some(args.limit),
        encoding: args.encoding,
        level: Some(args.level.clone()),
    };
    let path = format!("/v1/keyspaces/{}/rows", segment(&args.keyspace));
    let found: RowsShape = Client::new(&args.remote).get(&path, &query)?;
    if !args.list && found.rows.is_empty() {
        return Err(Failure::new(Exit::NotFound, "row_unknown", "there is no such row").next(format!(
            "rehome get {} {} --list",
            args.keyspace,
            quoted(&args.key)
        )));
    }
    let next = found.next.as_ref().map(|next| go_on(args, next));
    print_with(args.remote.json, &found, next.clone().into_iter().collect(), |found| lines(&found.rows));
    if let Some(next) = next.filter(|_| !args.remote.json) {
        tell(&format!("there are more rows\n  next: {next}"));
    }
    Ok(())
}

/// Returns the same command for the next page.
fn go_on(args: &Args, next: &str) -> String {
    let mut line = format!("rehome get {} {} --list --limit {}", quoted(&args.keyspace), quoted(&args.key), args.limit);
    for (name, bound) in [("from", &args.from), ("to", &args.to)] {
        line += &bound.as_ref().map(|bound| format!(" --{name} {}", quoted(bound))).unwrap_or_default();
    }
    if args.encoding == Encoding::Base64 {
        line += " --encoding base64";
    }
    line += if args.reverse { " --reverse" } else { "" };
    line += &level(&args.level);
    format!("{line} --after {next}")
}

/// Returns the flag for a level that is not the usual one.
pub fn level(level: &str) -> String {
    if level == LINEARIZABLE { String::new() } else { format!(" --level {}", quoted(level)) }
}

/// Returns rows as lines: partition key, sort key, version, value, and a mark where those are base64. Control characters
/// are escaped, as `\u{0}`: they must not reach a terminal.
pub fn lines(rows: &[RowShape]) -> String {
    let line = |row: &RowShape| {
        let mark = if row.encoding == Encoding::Base64 { "\t(base64)\n" } else { "\n" };
        [&row.key, &row.sort, &row.version, &row.value].map(|text| shown(text)).join("\t") + mark
    };
    rows.iter().map(line).collect()
}

fn shown(text: &str) -> String {
    let escape = |out: &mut String, letter: char| match letter.is_control() {
        true => out.extend(letter.escape_default()),
        false => out.push(letter),
    };
    text.chars().fold(String::with_capacity(text.len()), |mut out, letter| {
        escape(&mut out, letter);
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Encoding;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let (key, sort, version) = ("ÖBB".into(), "2001\0\u{1b}1".into(), "4@811".into());
        let row = RowShape { key, sort, value: "v".into(), version, encoding: Encoding::Utf8 };
        assert_eq!(lines(&[row]), "ÖBB\t2001\\u{0}\\u{1b}1\t4@811\tv\n");
    }

    #[test]
    fn a_row_that_is_no_text_is_marked() {
        let (key, sort, value, version) = ("/w==".into(), "AA==".into(), "AP8=".into(), "4@811".into());
        let row = RowShape { key, sort, value, version, encoding: Encoding::Base64 };
        assert_eq!(lines(&[row]), "/w==\tAA==\t4@811\tAP8=\t(base64)\n");
    }
}
