//! What holds of each sink, over a connection of the crate whose other end follows the script.

use std::cell::RefCell;
use std::time::Duration;

use bytes::BytesMut;
use h2::RecvStream;
use tokio::io::DuplexStream;
use tokio::task::LocalSet;
use weir_clock as clock;
use weir_observe::{Observatory, Observer, SiteId};

use super::*;
use crate::h2::ahead::Ahead;
use crate::h2::client::Content;
use crate::h2::wire::Wire;
use crate::interim::Interims;
use crate::listen::{Family, Plain, Stream};
use crate::message::{Sent, Trust};
use crate::out::testing::{Records, Row, Script, Slow, Step, pattern, rows};
use crate::out::{Extent, Sending};

/// What a client got, and how its stream ended.
type Got = (Vec<u8>, Result<(), Option<Reason>>);

/// Reads as the script says, and what is left then. Windows open for what was taken.
async fn read(mut stream: RecvStream, steps: Vec<Step>) -> Got {
    let (mut got, mut kept) = (Vec::new(), 0);
    for step in steps.into_iter().chain([Step::Takes(u64::MAX)]) {
        match step {
            Step::Rests(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            Step::Leaves => break,
            Step::Takes(bytes) => {
                let until = (got.len() as u64).saturating_add(bytes);
                while (got.len() as u64) < until {
                    let _ = stream.flow_control().release_capacity(std::mem::take(&mut kept));
                    match stream.data().await {
                        Some(Ok(data)) => {
                            kept = data.len();
                            got.extend_from_slice(&data);
                        }
                        Some(Err(error)) => return (got, Err(error.reason())),
                        None => return (got, Ok(())),
                    }
                }
            }
        }
    }
    (got, Err(None))
}

async fn client(io: DuplexStream, steps: Vec<Step>) -> Got {
    let (mut requests, connection) = h2::client::handshake(io).await.unwrap();
    tokio::task::spawn_local(connection);
    let request = http::Request::get("http://a/").body(()).unwrap();
    let (response, _) = requests.send_request(request, true).unwrap();
    read(response.await.unwrap().into_body(), steps).await
}

/// The other half of a stream, which the crate has no hand in.
fn wire(observer: &Observer) -> Wire {
    let (ours, _) = std::os::unix::net::UnixStream::pair().unwrap();
    let stream = Stream::Plain(Plain::new(ours.into(), Family::Unix));
    Wire::new(stream, BytesMut::new(), Trust::Untrusted, observer.counters_shared())
}

async fn send(io: DuplexStream, script: &Script, extent: Extent, observer: &Observer) -> Sent {
    let mut builder = h2::server::Builder::new();
    builder.max_send_buffer_size(AHEAD_OF_STREAM_BYTES_MAX);
    let mut connection = builder.handshake::<_, Piece>(io).await.unwrap();
    let (request, mut respond) = connection.accept().await.unwrap().unwrap();
    tokio::task::spawn_local(async move { while connection.accept().await.is_some() {} });
    let stream = respond.send_response(http::Response::new(()), false).unwrap();
    let limits = ClientLimits::default();
    let wire = Rc::new(RefCell::new(wire(observer)));
    let content = Content::new(request.into_body(), wire, &limits, clock::mono());
    let side = RefCell::new(Side::Sending(stream));
    let mut client = StreamClient { content, side: &side, site: SiteId::NONE, interims: Interims::default() };
    let ahead = Rc::<Ahead>::default();
    let through = Through { ahead: &ahead, limits: &limits, counters: observer.counters(), holds: &|_| true };
    let mut body = script.begin(&Records::default());
    let (pace, upload) = (&mut None::<Box<Slow>>, &mut None);
    let mut sending = Sending::new(Handed::new(&mut client, &through), extent, &mut body, pace, upload);
    let end = match sending.at_once() {
        Some(end) => end,
        None => sending.rest().await,
    };
    sending.finish(end)
}

fn check((script, extent, steps, expect): Row, observer: &Observer) {
    let mut clock = tokio::runtime::Builder::new_current_thread();
    let runtime = clock.enable_time().start_paused(true).build().unwrap();
    let (sent, (got, ended)) = LocalSet::new().block_on(&runtime, async {
        let (ours, theirs) = tokio::io::duplex(16 << 10);
        tokio::join!(send(ours, &script, extent, observer), client(theirs, steps.clone()))
    });
    let row = format!("{script:?} {extent:?} {steps:?}: {sent:?} {ended:?}");
    assert_eq!(sent.end, expect, "{row}");
    assert!(got == pattern(0, got.len()), "other bytes: {row}");
    match expect {
        End::Whole => assert_eq!((ended, got.len() as u64), (Ok(()), sent.body_bytes), "{row}"),
        End::Cut(_) => assert_eq!(ended, Err(Some(Reason::INTERNAL_ERROR)), "{row}"),
        _ => assert_eq!(ended, Err(None), "{row}"),
    }
    if matches!(expect, End::Cut(word) if word != "send-stall") {
        assert_eq!(got.len() as u64, sent.body_bytes, "what came before the cut leaves: {row}");
    }
}

#[test]
fn a_stream_takes_bytes_as_each_sink() {
    let observatory = Observatory::start(1, &[]).unwrap();
    let observer = observatory.observer(0);
    rows().into_iter().for_each(|row| check(row, &observer));
}
