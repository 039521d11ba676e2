//! Clients that others wrote, over TLS and HTTP/2: curl, openssl, nghttp, h2spec, sslyze, a browser. A
//! scenario whose tool is missing is skipped with a message; testssl.sh takes minutes and runs only when
//! asked for (`--ignored`).

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use weir_testkit::{Authority, Origin, Resource, Setup, Weir, pattern};

use crate::server::{server, setup};

/// A tool's path; `None`, with a message, where it is missing.
fn tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    if found.is_none() {
        eprintln!("skipped: no {name} here");
    }
    found
}

const TLS: &str = "[[listen]]\naddress = \"{tls}\"\ntls = true\n\
                   [[certificate]]\nchain = \"{folder}/own.pem\"\nkey = \"{folder}/own.key\"\ndefault = true";

/// A setup with a certificate for `localhost`, and its authority's file.
fn certified(setup: Setup) -> (Setup, PathBuf) {
    let authority = Authority::new();
    setup.certificate("own", &authority, &["localhost", "127.0.0.1"]);
    let file = setup.file("ca.pem", authority.pem());
    (setup, file)
}

/// A Weir with TLS in front of an origin, and the file of its authority.
fn secure(origin: &Origin) -> (Weir, PathBuf) {
    let (setup, ca) = certified(setup().arg("--workers").arg("2"));
    (server(&[origin]).more(TLS).start_in(setup), ca)
}

/// What a command says on both outputs, with this input.
fn said(command: &mut Command, input: &str) -> String {
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.unwrap_or_else(|why| panic!("{command:?}: {why}"));
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn curl_gets_a_body_by_either_protocol() {
    let Some(curl) = tool("curl") else { return };
    let origin = Origin::start();
    origin.put("/x", Resource::fresh(pattern(1, 1_000_000)));
    let (weir, ca) = secure(&origin);
    for (flag, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
        for _ in 0..2 {
            let mut command = Command::new(&curl);
            command.arg("--silent").arg("--show-error").arg("--cacert").arg(&ca).arg(flag);
            command.arg("--resolve").arg(format!("localhost:{}:127.0.0.1", weir.tls().port()));
            let file = weir.folder().join("body");
            command.arg("--output").arg(&file).arg("--write-out").arg("%{http_version} %{http_code}");
            let told = said(command.arg(format!("https://localhost:{}/x", weir.tls().port())), "");
            assert_eq!(told, format!("{version} 200"));
            assert!(std::fs::read(&file).unwrap() == pattern(1, 1_000_000));
        }
    }
    assert_eq!(origin.count("/x"), 1);
}

#[test]
fn nghttp_gets_many_streams_of_one_connection() {
    let Some(nghttp) = tool("nghttp") else { return };
    let origin = Origin::start();
    let body = pattern(1, 100_000);
    origin.put("/x", Resource::fresh(&body));
    let (weir, _) = secure(&origin);
    let mut command = Command::new(nghttp);
    command.args(["--stat", "--null-out", "--multiply=50", "--no-verify-peer"]);
    let told = said(command.arg(format!("https://127.0.0.1:{}/x", weir.tls().port())), "");
    let whole = told.lines().filter(|line| line.contains(" 200 ") && line.contains("/x")).count();
    assert_eq!(whole, 50, "{told}");
    assert_eq!(origin.count("/x"), 1);
}

/// What openssl says of its session: one line that begins with `New` or `Reused`.
fn session(openssl: &Path, weir: &Weir, args: &[&str], request: &str) -> String {
    let mut command = Command::new(openssl);
    command.args(["s_client", "-servername", "localhost", "-alpn", "http/1.1", "-ign_eof", "-connect"]);
    let told = said(command.arg(weir.tls().to_string()).args(args), request);
    let line = told.lines().find(|line| line.starts_with("New, ") || line.starts_with("Reused, "));
    line.unwrap_or_else(|| panic!("{told}")).to_owned()
}

#[test]
fn openssl_resumes_a_session_with_any_worker_and_process_and_after_a_restart_begins_a_new_one() {
    let Some(openssl) = tool("openssl") else { return };
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("hello"));
    let (mut weir, _) = secure(&origin);
    let folder = weir.folder().to_owned();
    let file = |version: &str| folder.join(format!("session{version}.pem")).display().to_string();
    let request = "GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    for version in ["-tls1_2", "-tls1_3"] {
        let first = session(&openssl, &weir, &[version, "-sess_out", &file(version)], request);
        assert!(first.starts_with("New, "), "{first}");
        // The system spreads connections over the workers.
        for _ in 0..12 {
            let again = session(&openssl, &weir, &[version, "-sess_in", &file(version)], request);
            assert!(again.starts_with("Reused, "), "{version}: {again}");
        }
    }
    for upgrade in 0..3 {
        assert_eq!(weir.upgrade(&[]).code, Some(0));
        for version in ["-tls1_2", "-tls1_3"] {
            let again = session(&openssl, &weir, &[version, "-sess_in", &file(version)], request);
            assert!(again.starts_with("Reused, "), "{version} after {upgrade} upgrades: {again}");
        }
    }
    weir.restart();
    let other = session(&openssl, &weir, &["-tls1_3", "-sess_in", &file("-tls1_3")], request);
    assert!(other.starts_with("New, "), "{other}");
}

#[test]
fn sslyze_finds_nothing() {
    let Some(sslyze) = tool("sslyze") else { return };
    let (weir, ca) = secure(&Origin::start());
    let mut command = Command::new(sslyze);
    // Mozilla's profile is for certificates of public authorities.
    command
        .args(["--mozilla_config", "disable", "--certinfo_ca_file"])
        .arg(ca)
        .arg(format!("localhost:{}", weir.tls().port()));
    let told = said(&mut command, "");
    assert!(told.contains("SCANS COMPLETED"), "{told}");
    let bad = ["VULNERABLE", "NOT SECURE", "Exception"];
    let found: Vec<&str> = told.lines().filter(|line| bad.iter().any(|word| line.contains(word))).collect();
    assert!(found.is_empty(), "{found:?} in {told}");
}

