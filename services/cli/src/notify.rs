//! Tells a service manager how far the process is: the protocol of `sd_notify(3)`, one datagram for each state.

use std::os::unix::net::{SocketAddr, UnixDatagram};

/// What a service manager is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The API answers.
    Ready,
    Stopping,
}

impl State {
    fn text(self) -> &'static str {
        match self {
            State::Ready => "READY=1",
            State::Stopping => "STOPPING=1",
        }
    }
}

/// Tells the manager that has started this process, if one has. It is no error that nobody listens.
pub fn tell_manager(state: State) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = address(&name.to_string_lossy()).and_then(|address| send(&address, state)) {
        tracing::warn!(%error, socket = %name.to_string_lossy(), "the service manager cannot be told");
    }
}

fn send(address: &SocketAddr, state: State) -> std::io::Result<()> {
    UnixDatagram::unbound()?.send_to_addr(state.text().as_bytes(), address).map(drop)
}

/// Returns the socket's address: a path, or after an `@` a name that has none.
fn address(name: &str) -> std::io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = name.strip_prefix('@') {
        use std::os::linux::net::SocketAddrExt;
        return SocketAddr::from_abstract_name(name);
    }
    SocketAddr::from_pathname(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_reach_a_socket_with_a_path_and_one_without() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("notify");
        for name in [path.display().to_string(), format!("@rehome-notify-test-{}", std::process::id())] {
            let address = address(&name).expect("a name");
            let socket = UnixDatagram::bind_addr(&address).expect("it binds");
            send(&address, State::Ready).expect("it sends");
            send(&address, State::Stopping).expect("it sends");
            let mut text = [0; 32];
            let length = socket.recv(&mut text).expect("it comes");
            assert_eq!(&text[..length], b"READY=1", "{name}");
            let length = socket.recv(&mut text).expect("it comes");
            assert_eq!(&text[..length], b"STOPPING=1", "{name}");
        }
    }
}
