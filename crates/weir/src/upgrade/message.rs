//! What two processes say to each other. Each message is one line of JSON, bytes behind it where it says so,
//! and descriptors beside it. Fields may be added; what changes the order of things gets another
//! [`PROTOCOL`].

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The form of the conversation. A process that offers another one is not taken over from.
pub(crate) const PROTOCOL: u32 = 1;

/// From either side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    /// The old one begins. With the lock of the state folder and the control socket.
    Offer {
        /// See [`PROTOCOL`].
        protocol: u32,
        /// The state folder.
        state: PathBuf,
        /// The old one's pid.
        pid: u32,
    },
    /// With the socket of the admin listener.
    Admin {
        /// Its address, as the old one's configuration has it.
        address: String,
    },
    /// With sockets of one listener; several where they are many.
    Listener {
        /// Its address, as the old one's configuration has it.
        address: String,
        /// Whether its file is the service manager's.
        managed: bool,
    },
    /// All is offered.
    Offered,
    /// The new one could do what it is configured to.
    Prepared {
        /// Its version.
        version: String,
    },
    /// The new one could not, and says why.
    Failed {
        /// A sentence, or a report.
        why: String,
    },
    /// The ledger is closed: the new one may open it.
    Released,
    /// The new one takes connections.
    Ready,
    /// All is the new one's.
    Yours,
    /// The new one answers commands.
    Settled,
    /// With a client's socket. Behind it: what was read of its next request.
    Connection {
        /// Who is there; none over a Unix socket.
        peer: Option<SocketAddr>,
        /// Whether the socket is a Unix socket.
        unix: bool,
    },
    /// Behind it: marks for the ledger.
    Marks,
    /// The marks are durable, or why not.
    Taken {
        /// A sentence; none where they are.
        failure: Option<String>,
    },
    /// The volumes are closed: the new one may open them.
    Volumes,
    /// The old one was told to end before all was the new one's, which ends as well.
    Ends,
}
