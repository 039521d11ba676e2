//! The messages between two processes. Each is one line of JSON, with bytes behind it where its description
//! says so, and descriptors beside it. Fields may be added; messages as well, for processes that say that
//! they know them ([`LEVEL`]); a change of the order gets another [`PROTOCOL`].

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_control::OriginChange;
use weir_front::Relayed;
use weir_tls::Agreed;

/// The version of the conversation. A new process does not take over from one that offers another version.
pub(crate) const PROTOCOL: u32 = 1;

/// Which messages a process knows: 0, those of the first versions; 1, also [`Message::Holds`],
/// [`Message::Before`], [`Message::EndWithin`] and [`Message::ReopenLogs`]. No process is sent others.
pub(crate) const LEVEL: u32 = 1;

/// What TLS agreed on for a connection that is relayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tls {
    /// The name that the client asked for.
    pub(crate) name: Option<Box<str>>,
    /// The version: `TLSv1.3`.
    pub(crate) version: String,
    /// The group of the key exchange.
    pub(crate) group: String,
    /// Whether a session was resumed.
    pub(crate) is_resumed: bool,
    /// The client's verified certificate, in DER.
    pub(crate) certificate: Option<Box<[u8]>>,
    /// The site for which the client was asked for one.
    pub(crate) asked_by: Option<Box<str>>,
}

impl Tls {
    pub(crate) fn of(relayed: Relayed) -> Tls {
        let Relayed { name, agreed, client_certificate, asked_by } = relayed;
        let (version, group) = (agreed.version.to_owned(), agreed.group.to_owned());
        let (is_resumed, certificate) = (agreed.is_resumed, client_certificate);
        Tls { name, version, group, is_resumed, certificate, asked_by }
    }

    pub(crate) fn relayed(self) -> Relayed {
        let Tls { name, version, group, is_resumed, certificate, asked_by } = self;
        let agreed = Agreed::of_words(&version, &group, is_resumed);
        Relayed { name, agreed, client_certificate: certificate, asked_by }
    }
}

/// What is known of origins, in a file in memory that goes with the offer. It is written once no request
/// begins any more. Fields that a process does not know mean nothing to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HandedOrigins {
    /// What operators have changed.
    pub(crate) changes: Vec<OriginChange>,
    /// How origins stand that do not simply take their share.
    pub(crate) states: Vec<HandedOrigin>,
}

/// How an origin stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HandedOrigin {
    /// The upstream's name.
    pub(crate) upstream: String,
    /// The origin's name.
    pub(crate) origin: String,
    /// For how long it is ejected still.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ejected_ms: Option<u64>,
    /// How long that is in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) backoff_ms: Option<u64>,
    /// Whether its checks fail.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) down: bool,
    /// What they say: `assumed`, `new`, `up` or `down`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) check: Option<String>,
    /// What its agent says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<HandedAgent>,
    /// How DNS found it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) found: Option<HandedFind>,
    /// The average time to the first byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latency_us: Option<u64>,
}

/// What the agent of an origin says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HandedAgent {
    /// `drain` or `maint`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) order: Option<String>,
    /// Whether it said that the origin is down.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) down: bool,
    /// The factor on the weight; absent: 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) percent: Option<u32>,
    /// In place of the configured `connections`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) connections: Option<u32>,
    /// Its last line.
    pub(crate) line: String,
    /// The reason in that.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
}

/// How DNS found an origin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HandedFind {
    /// The origin whose name was looked up.
    pub(crate) of: String,
    /// The address.
    pub(crate) at: String,
    /// The weight of a record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) weight: Option<u32>,
    /// Whether a record makes it a backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) backup: Option<bool>,
    /// For how long DNS has not named it any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gone_ms: Option<u64>,
}

/// What an old process still has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Holds {
    /// Connections of clients.
    pub(crate) connections: u64,
    /// The ceiling of its memory, in bytes, which only falls.
    pub(crate) bytes: u64,
    /// In how many milliseconds it ends at the latest.
    pub(crate) ends_in_ms: u64,
}

/// A message of either side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    /// The old process begins. Carries the file of [`HandedOrigins`], the lock of the state folder and the
    /// control socket, and behind the line the keys of session tickets.
    Offer {
        /// See [`PROTOCOL`].
        protocol: u32,
        /// The state folder.
        state: PathBuf,
        /// The old one's pid.
        pid: u32,
        /// See [`LEVEL`].
        #[serde(default)]
        level: u32,
    },
    /// Carries the socket of the admin listener.
    Admin {
        /// Its address, as the old one's configuration has it.
        address: String,
    },
    /// Carries sockets of one listener; several messages where there are many.
    Listener {
        /// Its address, as the old one's configuration has it.
        address: String,
        /// Whether its file is the service manager's.
        managed: bool,
    },
    /// Everything is offered.
    Offered,
    /// The new process is ready to do what it is configured to do.
    Prepared {
        /// Its version.
        version: String,
        /// See [`LEVEL`].
        #[serde(default)]
        level: u32,
    },
    /// The new process cannot take over, and says why.
    Failed {
        /// A sentence, or a report.
        why: String,
    },
    /// The ledger is closed: the new one may open it.
    Released,
    /// The new process takes connections.
    Ready,
    /// Everything belongs to the new process.
    Yours,
    /// The new process answers commands.
    Settled,
    /// Carries a client's socket, and behind the line what was read of its next request.
    Connection {
        /// The peer; `None` over a Unix socket.
        peer: Option<SocketAddr>,
        /// Whether the socket is a Unix socket.
        unix: bool,
        /// The port of the listener that took it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
        /// Its TLS, if the old process keeps the connection and relays it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tls: Option<Tls>,
    },
    /// Carries marks for the ledger behind the line.
    Marks,
    /// The marks are durable, or why not.
    Taken {
        /// A sentence; `None` where they are durable.
        failure: Option<String>,
    },
    /// The volumes are closed: the new one may open them.
    Volumes,
    /// What the old process still has. It says so again when that changes.
    Holds(Holds),
    /// Carries the link to a process before the old one, which the new one attends from now on.
    Before {
        /// Its pid.
        pid: u32,
        /// See [`LEVEL`].
        level: u32,
        /// When it was replaced, in milliseconds since 1970.
        since_ms: u64,
        /// Whether it has not said yet that the volumes are closed.
        has_volumes: bool,
        /// Whether it was told to end sooner than it would.
        is_told: bool,
        /// What it has said last.
        holds: Option<Holds>,
    },
    /// The old process is to end within that time, as if it were stopped.
    EndWithin {
        /// In milliseconds.
        ms: u64,
    },
    /// The old process is to open its log files again.
    ReopenLogs,
    /// The old process was told to end before the handover was complete. The new one ends as well.
    Ends,
}
