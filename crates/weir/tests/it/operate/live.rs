//! What goes on: events and log records as streams, jobs with their progress, and what an upgrade does to
//! them.

use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use weir_testkit::{Origin, Weir, until};

use crate::server::server;

const SITES: &str = "[[site]]\nhosts = [\"a.test\"]\nupstream = \"main\"\n\
                     [[site]]\nhosts = [\"b.test\"]\nupstream = \"main\"\n";
const LONGEST: Duration = Duration::from_secs(20);

fn origin() -> Origin {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        exchange.reply(200, &[("Cache-Control", "max-age=60")], "hello");
    });
    origin
}

/// A stream of the API, read as it comes.
struct Stream {
    socket: TcpStream,
    text: String,
}

impl Stream {
    /// Asks for a path, and reads the head of the answer.
    fn open(to: SocketAddr, path: &str, accept: &str, token: &str) -> Stream {
        let mut socket = TcpStream::connect(to).unwrap();
        socket.set_read_timeout(Some(LONGEST)).unwrap();
        let fields = format!("Host: localhost\r\nAccept: {accept}\r\nAuthorization: Bearer {token}\r\n");
        socket.write_all(format!("GET {path} HTTP/1.1\r\n{fields}\r\n").as_bytes()).unwrap();
        let mut stream = Stream { socket, text: String::new() };
        stream.await_text("\r\n\r\n");
        stream
    }

    fn status(&self) -> &str {
        self.text.split(' ').nth(1).unwrap()
    }

    /// Reads until the text has come; false at the end of the stream.
    fn reads(&mut self, wanted: &str) -> bool {
        let mut buffer = [0; 4096];
        while !self.text.contains(wanted) {
            match self.socket.read(&mut buffer).unwrap() {
                0 => return false,
                length => self.text += &String::from_utf8_lossy(&buffer[..length]),
            }
        }
        true
    }

    fn await_text(&mut self, wanted: &str) {
        assert!(self.reads(wanted), "no {wanted:?} in {}", self.text);
    }
}

/// A command that goes on, with its lines.
struct Going {
    child: Child,
    lines: Receiver<String>,
}

