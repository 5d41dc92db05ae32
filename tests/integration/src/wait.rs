//! Waiting for what must come, with a deadline.

use anyhow::bail;
use std::time::{Duration, Instant};

/// How often a question is put while its answer is waited for.
const ASK_EVERY: Duration = Duration::from_millis(5);

/// Asks until there is an answer, and returns it.
///
/// Errors: the question cannot be put, or the time is over; the text says what was waited for.
pub fn until<T>(what: &str, limit: Duration, mut ask: impl FnMut() -> anyhow::Result<Option<T>>) -> anyhow::Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        if Instant::now() >= deadline {
            bail!("waited {limit:?} for {what}");
        }
        // tidy: sleep because another process is asked, which cannot wake this one; the deadline bounds it
        std::thread::sleep(ASK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_the_wait_and_so_does_the_deadline() {
        let mut asked = 0;
        let third = until("the third", Duration::from_secs(60), || {
            asked += 1;
            Ok((asked == 3).then_some(asked))
        });
        assert_eq!(third.expect("it comes"), 3);
        let never = until("a sign", Duration::ZERO, || Ok(None::<()>)).expect_err("it does not come");
        assert_eq!(never.to_string(), "waited 0ns for a sign");
    }
}
