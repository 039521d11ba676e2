//! Addresses, real sockets, and the PROXY protocol as a table and by properties.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use bytes::BytesMut;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use super::balance::choose_among;
use super::*;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn loopback() -> Address {
    "127.0.0.1:0".parse().unwrap()
}

fn tcp(bound: &Bound) -> SocketAddr {
    match bound.address() {
        Address::Tcp(at) => *at,
        Address::Unix { .. } => panic!("no TCP address"),
    }
}

/// A folder for one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weir-listen-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn address(&self, name: &str) -> Address {
        Address::Unix { path: self.0.join(name), mode: 0o600 }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn addresses_are_read_and_printed() {
    for text in ["127.0.0.1:8080", "[::1]:8080", "unix:/run/weir.sock"] {
        assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
    }
    let with_mode = "unix:/run/weir.sock?mode=0600".parse::<Address>().unwrap();
    assert_eq!(with_mode, Address::Unix { path: "/run/weir.sock".into(), mode: 0o600 });
    let long = format!("unix:/{}", "x".repeat(103));
    for text in ["", "8080", "localhost", "::1:80", "unix:", "unix:/x?mode=9", "unix:/x?mode=+7", &long] {
        assert!(text.parse::<Address>().is_err(), "{text}");
    }
}

#[test]
fn a_port_is_shared_by_the_workers_and_by_nobody_else() {
    let bound = bind(&loopback(), 3).unwrap();
    assert_eq!(bound.len(), 3);
    assert!(bound.iter().all(|one| one.address() == bound[0].address()));
    assert_ne!(tcp(&bound[0]).port(), 0);
    let error = bind(bound[0].address(), 1).unwrap_err();
    assert!(matches!(error, BindError::Occupied(_)));
    assert!(error.to_string().contains("ss -ltnp"), "{error}");
    let again = bound[0].address().clone();
    drop(bound);
    bind(&again, 1).unwrap();
}

#[test]
fn impossible_addresses_say_what_to_do() {
    let foreign = bind(&"192.0.2.1:8080".parse().unwrap(), 1).unwrap_err();
    assert!(foreign.to_string().contains("ip address"), "{foreign}");
    let folder = Folder::new("impossible");
    std::fs::write(folder.0.join("file"), "x").unwrap();
    assert!(matches!(bind(&folder.address("file"), 1), Err(BindError::NotASocket(_))));
    assert!(matches!(bind(&folder.address("none/socket"), 1), Err(BindError::NoFolder(_))));
}

#[test]
fn a_stale_unix_socket_is_replaced_and_a_living_one_is_not() {
    let folder = Folder::new("stale");
    let address = folder.address("socket");
    let path = folder.0.join("socket");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let bound = bind(&address, 2).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(matches!(bind(&address, 1), Err(BindError::Occupied(_))));
    drop(bound);
    assert!(!path.exists(), "the last listener removes its file");
}

#[test]
fn accepted_connections_are_undelayed_and_carry_bytes_both_ways() {
    runtime().block_on(async {
        let bound = bind(&loopback(), 1).unwrap();
        let at = tcp(&bound[0]);
        let seat = seats(1).remove(0);
        let mut arrivals = Arrivals::open(bound, seat).unwrap();
        let mut client = TcpStream::connect(at).await.unwrap();
        let mut arrival = arrivals.next().await;
        assert_eq!(arrival.peer, Peer::Ip(client.local_addr().unwrap()));
        assert_eq!((arrival.listener, arrivals.seat().held()), (0, 1));
        assert!(arrival.carrier.is_undelayed(), "inherited from the listener");

        client.write_all(b"ping").await.unwrap();
        arrival.carrier.readable().await.unwrap();
        let mut buffer = BytesMut::with_capacity(16);
        assert_eq!(arrival.carrier.try_read_buf(&mut buffer).unwrap(), 4);
        let slices = [std::io::IoSlice::new(b"po"), std::io::IoSlice::new(b"ng")];
        assert_eq!(arrival.carrier.try_write_vectored(&slices).unwrap(), 4);
        arrival.carrier.shutdown().await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "pong");
        drop(arrival);
        assert_eq!(arrivals.seat().held(), 0);
    });
}