impl Going {
    fn start(weir: &Weir, args: &[&str]) -> Going {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(args).arg("--state").arg(weir.state()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (told, lines) = channel();
        thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| told.send(line)));
        Going { child, lines }
    }

    /// Asks for paths until a line speaks of one.
    fn hears_of_new_objects(&self, weir: &Weir, name: &str) {
        until("the command hears of a new object", || {
            weir.client().get("a.test", &format!("/{name}/{}", any_number()), &[]);
            self.lines.try_iter().any(|line| line.contains(&format!("/{name}/")))
        });
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A number that differs from call to call.
fn any_number() -> u64 {
    RandomState::new().hash_one(0)
}

#[test]
fn events_and_records_are_streamed_without_a_file_of_them() {
    let origin = origin();
    let weir = server(&[&origin]).more(SITES).start();
    let (view, of_b) = (weir.token("view", &[]), weir.token("view", &["b.test"]));
    let open = |path: &str, accept, token| Stream::open(weir.admin(), path, accept, token);
    let mut events = open("/v1/events", "text/event-stream", &view);
    let mut stored = open("/v1/events?kind=stored,evicted&site=a.test", "*/*", &view);
    let mut of_other = open("/v1/events", "application/jsonl", &of_b);
    let mut records = open("/v1/log", "application/jsonl", &view);
    let mut asked = open("/v1/log?kind=upstream", "text/event-stream", &view);
    let mut records_of_other = open("/v1/log", "application/jsonl", &of_b);
    assert!(events.text.contains("content-type: text/event-stream\r\n"), "{}", events.text);
    assert!(stored.text.contains("content-type: application/jsonl\r\n"), "{}", stored.text);
    // A thread of a log takes a new listener within a second.
    let mut client = weir.client();
    let mut number = 0;
    let mut get = |host: &str| {
        number += 1;
        assert_eq!(client.get(host, &format!("/of/{host}/{number}"), &[]).status(), 200);
    };
    for _ in 0..15 {
        get("a.test");
        get("b.test");
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(weir.command(&["purge", "--site", "a.test"]).code, Some(0));
    assert_eq!(weir.command(&["purge", "--site", "b.test"]).code, Some(0));
    events.await_text("data: {\"time\":");
    events.await_text("\"event\":\"stored\"");
    events.await_text("\"event\":\"purged\"");
    stored.await_text("\"event\":\"stored\"");
    of_other.await_text("\"event\":\"purged\"");
    records.await_text("/of/a.test/15");
    asked.await_text("/of/b.test/16");
    records_of_other.await_text("/of/b.test/16");
    for of_b in [&of_other, &records_of_other] {
        assert!(of_b.text.contains("b.test") && !of_b.text.contains("a.test"), "{}", of_b.text);
    }
    assert!(!stored.text.contains("purged") && !stored.text.contains("b.test"), "{}", stored.text);
    drop((events, stored, of_other, records, asked, records_of_other));
    // For what there is not, or what is another site's, there is no stream.
    for (path, token, status) in [
        ("/v1/events?kind=none", &view, "422"),
        ("/v1/events?site=a.test", &of_b, "403"),
        ("/v1/log?kind=access,upstream", &view, "422"),
        ("/v1/log?site=none.test", &view, "422"),
    ] {
        assert_eq!(open(path, "*/*", token).status(), status, "{path}");
    }
}

#[test]
fn streams_take_no_place_of_commands_and_one_token_not_all_of_them() {
    let origin = origin();
    let weir = server(&[&origin]).more(SITES).start();
    let (view, other) = (weir.token("view", &[]), weir.token("admin", &[]));
    let open = |token| Stream::open(weir.admin(), "/v1/events", "*/*", token);
    let streams: Vec<Stream> = (0..8).map(|_| open(&view)).collect();
    assert!(streams.iter().all(|stream| stream.status() == "200"));
    assert_eq!(open(&view).status(), "503");
    assert_eq!(open(&other).status(), "200");
    // More connections than there are places take those of idle ones, and no stream's.
    let idle: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(weir.admin()).unwrap()).collect();
    assert_eq!(weir.admin_get_with("/v1/status", &view).status(), 200);
    weir.client().get("a.test", "/x", &[]);
    for mut stream in streams {
        stream.await_text("\"event\":\"stored\"");
    }
    drop(idle);
    until("the streams are given back", || open(&view).status() == "200");
}

#[test]
fn a_stream_ends_with_its_token() {
    let origin = origin();
    let weir = server(&[&origin]).more(SITES).start();
    let (view, purge) = (weir.token("view", &[]), weir.token("purge", &[]));
    let names = weir.command(&["token", "list", "--json"]).stdout;
    let names: Vec<Value> = serde_json::from_str(&names).unwrap();
    let name = names.iter().find(|token| token["role"] == "view").unwrap()["name"].as_str().unwrap();
    let mut events = Stream::open(weir.admin(), "/v1/events", "*/*", &view);
    let mut records = Stream::open(weir.admin(), "/v1/log", "*/*", &view);
    assert_eq!(weir.command(&["token", "remove", name]).code, Some(0));
    assert!(!events.reads("no such text") && !records.reads("no such text"));
    assert_eq!(Stream::open(weir.admin(), "/v1/events", "*/*", &view).status(), "401");
    let short = weir.command(&["token", "add", "short", "--role", "view", "--expires", "2s"]);
    let mut expires = Stream::open(weir.admin(), "/v1/events", "*/*", short.stdout.trim());
    assert!(expires.status() == "200" && !expires.reads("no such text"));
    assert_eq!(weir.admin_get_with("/v1/jobs", &purge).status(), 200);
}

#[test]
fn a_token_keeps_nobody_else_out() {
    let origin = origin();
    let weir = server(&[&origin]).more(SITES).start();
    let (purge, view) = (weir.token("purge", &["a.test"]), weir.token("view", &[]));
    let fields = format!(
        "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\
         Authorization: Bearer {purge}\r\n"
    );
    // Contents that never come, on more connections than there are places.
    let mut waiting = Vec::new();
    for round in 0..5 {
        for _ in 0..20 {
            let mut socket = TcpStream::connect(weir.admin()).unwrap();
            socket.write_all(format!("POST /v1/purge HTTP/1.1\r\n{fields}\r\n").as_bytes()).unwrap();
            waiting.push(socket);
        }
        assert_eq!(weir.admin_get_with("/v1/status", &view).status(), 200, "{round}");
        assert_eq!(weir.admin_get("/metrics").status(), 200, "{round}");
    }
    assert_eq!(weir.command(&["status"]).code, Some(0));
}

#[test]
fn a_job_has_progress_and_an_end() {
    let origin = origin();
    let volume = "[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"256MiB\"\n";
    let weir = server(&[&origin]).more(SITES).more(volume).start();
    let (admin, view) = (weir.token("admin", &[]), weir.token("view", &[]));
    let (purge, of_b) = (weir.token("purge", &[]), weir.token("view", &["b.test"]));
    for path in ["/x", "/y"] {
        weir.client().get("a.test", path, &[]);
    }
    let post = |path: &str, body: &str, token: &str| {
        let mut socket = TcpStream::connect(weir.admin()).unwrap();
        let fields = format!(
            "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\nAuthorization: Bearer {token}\r\n",
            body.len()
        );
        socket.write_all(format!("POST {path} HTTP/1.1\r\n{fields}\r\n{body}").as_bytes()).unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        let location = text.lines().find_map(|line| line.strip_prefix("location: ")).map(str::to_owned);
        (text.split(' ').nth(1).unwrap().to_owned(), location.unwrap_or_default())
    };
    let (status, verify) = post("/v1/verify", "", &admin);
    assert!(status == "202" && verify.starts_with("/v1/jobs/"), "{status} {verify}");
    let mut stream = Stream::open(weir.admin(), &verify, "application/jsonl", &view);
    stream.await_text("\"state\":\"done\"");
    assert!(!stream.reads("no such text"), "the stream ends with the job");
    let (status, counting) = post("/v1/purge/dry-run", r#"{"scope":{"site":"a.test"}}"#, &purge);
    assert_eq!(status, "202");
    until("it is counted", || {
        let job = weir.admin_get_with(&counting, &purge);
        let job: Value = serde_json::from_slice(&job.body).unwrap();
        job["state"] == "done" && job["result"]["objects"] == 2 && job["done"].as_u64() >= Some(2)
    });
    for (path, token, status) in [
        (&counting, &view, 200),
        (&verify, &purge, 404),
        (&verify, &of_b, 404),
        (&counting, &of_b, 404),
        (&"/v1/jobs/none".to_owned(), &admin, 404),
    ] {
        assert_eq!(weir.admin_get_with(path, token).status(), status, "{path}");
    }
    let listed = weir.command(&["jobs"]).stdout;
    assert!(listed.contains("verify  done") && listed.contains("purge-dry-run  done"), "{listed}");
    let id = verify.rsplit('/').next().unwrap();
    let cancelled = weir.command(&["jobs", id, "--cancel"]);
    assert!(cancelled.code == Some(1) && cancelled.stderr.contains("has ended"), "{cancelled:?}");
    let acts = weir.command(&["history", "--json"]).stdout;
    assert!(acts.contains("\"job-ended\"") && acts.contains(id), "{acts}");
    let wrong = weir.command(&["purge", "--dry-run", "--site", "none.test"]);
    assert!(wrong.code == Some(1) && wrong.stderr.contains("none.test"), "{wrong:?}");
}

#[test]
fn commands_go_on_after_an_upgrade() {
    let origin = origin();
    let mut weir = server(&[&origin]).more(SITES).start();
    let (view, admin) = (weir.token("view", &[]), weir.admin());
    let events = Going::start(&weir, &["events", "--kind", "stored"]);
    let records = Going::start(&weir, &["log", "--json", "--site", "a.test"]);
    events.hears_of_new_objects(&weir, "before");
    records.hears_of_new_objects(&weir, "before");
    let mut stream = Stream::open(admin, "/v1/events", "*/*", &view);
    let mut kept = TcpStream::connect(admin).unwrap();
    kept.set_read_timeout(Some(LONGEST)).unwrap();
    kept.write_all(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert!(kept.read(&mut [0; 4096]).unwrap() > 0);
    let old = weir.pid();
    let upgraded = weir.upgrade(&[]);
    assert_eq!(upgraded.code, Some(0), "{upgraded:?}");
    assert_ne!(weir.main_pid(), old);
    // The old process answers no more on what was open.
    assert!(!stream.reads("no such text"));
    assert_eq!(kept.read(&mut [0; 4096]).unwrap(), 0);
    events.hears_of_new_objects(&weir, "after");
    records.hears_of_new_objects(&weir, "after");
}

/// Answers each connection with the next of the answers.
fn scripted(answers: Vec<String>) -> (SocketAddr, thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let asked = thread::spawn(move || {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut socket, _) = listener.accept().unwrap();
            let mut head = String::new();
            BufReader::new(&socket).read_line(&mut head).unwrap();
            asked.push(head.trim_end().trim_end_matches(" HTTP/1.1").to_owned());
            socket.write_all(answer.as_bytes()).unwrap();
        }
        asked
    });
    (at, asked)
}

#[test]
fn what_an_upgrade_has_ended_is_begun_again() {
    let job = |state: &str, more: &str| {
        format!(
            "{{\"id\":\"7\",\"kind\":\"verify\",\"state\":\"{state}\",\"actor\":\"a\",\"started\":\"\",\
             \"done\":1,\"unit\":\"objects\",\"rate\":1.0{more}}}\n"
        )
    };
    let whole = |status: &str, body: String| {
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
    };
    let found = ",\"result\":{\"objects\":3,\"parts\":0,\"body_bytes\":5,\"damaged\":0,\"moved\":0}";
    let begun = || whole("202 Accepted", job("running", ""));
    let (at, asked) = scripted(vec![
        // Ended by the upgrade, which the stream says.
        begun(),
        whole("200 OK", job("running", "") + &job("interrupted", "")),
        // The process has gone with the connection.
        begun(),
        whole("200 OK", job("running", "")),
        whole("404 Not Found", "{}".to_owned()),
        // Only the connection has gone.
        begun(),
        whole("200 OK", job("running", "")),
        whole("200 OK", job("running", "")),
        whole("200 OK", job("done", found)),
    ]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["verify", "--url", &format!("http://{at}")]).env("WEIR_TOKEN", "weir_x");
    let output = command.output().unwrap();
    let (out, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.starts_with("sound: 3 objects"), "{out} {said}");
    assert_eq!(said.matches("begun again").count(), 2, "{said}");
    let (post, get) = ("POST /v1/verify", "GET /v1/jobs/7");
    assert_eq!(asked.join().unwrap(), [post, get, post, get, get, post, get, get, get]);
}
