//! HAProxy reads the same lines of an agent: its reactions, line by line, are those of the table that the
//! tests of `weir-upstream` compare Weir with. Skipped where there is no HAProxy. `WEIR_REWRITE=1` writes
//! another table.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_testkit::{free_port, until};

use crate::server::setup;

/// A HAProxy, ended with its value.
struct HaProxy(Child);

impl Drop for HaProxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What it says of its one server.
struct Shown {
    /// The status, weight and limit of connections.
    server: String,
    /// What came of the last question to the agent.
    question: String,
}

fn shown(socket: &Path) -> Option<Shown> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.write_all(b"show stat b 4 -1\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (keys, values) = text.split_once('\n')?;
    let keys: Vec<&str> = keys.trim_start_matches("# ").split(',').collect();
    // A text between quotes has commas and ends of lines of its own.
    let mut is_quoted = false;
    let values: Vec<&str> = values
        .split(|letter| {
            is_quoted ^= letter == '"';
            letter == ',' && !is_quoted
        })
        .collect();
    let value = |key: &str| Some(*values.get(keys.iter().position(|known| *known == key)?)?);
    let server = format!("{} | {} | {}", value("status")?, value("weight")?, value("slim")?);
    Some(Shown { server, question: value("agent_status")?.to_owned() })
}

#[test]
fn haproxy_reacts_as_the_table_says() {
    if Command::new("haproxy").arg("-v").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: there is no haproxy");
        return;
    }
    let table =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../weir-upstream/src/health/agent/haproxy.txt");
    let before = std::fs::read_to_string(&table).unwrap();
    let line = Arc::new(Mutex::new(b"\n".to_vec()));
    let asked = Arc::new(AtomicUsize::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (says, count) = (line.clone(), asked.clone());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let line = says.lock().unwrap().clone();
            let _ = stream.write_all(&line).and_then(|()| stream.shutdown(Shutdown::Write));
            // It has judged the line when it leaves, or waited for it in vain.
            let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
            let _ = stream.read(&mut [0; 64]);
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let setup = setup();
    let socket = setup.folder().join("haproxy.sock");
    let config = format!(
        "global\n  stats socket {} mode 600 level admin\ndefaults\n  mode http\n  timeout connect 1s\n  \
         timeout client 1s\n  timeout server 1s\n  timeout check 1m\nbackend b\n  \
         server s 127.0.0.1:{} weight 100 maxconn 50 \
         agent-check agent-port {port} agent-inter 20\n",
        socket.display(),
        free_port()
    );
    let config = setup.file("haproxy.cfg", config);
    let quiet = || Stdio::null();
    let started =
        Command::new("haproxy").arg("-db").arg("-f").arg(config).stdout(quiet()).stderr(quiet()).spawn();
    let _haproxy = HaProxy(started.unwrap());
    until("haproxy answers", || shown(&socket).is_some());
    let mut after = String::new();
    for row in before.lines() {
        let Some((text, _)) = row.split_once(" => ") else {
            after.push_str(&format!("{row}\n"));
            continue;
        };
        let bytes = text.replace("\\n", "\n").replace("\\r", "\r").replace("\\t", "\t").replace("\\0", "\0");
        *line.lock().unwrap() = bytes.into_bytes();
        // The first may have been under way. The last that has come to its end was asked after this line was
        // set: what HAProxy did not wait long enough for has changed nothing, and is asked once more.
        let seen = asked.load(Ordering::SeqCst) + 3;
        let mut server = None;
        until("it has asked", || {
            let shown = (asked.load(Ordering::SeqCst) >= seen).then(|| shown(&socket)).flatten();
            let judged = |shown: &Shown| !["TOUT", "CON"].iter().any(|why| shown.question.contains(why));
            server = shown.filter(judged).map(|shown| shown.server);
            server.is_some()
        });
        after.push_str(&format!("{text} => {}\n", server.unwrap()));
    }
    if std::env::var("WEIR_REWRITE").is_ok() {
        std::fs::write(&table, &after).unwrap();
    }
    assert_eq!(after, before);
}