#[test]
fn a_drained_socket_is_not_read_again_and_nothing_is_missed() {
    runtime().block_on(async {
        let (mut sender, receiver) = UnixStream::pair().unwrap();
        let stream = Plain::new(receiver.into_std().unwrap().into(), Family::Unix);
        let mut buffer = BytesMut::new();
        let read =
            async |buffer: &mut BytesMut| poll_fn(|cx| stream.poll_read_buf(cx, buffer)).await.unwrap();
        sender.write_all(b"one").await.unwrap();
        assert_eq!(read(&mut buffer).await, 3);
        // The read did not fill its buffer, so the readiness is over without a further system call.
        assert_eq!(stream.try_read_buf(&mut buffer).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        let much = vec![b'x'; 3 * READ_BYTES + 5];
        sender.write_all(&much).await.unwrap();
        drop(sender);
        let mut total = 0;
        while total < much.len() {
            total += read(&mut buffer).await;
        }
        assert_eq!((total, buffer.len()), (much.len(), much.len() + 3));
        assert_eq!(read(&mut buffer).await, 0, "the end is seen after the bytes");
    });
}

#[test]
fn a_unix_socket_is_served_by_every_worker_that_has_it() {
    runtime().block_on(async {
        let folder = Folder::new("workers");
        let address = folder.address("socket");
        let bound = bind(&address, 2).unwrap();
        let mut workers: Vec<_> = bound.into_iter().zip(seats(2)).collect();
        let (second, seat) = workers.pop().unwrap();
        let mut arrivals = Arrivals::open(vec![second], seat).unwrap();
        let _client = UnixStream::connect(folder.0.join("socket")).await.unwrap();
        let arrival = arrivals.next().await;
        assert_eq!(arrival.peer, Peer::Unix);
        assert!(Trusted::new(vec![], UnixPeers::Trusted).contains(&arrival.peer));
        assert!(!Trusted::new(vec![], UnixPeers::Untrusted).contains(&arrival.peer));
    });
}

#[test]
fn few_long_connections_spread_over_the_workers() {
    runtime().block_on(async {
        let mut bound = bind(&loopback(), 1).unwrap();
        let at = tcp(&bound[0]);
        let mut seats = seats(2).into_iter();
        // Only the first worker listens, so all connections come in there.
        let mut first = Arrivals::open(vec![bound.remove(0)], seats.next().unwrap()).unwrap();
        let mut second = Arrivals::open(vec![], seats.next().unwrap()).unwrap();
        let mut clients = Vec::new();
        let mut kept = (Vec::new(), Vec::new());
        for _ in 0..10 {
            clients.push(TcpStream::connect(at).await.unwrap());
            tokio::select! {
                arrival = first.next() => kept.0.push(arrival),
                arrival = second.next() => kept.1.push(arrival),
            }
        }
        assert_eq!((kept.0.len(), kept.1.len()), (5, 5));
        assert_eq!((first.seat().held(), second.seat().held()), (5, 5));
        // A connection that was handed over works.
        let moved = &mut kept.1[0];
        moved.carrier.write_all(b"here").await.unwrap();
        let mut heard = 0;
        for client in &clients {
            let mut bytes = [0; 4];
            let wait = tokio::time::timeout(Duration::from_millis(20), client.readable()).await;
            heard += usize::from(wait.is_ok() && client.try_read(&mut bytes).is_ok_and(|n| n == 4));
        }
        assert_eq!(heard, 1);
    });
}

#[test]
fn only_a_worker_clearly_above_the_mean_hands_over() {
    assert_eq!(choose_among(0, &[0, 0]), 0);
    assert_eq!(choose_among(0, &[1, 0]), 1);
    assert_eq!(choose_among(0, &[1, 1]), 0);
    assert_eq!(choose_among(0, &[100, 90]), 0);
    assert_eq!(choose_among(0, &[100, 50]), 1);
    assert_eq!(choose_among(2, &[4, 3, 9, 5]), 1);
    assert_eq!(choose_among(0, &[1000]), 0);
    assert_eq!(choose_among(1, &[0; 64]), 1);
}

#[test]
fn listeners_come_and_go_while_running() {
    runtime().block_on(async {
        let first = bind(&loopback(), 1).unwrap().remove(0);
        let second = bind(&loopback(), 1).unwrap().remove(0);
        let (gone, new) = (tcp(&first), tcp(&second));
        let mut arrivals = Arrivals::open(vec![first], seats(1).remove(0)).unwrap();
        arrivals.add(7, second).unwrap();
        arrivals.remove(0);
        assert!(TcpStream::connect(gone).await.is_err());
        let _client = TcpStream::connect(new).await.unwrap();
        assert_eq!(arrivals.next().await.listener, 7);
        arrivals.close();
        assert!(TcpStream::connect(new).await.is_err());
    });
}

fn client(source: &str, destination: &str) -> Announced {
    Announced::Client { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
}

fn v2(command: u8, family: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    header.extend([0x20 | command, family]);
    header.extend((payload.len() as u16).to_be_bytes());
    header.extend(payload);
    header
}

const V4: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 1, 0xdc, 0x04, 0x01, 0xbb];

#[track_caller]
fn check(given: &[u8], expect: Result<Announced, Malformed>) {
    let mut with_rest = given.to_vec();
    with_rest.extend(b"GET / HTTP/1.1\r\n");
    let whole = |announced| Parsed::Complete { announced, header_bytes: given.len() };
    assert_eq!(parse(&with_rest), expect.map(whole), "{}", given.escape_ascii());
}

#[test]
fn proxy_headers_are_read() {
    let four = client("192.0.2.1:56324", "198.51.100.1:443");
    check(b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n", Ok(four));
    check(b"PROXY TCP6 2001:db8::1 ::1 1 65535\r\n", Ok(client("[2001:db8::1]:1", "[::1]:65535")));
    check(b"PROXY UNKNOWN\r\n", Ok(Announced::Itself));
    check(b"PROXY UNKNOWN anything at all\r\n", Ok(Announced::Itself));
    check(&v2(1, 0x11, &V4), Ok(four));
    check(&v2(1, 0x11, &[&V4[..], &[4, 0, 2, 9, 9]].concat()), Ok(four));
    check(&v2(0, 0x00, &[]), Ok(Announced::Itself));
    check(&v2(0, 0x11, &V4), Ok(Announced::Itself));
    check(&v2(1, 0x00, &[1, 2]), Ok(Announced::Itself));
    check(&v2(1, 0x31, &[0; 216]), Ok(Announced::Itself));
    let mut six = [0; 36];
    (six[15], six[31], six[33], six[35]) = (1, 2, 80, 81);
    check(&v2(1, 0x21, &six), Ok(client("[::1]:80", "[::2]:81")));
}

#[test]
fn bytes_that_are_no_proxy_header_are_refused() {
    use Malformed::{Field, Missing, TooLong};
    check(b"GET / HTTP/1.1\r\n", Err(Missing));
    check(b"proxy TCP4 192.0.2.1 198.51.100.1 1 2\r\n", Err(Missing));
    let malformed: [&[u8]; 12] = [
        b"PROXY TCP4 192.0.2.1 198.51.100.1 1 2\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.1 +1 2\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.1 01 2\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.1 1 65536\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.1 1\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.1 1 2 \r\n",
        b"PROXY TCP4  192.0.2.1 198.51.100.1 1 2\r\n",
        b"PROXY TCP4 192.0.2.256 198.51.100.1 1 2\r\n",
        b"PROXY TCP4 ::1 ::1 1 2\r\n",
        b"PROXY TCP6 192.0.2.1 198.51.100.1 1 2\r\n",
        b"PROXY TCP5 192.0.2.1 198.51.100.1 1 2\r\n",
        b"PROXY \r\n",
    ];
    for header in malformed {
        check(header, Err(Field));
    }
    check(&[b"PROXY UNKNOWN ".as_slice(), &[b'x'; 100], b"\r\n"].concat(), Err(TooLong));
    check(&v2(2, 0x11, &V4), Err(Field));
    check(&v2(1, 0x12, &V4), Err(Field));
    check(&v2(1, 0x11, &V4[..11]), Err(Field));
    check(&v2(1, 0x21, &V4), Err(Field));
    check(&v2(1, 0x11, &[&V4[..], &[4, 0, 3, 9, 9]].concat()), Err(Field));
    check(&v2(1, 0x11, &[&V4[..], &[4, 0]].concat()), Err(Field));
    check(&v2(1, 0x00, &[0; V2_BYTES_MAX - 15]), Err(TooLong));
}

#[test]
fn only_trusted_peers_send_a_proxy_header() {
    runtime().block_on(async {
        let (mut sender, receiver) = UnixStream::pair().unwrap();
        let stream = Plain::new(receiver.into_std().unwrap().into(), Family::Unix);
        let mut buffer = BytesMut::new();
        let stranger = Peer::at("192.0.2.9:1".parse().unwrap());
        let refused = greet(&stream, stranger, &Trusted::default(), Form::Any, &mut buffer).await;
        assert!(matches!(refused, Err(GreetError::Untrusted(_))));

        let send = async {
            sender.write_all(b"PROXY TCP6 ::ffff:192.0.2.7 ::1 5 6").await.unwrap();
            tokio::task::yield_now().await;
            sender.write_all(b"\r\nGET").await.unwrap();
        };
        let trusted = Trusted::default();
        let (peer, ()) = tokio::join!(greet(&stream, Peer::Unix, &trusted, Form::Any, &mut buffer), send);
        assert_eq!(peer.unwrap(), Peer::Ip("192.0.2.7:5".parse().unwrap()));
        assert_eq!(&buffer[..], b"GET");
    });
}

#[test]
fn loopback_is_trusted_and_a_neighbour_is_not() {
    let trusted = Trusted::default();
    for (at, expect) in [("127.9.9.9:1", true), ("[::1]:1", true), ("[::ffff:127.0.0.1]:1", true)] {
        assert_eq!(trusted.contains(&Peer::at(at.parse().unwrap())), expect, "{at}");
    }
    assert!(!trusted.contains(&Peer::at("10.0.0.1:1".parse().unwrap())));
}

fn any_header() -> impl Strategy<Value = Vec<u8>> {
    let address = any::<(u32, u32, u16, u16)>();
    let one = address.prop_map(|(a, b, p, q)| {
        let (a, b) = (std::net::Ipv4Addr::from(a), std::net::Ipv4Addr::from(b));
        format!("PROXY TCP4 {a} {b} {p} {q}\r\n").into_bytes()
    });
    let extensions = proptest::collection::vec((any::<u8>(), 0u8..20), 0..5);
    let two = (any::<[u8; 36]>(), any::<bool>(), extensions).prop_map(|(octets, six, extensions)| {
        let mut payload = octets[..if six { 36 } else { 12 }].to_vec();
        for (kind, length) in extensions {
            payload.extend([kind, 0, length]);
            payload.extend(vec![kind; usize::from(length)]);
        }
        v2(1, if six { 0x21 } else { 0x11 }, &payload)
    });
    prop_oneof![one, two]
}

proptest! {
    #[test]
    fn any_split_of_a_header_gives_the_same(header in any_header(), rest in any::<[u8; 8]>()) {
        let whole = parse(&[&header[..], &rest].concat());
        let length = header.len();
        let complete = matches!(whole, Ok(Parsed::Complete { header_bytes, .. }) if header_bytes == length);
        prop_assert!(complete, "{whole:?}");
        for cut in 0..header.len() {
            prop_assert_eq!(parse(&header[..cut]), Ok(Parsed::Incomplete));
        }
    }

    #[test]
    fn no_bytes_make_it_panic_or_change_its_mind(bytes in proptest::collection::vec(any::<u8>(), 0..300),
                                                 start in 0usize..3) {
        let start: &[u8] = [b"".as_slice(), b"PROXY ", b"\r\n\r\n\0\r\nQUIT\n!"][start];
        let bytes = [start, &bytes].concat();
        let full = parse(&bytes);
        for cut in 0..bytes.len() {
            match parse(&bytes[..cut]) {
                Ok(Parsed::Incomplete) => {}
                early => { prop_assert_eq!(early, full); break }
            }
        }
    }
}
