//! Replaces the running process by a new one, without a connection refused or reset.
//!
//! The old process starts the new one with one end of a [`link::Link`] as its standard input, and both speak
//! [`message`]s over it:
//!
//! ```text
//!   old                                        new
//!   offers lock, control socket, admin     ─►  reads its configuration
//!   listener, every listening socket       ◄─  prepared
//!   lets no request begin, releases the
//!   ledger                                 ─►  opens the ledger, starts its workers
//!   leaves the control socket              ◄─  ready
//!   yours                                  ─►  answers commands, is the service's main process
//!                                          ◄─  settled
//!   finishes its requests; each            ─►  goes on with them
//!   connection at its next request
//!   marks of what it still invalidates     ─►  makes them durable
//!                                          ◄─  taken
//!   gives its cache back; what it holds    ─►  leaves that free of its memory
//!   the links to those before it           ─►  attends them
//!   closes its volumes                     ─►  opens them
//!                                          ◄─  end within that time, open your logs again
//! ```
//!
//! Until `ready` the old process can take everything back: it ends the new one, writes the ledger again and
//! lets requests begin. Where the old process is killed after it has offered everything, the new one goes on
//! by itself. Rooms: [`old`] the old side up to the handover, [`leaving`] the rest of its life; [`new`] the
//! new one up to the handover, [`before`] and [`attending`] what it knows of those before it and does for
//! them; [`living`] whether a process has ended. ADR 0021, 0106.

mod attending;
pub(crate) mod before;
pub(crate) mod leaving;
pub(crate) mod link;
mod living;
pub(crate) mod message;
pub(crate) mod new;
pub(crate) mod old;
pub(crate) mod origins;
mod server;

/// The variable that tells a process that its standard input is a link to the process it takes over from.
pub(crate) const VARIABLE: &str = "WEIR_TAKES_OVER";
/// Its value. Another value would name another way.
pub(crate) const BY_STDIN: &str = "stdin";
