//! `rehome keyspace create|list|show|drop`.

use super::span;
use super::{count, next_lines, print, print_with, table};
use crate::args::Remote;
use crate::client::{Client, segment};
use crate::exit::{Exit, Failure, tell};
use crate::wire::{
    DEFAULT_BUCKETS, DropQuery, DroppedShape, Encoding, KeyQuery, KeyShape, KeyspaceBody, KeyspaceShape, KeyspacesShape,
};
use clap::Subcommand;
use std::io::IsTerminal;

/// Create, list, show and drop keyspaces, and show where a key belongs
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub command: Which,
}

#[derive(Debug, Subcommand)]
pub enum Which {
    /// Create a keyspace
    #[command(
        after_help = "Examples:\n  rehome keyspace create flights --shards 3\n  rehome keyspace create flights --shards 3 --request-retention 1h\n  rehome keyspace create flights --shards 3 --inbox 4"
    )]
    Create {
        name: String,
        /// Shards that own its slots at first
        #[arg(long)]
        shards: u32,
        /// Slots: the units in which ownership moves; fixed for ever
        #[arg(long, default_value_t = DEFAULT_BUCKETS)]
        buckets: u32,
        /// How long a repeated request id is recognised, 1m to 30d; fixed for ever. Ids travel with every move: a shorter
        /// time makes moves cheaper, and a client that asks again later than that writes twice. Marks of deleted rows are
        /// kept as long [default: 24h]
        #[arg(long, value_name = "TIME", value_parser = span::parse)]
        request_retention: Option<u64>,
        /// Also make an inbox topic with so many partitions, 1 to 256, for plain records from any Kafka client; fixed for
        /// ever
        #[arg(long, value_name = "PARTITIONS")]
        inbox: Option<u32>,
        #[command(flatten)]
        remote: Remote,
    },
    /// List the keyspaces
    #[command(after_help = "Example:\n  rehome keyspace list")]
    List {
        #[command(flatten)]
        remote: Remote,
    },
    /// Drop a keyspace with every row in it, for good
    ///
    /// It is refused while a move of it is open. From then on its name is free; stores, copies and log partitions are
    /// removed from disk, also when the server is killed meanwhile.
    #[command(after_help = "Examples:\n  rehome keyspace drop flights --dry-run\n  rehome keyspace drop flights --yes")]
    Drop {
        name: String,
        /// Do not ask for the name to be typed again
        #[arg(long, conflicts_with = "dry_run")]
        yes: bool,
        /// Show rows and bytes that would go, and drop nothing
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        remote: Remote,
    },
    /// Show a keyspace's shards, or where one of its keys belongs
    #[command(after_help = "Examples:\n  rehome keyspace show flights\n  rehome keyspace show flights --key ORD")]
    Show {
        name: String,
        /// Show hash, slot, shard, epoch and nodes of this partition key
        #[arg(long)]
        key: Option<String>,
        /// How the key is written
        #[arg(long, value_enum, default_value_t)]
        encoding: Encoding,
        #[command(flatten)]
        remote: Remote,
    },
}

impl Which {
    pub fn remote(&self) -> &Remote {
        match self {
            Which::Create { remote, .. }
            | Which::List { remote }
            | Which::Drop { remote, .. }
            | Which::Show { remote, .. } => remote,
        }
    }
}

