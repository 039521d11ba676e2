//! The examples on the real binary: what their comments promise is true. Those with a program in front of
//! Weir are tried if it is installed; otherwise the scenario prints `skipped` and ends.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use weir_testkit::{Authority, Client, Origin, Resource, Setup, TlsClient, Weir, free_port, until};

use crate::answer::lint::skipped;
use crate::server::setup;

fn example(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// Runs an example with these origins in place of its own, and with its volumes in the folder of the setup.
pub(crate) fn run(setup: Setup, name: &str, origins: &[(&str, &Origin)]) -> Weir {
    let urls: Vec<(&str, String)> =
        origins.iter().map(|(written, origin)| (*written, origin.url())).collect();
    run_before(setup, name, &urls)
}

/// As [`run`], before origins of which the URLs are known.
pub(crate) fn run_before(setup: Setup, name: &str, origins: &[(&str, String)]) -> Weir {
    let mut text = example(name).replace("\"127.0.0.1:8080\"", "\"{listen}\"");
    text = text.replace("\"/var/cache/weir/", "\"{folder}/");
    if !text.contains("{listen}") {
        text += "\n[[listen]]\naddress = \"{listen}\"\n";
    }
    for (written, url) in origins {
        assert!(text.contains(written), "{name} has no {written}");
        text = text.replace(written, url);
    }
    setup.run_config(&format!("{text}\n[admin]\nlisten = \"{{admin}}\"\n"))
}

#[test]
fn web_sockets_event_streams_and_polls_are_passed_on_and_pages_are_cached() {
    let (pages, live) = (Origin::start(), Origin::start());
    pages.put("/", Resource::new("page"));
    live.otherwise(|exchange| {
        if exchange.request.header("upgrade").is_some() {
            exchange.send(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
            );
            let piece = exchange.read_some();
            exchange.send(&piece);
            return exchange.close();
        }
        exchange.reply(200, &[], "an answer of its own");
    });
    live.on("/events/a", |exchange| {
        exchange.send(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: 1\n\n",
        );
        exchange.close();
    });
    let origins = [("http://127.0.0.1:3000", &pages), ("http://127.0.0.1:3001", &live)];
    let weir = run(setup(), "websocket.toml", &origins);
    for _ in 0..2 {
        weir.get("/");
        assert_eq!(weir.get("/socket.io/?transport=polling").text(), "an answer of its own");
        assert_eq!(weir.get("/events/a").text(), "data: 1\n\n");
    }
    assert_eq!((pages.count("/"), live.count("/events/a")), (1, 2));
    assert_eq!(live.total(), 4, "the answer to a poll is for one client");
    let mut client = weir.client();
    let upgrade = [("Connection", "Upgrade"), ("Upgrade", "websocket")];
    client.send_get("localhost", "/socket", &upgrade);
    assert_eq!(client.recv_head_only().unwrap().status, 101);
    client.send("hello");
    assert_eq!(client.read_to_end(), b"hello");
}

#[test]
fn https_is_served_with_files_and_http_is_sent_there() {
    let (origin, authority) = (Origin::start(), Authority::new());
    origin.put("/", Resource::fresh("page"));
    let setup = setup();
    let live = setup.folder().join("live/www.example.com");
    std::fs::create_dir_all(&live).unwrap();
    let (chain, key) = authority.issue(&["www.example.com", "example.com"]);
    std::fs::write(live.join("fullchain.pem"), chain).unwrap();
    std::fs::write(live.join("privkey.pem"), key).unwrap();
    let text = example("https.toml")
        .replace("0.0.0.0:80", "{listen}")
        .replace("0.0.0.0:443", "{tls}")
        .replace("/etc/letsencrypt/live", "{folder}/live")
        .replace("http://127.0.0.1:3000", &origin.url());
    let weir = setup.run_config(&format!("{text}\n[admin]\nlisten = \"{{admin}}\"\n"));
    let tls = TlsClient::trusting(&authority).protocols(&["http/1.1"]);
    let over_tls = |name: &str| Client::over(tls.connect(weir.tls(), name).unwrap()).get(name, "/", &[]);
    for is_hit in [false, true] {
        let page = over_tls("www.example.com");
        assert_eq!((page.text().as_str(), page.is_hit()), ("page", is_hit));
        assert_eq!(page.header("strict-transport-security").as_deref(), Some("max-age=31536000"));
    }
    let plain = weir.client().get("www.example.com", "/a?b", &[]);
    let port = weir.tls().port();
    let secure = format!("https://www.example.com:{port}/a?b");
    assert_eq!((plain.status(), plain.header("location")), (308, Some(secure)));
    assert_eq!(plain.header("strict-transport-security"), None);
    let bare = over_tls("example.com");
    let www = "https://www.example.com/".to_owned();
    assert_eq!((bare.status(), bare.header("location")), (308, Some(www)));
}

/// A program in front of Weir, and its ports with and without TLS. Dropping it ends the program.
struct Front {
    child: Child,
    tls: u16,
    plain: u16,
}

impl Drop for Front {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn installed(name: &str) -> Option<PathBuf> {
    let variable = format!("WEIR_{}", name.to_uppercase().replace('-', "_"));
    let named = std::env::var_os(variable).map(PathBuf::from);
    let folders = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
    named.or_else(|| folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists()))
}

/// Starts a program whose configuration has its ports and the certificate already.
fn start(mut command: Command, tls: u16, plain: u16) -> Front {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    until("the front listens", || std::net::TcpStream::connect(("127.0.0.1", plain)).is_ok());
    Front { child, tls, plain }
}

fn nginx(setup: &Setup, weir: &str, edit: impl Fn(String) -> String) -> Option<Front> {
    let program = installed("nginx")?;
    let (tls, plain) = (free_port(), free_port());
    let (certificate, key) = Authority::new().issue(&["localhost"]);
    let folder = setup.folder().display().to_string();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary: String =
        temporary.iter().map(|name| format!("{name}_temp_path {folder}/{name};\n")).collect();
    let text = edit(example("behind-nginx.conf"))
        .replace("listen 443 ssl", &format!("listen 127.0.0.1:{tls} ssl"))
        .replace("listen 80", &format!("listen 127.0.0.1:{plain}"))
        .replace("127.0.0.1:8080", weir)
        .replace("worker_processes auto", "worker_processes 1")
        .replace(
            "/etc/ssl/certs/www.example.com.pem",
            &setup.file("front.pem", certificate).display().to_string(),
        )
        .replace("/etc/ssl/private/www.example.com.key", &setup.file("front.key", key).display().to_string())
        .replace("http {", &format!("http {{\n{temporary}"));
    let conf = setup.file("front.conf", text);
    let mut command = Command::new(program);
    command.arg("-p").arg(setup.folder()).arg("-c").arg(conf);
    command.args(["-g", &format!("daemon off; master_process off; pid {folder}/front.pid;")]);
    Some(start(command, tls, plain))
}

fn haproxy(setup: &Setup, weir: &str) -> Option<Front> {
    let program = installed("haproxy")?;
    let (tls, plain) = (free_port(), free_port());
    let (certificate, key) = Authority::new().issue(&["localhost"]);
    let pem = setup.file("front.pem", format!("{certificate}{key}")).display().to_string();
    let text = example("behind-haproxy.cfg")
        .replace("bind :443", &format!("bind 127.0.0.1:{tls}"))
        .replace("bind :80", &format!("bind 127.0.0.1:{plain}"))
        .replace("127.0.0.1:8080", weir)
        .replace("/etc/haproxy/certs/www.example.com.pem", &pem);
    let conf = setup.file("front.cfg", text);
    let mut command = Command::new(program);
    command.arg("-db").arg("-f").arg(conf);
    Some(start(command, tls, plain))
}

/// What curl prints for a request from another address than the front's own.
fn curl(method: &str, url: &str) -> String {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--insecure", "--include", "--interface", "127.0.0.5"]);
    let output = command.args(["--request", method, url]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// An origin that answers who the client was and with which scheme it came.
fn telling() -> Origin {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let said = |name: &str| exchange.request.header(name).unwrap_or_default();
        let text = format!("{} over {}", said("x-forwarded-for"), said("x-forwarded-proto"));
        exchange.reply(200, &[("Cache-Control", "no-store")], text);
    });
    origin
}

/// Weir behind a front whose own address alone is trusted. Clients of this test come from another one.
fn behind(name: &str, origin: &Origin) -> (Weir, Setup) {
    let text = example(name)
        .replace("\"127.0.0.1:8080\"", "\"{listen}\"")
        .replace("trusted_proxies = [\"127.0.0.0/8\", \"::1\"]", "trusted_proxies = [\"127.0.0.1\"]")
        .replace("allow = [\"127.0.0.0/8\", \"10.0.0.0/8\"]", "allow = [\"127.0.0.1\"]")
        .replace("http://127.0.0.1:3000", &origin.url());
    assert!(text.contains("[\"127.0.0.1\"]"), "{text}");
    (setup().run_config(&format!("{text}\n[admin]\nlisten = \"{{admin}}\"\n")), setup())
}

/// Both fronts do the same for Weir.
fn names_its_clients(front: &Front) {
    let answer = curl("GET", &format!("https://127.0.0.1:{}/a", front.tls));
    assert!(answer.ends_with("127.0.0.5 over https"), "{answer}");
    let answer = curl("GET", &format!("http://127.0.0.1:{}/a", front.plain));
    assert!(answer.contains(" 308 ") && answer.to_lowercase().contains("location: https://"), "{answer}");
    let answer = curl("PURGE", &format!("https://127.0.0.1:{}/a", front.tls));
    assert!(answer.contains(" 405 "), "{answer}");
}

#[test]
fn behind_nginx_clients_are_told_apart() {
    let origin = telling();
    let (weir, setup) = behind("behind-nginx.toml", &origin);
    let address = weir.addr().to_string();
    let Some(front) = nginx(&setup, &address, |text| text) else { return skipped() };
    names_its_clients(&front);
}

/// The warning of `docs/guide/purging.md`: a plain `proxy_pass` makes every client look like this machine.
#[test]
fn behind_an_nginx_that_names_nobody_everybody_may_purge() {
    let origin = telling();
    let (weir, setup) = behind("behind-nginx.toml", &origin);
    let unnamed = |text: String| -> String {
        text.lines()
            .filter(|line| !line.contains("X-Forwarded-For "))
            .map(|line| format!("{line}\n"))
            .collect()
    };
    let Some(front) = nginx(&setup, &weir.addr().to_string(), unnamed) else { return skipped() };
    let answer = curl("PURGE", &format!("https://127.0.0.1:{}/a", front.tls));
    assert!(answer.contains(" 200 ") && answer.contains("purged: mark "), "{answer}");
}

#[test]
fn behind_haproxy_clients_are_told_apart() {
    let origin = telling();
    let (weir, setup) = behind("behind-haproxy.toml", &origin);
    let Some(front) = haproxy(&setup, &weir.addr().to_string()) else { return skipped() };
    names_its_clients(&front);
}
