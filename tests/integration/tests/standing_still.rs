//! A move that stands still says why, where operators look, and goes on by itself once it can.

use rehome_integration::shell::Shell;
use rehome_integration::wait;
use serde_json::Value;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_copy_that_cannot_be_written_is_told_by_every_verb_and_goes_on_when_it_can() {
    let shell = Shell::start().expect("it starts");
    shell.good("keyspace create flights --shards 2 --buckets 64");
    for row in 0..40 {
        shell.good(&format!("put flights key-{row} a value"));
    }
    // Where copies go there is a file now.
    let snapshots = shell.dir().join("data/snapshots");
    std::fs::remove_dir_all(&snapshots).expect("the folder is there");
    std::fs::write(&snapshots, "in the way").expect("a file");
    let job = shell.json("reshard flights --shards 3")["job"].as_u64().expect("a job");
    let shown = wait::until("the reason", LIMIT, || {
        let shown = shell.json(&format!("show {job}"));
        Ok(reason(&shown).is_some_and(|reason| reason.contains("snapshots")).then_some(shown))
    });
    let shown = shown.expect("it is told");
    let text = reason(&shown).expect("just seen");
    assert!(text.contains("its source, fails and is tried again"), "{text}");
    for line in ["status".to_owned(), format!("show {job}"), format!("explain {job}")] {
        let said = shell.good(&line);
        assert!(said.contains("fails and is tried again"), "rehome {line}: {said}");
    }
    std::fs::remove_file(&snapshots).expect("the file is there");
    std::fs::create_dir(&snapshots).expect("a folder again");
    let ended = shell.json(&format!("wait {job} --timeout 60"));
    assert_eq!((ended["state"].as_str(), reason(&ended)), (Some("completed"), None), "{ended}");
    shell.stop().expect("it stops");
}

fn reason(job: &Value) -> Option<&str> {
    job["moves"].as_array()?.iter().find_map(|one| one["reason"].as_str())
}
