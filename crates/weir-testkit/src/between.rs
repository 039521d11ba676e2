//! Something between Weir and the CA: it passes requests on, holds them up, answers in the CA's place, or
//! loses the answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::pebble::Pebble;
use crate::ports::free_port;
use crate::tls::{Authority, Clients};
use crate::wait::Gate;

/// What happens to a request.
pub enum Verdict {
    /// It is passed on.
    Pass,
    /// It is passed on once the gate is open, also if its client has gone.
    Hold(Gate),
    /// It is passed on, and its answer is lost.
    Lose,
    /// It never arrives, and this is the answer.
    Answer(String),
}

type Judge = Box<dyn FnMut(&str) -> Verdict + Send>;

/// What stands between, for as long as the test's process.
pub struct Between {
    port: u16,
    roots: String,
    judge: Arc<Mutex<Judge>>,
}

/// What a connection needs.
#[derive(Clone)]
struct Onward {
    to: String,
    judge: Arc<Mutex<Judge>>,
    client: Arc<ClientConfig>,
}

impl Between {
    /// Stands before this CA, and passes everything on.
    pub fn start(pebble: &Pebble) -> Between {
        let port = free_port();
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let authority = Authority::new();
        let server = authority.server(&["127.0.0.1"], Clients::Anybody);
        let judge: Arc<Mutex<Judge>> = Arc::new(Mutex::new(Box::new(|_| Verdict::Pass)));
        let (to, client) = (pebble.authority(), Arc::new(trusting(pebble.roots())));
        let onward = Onward { to, judge: judge.clone(), client };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (onward, server, stream) = (onward.clone(), server.clone(), stream.unwrap());
                std::thread::spawn(move || serve(&onward, server, stream));
            }
        });
        Between { port, roots: authority.pem().to_owned(), judge }
    }

    /// From now on this judges the first line of each request.
    pub fn judge(&self, judge: impl FnMut(&str) -> Verdict + Send + 'static) {
        *self.judge.lock().unwrap() = Box::new(judge);
    }

    /// The URL of the CA's directory, through this.
    pub fn directory(&self) -> String {
        format!("https://127.0.0.1:{}/dir", self.port)
    }

    /// The root that its TLS is verified by, as PEM.
    pub fn roots(&self) -> &str {
        &self.roots
    }
}

fn trusting(roots_pem: &str) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(roots_pem.as_bytes()).unwrap()).unwrap();
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// One request, then the connection ends.
fn serve(onward: &Onward, server: Arc<ServerConfig>, stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(StreamOwned::new(ServerConnection::new(server).unwrap(), stream));
    let (mut head, mut length) = (String::new(), 0);
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
    let verdict = onward.judge.lock().unwrap()(head.lines().next().unwrap());
    let answer = match &verdict {
        Verdict::Answer(answer) => answer.clone().into_bytes(),
        Verdict::Hold(gate) => {
            gate.pass();
            onward.ask(&head, &body)?
        }
        Verdict::Pass | Verdict::Lose => onward.ask(&head, &body)?,
    };
    if matches!(verdict, Verdict::Lose) {
        return None;
    }
    let mut stream = reader.into_inner();
    stream.write_all(&answer).ok()?;
    stream.conn.send_close_notify();
    stream.flush().ok()
}

impl Onward {
    /// The CA's answer.
    fn ask(&self, head: &str, body: &[u8]) -> Option<Vec<u8>> {
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let session = ClientConnection::new(self.client.clone(), name).unwrap();
        let mut ca = StreamOwned::new(session, TcpStream::connect(&self.to).ok()?);
        write!(ca, "{head}Connection: close\r\n\r\n").ok()?;
        ca.write_all(body).ok()?;
        ca.flush().ok()?;
        let mut answer = Vec::new();
        // It ends without close_notify.
        let _ = ca.read_to_end(&mut answer);
        Some(answer)
    }
}
