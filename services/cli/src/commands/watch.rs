//! `rehome watch`.

use super::next_lines;
use crate::args::Remote;
use crate::client::Client;
use crate::exit::{Exit, Failure, print_line, tell};
use crate::wire::{ExplainShape, JobShape, JobsShape};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Pause between two questions to the server. Reason: a person reads no faster, and no line is lost meanwhile.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// Follow a job, or all that have not ended, one line for each change, until they end
///
/// What happened before is told first. A server that is started again meanwhile is waited for. Exit code 0 when the job
/// has completed, or has switched and keeps its sources; 3 when it was cancelled or has failed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  rehome watch 12\n  rehome watch --json")]
pub struct Args {
    /// This job; without it every job that has not ended
    job: Option<u64>,
    /// How long to wait for a server that has gone, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u64,
    #[command(flatten)]
    pub remote: Remote,
}

/// What was told of a job.
#[derive(Default)]
struct Told {
    /// Control position below which every line was told.
    next: u64,
    state: String,
    /// Why each move stood still, last.
    reasons: BTreeMap<u64, String>,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let client = Client::new(&args.remote);
    let mut watcher = Watcher { args, client, told: BTreeMap::new(), gone_since: None, answered: false };
    let jobs = match args.job {
        Some(job) => vec![job],
        None => {
            let all: JobsShape = watcher.ask("/v1/jobs")?;
            all.jobs.iter().filter(|job| !job.ended).map(|job| job.job).collect()
        }
    };
    if jobs.is_empty() {
        print_line(&match args.remote.json {
            true => json!({ "ended": true, "next_steps": ["rehome list"] }).to_string(),
            false => "every job has ended\nnext: rehome list".into(),
        });
    }
    let mut failure = None;
    let mut open = jobs;
    while !open.is_empty() {
        let mut still = Vec::new();
        for job in open {
            let shown: JobShape = watcher.ask(&format!("/v1/jobs/{job}"))?;
            let story: ExplainShape = watcher.ask(&format!("/v1/jobs/{job}/explain"))?;
            watcher.tell(&story, &shown);
            match shown.state.as_str() {
                "running" | "paused" => still.push(job),
                "completed" | "switched" => {}
                state => {
                    let ended = Failure::new(Exit::Refused, format!("job-{state}"), format!("job {job} is {state}"));
                    failure.get_or_insert(shown.next_steps.iter().fold(ended, Failure::next));
                }
            }
        }
        open = still;
        if !open.is_empty() {
            // tidy: sleep because the server is asked, which cannot wake this process
            std::thread::sleep(ASK_EVERY);
        }
    }
    // As JSON the last line has said how it ended.
    failure.map_or(Ok(()), |failure| Err(failure.silent_if(args.remote.json)))
}

struct Watcher<'a> {
    args: &'a Args,
    client: Client,
    told: BTreeMap<u64, Told>,
    /// Since when there is no answer.
    gone_since: Option<Instant>,
    answered: bool,
}

impl Watcher<'_> {
    /// Asks until there is an answer: a server that answered before may be on its way back.
    fn ask<T: serde::de::DeserializeOwned>(&mut self, path: &str) -> Result<T, Failure> {
        loop {
            match self.client.get(path, &()) {
                Err(gone) if gone.exit == Exit::Unreachable && self.answered => {
                    let since = *self.gone_since.get_or_insert_with(|| {
                        tell("the server does not answer; it is waited for");
                        Instant::now()
                    });
                    if since.elapsed() >= Duration::from_secs(self.args.patience) {
                        return Err(gone);
                    }
                    // tidy: sleep because the server has gone, and does not tell when it is back
                    std::thread::sleep(ASK_EVERY);
                }
                Err(failure) => return Err(failure),
                Ok(answer) => {
                    (self.gone_since, self.answered) = (None, true);
                    return Ok(answer);
                }
            }
        }
    }

    /// Prints what is new, in the order in which it happened.
    fn tell(&mut self, story: &ExplainShape, shown: &JobShape) {
        let json = self.args.remote.json;
        let told = self.told.entry(story.job).or_default();
        let of_move = |one: &crate::wire::MoveStoryShape| one.summary.move_id;
        let mut lines: Vec<_> =
            story.moves.iter().flat_map(|one| one.story.iter().map(move |line| (of_move(one), line))).collect();
        lines.sort_by_key(|(move_id, line)| (line.position, *move_id));
        let next = lines.last().map_or(told.next, |(_, line)| told.next.max(line.position + 1));
        for (move_id, line) in lines.into_iter().filter(|(_, line)| line.position >= told.next) {
            let (job, position, what) = (story.job, line.position, &line.what);
            print_line(&match json {
                true => {
                    json!({ "job": job, "move": move_id, "position": position, "time_ms": line.time_ms, "what": what })
                        .to_string()
                }
                false => {
                    let after = line.time_ms.saturating_sub(story.created_ms) as f64 / 1000.0;
                    format!("{after:>9.3} s  job {job} move {move_id}  {what}")
                }
            });
        }
        told.next = next;
        for one in &shown.moves {
            let reason = one.reason.clone().unwrap_or_default();
            if told.reasons.get(&one.move_id).map_or("", String::as_str) == reason {
                continue;
            }
            let (job, move_id) = (shown.job, one.move_id);
            if json {
                print_line(&json!({ "job": job, "move": move_id, "stands_still": one.reason }).to_string());
            } else if reason.is_empty() {
                print_line(&format!("             job {job} move {move_id}  goes on"));
            } else {
                print_line(&format!("             job {job} move {move_id}  stands still: {reason}"));
            }
            told.reasons.insert(one.move_id, reason);
        }
        if told.state != shown.state {
            told.state.clone_from(&shown.state);
            let (job, state) = (shown.job, &shown.state);
            print_line(&match json {
                true => json!({ "job": job, "state": state, "ended": shown.ended, "next_steps": shown.next_steps })
                    .to_string(),
                // Nothing goes on by itself from there.
                false if state == "paused" => {
                    let reason = shown.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
                    format!("             job {job} is {state}{reason}{}", next_lines(&shown.next_steps))
                }
                false => format!("             job {job} is {state}"),
            });
        }
    }
}
