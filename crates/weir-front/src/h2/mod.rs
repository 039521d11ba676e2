//! HTTP/2 (RFC 9113), on the crate `h2`, which is named here alone: [`serve`] keeps a connection, [`stream`]
//! has one request answered, [`client`] is the client of a stream, [`send`] its response, [`sink`] what takes
//! the bytes of that, [`heads`] its fields, [`tunnel`] what an extended CONNECT becomes (RFC 8441). Beneath
//! the crate, [`wire`] reads and writes, [`frames`] scans frame heads, [`floods`] bounds what a client may
//! waste, and [`named`] what each client of a proxy may; [`ahead`] bounds what waits to be sent, [`windows`]
//! what may come, and [`held`] counts what a connection holds in memory. It must not decide how a request is
//! answered.

mod ahead;
mod client;
mod floods;
mod frames;
mod heads;
mod held;
mod named;
mod send;
mod serve;
mod sink;
mod stream;
mod tunnel;
mod windows;
mod wire;

pub(crate) use self::serve::serve;
pub(crate) use self::wire::shrink;

/// What a client's side of a connection begins with (RFC 9113 §3.4).
pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
