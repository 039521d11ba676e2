//! `weir distributor`: it answers other Weirs over all three kinds of places, and others in the plain form;
//! it loads its file again, and tells what it does.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use weir_testkit::{Origin, free_port, until};

use super::asked::{answer, asking};
use crate::origins::changes::named;
use crate::server::binary;

/// A `weir distributor` in a folder of its own.
struct Distributor {
    program: Child,
    folder: PathBuf,
    address: SocketAddr,
    admin: SocketAddr,
}

const KEY: &str = "0123456789abcdefghijklmnopqrstuvwxyzABCD\n";

impl Distributor {
    /// One with these lines in `[distributor]`, and these behind it.
    fn start(name: &str, lines: &str, more: &str) -> Distributor {
        let folder = std::env::temp_dir().join(format!("weir-it-d-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("key"), KEY).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o640);
        std::fs::set_permissions(folder.join("key"), private).unwrap();
        let [address, admin] = [(); 2].map(|()| SocketAddr::from(([127, 0, 0, 1], free_port())));
        write(&folder, (address, admin), lines, more);
        let mut program = Command::new(binary())
            .args(["distributor", "--threads", "2", "--config"])
            .arg(folder.join("weir.toml"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(program.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("answering at "), "{line}");
        Distributor { program, folder, address, admin }
    }

    fn rewrite(&self, lines: &str, more: &str) {
        write(&self.folder, (self.address, self.admin), lines, more);
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn get(&self, target: &str) -> String {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        stream.write_all(format!("GET {target} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    fn count(&self, what: &str) -> u64 {
        let text = self.get("/metrics");
        let start = format!("weir_distributor_questions_total{{what=\"{what}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&*start)).unwrap().parse().unwrap()
    }

    fn signal(&self, signal: &str) {
        let pid = self.program.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }
}

fn write(folder: &std::path::Path, (address, admin): (SocketAddr, SocketAddr), lines: &str, more: &str) {
    let unix = folder.join("d.sock");
    let listen = [format!("udp://{address}"), format!("tcp://{address}"), format!("unix:{}", unix.display())];
    let text = format!("[distributor]\nlisten = {listen:?}\nadmin = \"{admin}\"\n{lines}\n{more}\n");
    std::fs::write(folder.join("new"), text).unwrap();
    std::fs::rename(folder.join("new"), folder.join("weir.toml")).unwrap();
}

impl Drop for Distributor {
    fn drop(&mut self) {
        self.signal("-TERM");
        let code = self.program.wait().unwrap();
        let _ = std::fs::remove_dir_all(&self.folder);
        if !std::thread::panicking() {
            assert!(code.success());
        }
    }
}

/// An upstream of these origins, and its pick.
fn app(origins: &[&Origin], pick: &str) -> String {
    let urls: Vec<String> = origins.iter().map(|origin| origin.url()).collect();
    format!("[upstream.app]\norigins = {urls:?}\npick = {pick}")
}

#[test]
fn many_weirs_share_one_decision_over_every_kind_of_place() {
    let origins = ["a", "b"].map(named);
    let of_it = app(&origins.each_ref(), "\"round_robin\"");
    let second = "policy = { second = { upstream = \"app\", pick = \"first\" } }";
    let distributor = Distributor::start("share", &format!("key_file = \"key\"\n{second}"), &of_it);
    for (place, policy) in [
        (format!("udp://{}", distributor.address), "app"),
        (format!("tcp://{}", distributor.address), "app"),
        (format!("unix:{}", distributor.path("d.sock")), "app"),
        (format!("udp://{}", distributor.address), "second"),
    ] {
        let key = distributor.path("key");
        let lines = format!("policy = \"{policy}\"\nkey_file = {key:?}\ntimeout = \"1s\"");
        // Their own picks would take the second origin alone.
        let weirs = [(); 2]
            .map(|()| asking(&[&origins[1], &origins[0]], std::slice::from_ref(&place), &lines).start());
        let all: Vec<String> = (0..8).map(|at| answer(&weirs[at % 2], &format!("/pass/{at}"))).collect();
        let from_a = all.iter().filter(|who| *who == "a").count();
        assert_eq!(from_a, if policy == "second" { 8 } else { 4 }, "{place}: {all:?}");
    }
    assert_eq!(distributor.count("addresses"), 32);
    assert_eq!(distributor.count("forged"), 0);
    // Who has no key gets no answer.
    let weir = asking(&origins.each_ref(), &[format!("udp://{}", distributor.address)], "").start();
    assert_eq!(weir.get("/pass/x").status(), 200);
    assert_eq!(distributor.count("forged"), 3);
}

#[test]
fn others_ask_in_the_plain_form() {
    let origins = ["a", "b"].map(named);
    let hash = "{ hash = { of = \"path\", bound = 100 } }";
    let distributor = Distributor::start("plain", "form = \"plain\"", &app(&origins.each_ref(), hash));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let ask = |question: &str| {
        socket.send_to(question.as_bytes(), distributor.address).unwrap();
        let mut bytes = [0; 128];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].into()).unwrap()
    };
    let all = origins.each_ref().map(|origin| origin.addr().to_string());
    let of = |path: u32| ask(&format!("app\n192.0.2.1:1\nGET /{path} HTTP/1.1\r\nHost: a.example\r\n\r\n"));
    let answers: Vec<String> = (0..16).map(of).collect();
    assert!(answers.iter().all(|answer| all.contains(answer)), "{answers:?}");
    assert!(all.iter().all(|one| answers.contains(one)), "{answers:?}");
    assert_eq!(answers, (0..16).map(of).collect::<Vec<_>>(), "the same path, the same origin");
    assert_eq!(ask("unknown\n192.0.2.1:1\nGET / HTTP/1.1\r\nHost: a.example\r\n\r\n"), "");
    let mut stream = TcpStream::connect(distributor.address).unwrap();
    stream.write_all(b"app\n-\nGET /1 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(all.contains(&text), "{text}");
}

#[test]
fn a_file_that_changes_is_loaded_and_a_broken_one_refused() {
    let origins = ["a", "b"].map(named);
    let distributor = Distributor::start("reload", "", &app(&[&origins[0]], "\"first\""));
    let place = format!("udp://{}", distributor.address);
    let weir = asking(&origins.each_ref(), &[place], "policy = \"app\"\ntimeout = \"1s\"").start();
    assert_eq!(answer(&weir, "/pass/1"), "a");
    distributor.rewrite("", &app(&[&origins[1]], "\"first\""));
    distributor.signal("-HUP");
    until("the other origin is answered", || answer(&weir, "/pass/2") == "b");
    distributor.rewrite("lisn = 3", "");
    distributor.signal("-HUP");
    distributor.rewrite("", &app(&[&origins[0]], "\"first\""));
    until("the file is looked at without a signal", || answer(&weir, "/pass/3") == "a");
    assert!(distributor.get("/status").contains("\"standing\": \"ready\""), "{}", distributor.get("/status"));
    assert!(distributor.get("/metrics").contains("weir_distributor_origin_up{upstream=\"app\""));
    assert!(distributor.get("/nothing").starts_with("HTTP/1.1 404"));
}
