//! Answering over connections: TCP and unix sockets. In the full form each message stands behind its length
//! in two bytes, and many questions share a connection. In the plain form a connection is for one question,
//! which ends with the empty line of its head, and the answer ends with the connection.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};

use super::places::{Place, Places};
use super::sources::Sources;
use super::{Room, What, answered};
use crate::ask::Form;
use crate::clock;
use crate::format::FRAME_MAX;

/// A connection on which nothing comes for so long is closed.
const IDLE: Duration = Duration::from_secs(300);
/// A message that has begun ends within this time, and an answer is taken within it.
const PATIENCE: Duration = Duration::from_secs(5);
/// What asks over a unix socket, as an address.
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

pub(super) async fn accept_tcp(
    listener: std::net::TcpListener,
    room: Room,
    sources: Arc<Sources>,
    places: Arc<Places>,
) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                let is_allowed = room.terms.load().allow.iter().any(|net| net.contains(&from.ip()));
                if !is_allowed {
                    room.served.dropped(What::Refused, from.ip());
                    continue;
                }
                let place = places.take(from.ip());
                // Without it, answers wait for one another.
                let _ = stream.set_nodelay(true);
                tokio::spawn(converse(stream, from.ip(), (room.clone(), sources.clone()), place));
            }
            Err(error) => failed(&error).await,
        }
    }
}

pub(super) async fn accept_unix(
    listener: std::os::unix::net::UnixListener,
    room: Room,
    sources: Arc<Sources>,
    places: Arc<Places>,
) {
    let Ok(listener) = UnixListener::from_std(listener) else { return };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let place = places.take(LOCAL);
                tokio::spawn(converse(stream, LOCAL, (room.clone(), sources.clone()), place));
            }
            Err(error) => failed(&error).await,
        }
    }
}

/// Accepting fails where files are short; it is tried again.
async fn failed(error: &io::Error) {
    tracing::debug!("a connection could not be accepted: {error}");
    tokio::time::sleep(Duration::from_millis(50)).await;
}

async fn converse<S>(stream: S, from: IpAddr, (room, sources): (Room, Arc<Sources>), place: Place)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    room.served.add(What::Connections);
    let form = room.terms.load().form;
    let conversation = async {
        match form {
            Form::Full => converse_full(stream, from, (&room, &sources), &place).await,
            Form::Plain => converse_plain(stream, from, &room, &sources).await,
        }
    };
    // What a connection met is of no use to anybody.
    tokio::select! {
        _ = conversation => {}
        () = place.is_wanted() => {}
    }
}

async fn converse_full<S>(
    mut stream: S,
    from: IpAddr,
    (room, sources): (&Room, &Sources),
    place: &Place,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut read, mut out) = (Vec::with_capacity(4096), Vec::new());
    let mut due = clock::now() + IDLE;
    loop {
        let mut bytes = [0; 4096];
        let length = tokio::time::timeout_at(due.into(), stream.read(&mut bytes)).await??;
        if length == 0 {
            return Ok(());
        }
        let is_begun = read.is_empty();
        read.extend_from_slice(&bytes[..length]);
        let (terms, mut at) = (room.terms.load_full(), 0);
        while let Some((length, rest)) = read[at..].split_first_chunk::<2>() {
            let length = usize::from(u16::from_be_bytes(*length));
            if length > FRAME_MAX {
                room.served.add(What::Malformed);
                return Ok(());
            }
            let Some(question) = rest.get(..length) else { break };
            let begin = out.len();
            out.extend_from_slice(&[0, 0]);
            let judged = match sources.may_ask(from, terms.rate, clock::now()) {
                true => answered(question, &terms, &room.served, &mut out),
                false => Err(What::TooMany),
            };
            match judged {
                Ok(()) => {
                    place.used();
                    let length = (out.len() - begin - 2) as u16;
                    out[begin..begin + 2].copy_from_slice(&length.to_be_bytes());
                }
                Err(what) => {
                    out.truncate(begin);
                    room.served.dropped(what, from);
                }
            }
            at += 2 + length;
        }
        read.drain(..at);
        if !out.is_empty() {
            tokio::time::timeout(PATIENCE, stream.write_all(&out)).await??;
            out.clear();
        }
        // The whole message has this time, not each of its bytes.
        match read.is_empty() {
            true => due = clock::now() + IDLE,
            false if is_begun || at > 0 => due = clock::now() + PATIENCE,
            false => {}
        }
    }
}

async fn converse_plain<S>(mut stream: S, from: IpAddr, room: &Room, sources: &Sources) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut read, mut bytes) = (Vec::new(), [0; 4096]);
    let all = async {
        while !read.ends_with(b"\n\r\n") && !read.ends_with(b"\n\n") && read.len() <= FRAME_MAX {
            let length = stream.read(&mut bytes).await?;
            if length == 0 {
                break;
            }
            read.extend_from_slice(&bytes[..length]);
        }
        Ok::<(), io::Error>(())
    };
    tokio::time::timeout(PATIENCE, all).await??;
    let (terms, mut out) = (room.terms.load_full(), Vec::new());
    let judged = match sources.may_ask(from, terms.rate, clock::now()) {
        _ if read.len() > FRAME_MAX => Err(What::Malformed),
        true => answered(&read, &terms, &room.served, &mut out),
        false => Err(What::TooMany),
    };
    match judged {
        Ok(()) => tokio::time::timeout(PATIENCE, stream.write_all(&out)).await??,
        Err(what) => room.served.dropped(what, from),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Answer, Keys};
    use crate::serve::Terms;

    #[tokio::test(start_paused = true)]
    async fn a_message_that_comes_byte_by_byte_ends_the_connection() {
        let answer = Arc::new(|_: &crate::format::Question<'_>| Answer::Nothing);
        let terms = Terms { keys: Keys::default(), form: Form::Full, allow: Vec::new(), rate: 10, answer };
        let room = Room { terms: Arc::new(arc_swap::ArcSwap::from_pointee(terms)), served: Arc::default() };
        let (mut client, server) = tokio::io::duplex(64);
        let place = super::super::places::Places::shared().take(LOCAL);
        tokio::spawn(converse(server, LOCAL, (room, Sources::shared()), place));
        let mut sent = 0;
        while sent < 50 && client.write_all(&[1]).await.is_ok() {
            sent += 1;
            tokio::time::sleep(PATIENCE - Duration::from_secs(1)).await;
        }
        assert!(sent < 5, "{sent}");
    }
}
