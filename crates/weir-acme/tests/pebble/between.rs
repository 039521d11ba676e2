//! Something between Weir and the CA: it answers in its place, or loses the answer. And what a rate limit and
//! an outage say is obeyed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use weir_acme::{AuthoritySettings, Settings};
use weir_disk::testing::CrashDisk;
use weir_testkit::{Authority, Pebble, free_port, until};

use crate::bench::{Bench, settings};

const HOST: &str = "www.example.com";

/// What happens to a request.
enum Verdict {
    Pass,
    /// It is passed on, and its answer is lost.
    Lose,
    /// It never arrives, and this is the answer.
    Answer(String),
}

type Judge = Box<dyn FnMut(&str) -> Verdict + Send>;

struct Between {
    port: u16,
    roots: String,
    judge: Arc<Mutex<Judge>>,
}

impl Between {
    fn start(pebble: &Pebble) -> Between {
        let port = free_port();
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let authority = Authority::new();
        let (chain, key) = authority.issue(&["127.0.0.1"]);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(chain.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            );
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(pebble.roots().as_bytes()).unwrap()).unwrap();
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let (server, client) = (Arc::new(server.unwrap()), Arc::new(client));
        let judge: Arc<Mutex<Judge>> = Arc::new(Mutex::new(Box::new(|_| Verdict::Pass)));
        let rest = pebble.directory().trim_start_matches("https://").to_owned();
        let (to, judged) = (rest.trim_end_matches("/dir").to_owned(), judge.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let session = ServerConnection::new(server.clone()).unwrap();
                let stream = StreamOwned::new(session, stream.unwrap());
                let (to, judge, client) = (to.clone(), judged.clone(), client.clone());
                std::thread::spawn(move || serve(stream, &to, &judge, client));
            }
        });
        Between { port, roots: authority.pem().to_owned(), judge }
    }

    fn judge(&self, judge: impl FnMut(&str) -> Verdict + Send + 'static) {
        *self.judge.lock().unwrap() = Box::new(judge);
    }

    fn settings(&self, pebble: &Pebble) -> Settings {
        let directory = format!("https://127.0.0.1:{}/dir", self.port);
        let roots = Some(self.roots.clone());
        let authorities = vec![AuthoritySettings { roots, ..AuthoritySettings::at(&directory) }];
        Settings { authorities, ..settings(pebble, &[HOST]) }
    }
}

/// One request, then the connection ends.
fn serve(
    stream: StreamOwned<ServerConnection, TcpStream>,
    to: &str,
    judge: &Mutex<Judge>,
    client: Arc<ClientConfig>,
) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head += &line;
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let mut stream = reader.into_inner();
    let verdict = judge.lock().unwrap()(head.lines().next().unwrap());
    if let Verdict::Answer(answer) = &verdict {
        stream.write_all(answer.as_bytes()).ok()?;
    } else {
        let session = ClientConnection::new(client, ServerName::try_from("127.0.0.1").unwrap()).unwrap();
        let mut onward = StreamOwned::new(session, TcpStream::connect(to).ok()?);
        write!(onward, "{head}Connection: close\r\n\r\n").ok()?;
        onward.write_all(&body).ok()?;
        onward.flush().ok()?;
        let mut answer = Vec::new();
        // It ends without close_notify.
        let _ = onward.read_to_end(&mut answer);
        if matches!(verdict, Verdict::Lose) {
            return None;
        }
        stream.write_all(&answer).ok()?;
    }
    stream.conn.send_close_notify();
    stream.flush().ok()
}

fn problem(status: &str, fields: &str, kind: &str) -> String {
    let body = format!(r#"{{"type": "urn:ietf:params:acme:error:{kind}", "detail": "not now"}}"#);
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n{fields}\r\n{body}")
}

#[test]
fn a_rate_limit_is_waited_for_as_long_as_it_says() {
    let bench = Bench::new("acme-limited");
    let Some(pebble) = bench.pebble() else { return };
    let between = Between::start(&pebble);
    between.judge(|line| match line.starts_with("POST /order-plz") {
        true => Verdict::Answer(problem("429 Too Many Requests", "Retry-After: 7200\r\n", "rateLimited")),
        false => Verdict::Pass,
    });
    let acme = bench.acme(between.settings(&pebble));
    until("it is limited", || !bench.failures().is_empty());
    let failed = bench.shown.failed.lock().unwrap()[0].clone();
    assert!(failed.what.contains("rateLimited: not now"), "{failed:?}");
    let left = failed.again_at - bench.clock().now();
    assert!((7000..=7200).contains(&left), "{left}");
    between.judge(|_| Verdict::Pass);
    bench.advance(7201);
    acme.look();
    bench.until_issued(1);
    acme.stop();
}

#[test]
fn an_outage_that_says_how_long_is_waited_for() {
    let bench = Bench::new("acme-unavailable");
    let Some(pebble) = bench.pebble() else { return };
    let between = Between::start(&pebble);
    between.judge(|_| Verdict::Answer(problem("503 Busy", "Retry-After: 900\r\n", "serverInternal")));
    let acme = bench.acme(between.settings(&pebble));
    until("it is down", || !bench.failures().is_empty());
    let failed = bench.shown.failed.lock().unwrap()[0].clone();
    assert!(failed.what.contains("answers 503"), "{failed:?}");
    let left = failed.again_at - bench.clock().now();
    assert!((800..=900).contains(&left), "{left}");
    between.judge(|_| Verdict::Pass);
    bench.advance(901);
    acme.look();
    bench.until_issued(1);
    acme.stop();
}

#[test]
fn an_answer_that_is_lost_costs_no_order_but_that_of_the_order_itself() {
    let bench = Bench::new("acme-lost");
    let Some(pebble) = bench.pebble() else { return };
    let between = Between::start(&pebble);
    let orders = || pebble.log().matches("POST /order-plz").count();
    let mut lost = 0;
    for at in 1.. {
        let (seen, fell) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(None)));
        let (counted, noted) = (seen.clone(), fell.clone());
        between.judge(move |line| {
            *counted.lock().unwrap() += 1;
            if *counted.lock().unwrap() != at {
                return Verdict::Pass;
            }
            *noted.lock().unwrap() = Some(line.to_owned());
            Verdict::Lose
        });
        let before = (orders(), bench.issued());
        let disk = Arc::new(CrashDisk::new(at));
        let acme =
            weir_acme::Acme::start(disk, between.settings(&pebble), bench.clock(), bench.shown.clone())
                .unwrap();
        until("it has a certificate", || {
            bench.advance(15);
            acme.look();
            std::thread::sleep(std::time::Duration::from_millis(20));
            bench.issued() > before.1
        });
        acme.stop();
        let Some(line) = fell.lock().unwrap().clone() else { break };
        let wanted = if line.contains("order-plz") { 2 } else { 1 };
        assert_eq!(orders() - before.0, wanted, "{line} was lost");
        lost += 1;
    }
    assert!(lost >= 8, "{lost}");
}
