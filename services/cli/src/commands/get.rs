//! `rehome get`.

use super::{print, quoted};
use crate::args::Remote;
use crate::client::{Client, segment};
use crate::exit::{Exit, Failure, tell};
use crate::wire::{Encoding, RowShape, RowsQuery, RowsShape};

/// Read one row, or the rows of one partition key
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  rehome get flights ORD 2001-01-01\n  rehome get flights ORD --list --limit 10 --reverse"
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
    /// How keys are written
    #[arg(long, value_enum, default_value_t)]
    encoding: Encoding,
    /// linearizable, eventual, or a token from a write's answer
    #[arg(long, default_value = "linearizable")]
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
        limit: args.list.then_some(args.limit),
        encoding: args.encoding,
        level: Some(args.level.clone()),
    };
    let path = format!("/v1/keyspaces/{}/rows", segment(&args.keyspace));
    let found: RowsShape = Client::new(&args.remote).get(&path, &query)?;
    if !args.list && found.rows.is_empty() {
        return Err(Failure::new(Exit::NotFound, "row-unknown", "there is no such row").next(format!(
            "rehome get {} {} --list",
            args.keyspace,
            quoted(&args.key)
        )));
    }
    print(args.remote.json, &found, |found| lines(&found.rows));
    let last = found.rows.last().filter(|_| found.next.is_some() && !args.remote.json);
    if let Some(more) = last.and_then(|last| go_on(args, last)) {
        tell(&format!("there are more rows\n  next: {more}"));
    }
    Ok(())
}

/// Returns the command that lists what comes after the row. In base64: the next sort key may hold any byte.
fn go_on(args: &Args, last: &RowShape) -> Option<String> {
    let base64 = |bytes: &[u8]| quoted(&Encoding::Base64.write(bytes));
    let again = |bound: &String| args.encoding.read(bound).ok().map(|bound| base64(&bound));
    let key = base64(&args.encoding.read(&args.key).ok()?);
    let mut sort = last.encoding.read(&last.sort).ok()?;
    let (from, to) = if args.reverse {
        (args.from.as_ref().and_then(again), Some(base64(&sort)))
    } else {
        sort.push(0);
        (Some(base64(&sort)), args.to.as_ref().and_then(again))
    };
    let mut line =
        format!("rehome get {} {key} --list --encoding base64 --limit {}", quoted(&args.keyspace), args.limit);
    for (name, bound) in [("from", from), ("to", to)] {
        line += &bound.map(|bound| format!(" --{name} {bound}")).unwrap_or_default();
    }
    Some(line + if args.reverse { " --reverse" } else { "" })
}

/// Returns rows as lines: partition key, sort key, version, value. Control characters are escaped, as `\u{0}`: they
/// must not reach a terminal.
pub fn lines(rows: &[RowShape]) -> String {
    rows.iter()
        .map(|row| [&row.key, &row.sort, &row.version, &row.value].map(|text| shown(text)).join("\t") + "\n")
        .collect()
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
}
