//! Real processes, killed and compared: what the tests of this crate are made of.
//!
//! - [`binaries`]: which programs are tested; [`process`]: one running `rehome up`; [`pipe`]: holds it at a point.
//! - [`ephemeral`]: a server as users' own tests start it.
//! - [`http`]: its API as JSON; [`endpoint`]: where clients find it, whichever life it is in.
//! - [`described`]: its API held against its own OpenAPI description; [`served`]: a process that is asked so.
//! - [`client`]: a client that asks until it is answered and knows what every answer must be; [`load`]: some of them.
//! - [`small_disk`]: a file system that a test can fill.
//! - [`metrics`]: what the process tells about itself, as Prometheus reads it.
//! - [`medium`]: where folders lie; [`memory`]: what clients were answered.
//! - [`others`]: Kafka clients of others, kcat and Python.
//! - [`apart`]: several processes over a [`broker`], with their clients.
//! - [`bench`]: a folder with its clients, through several lives of the process.
//! - [`folder`]: a folder that no process holds: its logs, its stores, the three-way comparison.
//! - [`shell`]: the commands as an operator types them.
//! - [`wait`]: waiting for what must come, with a deadline; [`pairs`]: runs scenarios two at a time.

pub mod apart;
pub mod bench;
pub mod binaries;
pub mod broker;
pub mod client;
pub mod described;
pub mod endpoint;
pub mod ephemeral;
pub mod folder;
pub mod http;
pub mod load;
pub mod medium;
pub mod memory;
pub mod metrics;
pub mod others;
pub mod pairs;
pub mod pipe;
pub mod process;
pub mod served;
pub mod shell;
pub mod small_disk;
pub mod wait;

pub use bench::{Bench, KEYSPACE, Prepared};
pub use ephemeral::Ephemeral;
pub use folder::Folder;
pub use medium::Medium;
pub use process::{Arming, Process};
