//! Variants: no client gets a coding that it does not accept, or a field that was made for another value of a
//! varied field; and a repeated request is a hit.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use weir_testkit::{Address, Exchange, Origin, Response, Weir, free_port, until};

use crate::durable::restart;
use crate::server::{Server, before, server, setup};

const PLAIN: &str = "plain text, long enough to be worth coding";

/// The `Accept-Encoding` of various clients.
const TAKEN: [Option<&str>; 5] = [None, Some("gzip"), Some("br"), Some("gzip;q=0"), Some("*")];

fn takes_gzip(field: Option<&str>) -> bool {
    field.is_some_and(|field| field == "*" || field.split([',', ' ']).any(|coding| coding == "gzip"))
}

/// GETs `path` with this `Accept-Encoding` and further fields.
fn get(weir: &Weir, path: &str, taken: Option<&str>, more: &[(&str, &str)]) -> Response {
    let fields: Vec<(&str, &str)> =
        taken.map(|taken| ("Accept-Encoding", taken)).into_iter().chain(more.iter().copied()).collect();
    weir.get_with(path, &fields)
}

/// Codes as nginx does: the tag becomes weak when it codes, and conditions are compared without regard to
/// that.
fn codes(exchange: &mut Exchange<'_>, vary: &'static [(&'static str, &'static str)]) {
    let field = |name| exchange.request.header(name);
    let is_coded = takes_gzip(field("accept-encoding").as_deref());
    let fresh = ("Cache-Control", "max-age=3600");
    if field("if-none-match").is_some_and(|asked| asked.contains("\"x\"")) {
        exchange.reply(304, &[&[fresh, ("ETag", "\"x\"")][..], vary].concat(), "");
    } else if is_coded {
        let coded = [fresh, ("ETag", "W/\"x\""), ("Content-Encoding", "gzip")];
        exchange.reply(200, &[&coded[..], vary].concat(), "coded");
    } else {
        exchange.reply(200, &[&[fresh, ("ETag", "\"x\"")][..], vary].concat(), PLAIN);
    }
}

/// Checks what the client sees of [`codes`].
fn check_coding(found: &Response, taken: Option<&str>, why: &str) {
    let coding = found.header("content-encoding");
    let is_plain = coding.is_none() && found.text() == PLAIN;
    let is_coded = coding.as_deref() == Some("gzip") && found.text() == "coded";
    assert!(is_plain || (is_coded && takes_gzip(taken)), "{why}, {taken:?}: {:?}", found.head);
}

const VARY: &[(&str, &str)] = &[("Vary", "Accept-Encoding")];
const RELOAD: &[(&str, &str)] = &[("Cache-Control", "no-cache")];

#[test]
fn no_client_gets_a_coding_that_it_does_not_take() {
    let origin = Origin::start();
    origin.otherwise(|exchange| codes(exchange, VARY));
    let weir = before(&origin);
    for (at, first) in TAKEN.into_iter().enumerate() {
        for (other, second) in TAKEN.into_iter().enumerate() {
            let path = format!("/{at}-{other}");
            for more in [&[][..], &[], RELOAD, &[]] {
                for taken in [first, second] {
                    check_coding(&get(&weir, &path, taken, more), taken, &format!("{path} {more:?}"));
                }
            }
        }
    }
}

/// What browsers send, and curl's `--compressed`, wget and a script.
const BROWSERS: [Option<&str>; 5] =
    [Some("gzip"), Some("gzip, deflate"), Some("gzip, deflate, br"), Some("gzip, deflate, br, zstd"), None];

#[test]
fn a_coded_response_varies_even_without_a_vary() {
    let origin = Origin::start();
    origin.otherwise(|exchange| codes(exchange, &[]));
    let weir = before(&origin);
    for (at, first) in TAKEN.into_iter().enumerate() {
        for (other, second) in TAKEN.into_iter().enumerate() {
            let path = format!("/{at}-{other}");
            for more in [&[][..], &[], RELOAD, &[]] {
                for taken in [first, second] {
                    let found = get(&weir, &path, taken, more);
                    check_coding(&found, taken, &format!("{path} {more:?}"));
                    let varies = found.header("vary").is_some_and(|vary| vary == "Accept-Encoding");
                    assert!(varies || found.header("content-encoding").is_none(), "{:?}", found.head);
                }
            }
        }
    }
    // A plain response takes nothing away from clients that accept codings.
    for (taken, is_hit) in [(Some("gzip"), false), (None, false), (Some("gzip"), true), (None, true)] {
        let found = get(&weir, "/both", taken, &[]);
        assert_eq!((found.is_hit(), found.text() == PLAIN), (is_hit, taken.is_none()), "{:?}", found.head);
        assert_eq!(found.header("vary").as_deref(), Some("Accept-Encoding"));
    }
}

