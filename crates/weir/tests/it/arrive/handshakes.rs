//! Connections that are not secured yet: silent ones take nothing from clients that speak, a client has a
//! share of them, and what is crafted to be verified for long is not verified.

use std::net::TcpStream;
use std::time::Duration;

use weir_testkit::{Authority, Client, H2Client, TlsClient, Weir, until};

use crate::server::setup;

const SOON: Duration = Duration::from_secs(5);

/// A Weir with one worker that speaks TLS, with more lines of its listener and of its site.
fn weir(authority: &Authority, listener: &str, site: &str) -> Weir {
    let setup = setup().arg("--workers").arg("1");
    setup.certificate("a", authority, &["a.example"]);
    setup.file("ca.pem", authority.pem());
    setup.run_config(&format!(
        "[admin]\nlisten = \"{{admin}}\"\n[limits]\nhead_time = \"60s\"\n\
         [[listen]]\naddress = \"{{listen}}\"\n[[listen]]\naddress = \"{{tls}}\"\ntls = true\n{listener}\n\
         [[certificate]]\nchain = \"{{folder}}/a.pem\"\nkey = \"{{folder}}/a.key\"\n\
         [[site]]\nhosts = [\"a.example\"]\n{site}\n[[site.route]]\nanswer = {{ body = \"hello\" }}\n"
    ))
}

fn accepted(weir: &Weir) -> f64 {
    weir.metric("weir_connections_accepted_total").unwrap_or_default()
}

/// Whether handshakes on these streams succeed, over both versions.
fn handshakes(authority: &Authority, connect: impl Fn() -> TcpStream) -> usize {
    let both = [["h2"], ["http/1.1"]].map(|offer| TlsClient::trusting(authority).protocols(&offer));
    let done = (0..20).filter(|number| {
        let Ok(socket) = both[number % 2].over(connect(), "a.example") else { return false };
        let answered = match number % 2 {
            0 => H2Client::over(socket).get("a.example", "/", &[]),
            _ => Client::over(socket).get("a.example", "/", &[]),
        };
        answered.status() == 200
    });
    done.count()
}

#[test]
fn silent_connections_take_no_handshake_of_others() {
    let authority = Authority::new();
    let weir = weir(&authority, "", "");
    let before = accepted(&weir);
    let connect = || TcpStream::connect(weir.tls()).unwrap();
    let silent: Vec<TcpStream> = (0..4300).map(|_| connect()).collect();
    until("all have come", || accepted(&weir) >= before + 4300.0);
    assert_eq!(handshakes(&authority, connect), 20);
    assert!(weir.metric("weir_connections_displaced_total") >= Some(200.0));
    drop(silent);
}

#[test]
fn a_client_has_a_share_of_what_is_silent_and_its_longest_makes_room() {
    let authority = Authority::new();
    let weir = weir(&authority, "proxy_protocol = \"v1\"", "");
    let of = |number: u8| {
        use std::io::Write as _;
        let mut stream = TcpStream::connect(weir.tls()).unwrap();
        write!(stream, "PROXY TCP4 192.0.2.{number} 127.0.0.1 5000 443\r\n").unwrap();
        stream
    };
    let mut first = Client::over(weir_testkit::Socket::Tcp(of(7)));
    let other = of(8);
    std::thread::sleep(Duration::from_millis(100));
    let silent: Vec<TcpStream> = (0..700).map(|_| of(7)).collect();
    assert!(first.is_closed_within(SOON), "an eighth of the places is taken");
    assert_eq!((handshakes(&authority, || of(8)), handshakes(&authority, || of(7))), (20, 20));
    let mut other = Client::over(weir_testkit::Socket::Tcp(other));
    assert!(!other.is_closed_within(Duration::from_millis(200)), "another client's waits on");
    drop(silent);
}

/// Half of a handshake is silence as well: who says hello and no more takes no place from others for long.
#[test]
fn handshakes_that_stand_still_make_room() {
    let authority = Authority::new();
    let weir = weir(&authority, "proxy_protocol = \"v1\"", "");
    let of = |number: u8, more: &[u8]| {
        use std::io::Write as _;
        let mut stream = TcpStream::connect(weir.tls()).unwrap();
        let head = format!("PROXY TCP4 192.0.2.{number} 127.0.0.1 5000 443\r\n");
        stream.write_all(&[head.as_bytes(), more].concat()).unwrap();
        stream
    };
    let hello = TlsClient::trusting(&authority).hello("a.example");
    let mut first = Client::over(weir_testkit::Socket::Tcp(of(7, &hello)));
    std::thread::sleep(Duration::from_millis(100));
    let halves: Vec<TcpStream> = (0..700).map(|_| of(7, &hello)).collect();
    let is_over = (0..20).any(|_| first.is_closed_within(Duration::from_millis(500)));
    assert!(is_over, "an eighth of the places is taken");
    assert_eq!((handshakes(&authority, || of(8, b"")), handshakes(&authority, || of(7, b""))), (20, 20));
    drop(halves);
}

#[test]
fn a_chain_that_no_authority_issues_is_not_verified() {
    let authority = Authority::new();
    let ask = "client_certificate = { ca = \"{folder}/ca.pem\", mode = \"required\" }";
    let weir = weir(&authority, "", ask);
    let (own, key) = authority.issue(&["client"]);
    let status = |more: usize| {
        let chain = [own.clone(), authority.pem().repeat(more)].concat();
        let client =
            TlsClient::trusting(&authority).certificate((chain, key.clone())).protocols(&["http/1.1"]);
        let socket = client.connect(weir.tls(), "a.example").ok()?;
        let mut client = Client::over(socket);
        client.send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
        client.recv().ok().map(|answered| answered.status())
    };
    assert_eq!(status(3), Some(200));
    assert_eq!(status(4), None);
    assert_eq!(status(40), None);
    assert_eq!(status(0), Some(200));
}