pub fn run(command: &Which) -> Result<(), Failure> {
    let json = command.remote().json;
    let client = Client::new(command.remote());
    match command {
        Which::Create { name, shards, buckets, request_retention, inbox, .. } => {
            let (shards, buckets, request_retention_ms) = (*shards, *buckets, *request_retention);
            let (name, inbox_partitions) = (name.clone(), *inbox);
            let body = KeyspaceBody { name: name.clone(), shards, buckets, request_retention_ms, inbox_partitions };
            let made: KeyspaceShape = client.post("/v1/keyspaces", &body)?;
            let next = vec![format!("rehome put {name} ORD 2001-01-01 delayed")];
            print_with(json, &made, next.clone(), |made| {
                let shards = count(u64::from(made.shards_active), "shard");
                let inbox = made.inbox.as_ref().map(|inbox| format!(", inbox {}", inbox.topic)).unwrap_or_default();
                format!("keyspace {name} is made, with id {} and {shards}{inbox}{}", made.id, next_lines(&next))
            });
        }
        Which::List { .. } => {
            let all: KeyspacesShape = client.get("/v1/keyspaces", &())?;
            print(json, &all, |all| {
                table(
                    &["KEYSPACE", "ID", "SHARDS", "SLOTS"],
                    all.keyspaces.iter().map(|keyspace| {
                        let KeyspaceShape { name, id, shards_active, buckets, .. } = keyspace;
                        [name.clone(), id.to_string(), shards_active.to_string(), buckets.to_string()]
                    }),
                )
            });
        }
        Which::Drop { name, yes, dry_run, .. } => {
            let path = format!("/v1/keyspaces/{}", segment(name));
            let mut id = None;
            if !yes && !dry_run {
                let goes: DroppedShape = client.delete(&path, &DropQuery { dry_run: true, id })?;
                confirm(&goes)?;
                id = Some(goes.id);
            }
            let dropped: DroppedShape = client.delete(&path, &DropQuery { dry_run: *dry_run, id })?;
            print(json, &dropped, describe_drop);
        }
        Which::Show { name, key: None, .. } => {
            let shown: KeyspaceShape = client.get(&format!("/v1/keyspaces/{}", segment(name)), &())?;
            print(json, &shown, describe);
        }
        Which::Show { name, key: Some(key), encoding, .. } => {
            let query = KeyQuery { key: key.clone(), encoding: *encoding };
            let shown: KeyShape = client.get(&format!("/v1/keyspaces/{}/key", segment(name)), &query)?;
            print(json, &shown, |shown| {
                format!(
                    "key       {}\nhash      {}\nslot      {}\nshard     {}\nepoch     {}\nposition  {} (of the routes, in rehome.control)\nnodes     {}",
                    shown.key,
                    shown.hash,
                    shown.slot,
                    shown.shard,
                    shown.epoch,
                    shown.routes_position,
                    shown.nodes.join(", ")
                )
            });
        }
    }
    Ok(())
}

/// Lets a person type the name again. Errors: somebody who cannot be asked, or another name.
fn confirm(goes: &DroppedShape) -> Result<(), Failure> {
    let name = &goes.name;
    let refused = |message: String| {
        let failure = Failure::new(Exit::Usage, "not-confirmed", message);
        failure.next(format!("rehome keyspace drop {name} --yes"))
    };
    if !std::io::stdin().is_terminal() {
        return Err(refused(format!("{} would go; nobody can be asked here", amount(goes))));
    }
    tell(&format!("going for good: {}; type the keyspace's name to drop it:", amount(goes)));
    let mut typed = String::new();
    std::io::stdin().read_line(&mut typed).map_err(|error| refused(error.to_string()))?;
    if typed.trim() == name { Ok(()) } else { Err(refused("nothing was dropped: that is another name".into())) }
}

fn amount(goes: &DroppedShape) -> String {
    let about = if goes.counted { "" } else { "about " };
    format!("{about}{}, {} bytes of keyspace {}", count(goes.rows, "row"), goes.bytes, goes.name)
}

fn describe_drop(goes: &DroppedShape) -> String {
    let what = if goes.dropped { "dropped" } else { "would be dropped" };
    format!("{what}: {}{}", amount(goes), next_lines(&goes.next_steps))
}

/// Returns a keyspace with its shards, as text.
pub fn describe(keyspace: &KeyspaceShape) -> String {
    let rows = keyspace.shards.iter().map(|shard| {
        let number = |value: Option<u64>| value.map_or("-".into(), |value| value.to_string());
        [
            shard.shard.to_string(),
            shard.slots.to_string(),
            number(shard.applied_next),
            shard.lag_records.map_or("?".into(), |lag| lag.to_string()),
            shard.nodes.join(","),
            match &shard.broken {
                Some(reason) => format!("stopped: {reason}"),
                None if shard.slots == 0 => "not in use".into(),
                None => "ok".into(),
            },
        ]
    });
    let table = table(&["SHARD", "SLOTS", "APPLIED", "LAG", "NODES", "REPLICA"], rows);
    let KeyspaceShape { name, id, buckets, shards_active, routes_position, request_retention_ms, .. } = keyspace;
    let inbox = keyspace
        .inbox
        .as_ref()
        .map(|inbox| format!("inbox {} with {}\n", inbox.topic, count(u64::from(inbox.partitions), "partition")));
    let inbox = inbox.unwrap_or_default();
    format!(
        "keyspace {name}, id {id}: {} on {}, request ids kept {}, routes as of control position {routes_position}\n{inbox}{table}",
        count(u64::from(*buckets), "slot"),
        count(u64::from(*shards_active), "shard"),
        span::text(*request_retention_ms)
    )
}
