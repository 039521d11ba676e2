//! Loads over TLS and over HTTP/2, against servers on rustls and on the crate `h2`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use bytes::Bytes;
use h2::server::{Connection, SendResponse};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{args, faults, interval, load};
use crate::{Fault, StressError, offsets, run};

/// A server's settings, and the file of what to believe.
fn certified(protocols: &[&str]) -> (Arc<ServerConfig>, std::path::PathBuf) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config =
        builder.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let file = std::env::temp_dir().join(format!("weir-stress-{}-{number}.pem", std::process::id()));
    std::fs::write(&file, made.cert.pem()).unwrap();
    (Arc::new(config), file)
}

/// HTTP/1 over TLS: 300,000 bytes of the offset pattern.
fn secure() -> (SocketAddr, std::path::PathBuf) {
    let (config, file) = certified(&["http/1.1"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, config) = (stream.unwrap(), config.clone());
            thread::spawn(move || {
                let session = rustls::ServerConnection::new(config).unwrap();
                let mut stream = rustls::StreamOwned::new(session, stream);
                let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
                while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
                    head.extend_from_slice(&buffer[..bytes]);
                    if head.ends_with(b"\r\n\r\n") {
                        head.clear();
                        let said = "HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n";
                        let whole = [said.as_bytes(), &offsets::body(300_000)].concat();
                        if stream.write_all(&whole).is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    (address, file)
}

/// How a server of HTTP/2 misbehaves.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Right,
    /// Sends GOAWAY after a few requests.
    Leaves,
    Resets,
    /// Resets within the content.
    Cuts,
    Lies,
}

/// HTTP/2 over plain TCP or TLS: the offset pattern, or the range of it that is asked for.
fn streams(manner: Manner, tls: Option<Arc<ServerConfig>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let acceptor = tls.map(tokio_rustls::TlsAcceptor::from);
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    match acceptor {
                        None => converse(stream, manner).await,
                        Some(acceptor) => {
                            if let Ok(stream) = acceptor.accept(stream).await {
                                converse(stream, manner).await;
                            }
                        }
                    }
                });
            }
        });
    });
    address
}

async fn converse<S: AsyncRead + AsyncWrite + Unpin>(stream: S, manner: Manner) {
    let Ok(mut connection): Result<Connection<S, Bytes>, _> = h2::server::handshake(stream).await else {
        return;
    };
    let mut count = 0;
    while let Some(Ok((request, respond))) = connection.accept().await {
        count += 1;
        if count == 5 && manner == Manner::Leaves {
            connection.graceful_shutdown();
        }
        tokio::spawn(answer(request, respond, manner));
    }
}

async fn answer(request: http::Request<h2::RecvStream>, mut respond: SendResponse<Bytes>, manner: Manner) {
    if manner == Manner::Resets {
        return respond.send_reset(h2::Reason::INTERNAL_ERROR);
    }
    let range = request.headers().get("range").map(|value| value.to_str().unwrap().to_owned());
    let (start, end) = range.as_deref().map_or((0, 10_000), |range| interval(&range["bytes=".len()..]));
    let mut body = vec![0; (end - start) as usize];
    offsets::fill(start + if manner == Manner::Lies { 16 } else { 0 }, &mut body);
    let mut response = http::Response::builder().status(if range.is_some() { 206 } else { 200 });
    if range.is_some() {
        response = response.header("content-range", format!("bytes {start}-{}/10000", end - 1));
    }
    let Ok(mut send) = respond.send_response(response.body(()).unwrap(), false) else { return };
    if manner == Manner::Cuts {
        let _ = send.send_data(body[..1].to_vec().into(), false);
        // A reset takes back what the crate has not sent.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        return send.send_reset(h2::Reason::INTERNAL_ERROR);
    }
    let _ = send.send_data(body.into(), true);
}

