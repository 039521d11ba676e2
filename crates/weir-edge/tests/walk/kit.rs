//! A Weir without a process, a listener and connections of clients. Its methods are named like the test
//! kit's, so that a scenario moves from one to the other unchanged. The connection to the origin is a real
//! socket.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;
use weir_content::Shelf;
use weir_edge::plan::Plan;
use weir_edge::simulated::{Alone, Answer};
use weir_edge::{ContentOrder, Explanation, Question};
use weir_front::listen::Peer;
use weir_front::{ClientLimits, PeerInfo, Request};
use weir_observe::{Observatory, Snapshot};
use weir_store::{OsDisk, Usage};
use weir_testkit::{Head, Origin, Response, Setup, Trouble};
use weir_wire::{RequestReader, Target};

/// Longer than any fill takes whose origin answers.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two checks whether fills have ended.
const STEP: Duration = Duration::from_millis(1);

/// The room for what is laid by hand, in bytes.
const CONTENT_BYTES_MAX: u64 = 16 << 20;

/// A config of one site for every host, with one upstream named `main`.
pub type Server = weir_testkit::Server<Weir>;

/// A config in front of these origins.
pub fn server(origins: &[&Origin]) -> Server {
    Server::new(String::new(), origins, Weir::of_config)
}

/// One site and one origin, with nothing else set.
pub fn before(origin: &Origin) -> Weir {
    server(&[origin]).start()
}

/// The folder for files that configs name.
pub fn setup() -> Setup {
    Setup::new("")
}

/// The walk and all that it calls, on this thread.
pub struct Weir {
    alone: Alone,
    peer: RefCell<Peer>,
    // Dropped after everything that runs on it.
    local: LocalSet,
    runtime: Runtime,
    setup: Setup,
}

impl Weir {
    /// A Weir with this config, in which the addresses are filled in.
    pub fn of_config(setup: Setup, text: &str) -> Weir {
        let loaded = weir_config::load(&setup.write_config(text)).unwrap_or_else(|why| panic!("{why}"));
        let observatory = Observatory::start(1, &[]).unwrap();
        let plan = Plan::compile(&loaded, &|name| observatory.site(name));
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let local = LocalSet::new();
        let folder = setup.folder().join("content");
        let disk = Arc::new(OsDisk::at(&folder));
        let (shelf, _) = {
            let _clock = runtime.enter();
            Shelf::open(disk, CONTENT_BYTES_MAX, weir_clock::now().wall).unwrap()
        };
        let content = (shelf, folder);
        let alone = local.block_on(&runtime, async { Alone::begin(plan, observatory, content).unwrap() });
        let peer = RefCell::new(Peer::at("127.0.0.1:1".parse().unwrap()));
        Weir { alone, peer, local, runtime, setup }
    }

    /// From now on requests come from this address; before, from this machine.
    pub fn come_from(&self, address: &str) {
        *self.peer.borrow_mut() = Peer::at(format!("{address}:1").parse().unwrap());
    }

    /// One GET with `Host: localhost`.
    pub fn get(&self, target: &str) -> Response {
        self.get_with(target, &[])
    }

    /// One GET with `Host: localhost` and more fields.
    pub fn get_with(&self, target: &str, fields: &[(&str, &str)]) -> Response {
        self.get_of("localhost", target, fields)
    }

    /// One GET with this host and more fields.
    pub fn get_of(&self, host: &str, target: &str, fields: &[(&str, &str)]) -> Response {
        self.send(&message("GET", host, target, fields))
    }

    /// One request in HTTP/1.1's form, with all its content after its head.
    ///
    /// # Panics
    /// Where it is not a request, or its response is cut.
    pub fn send(&self, message: &str) -> Response {
        self.try_send(message).unwrap_or_else(|why| panic!("{message:?}: {why}"))
    }

    /// As [`Weir::send`].
    ///
    /// # Errors
    /// What arrived of a response that was cut.
    pub fn try_send(&self, message: &str) -> Result<Response, Trouble> {
        let (request, content) = self.request(message);
        let answer = self.local.block_on(&self.runtime, async {
            let answer = self.alone.ask(request, content).await;
            self.settle().await;
            answer
        });
        let is_cut = answer.cut.is_some();
        let response = response(answer);
        if is_cut { Err(Trouble::Cut(Box::new(response))) } else { Ok(response) }
    }

    /// What `explain` says of a request.
    pub fn explain(&self, message: &str) -> Explanation {
        self.explain_of(message, None)
    }