/// What h2spec says that fails and does not: RFC 9113 section 3.4 has an invalid preface end the connection,
/// and does not say how. What the client has sent and nobody reads makes the system end it with a reset.
const NOT_WRONG: [&str; 1] = ["2: Sends invalid connection preface"];

#[test]
fn h2spec_finds_nothing_wrong_with_or_without_tls() {
    let go = std::env::var_os("HOME").map(|home| Path::new(&home).join("go/bin/h2spec"));
    let Some(h2spec) = go.filter(|file| file.is_file()).or_else(|| tool("h2spec")) else { return };
    let origin = Origin::start();
    // It wants content of more than a byte, and something to send content to.
    origin.otherwise(|exchange| {
        exchange.body();
        exchange.reply(200, &[("Cache-Control", "max-age=600")], pattern(1, 1000));
    });
    let (setup, _) = certified(setup());
    let plain = "\n[[listen]]\naddress = \"127.0.0.1:{port}\"\nprotocols = [\"h2\"]\n";
    let port = weir_testkit::free_port();
    let weir = server(&[&origin]).more(TLS).more(&plain.replace("{port}", &port.to_string())).start_in(setup);
    for (port, more) in [(port, &["-S"][..]), (weir.tls().port(), &["-S", "-t", "-k"][..])] {
        let mut command = Command::new(&h2spec);
        command.args(["-h", "127.0.0.1", "-P", "/x", "--timeout", "20", "-p"]).arg(port.to_string());
        let told = said(command.args(more), "");
        let passed = told.lines().rfind(|line| line.contains(" tests, ")).unwrap_or_default();
        assert!(passed.split(' ').nth(2).and_then(|count| count.parse().ok()) > Some(140), "{told}");
        let failed = told.lines().filter_map(|line| line.trim_start().strip_prefix("× "));
        let failed: Vec<&str> = failed.filter(|name| !NOT_WRONG.contains(name)).collect();
        assert!(failed.is_empty(), "{failed:?} in {told}");
    }
}

/// What testssl.sh says of every server that is not a public one, and of the client's choice of the cipher
/// suite: all that Weir offers are good, and a client without AES in hardware knows best.
const NAMED: [&str; 6] = [
    "cipher_order",
    "cert_revocation",
    "cert_chain_of_trust",
    "cert_expirationStatus",
    "cert_notAfter",
    "cert_trust",
];

#[test]
#[ignore = "testssl takes over eight minutes; run it with `-- --ignored testssl`"]
fn testssl_finds_nothing_above_low_but_what_is_named() {
    let Some(testssl) = tool("testssl") else { return };
    let (weir, ca) = secure(&Origin::start());
    let report = weir.folder().join("testssl.csv");
    let mut command = Command::new(testssl);
    command.args(["--quiet", "--color", "0", "--warnings", "off", "--add-ca"]).arg(ca);
    command.arg("--csvfile").arg(&report).arg(format!("localhost:{}", weir.tls().port()));
    let told = said(&mut command, "");
    let report = std::fs::read_to_string(&report).unwrap_or_else(|why| panic!("{why}: {told}"));
    let findings: Vec<&str> = report
        .lines()
        .filter(|line| {
            ["MEDIUM", "HIGH", "CRITICAL"].iter().any(|level| line.contains(&format!("\"{level}\"")))
        })
        .filter(|line| !NAMED.iter().any(|name| line.starts_with(&format!("\"{name}"))))
        .collect();
    assert!(report.lines().count() > 50 && findings.is_empty(), "{findings:#?}");
}

#[test]
fn a_browser_loads_a_page_and_talks_by_web_socket_over_http_2() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/browser");
    let (Some(browser), Some(node)) = (tool("chromium"), tool("node")) else { return };
    if !folder.join("node_modules/playwright-core").is_dir() {
        return eprintln!("skipped: no playwright-core here; `make test` installs it");
    }
    let mut command = Command::new(node);
    command.arg("--no-warnings").arg("pages.mjs").arg(browser).current_dir(folder);
    let mut node = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(node.stdout.take().unwrap()).lines().map_while(Result::ok);
    let origin = lines.next().unwrap_or_default();
    let port = origin.strip_prefix("origin ").unwrap_or_else(|| panic!("it said {origin:?}"));
    let (setup, _) = certified(setup());
    // Nobody could open a WebSocket by HTTP/1 there.
    let tls = TLS.replace("tls = true", "tls = true\nprotocols = [\"h2\"]");
    let weir = setup.run_config(&format!(
        "[admin]\nlisten = \"{{admin}}\"\n[[listen]]\naddress = \"{{listen}}\"\n{tls}\n\
         [upstream.main]\norigins = [\"http://127.0.0.1:{port}\"]\n\
         [[site]]\nhosts = [\"*\"]\nupstream = \"main\"\n"
    ));
    writeln!(node.stdin.take().unwrap(), "base https://localhost:{}", weir.tls().port()).unwrap();
    let said: Vec<String> = lines.collect();
    let _ = node.wait();
    assert_eq!(said.last().map(String::as_str), Some("done"), "{said:?}\n{}", weir.stderr());
    assert_eq!(said.iter().filter(|line| line.ends_with(".gif h2")).count(), 20, "{said:?}");
    for line in ["/ h2", "broken 0", "socket hello"] {
        assert!(said.iter().any(|said| said == line), "no {line:?} in {said:?}");
    }
}
