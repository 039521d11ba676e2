//! Certificates that Weir orders from a real CA, Pebble, and serves. Where it is not installed, the scenarios
//! say so and pass.

use std::path::PathBuf;
use std::process::Command;

use weir_testkit::{Origin, Pebble, PebbleSetup, Resource, TlsClient, Weir, free_port, until};

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
    before(listeners, more, of_site, |pebble| pebble)
}

fn before(
    listeners: Listeners,
    more: &str,
    of_site: &str,
    pebble: impl FnOnce(PebbleSetup) -> PebbleSetup,
) -> Option<Bench> {
    let setup = setup();
    let (http_port, tls_port) = (free_port(), free_port());
    let folder = setup.folder().join("pebble");
    let pebble = pebble(PebbleSetup::new(http_port, tls_port)).start(&folder)?;
    setup.file("roots.pem", pebble.roots());
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
        pebble.directory(),
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

#[test]
fn an_order_of_a_killed_process_is_taken_up() {
    // The CA looks late enough to find the next process; a look in between would end the order for good.
    let slow = |pebble: PebbleSetup| pebble.env("PEBBLE_VA_NOSLEEP", "0").env("PEBBLE_VA_SLEEPTIME", "8");
    let Some(mut bench) = before(Listeners::Both, "", "", slow) else { return };
    let record = bench.weir.state().join(format!("acme/hosts/{HOST}.json"));
    until("the order is known", || {
        std::fs::read_to_string(&record).is_ok_and(|text| text.contains("/my-order/"))
    });
    bench.weir.signal("KILL");
    bench.weir.restart();
    // It counts as a failure, so that it is taken up after a minute.
    bench.until_served();
    assert_eq!(bench.orders(), 1);
    assert_eq!(bench.status_by_curl(), "200");
}

#[test]
fn an_order_is_taken_up_by_the_new_process_of_an_upgrade() {
    // The CA takes its time to look, and finds the new process.
    let slow = |pebble: PebbleSetup| pebble.env("PEBBLE_VA_NOSLEEP", "0").env("PEBBLE_VA_SLEEPTIME", "4");
    let Some(mut bench) = before(Listeners::Both, "challenge = \"http-01\"", "", slow) else { return };
    until("the CA is to look", || bench.pebble.log().contains("POST /chalZ/"));
    let upgraded = bench.weir.upgrade(&[]);
    assert_eq!(upgraded.code, Some(0), "{upgraded:?}");
    bench.until_served();
    assert_eq!(bench.orders(), 1, "{}", bench.weir.stderr());
    assert_eq!(bench.status_by_curl(), "200");
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
