//! Tests of the room against scripted origins on real sockets; the pure parts by values and properties.

mod address;
mod answers;
mod balance;
mod bodies;
mod conduct;
mod crowd;
mod decided;
mod early;
mod eject;
mod explain;
mod health;
mod hedge;
mod login;
mod malformed;
mod moves;
mod pick;
mod pool;
mod ramp;
mod retry;
pub(crate) mod scripted;
mod sessions;
mod settings;
mod storm;
mod tls;
mod unix;
mod upgrade;
