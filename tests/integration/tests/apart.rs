//! Roles in processes of their own, over a real broker: each is killed while shards move, and nothing is lost.

use rehome_integration::apart::Apart;

#[test]
fn shards_move_between_processes_each_of_which_is_killed() {
    let mut apart = Apart::start(1).expect("a broker");
    // Started before anything that they talk to, and in no order.
    apart.serve("spare", "controller").expect("a controller");
    apart.serve("front", "router,controller").expect("a router");
    for node in ["a", "b"] {
        apart.serve(node, "node").expect("a node");
    }
    apart.wait_nodes(2).expect("both are registered");
    apart.fill(3).expect("rows are written");
    apart.work();
    apart.wait_done(200).expect("clients are answered");

    let grown = apart.reshard(5).expect("a job");
    apart.wait_done(50).expect("clients are answered");
    apart.kill("a").expect("it is killed");
    apart.serve("a", "node").expect("the same node again, elsewhere");
    apart.wait_completed(grown).expect("the job completes");
    apart.wait_done(200).expect("clients are answered");

    let shrunk = apart.reshard(2).expect("a job");
    apart.kill("front").expect("it is killed");
    apart.serve("front", "router").expect("a router without a controller");
    apart.wait_completed(shrunk).expect("the other controller completes the job");
    apart.wait_done(200).expect("clients are answered");
    let memory = apart.conclude().expect("answers, stores and logs agree");
    assert!(memory.rows.len() > 500, "{} rows were written", memory.rows.len());
}
