//! Closed-loop clients, each in a thread of its own.

use crate::client::Client;
use crate::endpoint::Endpoint;
use crate::http::Http;
use anyhow::{Context, anyhow};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Clients at work.
pub struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    threads: Vec<JoinHandle<(Client, anyhow::Result<()>)>>,
}

impl Load {
    /// Lets the clients do one thing after the other.
    pub fn start(clients: Vec<Client>, endpoint: &Endpoint) -> Load {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let run = |mut client: Client| {
            let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
            let (endpoint, http) = (endpoint.clone(), Http::default());
            std::thread::spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    if let Err(error) = client.act(&http, &endpoint) {
                        return (client, Err(error));
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                }
                (client, Ok(()))
            })
        };
        let threads = clients.into_iter().map(run).collect();
        Load { stop, done, threads }
    }

    /// Returns how many things the clients have done.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::SeqCst)
    }

    /// Tells whether a client has given up.
    pub fn has_failed(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Lets each client finish what it asked, and returns them.
    ///
    /// Errors: a client got an answer that cannot be true, or none at all.
    pub fn finish(self) -> anyhow::Result<Vec<Client>> {
        self.stop.store(true, Ordering::SeqCst);
        let mut clients = Vec::new();
        let mut wrong = None;
        for thread in self.threads {
            let (client, result) = thread.join().map_err(|_| anyhow!("a client panicked"))?;
            clients.push(client);
            wrong = wrong.or(result.err());
        }
        wrong.map_or(Ok(clients), Err).context("a client was answered wrongly")
    }
}