    /// What `explain` says of a request of this client.
    pub fn explain_of(&self, message: &str, client: Option<&str>) -> Explanation {
        let (request, _) = self.request(message);
        let Target::Path(target) = &request.target else { panic!("not about a path: {message:?}") };
        let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
        let headers = request.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        let url = format!("http://{}{}", text(&request.headers["host"]), target.as_str());
        let question = Question {
            method: request.method.to_string(),
            url,
            headers,
            client: client.map(|client| client.parse().unwrap()),
        };
        self.local.block_on(&self.runtime, async { self.alone.explain(&question).unwrap() })
    }

    /// The key of a request for this URL, with these fields and of this client; none where it has none.
    pub fn key(&self, url: &str, fields: &[(&str, &str)], client: &str) -> Option<String> {
        let headers = fields.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let client = Some(client.parse().unwrap());
        let question = Question { method: "GET".to_owned(), url: url.to_owned(), headers, client };
        self.local.block_on(&self.runtime, async { self.alone.explain(&question).unwrap() }).key
    }

    /// A config, compiled; none where it has mistakes.
    pub fn plan(&self, text: &str) -> Option<Plan> {
        let loaded = weir_config::load(&self.setup.write_config(text)).ok()?;
        Some(Plan::compile(&loaded, &|name| self.alone.site(name)))
    }

    /// Acts on the data plane itself.
    pub fn inside<T>(&self, act: impl FnOnce(&Alone) -> T) -> T {
        self.local.block_on(&self.runtime, async { act(&self.alone) })
    }

    /// Advances time at once. It moves the monotonic clock, by which ages are counted. The wall clock, by
    /// which the origin dates, stays.
    pub fn later(&self, time: Duration) {
        self.local.block_on(&self.runtime, async {
            tokio::time::pause();
            tokio::time::advance(time).await;
            tokio::time::resume();
            self.settle().await;
        });
    }

    /// Sets the wall clock, which goes on from there.
    pub fn set_wall(&self, to: std::time::SystemTime) {
        let _clock = self.runtime.enter();
        weir_edge::simulated::set_wall(to);
    }

    /// Lays content over a URL by hand.
    pub fn lay(&self, url: &str, bytes: &[u8]) {
        let order = ContentOrder { url: url.to_owned(), ..ContentOrder::default() };
        let mut upload = self.alone.lay(&order).unwrap();
        upload.write(bytes).unwrap();
        self.inside(|_| upload.finish().unwrap());
    }

    /// The counters so far.
    pub fn snapshot(&self) -> Snapshot {
        self.alone.snapshot()
    }

    /// What the store holds.
    pub fn usage(&self) -> Usage {
        self.alone.usage()
    }

    /// Waits until fills have ended, and their responses are stored.
    async fn settle(&self) {
        let begun = tokio::time::Instant::now();
        while self.alone.fills() > 0 {
            assert!(begun.elapsed() < PATIENCE, "a fill does not end");
            tokio::time::sleep(STEP).await;
        }
    }

    fn request(&self, message: &str) -> (Request, Bytes) {
        let mut input = BytesMut::from(message.as_bytes());
        let head = RequestReader::new(weir_wire::Limits::default()).read(&mut input);
        let head = head.unwrap_or_else(|why| panic!("{message:?}: {why:?}")).expect("a whole head");
        let (peer, limits) = (*self.peer.borrow(), Arc::new(ClientLimits::default()));
        let trust = self.alone.trust(&peer);
        let peer = Rc::new(PeerInfo::new(peer, trust, limits, None));
        let _clock = self.runtime.enter();
        (Request::of_head(head, peer, weir_clock::now()), input.freeze())
    }
}

/// A request without content, in HTTP/1.1's form.
pub fn message(method: &str, host: &str, target: &str, fields: &[(&str, &str)]) -> String {
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n")
}

fn head(status: http::StatusCode, fields: &HeaderMap) -> Head {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = fields.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    Head { version: String::new(), status: status.as_u16(), headers }
}

fn response(answer: Answer) -> Response {
    let status = answer.status.expect("a response");
    let mut head_of_all = head(status, &answer.headers);
    // As a connection prints it.
    if let Some(length) = answer.length.filter(|_| status.as_u16() != 204) {
        head_of_all.headers.push(("content-length".to_owned(), length.to_string()));
    }
    Response {
        interim: answer.interim.iter().map(|(status, fields)| head(*status, fields)).collect(),
        head: head_of_all,
        body: answer.body,
        ..Response::default()
    }
}
