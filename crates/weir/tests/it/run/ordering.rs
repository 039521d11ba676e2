//! Certificates that Weir orders from a real CA, Pebble, and serves. Where it is not installed, the scenarios
//! say so and pass.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_testkit::{
    Between, Gate, Origin, Pebble, PebbleSetup, Resource, TlsClient, Verdict, Weir, free_port, until,
};

use crate::server::setup;

const HOST: &str = "www.example.com";

/// Weir, its origin and the CA.
struct Bench {
    weir: Weir,
    pebble: Pebble,
    tls_port: u16,
    _origin: Origin,
}

/// A Weir that orders from a Pebble that decides at once; `more` goes into `[acme]`, `of_site` into the site.
fn bench(listeners: Listeners, more: &str, of_site: &str) -> Option<Bench> {
    bench_of(listeners, more, of_site, |_| None)
}

/// As [`bench`], with what comes between Weir and the CA.
fn bench_of(
    listeners: Listeners,
    more: &str,
    of_site: &str,
    between: impl FnOnce(&Pebble) -> Option<Between>,
) -> Option<Bench> {
    let setup = setup();
    let (http_port, tls_port) = (free_port(), free_port());
    let pebble = PebbleSetup::new(http_port, tls_port).start(&setup.folder().join("pebble"))?;
    let between = between(&pebble);
    let (directory, roots) = match &between {
        Some(between) => (between.directory(), between.roots().to_owned()),
        None => (pebble.directory(), pebble.roots().to_owned()),
    };
    setup.file("roots.pem", roots);
    let origin = Origin::start();
    origin.put("/", Resource::fresh("hello"));
    let plain = match listeners {
        Listeners::Both => format!("[[listen]]\naddress = \"127.0.0.1:{http_port}\"\n"),
        Listeners::Tls => String::new(),
    };
    let text = format!(
        "{plain}
[[listen]]
address = \"{{listen}}\"
tls = true

[[listen]]
address = \"127.0.0.1:{tls_port}\"
tls = true

[admin]
listen = \"{{admin}}\"

[events]
file = \"{{folder}}/events.json\"

[acme]
directory = \"{}\"
ca_file = \"roots.pem\"
contact = [\"admin@example.com\"]
{more}

[upstream.main]
origins = [\"{}\"]

[[site]]
hosts = [\"{HOST}\", \"*.wild.example.com\"]
upstream = \"main\"
{of_site}
",
        directory,
        origin.url()
    );
    Some(Bench { weir: setup.run_config(&text), pebble, tls_port, _origin: origin })
}

#[derive(Clone, Copy)]
enum Listeners {
    Both,
    Tls,
}

impl Bench {
    /// What `weir certificates` says.
    fn certificates(&self) -> String {
        self.weir.command(&["certificates"]).stdout
    }

    fn until_served(&self) {
        until("the certificate is served", || {
            TlsClient::insecure().connect(([127, 0, 0, 1], self.tls_port).into(), HOST).is_ok()
        });
    }

    /// Asks as a stranger does that trusts the CA.
    fn status_by_curl(&self) -> String {
        let roots = self.weir.folder().join("issuer.pem");
        let url = format!("https://127.0.0.1:{}/roots/0", self.pebble.management());
        assert!(curl(&["-k", "-o", &roots.display().to_string(), &url]).0);
        let resolve = format!("{HOST}:{}:127.0.0.1", self.tls_port);
        let url = format!("https://{HOST}:{}/", self.tls_port);
        let roots = roots.display().to_string();
        let args = ["--cacert", &roots, "--resolve", &resolve, "--http1.1", "-o", "/dev/null"];
        curl(&[&args[..], &["-w", "%{http_code}", &url]].concat()).1
    }

    fn orders(&self) -> usize {
        self.pebble.log().matches("POST /order-plz").count()
    }
}

fn curl(args: &[&str]) -> (bool, String) {
    let done = Command::new("curl").arg("-sS").args(args).output().unwrap();
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    (done.status.success(), said)
}

#[test]
fn a_certificate_is_ordered_served_and_kept_through_upgrades_and_kills() {
    // Neither a redirect nor maintenance keeps the CA from its answer.
    let of_site = "https = \"redirect\"\n[site.maintenance]";
    let Some(mut bench) = bench(Listeners::Both, "challenge = \"http-01\"", of_site) else { return };
    bench.until_served();
    assert_eq!(bench.status_by_curl(), "503");
    let shown = bench.certificates();
    assert!(shown.contains(HOST) && shown.contains("acme") && shown.contains("is renewed"), "{shown}");
    assert!(shown.contains("*.wild.example.com") && shown.contains("needs a file"), "{shown}");
    let other = TlsClient::insecure().connect(([127, 0, 0, 1], bench.tls_port).into(), "other.example.com");
    assert!(other.is_err(), "no certificate for a host that is not configured");
    assert_eq!(bench.orders(), 1);
    let ended =
        |outcome: &str| bench.weir.metric(&format!("weir_acme_orders_total{{outcome=\"{outcome}\"}}"));
    assert_eq!((ended("issued"), ended("failed")), (Some(1.0), Some(0.0)));
    until("its coming is an event", || {
        let told = std::fs::read_to_string(bench.weir.folder().join("events.json")).unwrap_or_default();
        told.lines()
            .any(|line| line.contains("\"certificate\"") && line.contains(HOST) && line.contains("in-use"))
    });
    let upgraded = bench.weir.upgrade(&[]);
    assert!(upgraded.stderr.is_empty(), "{upgraded:?}");
    assert_eq!(bench.status_by_curl(), "503");
    assert!(bench.certificates().contains("is renewed"));
    bench.weir.restart();
    assert_eq!(bench.status_by_curl(), "503");
    assert_eq!(bench.orders(), 1, "{}", bench.weir.stderr());
}

/// A Weir whose first request to this path of the CA does not arrive before the gate is open, and whether
/// there was one.
fn held(path: &'static str, challenge: &str, gate: &Gate) -> Option<(Bench, Arc<AtomicBool>)> {
    let (is_made, gate) = (Arc::new(AtomicBool::new(false)), gate.clone());
    let noted = is_made.clone();
    let bench = bench_of(Listeners::Both, challenge, "", |pebble| {
        let between = Between::start(pebble);
        between.judge(move |line| match line.starts_with(path) && !noted.swap(true, Ordering::SeqCst) {
            true => Verdict::Hold(gate.clone()),
            false => Verdict::Pass,
        });
        Some(between)
    })?;
    Some((bench, is_made))
}

/// The question whose answer says what there is to prove.
const WHAT: &str = "POST /authZ/";
/// The word to the CA that it may look.
const LOOK: &str = "POST /chalZ/";

#[test]
fn an_order_of_a_killed_process_is_taken_up() {
    // Killed before it knew what to prove, before the CA may look, and before the CA looked: then the CA
    // finds the next process, which has not taken up the order yet.
    let ends = [(WHAT, Gate::new()), (LOOK, Gate::new()), (LOOK, Gate::new())];
    let mut benches = Vec::new();
    for (path, gate) in &ends {
        let Some((mut bench, is_made)) = held(path, "", gate) else { return };
        until("the request is made", || is_made.load(Ordering::SeqCst));
        bench.weir.signal("KILL");
        bench.weir.restart();
        benches.push(bench);
    }
    ends[2].1.open();
    until("the CA has looked", || benches[2].pebble.log().contains("set VALID by completed challenge"));
    // It counts as a failure, so that it is taken up after a minute.
    for (bench, (path, _)) in benches.iter().zip(&ends) {
        bench.until_served();
        assert_eq!(bench.orders(), 1, "{path}");
        assert_eq!(bench.status_by_curl(), "200");
    }
}

#[test]
fn an_order_is_taken_up_by_the_new_process_of_an_upgrade() {
    // The CA looks at any moment of the upgrade, or after it.
    for is_after in [false, true] {
        let gate = Gate::new();
        let Some((mut bench, is_made)) = held(LOOK, "challenge = \"http-01\"", &gate) else { return };
        until("the CA is told to look", || is_made.load(Ordering::SeqCst));
        if !is_after {
            gate.open();
        }
        let upgraded = bench.weir.upgrade(&[]);
        assert_eq!(upgraded.code, Some(0), "{upgraded:?}");
        gate.open();
        bench.until_served();
        assert_eq!(bench.orders(), 1, "{}", bench.weir.stderr());
        assert_eq!(bench.status_by_curl(), "200");
    }
}

#[test]
fn a_certificate_comes_over_tls_alone() {
    let Some(bench) = bench(Listeners::Tls, "", "") else { return };
    bench.until_served();
    assert_eq!(bench.status_by_curl(), "200");
}

#[test]
fn a_check_says_which_hosts_need_a_file() {
    let setup = setup();
    let text = |acme: &str| {
        format!(
            "[[listen]]\naddress = \"127.0.0.1:80\"\n\
             [[listen]]\naddress = \"127.0.0.1:443\"\ntls = true\n{acme}\n\
             [upstream.main]\norigins = [\"http://127.0.0.1:1\"]\n[[site]]\nupstream = \"main\"\n\
             hosts = [\"{HOST}\", \"localhost\", \"db.internal\", \"10.0.0.1\", \"*.example.com\"]\n"
        )
    };
    let check = |acme: &str| {
        let file: PathBuf = setup.file("check.toml", text(acme));
        setup.command(&["check", &file.display().to_string()]).stderr
    };
    let said = check("[acme]");
    assert!(!said.contains(HOST), "{said}");
    for host in ["localhost", "db.internal", "10.0.0.1", "*.example.com"] {
        assert!(said.contains(&format!("{host} needs a certificate in a file")), "{host}: {said}");
    }
    let said = check("[acme]\ndirectory = \"https://ca.corp.internal/dir\"");
    assert!(!said.contains("localhost"), "{said}");
    assert!(said.contains("*.example.com needs a certificate in a file"), "{said}");
}
