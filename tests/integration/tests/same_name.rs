//! A keyspace that is made anew under the name of a dropped one: whoever began with the old one is told.

use rehome_integration::http::{Answer, Http};
use rehome_integration::shell::Shell;
use serde_json::{Value, json};

struct Setup {
    shell: Shell,
    http: Http,
}

impl Setup {
    /// Makes the keyspace with that many rows; returns its id.
    fn make(&self, rows: usize) -> String {
        let made = self.shell.json("keyspace create x --shards 2 --buckets 16");
        let rows: Vec<Value> = (0..rows).map(|row| json!({ "key": format!("key{row}"), "value": "v" })).collect();
        for row in rows {
            let answer = self.http.post(self.shell.server(), "/v1/keyspaces/x/rows", &row).expect("an answer");
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        made["id"].to_string()
    }

    fn get(&self, path: &str) -> Answer {
        self.http.get(self.shell.server(), path, &[]).expect("an answer")
    }

    fn delete(&self, path: &str) -> Answer {
        self.http.delete(self.shell.server(), path, &[]).expect("an answer")
    }

    fn rows(&self) -> usize {
        self.get("/v1/keyspaces/x/scan").body["rows"].as_array().expect("rows").len()
    }
}

fn refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, &answer.body["error"]["code"]), (status, &json!(code)), "{answer:?}");
    assert!(answer.body["next_steps"][0].is_string(), "{answer:?}");
}

#[test]
fn who_began_with_the_old_one_is_refused_and_the_new_one_stays_as_it_is() {
    let setup = Setup { shell: Shell::start().expect("it starts"), http: Http::default() };
    let old = setup.make(9);
    let cursor = setup.get("/v1/keyspaces/x/scan?limit=1").body["next"].as_str().expect("a cursor").to_owned();
    setup.shell.good("keyspace drop x --yes");
    setup.make(7);

    refused(&setup.get(&format!("/v1/keyspaces/x/scan?after={cursor}")), 400, "bad_cursor");
    let row = json!({ "position": 1, "key": "imported", "sort": "", "value": "v" });
    let batch = json!({ "source": "s", "keyspace_id": old.parse::<u64>().expect("an id"), "rows": [row] });
    let answer = setup.http.post(setup.shell.server(), "/v1/keyspaces/x/import", &batch).expect("an answer");
    refused(&answer, 404, "keyspace_unknown");
    refused(&setup.delete(&format!("/v1/keyspaces/x?id={old}")), 404, "keyspace_unknown");
    assert_eq!(setup.rows(), 7);
}

#[test]
fn bytes_of_a_query_that_are_no_text_name_no_other_row() {
    let setup = Setup { shell: Shell::start().expect("it starts"), http: Http::default() };
    setup.make(0);
    let body = json!({ "key": "\u{fffd}", "value": "innocent" });
    assert_eq!(setup.http.post(setup.shell.server(), "/v1/keyspaces/x/rows", &body).expect("an answer").status, 200);
    refused(&setup.get("/v1/keyspaces/x/rows?key=%ff&sort="), 400, "bad_request");
    refused(&setup.delete("/v1/keyspaces/x/rows?key=%ff&sort="), 400, "bad_request");
    assert_eq!(setup.rows(), 1);
}

#[test]
fn several_drops_at_once_are_done_or_find_nothing() {
    let setup = Setup { shell: Shell::start().expect("it starts"), http: Http::default() };
    let (http, server) = (&setup.http, setup.shell.server());
    for _ in 0..20 {
        setup.make(1);
        let answers: Vec<Answer> = std::thread::scope(|scope| {
            let asked: Vec<_> = (0..4).map(|_| scope.spawn(|| http.delete(server, "/v1/keyspaces/x", &[]))).collect();
            asked.into_iter().map(|one| one.join().expect("no panic").expect("an answer")).collect()
        });
        assert!(answers.iter().any(|answer| answer.status == 200), "{answers:?}");
        for answer in answers.iter().filter(|answer| answer.status != 200) {
            refused(answer, 404, "keyspace_unknown");
        }
    }
}
