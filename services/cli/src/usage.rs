//! Wrong command lines: what is wrong, as clap says it, and a command of the same verb that is right.

use crate::args::Args;
use crate::commands::quoted;
use crate::exit::{Exit, Failure, tell};
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::process::ExitCode;

/// Tells what is wrong with a command line: as JSON where it asks for that, else as clap does, with the next command.
/// Asking for help is no failure.
pub fn wrong_usage(error: &clap::Error, words: impl Iterator<Item = String>) -> ExitCode {
    let words: Vec<String> = words.collect();
    if !error.use_stderr() {
        error.exit();
    }
    if words.iter().any(|word| word == "--json") {
        return failure(error, &words).report(true);
    }
    // A whole help is an answer; the colours of its terminal are clap's own.
    let _ = error.print();
    for step in next_steps(error, &words) {
        tell(&format!("  next: {step}"));
    }
    ExitCode::from(Exit::Usage as u8)
}

fn failure(error: &clap::Error, words: &[String]) -> Failure {
    let told = error.to_string();
    // What comes after is the usage, which the next steps show.
    let message = told.split("\n\nUsage:").next().unwrap_or(&told);
    let message = message.split("\n\nFor more information").next().unwrap_or(message);
    let failure = Failure::usage(message.strip_prefix("error: ").unwrap_or(message).trim());
    next_steps(error, words).into_iter().fold(failure, Failure::next)
}

/// Returns the command that was meant where that can be told, else the first example of the verb's help; where there is
/// none, the help.
fn next_steps(error: &clap::Error, words: &[String]) -> Vec<String> {
    let mut verb = Args::command();
    let mut path = String::from("rehome");
    for word in words {
        let Some(found) = verb.find_subcommand(word) else { break };
        path = format!("{path} {word}");
        verb = found.clone();
    }
    let meant = if path == "rehome get" { list_of_key(error, words) } else { None };
    vec![meant.or_else(|| example(&verb, &path)).unwrap_or_else(|| format!("{path} --help"))]
}

/// Returns the list of a partition key, where only the sort key of one row is lacking.
fn list_of_key(error: &clap::Error, words: &[String]) -> Option<String> {
    let lacking = match error.get(ContextKind::InvalidArg)? {
        ContextValue::Strings(lacking) if error.kind() == ErrorKind::MissingRequiredArgument => lacking,
        _ => return None,
    };
    let is_sort_key = lacking.len() == 1 && lacking[0].to_lowercase().contains("sort");
    let words = words.iter().filter(|word| *word != "--json").map(|word| quoted(word));
    is_sort_key.then(|| words.fold(String::from("rehome"), |line, word| line + " " + &word) + " --list")
}

/// Returns the first command line of that verb that its help shows.
fn example(verb: &clap::Command, path: &str) -> Option<String> {
    let begin = format!("{path} ");
    let help = verb.get_after_help()?.to_string();
    let line =
        help.lines().find_map(|line| line.strip_prefix("  ").filter(|line| format!("{line} ").contains(&begin)))?;
    Some(line.split("  #").next().unwrap_or(line).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn a_wrong_command_line_is_answered_with_a_right_one_of_its_verb() {
        for (line, next) in [
            ("keyspace create", "rehome keyspace create flights --shards 3"),
            ("keyspace nonsense", "rehome keyspace --help"),
            ("put flights", "rehome put flights ORD 2001-01-01 '{\"delay\":3}'"),
            ("get flights alice", "rehome get flights alice --list"),
            ("get flights it's", r"rehome get flights 'it'\''s' --list"),
            ("get flights alice --level eventual", "rehome get flights alice --level eventual --list"),
            ("get flights", "rehome get flights ORD 2001-01-01"),
            ("get flights alice bob --nonsense", "rehome get flights ORD 2001-01-01"),
            ("reshard flights --shards many", "rehome reshard flights --shards 5 --dry-run"),
            ("nonsense", "rehome --help"),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let error = Args::try_parse_from(["rehome"].into_iter().chain(line.split(' ')));
            let error = error.expect_err("it is wrong");
            let failure = failure(&error, &words);
            assert_eq!((failure.exit, failure.next_steps), (Exit::Usage, vec![next.to_owned()]), "{line}");
            let message = failure.message;
            assert!(!message.contains("Usage:") && !message.starts_with("error"), "{message}");
        }
    }

    #[test]
    fn what_is_shown_as_the_next_command_is_a_right_command_line() {
        fn check(verb: &clap::Command, path: &str) {
            verb.get_subcommands().for_each(|verb| check(verb, &format!("{path} {}", verb.get_name())));
            let example = example(verb, path);
            // What only groups others has none.
            assert_eq!(example.is_some(), verb.get_subcommands().next().is_none(), "{path}");
            let Some(line) = example else { return };
            // Blanks within quotes do not matter here: no example has any.
            let words = line.split_whitespace().filter(|word| *word != "|").skip_while(|word| *word != "rehome");
            Args::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
        check(&Args::command(), "rehome");
    }
}
