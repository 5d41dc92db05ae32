//! `rehome up`: the whole system in one process.

use crate::cluster::{Cluster, StartError};
use crate::commands::serving::{self, Ends};
use crate::exit::{Exit, Failure};
use crate::failpoints::Hooks;
use crate::wire::UpShape;
use anyhow::Context;
use rehome_embedded::{Fsync, OpenError};
use rehome_router::RouterLimits;
use rehome_router::limits::VALUE_BYTES_MAX_RANGE;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tokio::net::TcpListener;

/// Run log, stores, node, router, controller and API in one process, on one folder
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  rehome up\n  rehome up --data /var/lib/rehome --listen 127.0.0.1:9000\n  rehome up --fsync every-100ms\n  rehome up --value-bytes-max 4MiB\n  rehome up --ephemeral --port 0     # for tests: prints {\"server\":\"http://127.0.0.1:...\",...}\n\nEnds cleanly on SIGTERM or SIGINT: refuses what comes from then on with a time to ask again, answers what is\nunder way, makes its stores durable. After kill -9 it goes on where it was."
)]
pub struct Args {
    /// Folder that holds everything; made if it does not exist
    #[arg(long, default_value = "./rehome-data")]
    data: PathBuf,
    /// Use a temporary folder, which is removed at the end, and print one line of JSON when the API answers
    #[arg(long, conflicts_with = "data")]
    ephemeral: bool,
    /// Address of the API [default: 127.0.0.1:8090; with --ephemeral any free port]
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Port of the API, in place of the one in --listen; 0 takes any free one
    #[arg(long)]
    port: Option<u16>,
    /// Print one JSON object instead of text, when the API answers
    #[arg(long)]
    json: bool,
    /// When writes are made durable: `always` before they are acknowledged, or `every-100ms`: at most so long after, so
    /// that a power loss may take the writes acknowledged in that time; a killed process loses none
    #[arg(long, default_value = "always", value_name = "WHEN")]
    fsync: Fsync,
    /// Bytes that a value may have, 1KiB to 8MiB. Larger ones that are there already stay, and move
    #[arg(long, default_value = "1MiB", value_name = "BYTES", value_parser = value_bytes)]
    value_bytes_max: usize,
}

/// Reads a number of bytes that may be the limit on values.
pub fn value_bytes(text: &str) -> Result<usize, String> {
    let (number, unit) = [("KiB", 1 << 10), ("MiB", 1 << 20)]
        .into_iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))
        .unwrap_or((text, 1));
    // Digits alone: a sign or a blank is a slip.
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    let bytes = number.parse::<usize>().ok().filter(|_| digits).and_then(|number| number.checked_mul(unit));
    let bytes = bytes.ok_or("a number of bytes is wanted, for example 4194304, 512KiB or 4MiB")?;
    if VALUE_BYTES_MAX_RANGE.contains(&bytes) {
        return Ok(bytes);
    }
    let (least, most) = (VALUE_BYTES_MAX_RANGE.start(), VALUE_BYTES_MAX_RANGE.end());
    Err(format!("from {least} (1KiB) to {most} (8MiB) bytes are possible, for example 4MiB"))
}

/// File in the folder that holds the URL of the API.
const ADDRESS: &str = "address";
/// Port of the API, where none is asked for.
const PORT: u16 = 8_090;

impl Args {
    pub fn wants_json(&self) -> bool {
        self.json || self.ephemeral
    }

    fn address(&self) -> SocketAddr {
        let port = if self.ephemeral { 0 } else { PORT };
        let mut address = self.listen.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, port).into());
        if let Some(port) = self.port {
            address.set_port(port);
        }
        address
    }
}

/// Where everything lies.
enum Folder {
    Kept(PathBuf),
    /// Removed when dropped.
    Temporary(TempDir),
}

impl Folder {
    fn of(args: &Args) -> Result<Folder, Failure> {
        if !args.ephemeral {
            return Ok(Folder::Kept(args.data.clone()));
        }
        let dir = tempfile::Builder::new().prefix("rehome-ephemeral-").tempdir();
        Ok(Folder::Temporary(dir.context("cannot make a temporary folder")?))
    }

    fn path(&self) -> &Path {
        match self {
            Folder::Kept(path) => path,
            Folder::Temporary(dir) => dir.path(),
        }
    }