/// The number of variants stored for a path, by `weir list`.
fn held(weir: &Weir, path: &str) -> usize {
    let output = weir.command(&["list", "--json", "--limit", "1000"]);
    let objects = output.stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    objects.filter(|object| object["url"].as_str().is_some_and(|url| url.ends_with(path))).count()
}

#[test]
fn one_copy_serves_all_browsers_that_take_its_coding() {
    let origin = Origin::start();
    origin.otherwise(|exchange| codes(exchange, VARY));
    let weir = before(&origin);
    // The widest list first: no other variant is fetched.
    for taken in BROWSERS[..4].iter().rev() {
        check_coding(&get(&weir, "/wide", *taken, &[]), *taken, "/wide");
    }
    assert_eq!((origin.count("/wide"), held(&weir, "/wide")), (1, 1));
    // The narrowest first: each wider list is fetched, and replaces the one before.
    for taken in BROWSERS.iter().chain(&BROWSERS) {
        let found = get(&weir, "/narrow", *taken, &[]);
        assert_eq!(found.text() == PLAIN, taken.is_none(), "{taken:?}: {:?}", found.head);
    }
    assert_eq!((origin.count("/narrow"), held(&weir, "/narrow")), (4, 2));
    for taken in BROWSERS {
        assert!(get(&weir, "/narrow", taken, &[]).is_hit(), "{taken:?}");
    }
}

#[test]
fn variants_by_coding_are_the_same_after_a_restart() {
    let origin = Origin::start();
    origin.otherwise(|exchange| codes(exchange, &[]));
    let volume = "[cache]\nmemory = \"16MiB\"\nadmission = \"always\"\n\
                  [[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"64MiB\"\n";
    let mut weir = server(&[&origin]).more(volume).start();
    for taken in BROWSERS {
        get(&weir, "/x", taken, &[]);
    }
    assert_eq!(origin.count("/x"), 4);
    until("nothing is fetched", || weir.metric("weir_fills_running") == Some(0.0));
    restart(&mut weir, "TERM");
    for taken in BROWSERS {
        let found = get(&weir, "/x", taken, &[]);
        assert!(found.is_hit(), "{taken:?}: {:?}", found.head);
        assert_eq!(found.text() == PLAIN, taken.is_none(), "{taken:?}: {:?}", found.head);
        assert_eq!(found.header("vary").as_deref(), Some("Accept-Encoding"), "{taken:?}");
    }
    assert_eq!((origin.count("/x"), held(&weir, "/x")), (4, 2));
}

#[test]
fn an_upstream_may_leave_via_out() {
    let origin = Origin::start();
    origin.echo("/x", &[("Cache-Control", "max-age=60"), ("Content-Type", "text/plain")]);
    let asked = |weir: &Weir| {
        weir.get_with("/x", &[("Via", "1.1 before"), ("Cache-Control", "no-cache")]);
        let request = origin.requests("/x").pop().unwrap();
        assert!(request.header("cdn-loop").is_some_and(|ids| ids.contains("weir-")), "{request:?}");
        request.header("via")
    };
    let hint = |weir: &Weir| {
        let url = "http://localhost/x";
        let explained = weir.command(&["explain", url, "-H", "Accept-Encoding: gzip"]);
        explained.stdout.contains("gzip_proxied")
    };
    let weir = server(&[&origin]).start();
    assert!(asked(&weir).is_some_and(|via| via.starts_with("1.1 before, 1.1 weir-")));
    assert!(hint(&weir));
    let weir = server(&[&origin]).upstream("via = false").start();
    assert_eq!(asked(&weir), None);
    assert!(!hint(&weir));
    let looped = origin.requests("/x").pop().unwrap().header("cdn-loop").unwrap();
    assert_eq!(weir.get_with("/x", &[("CDN-Loop", &looped)]).status(), 508);
}

#[test]
fn waiting_clients_each_get_a_coding_that_they_accept() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        std::thread::sleep(Duration::from_millis(100));
        codes(exchange, &[]);
    });
    let weir = before(&origin);
    for round in 0..6 {
        let path = format!("/{round}");
        std::thread::scope(|scope| {
            for at in 0..30 {
                let (weir, path, taken) = (&weir, &path, TAKEN[(at + round) % TAKEN.len()]);
                scope.spawn(move || check_coding(&get(weir, path, taken, &[]), taken, path));
            }
        });
        for taken in TAKEN {
            check_coding(&get(&weir, &path, taken, &[]), taken, &path);
        }
    }
}

/// Debian's nginx with `gzip on`, in a folder of its own.
struct Nginx {
    process: Child,
    port: u16,
}