#[test]
fn a_load_over_tls_is_as_one_without() {
    let (at, file) = secure();
    let ca = format!("--ca {}", file.display());
    for line in ["-c 3 --offsets", "-c 3 --same", "-c 2 --discard --new-connections", "-c 1 --group x25519"] {
        let report = load(&format!("https://{at}/ -n 40 --length 300000 {ca} {line}"));
        assert!(report.is_clean(), "{line}: {report}");
        let side = &report.sides()[0];
        assert_eq!((side.requests, side.bytes, side.handshakes.1), (40, 40 * 300_000, 0));
        assert_eq!(side.handshakes.0, side.connections);
    }
    let report = load(&format!("https://{at}/ -n 40 -c 2 {ca} --new-connections --resume"));
    assert!(report.is_clean(), "{report}");
    // Each user's first is a whole one.
    assert_eq!(report.sides()[0].handshakes, (40, 38));
    assert!(report.to_string().contains("40, 38 resumed"), "{report}");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_certificate_is_believed_only_with_a_reason() {
    let (at, file) = secure();
    let refused = load(&format!("https://{at}/ -n 2 -c 1"));
    assert_eq!(faults(&refused), [Fault::Handshake], "{refused}");
    assert!(refused.to_string().contains("name its authority with --ca"), "{refused}");
    let other = load(&format!("https://{at}/ -n 2 -c 1 --ca {} -H Host:other.test", file.display()));
    assert_eq!(faults(&other), [Fault::Handshake], "{other}");
    assert!(load(&format!("https://{at}/ -n 2 -c 1 --insecure -H Host:other.test")).is_clean());
    // It does not speak HTTP/2.
    assert_eq!(faults(&load(&format!("https://{at}/ -n 2 -c 1 --insecure --http2"))), [Fault::Handshake]);
    std::fs::remove_file(file).unwrap();
}

#[test]
fn streams_are_checked_as_connections_are() {
    let (config, file) = certified(&["h2", "http/1.1"]);
    let (plain, tls) = (streams(Manner::Right, None), streams(Manner::Right, Some(config)));
    let secure = format!("https://{tls}/ --ca {}", file.display());
    for target in [format!("http://{plain}/"), secure.clone()] {
        for line in [
            "--offsets --length 10000 -m 10",
            "--same --length 10000",
            "--discard --length 10000 --new-connections",
            "--ranges --length 10000 -m 3",
        ] {
            let report = load(&format!("{target} --http2 -n 200 -c 2 {line}"));
            assert!(report.is_clean(), "{line}: {report}");
            let connections = if line.contains("new") { 200 } else { 2 };
            assert_eq!((report.sides()[0].requests, report.sides()[0].connections), (200, connections));
        }
    }
    let report = load(&format!("{secure} --http2 -n 40 -c 2 --new-connections --resume"));
    assert_eq!(report.sides()[0].handshakes, (40, 38), "{report}");
    let timed = load(&format!("http://{plain}/ --http2 -d 0.2 -c 2 -m 4"));
    assert!(timed.is_clean() && timed.sides()[0].seconds < 5.0, "{timed}");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_server_that_leaves_politely_is_no_fault() {
    let at = streams(Manner::Leaves, None);
    let report = load(&format!("http://{at}/ --http2 -n 100 -c 2 -m 3 --offsets"));
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.sides()[0].requests, 100);
    assert!(report.sides()[0].connections > 4, "{report}");
}

#[test]
fn each_fault_of_a_stream_is_named() {
    for (manner, fault) in
        [(Manner::Resets, Fault::Closed), (Manner::Cuts, Fault::Short), (Manner::Lies, Fault::Content)]
    {
        let report = load(&format!("http://{}/ --http2 -n 3 -c 1 --offsets", streams(manner, None)));
        assert_eq!(faults(&report), [fault], "{report}");
    }
    // A port that was closed may become another test's.
    let gone = "127.0.0.1:1";
    assert_eq!(faults(&load(&format!("http://{gone}/ --http2 -n 2 -c 1"))), [Fault::Connect]);
    let error = run(&args(&format!("http://{gone}/ --http2 -n 1000 -c 1"))).unwrap_err();
    assert!(matches!(error, StressError::Hopeless { .. }), "{error}");
    let silent = super::server(|_| (vec![], false));
    let late = load(&format!("http://{silent}/ --http2 -n 1 -c 1 --timeout 0.2"));
    assert_eq!(faults(&late), [Fault::Timeout]);
}

#[test]
fn a_spaced_load_keeps_its_rate() {
    let (plain, at) = (super::floor(), streams(Manner::Right, None));
    for line in [format!("http://{plain}/1KB -c 8"), format!("http://{at}/ --http2 -c 2 -m 4")] {
        let report = load(&format!("{line} -n 100 --rate 400"));
        assert!(report.is_clean(), "{report}");
        // 99 gaps of 2.5 ms.
        assert!(report.sides()[0].seconds > 0.24, "{report}");
    }
}