    fn remove_if_temporary(self) -> Result<(), Failure> {
        match self {
            Folder::Kept(_) => Ok(()),
            Folder::Temporary(dir) => Ok(dir.close().context("cannot remove the temporary folder")?),
        }
    }
}

pub fn run(args: &Args) -> Result<(), Failure> {
    super::log_to_stderr("info");
    let hooks = Hooks::from_environment()?;
    let folder = Folder::of(args)?;
    serving::run(|_| serve(args, folder.path(), hooks))?;
    folder.remove_if_temporary()
}

async fn serve(args: &Args, dir: &Path, hooks: Hooks) -> Result<(), Failure> {
    let ends = Ends::listen()?;
    // The folder first: a second process on it is told who holds it, not that the port is taken.
    let log = Cluster::take(dir, args.fsync).map_err(|error| refused(dir, error))?;
    let address_file = dir.join(ADDRESS);
    // Of whoever held the folder before; there may be none.
    let _ = std::fs::remove_file(&address_file);
    let asked = args.address();
    let listener = TcpListener::bind(asked).await.map_err(|error| {
        let message = format!("cannot listen on {asked}: {error}");
        let again = if args.ephemeral { "--ephemeral".into() } else { format!("--data {}", dir.display()) };
        Failure::new(Exit::Failed, "listen_failed", message).next(format!("rehome up {again} --port 0"))
    })?;
    let address = listener.local_addr().context("the listener has no address")?;
    std::fs::write(&address_file, format!("http://{address}\n")).context("cannot write the address")?;
    let limits = RouterLimits { value_bytes_max: args.value_bytes_max, ..RouterLimits::STANDARD };
    let cluster =
        Cluster::start_on(log, dir, &address.to_string(), hooks, limits).map_err(|error| refused(dir, error))?;
    serving::until_told(Arc::new(cluster), listener, dir.display().to_string(), ends, || announce(args, dir, address))
        .await
}

/// Says that the API answers, and where.
fn announce(args: &Args, dir: &Path, address: SocketAddr) -> Result<(), Failure> {
    let server = format!("http://{address}");
    let next_steps = vec![format!("rehome status --server {server}")];
    let data = dir.display().to_string();
    let text = if args.wants_json() {
        let shape = UpShape { server, data, pid: std::process::id(), ephemeral: args.ephemeral, next_steps };
        serde_json::to_string(&shape).context("the address is no JSON")?
    } else {
        format!("rehome is up on {data}, API at {server}\nnext: {}", next_steps.join("\nnext: "))
    };
    let mut out = std::io::stdout().lock();
    // Nobody may be listening; only whoever asked for an address cannot do without it.
    let told = writeln!(out, "{text}").and_then(|()| out.flush());
    if args.ephemeral { Ok(told.context("nobody takes the address")?) } else { Ok(()) }
}

fn refused(dir: &Path, error: StartError) -> Failure {
    match error {
        StartError::Log(OpenError::Held { .. }) => {
            // Only while the folder is held: whoever takes it removes the address of the one before.
            let address = std::fs::read_to_string(dir.join(ADDRESS)).unwrap_or_default();
            let (answers, server) = match address.trim() {
                "" => (String::new(), String::new()),
                address => (format!(", which answers at {address}"), format!(" --server {address}")),
            };
            let message = format!("{} is in use: {error}{answers}", dir.display());
            let failure = Failure::new(Exit::Refused, "data_held", message);
            failure.next(format!("rehome status{server}")).next("rehome up --data OTHER")
        }
        error => Failure::new(Exit::Failed, "start_failed", error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_on_values_is_read_with_and_without_a_unit_and_kept_in_bounds() {
        for (text, bytes) in [("1024", 1 << 10), ("1KiB", 1 << 10), ("4MiB", 4 << 20), ("8388608", 8 << 20)] {
            assert_eq!(value_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["1023", "8388609", "9MiB", "0", "18446744073709551615MiB"] {
            assert!(
                value_bytes(text).is_err_and(|told| told.ends_with("for example 4MiB") || told.contains("4194304")),
                "{text}"
            );
        }
        for text in ["", "KiB", "-1", "+4096", "4 MiB", "4mib", "4MB", "1.5MiB", "many"] {
            assert!(value_bytes(text).is_err_and(|told| told.contains("4194304")), "{text}");
        }
    }

    #[test]
    fn without_the_flag_values_are_limited_as_by_a_router_of_its_own() {
        assert_eq!(value_bytes("1MiB"), Ok(RouterLimits::STANDARD.value_bytes_max));
    }
}
