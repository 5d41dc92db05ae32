//! Exit codes, and failures that say what is wrong and which command to run next.

use crate::wire::{ErrorBody, ErrorShape, WriteShape};
use std::fmt;
use std::io::Write;
use std::process::ExitCode;

/// Exit codes, as `rehome --help` documents them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Failed = 1,
    // 2 is clap's, for wrong usage.
    Usage = 2,
    /// The system understood and said no: a name is taken, keys are moving, a comparison found differences.
    Refused = 3,
    NotFound = 4,
    /// No answer: nothing listens there, or the connection broke.
    Unreachable = 5,
    /// What was waited for has not come in time.
    TimedOut = 6,
}

/// Text for `--help`.
pub const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 refused, 4 not found, \
5 no answer from the server, 6 timed out.";

/// Why a command failed, for a person and for a script.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    /// Stable.
    pub code: String,
    pub message: String,
    pub next_steps: Vec<String>,
    /// The answer was printed as JSON already and says it all; only the exit code is left to give.
    pub was_told: bool,
    /// The write that it is about, when that was judged. Boxed: most failures have none.
    pub write: Option<Box<WriteShape>>,
}

impl Failure {
    pub fn new(exit: Exit, code: impl Into<String>, message: impl Into<String>) -> Failure {
        // Spelled as the API spells its codes.
        let code = code.into().replace('-', "_");
        Failure { exit, code, message: message.into(), next_steps: Vec::new(), was_told: false, write: None }
    }

    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, "usage", message)
    }

    /// Adds a command to run next.
    pub fn next(mut self, step: impl Into<String>) -> Failure {
        self.next_steps.push(step.into());
        self
    }

    /// Points to the help of the verb, if nothing better is known.
    pub fn or_help(self, verb: Option<String>) -> Failure {
        match verb {
            Some(verb) if self.next_steps.is_empty() => self.next(format!("rehome {verb} --help")),
            _ => self,
        }
    }

    /// Leaves nothing but the exit code, if so.
    pub fn silent_if(mut self, was_told: bool) -> Failure {
        self.was_told = was_told;
        self
    }

    /// Prints the failure, to standard output as JSON or to standard error as text, and returns its exit code.
    pub fn report(&self, json: bool) -> ExitCode {
        if self.was_told {
            return ExitCode::from(self.exit as u8);
        }
        if json {
            let error = ErrorShape { code: self.code.clone(), message: self.message.clone(), retry_after_ms: None };
            let body = ErrorBody { error, next_steps: self.next_steps.clone(), write: self.write.as_deref().cloned() };
            print_line(&serde_json::to_string(&body).expect("these shapes always are JSON"));
        } else {
            tell(&self.to_string());
        }
        ExitCode::from(self.exit as u8)
    }
}

/// Prints a line for a person to standard error; nobody may be listening.
pub fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Prints a line to standard output. A reader that has gone, as `head` does, ends the process quietly.
pub fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        self.next_steps.iter().try_for_each(|step| write!(f, "\n  next: {step}"))
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        // Some errors tell their cause themselves; nobody wants to read it twice.
        let message = error.chain().fold(String::new(), |told, cause| match cause.to_string() {
            cause if told.is_empty() => cause,
            cause if told.ends_with(&cause) => told,
            cause => format!("{told}: {cause}"),
        });
        Failure::new(Exit::Failed, "failed", message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_without_a_better_next_step_points_to_the_help_of_its_verb() {
        let next = |failure: Failure| failure.or_help(Some("put".into())).next_steps;
        assert_eq!(next(Failure::usage("wrong")), ["rehome put --help"]);
        assert_eq!(next(Failure::usage("wrong").next("rehome list")), ["rehome list"]);
    }

    #[test]
    fn a_cause_is_told_once() {
        let told = |outer: &'static str| Failure::from(anyhow::anyhow!("no such file").context(outer)).message;
        assert_eq!(told("cannot open x"), "cannot open x: no such file");
        assert_eq!(told("cannot open x: no such file"), "cannot open x: no such file");
    }
}
