//! One HTTP/1 connection: requests read one after another, each walked to its response, in order.
//! RFC 9112 §9. It must not decide how a request is answered.

use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use weir_wire::{Refusal, RequestHead, RequestReader};

use super::body::RequestBody;
use super::client::{Client, ClientEnd};
use super::{After, Conn};
use crate::clock;
use crate::listen::{Peer, Stream};
use crate::local;
use crate::transform::Trust;
use crate::walk;
use crate::worker::{Presence, Worker};

/// What a closing client may still send, and for how long, before the socket is closed (RFC 9112 §9.6).
const LINGER_BYTES_MAX: u64 = 1 << 20;
const LINGER_TIME_MAX: Duration = Duration::from_secs(2);

/// What comes next on an idle connection.
enum Next {
    Request(Box<RequestHead>),
    Refused(Refusal),
    Late,
    Ended,
}

/// Serves one connection to its end.
pub(crate) async fn serve(
    worker: Rc<Worker>,
    stream: Stream,
    input: BytesMut,
    peer: Peer,
    presence: Rc<Presence>,
) {
    let running = worker.running();
    let limits = running.limits.clone();
    let trust = match running.trusted.contains(&peer) {
        true => Trust::Trusted,
        false => Trust::Untrusted,
    };
    drop(running);
    let mut conn = Conn {
        client: Client::new(stream, input, limits.send_stall_max),
        reader: RequestReader::new(limits.head),
        body: RequestBody::none(),
        peer,
        trust,
        limits,
        scheme: "http",
        free_since: clock::mono(),
    };
    loop {
        presence.set_idle(conn.client.input.is_empty());
        let next = conn.next().await;
        presence.set_idle(false);
        let after = match next {
            Next::Request(head) => walk::walk(&worker, &mut conn, head).await,
            Next::Refused(refusal) => local::refuse(&worker, &mut conn, &refusal).await,
            Next::Late => local::late(&worker, &mut conn).await,
            Next::Ended => return,
        };
        match after {
            After::KeepAlive if !worker.plane.is_draining() && conn.go_on().await => {}
            After::Cut => return,
            After::Reset => return conn.client.reset(),
            After::KeepAlive | After::Close => {
                return conn.client.linger(LINGER_BYTES_MAX, LINGER_TIME_MAX).await;
            }
        }
    }
}

impl Conn {
    /// Waits for the next request's head.
    async fn next(&mut self) -> Next {
        let mut until = self.free_since + self.limits.idle_time_max;
        let mut begun = false;
        loop {
            if !self.client.input.is_empty() {
                match self.reader.read(&mut self.client.input) {
                    Ok(Some(head)) => return Next::Request(Box::new(head)),
                    Ok(None) => {}
                    Err(refusal) => return Next::Refused(refusal),
                }
                if !begun && self.reader.has_begun(&self.client.input) {
                    begun = true;
                    until = clock::mono() + self.limits.head_time_max;
                }
            }
            match self.client.read(until).await {
                Ok(_) => {}
                Err(ClientEnd::TimedOut) if begun => return Next::Late,
                Err(_) => return Next::Ended,
            }
        }
    }

    /// Whether the connection is clean for another request: the body of the last one is read.
    async fn go_on(&mut self) -> bool {
        self.body.drain(&mut self.client).await
    }
}