impl Nginx {
    /// `None`, with a message, if nginx is not installed. `lines` are those of the server.
    fn start(server: &weir_testkit::Setup, lines: &str) -> Option<Nginx> {
        let program = "/usr/sbin/nginx";
        if !std::path::Path::new(program).exists() {
            eprintln!("nginx is not installed: this scenario is left out");
            return None;
        }
        let folder = server.folder().join("nginx");
        std::fs::create_dir_all(folder.join("www")).unwrap();
        std::fs::write(folder.join("www/x.css"), PLAIN.repeat(100)).unwrap();
        let port = free_port();
        let at = folder.display();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|kind| format!("{kind}_temp_path {at}/{kind};\n"))
            .collect();
        let text = format!(
            "daemon off;\nmaster_process off;\nworker_processes 1;\npid {at}/pid;\n\
            error_log {at}/error.log;\n\
             events {{ worker_connections 64; }}\nhttp {{\ntypes {{ text/css css; }}\naccess_log off;\n\
             {temporary}\
             server {{\nlisten 127.0.0.1:{port};\nroot {at}/www;\ngzip on;\ngzip_types text/css;\n{lines}\n\
             }}\n}}\n"
        );
        std::fs::write(folder.join("nginx.conf"), text).unwrap();
        let mut command = Command::new(program);
        command.arg("-e").arg(folder.join("error.log")).arg("-p").arg(&folder);
        command.arg("-c").arg(folder.join("nginx.conf")).stdin(Stdio::null());
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let nginx = Nginx { process, port };
        let address = Address::Tcp(([127, 0, 0, 1], port).into());
        until("nginx takes connections", || address.connect().is_ok());
        Some(nginx)
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A config in front of nginx.
fn before_nginx(nginx: &Nginx) -> Server {
    server(&[]).origins(&format!("\"{}\"", nginx.url()))
}

fn is_gzip(found: &Response) -> bool {
    let is_gzip = found.body.starts_with(&[0x1f, 0x8b]);
    assert_eq!(found.header("content-encoding").as_deref() == Some("gzip"), is_gzip, "{:?}", found.head);
    is_gzip
}

/// Tries every pair of clients in front of the real nginx: at first, fresh, revalidated and stale.
fn check_pairs(weir: &Weir) {
    for (at, first) in TAKEN.into_iter().enumerate() {
        for (other, second) in TAKEN.into_iter().enumerate() {
            let path = format!("/x.css?{at}-{other}");
            for more in [&[][..], &[], RELOAD, &[]] {
                for taken in [first, second] {
                    let found = get(weir, &path, taken, more);
                    assert_eq!(found.status(), 200);
                    assert!(takes_gzip(taken) || !is_gzip(&found), "{path}, {taken:?}: {:?}", found.head);
                }
            }
        }
    }
}

#[test]
fn no_client_of_nginx_gets_a_coding_that_it_does_not_take() {
    let setup = setup();
    let Some(nginx) = Nginx::start(&setup, "gzip_proxied any; gzip_vary on; expires 1h;") else { return };
    let weir = before_nginx(&nginx).start_in(setup);
    check_pairs(&weir);
    for taken in TAKEN {
        get(&weir, "/x.css", taken, &[]);
        let again = get(&weir, "/x.css", taken, &[]);
        assert!(again.is_hit(), "{taken:?}: {:?}", again.head);
        assert_eq!(is_gzip(&again), takes_gzip(taken), "{taken:?}: {:?}", again.head);
    }
}

#[test]
fn no_client_of_nginx_gets_a_coding_that_it_does_not_take_when_all_is_stale() {
    let setup = setup();
    let Some(nginx) = Nginx::start(&setup, "gzip_proxied any; gzip_vary on; expires 1s;") else { return };
    let weir = before_nginx(&nginx).start_in(setup);
    for _ in 0..2 {
        for taken in TAKEN {
            let found = get(&weir, "/x.css", taken, &[]);
            assert_eq!(is_gzip(&found), takes_gzip(taken), "{taken:?}: {:?}", found.head);
        }
        std::thread::sleep(Duration::from_millis(2100));
    }
}

#[test]
fn nginx_with_defaults_compresses_for_weir_without_via() {
    let setup = setup();
    let Some(nginx) = Nginx::start(&setup, "expires 1h;") else { return };
    let weir = before_nginx(&nginx).upstream("via = false").start_in(setup);
    check_pairs(&weir);
    for taken in [&BROWSERS[..], &BROWSERS].concat() {
        let found = get(&weir, "/x.css", taken, &[]);
        assert_eq!(is_gzip(&found), taken.is_some(), "{taken:?}: {:?}", found.head);
    }
    for taken in BROWSERS {
        assert!(get(&weir, "/x.css", taken, &[]).is_hit(), "{taken:?}");
    }
}
