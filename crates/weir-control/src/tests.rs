//! The control plane over real sockets, in front of a data plane that answers from a script.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use http::Method;
use weir_config::Loaded;
use weir_config::value::HostPattern;
use weir_observe::{Description, Facts, Observatory, Outcome, Snapshot, Storing};

use crate::*;

const CONFIG: &str =
    "[upstream.main]\norigins = [\"http://127.0.0.1:1\"]\n\n[[site]]\nhosts = [\"*\"]\nupstream = \"main\"\n";

/// A data plane whose swaps are counted.
struct Scripted {
    observatory: Arc<Observatory>,
    plan: AtomicU64,
    draining: AtomicBool,
}

impl DataPlane for Scripted {
    fn swap(&self, _loaded: Loaded) -> Result<Swapped, SwapError> {
        if self.plan.fetch_add(1, Ordering::SeqCst) >= 2 {
            self.plan.fetch_sub(1, Ordering::SeqCst);
            return Err(SwapError("the third is refused".to_owned()));
        }
        Ok(Swapped { warnings: vec!["`workers` needs a restart".to_owned()] })
    }

    fn snapshot(&self) -> Snapshot {
        self.observatory.snapshot()
    }

    fn inventory(&self) -> Inventory {
        let origin =
            OriginState { name: "http://127.0.0.1:1".to_owned(), requests: 7, ..OriginState::default() };
        Inventory {
            plan: self.plan.load(Ordering::SeqCst),
            sites: 1,
            routes: 1,
            upstreams: vec![UpstreamState {
                name: "main".to_owned(),
                origins: vec![origin],
                hedges: Some(HedgesState { sent: 5, won: 3, refused: 1 }),
                sessions: Some(SessionsState { kept: 7, ..SessionsState::default() }),
                ..UpstreamState::default()
            }],
            cache: CacheUse {
                objects: 3,
                memory_bytes: 4096,
                memory_bytes_max: 1 << 28,
                evicted: 0,
                not_admitted: 0,
            },
            volumes: Vec::new(),
            ..Inventory::default()
        }
    }

    fn explain(&self, question: &Question) -> Result<Explained, String> {
        if question.url.starts_with("http://") {
            let reason = format!("{} {:?}", question.method, question.headers);
            Ok(Explained { verdict: "miss".to_owned(), reason, ..Explained::default() })
        } else {
            Err("not a URL".to_owned())
        }
    }

    fn purge(&self, order: &PurgeOrder, done: PurgeDone) -> Result<Taken, String> {
        match order.all().next().unwrap() {
            PurgeScope::Site(name) => return Err(format!("no site is named {name}")),
            PurgeScope::All => drop(std::thread::spawn(move || done(Err("no space".to_owned())))),
            _ => done(Ok(17)),
        }
        Ok(Taken { held: Some(3), wider: vec!["http://a/".to_owned()] })
    }

    fn check_order(&self, order: &PurgeOrder) -> Result<(), String> {
        match order.all().next() {
            Some(PurgeScope::Site(name)) => Err(format!("no site is named {name}")),
            _ => Ok(()),
        }
    }

    fn count_purged(&self, order: &PurgeOrder, progress: &Progress) -> Result<Counted, String> {
        let _ = progress.step();
        Ok(Counted { objects: order.all().count() as u64, bytes: 5 })
    }

    fn retain(
        &self,
        scopes: &[PurgeScope],
        _lifetime: Duration,
        done: PurgeDone,
    ) -> Result<(), RetentionRefusal> {
        match scopes.first().unwrap() {
            PurgeScope::Site(name) => Err(RetentionRefusal::Unfit(format!("no site is named {name}"))),
            PurgeScope::Prefix(_) => Err(RetentionRefusal::NoRoom("there is no room".to_owned())),
            PurgeScope::All => {
                done(Err("no space".to_owned()));
                Ok(())
            }
            _ => {
                done(Ok(17));
                Ok(())
            }
        }
    }

    fn concerns(&self, scope: &PurgeScope, _site: &str, key: &str, _tags: &[String]) -> bool {
        *scope == PurgeScope::Url(key.to_owned())
    }

    fn has_volumes(&self) -> bool {
        true
    }

    fn verify(&self, progress: &Progress) -> Result<Verified, String> {
        progress.expect(3);
        let _ = progress.step();
        match self.draining.load(Ordering::SeqCst) {
            false => Ok(Verified { objects: 3, damaged: 1, ..Verified::default() }),
            true => Err("there is no volume".to_owned()),
        }
    }

    fn sites(&self, order: &SitesOrder) -> Result<Sites, String> {
        let used = Used { requests: 3, ..Used::default() };
        let days =
            if order.more.days { vec![UsedIn { day: "2026-11-22".to_owned(), used }] } else { Vec::new() };
        let site = order.site.clone().ok_or("no site is named")?;
        Ok(Sites {
            since: order.since.clone(),
            sites: vec![SiteAccount { site, days, ..SiteAccount::default() }],
            sweep_pending: true,
            unsound: vec![UnsoundFile {
                file: "2026-10.unsound-7".to_owned(),
                month: "2026-10".to_owned(),
                ..UnsoundFile::default()
            }],
        })
    }

    fn held(&self) -> Held {
        let both = Stock { objects: 2, bytes: 7 };
        let sites = vec![("a".into(), Holding { total: both, ..Holding::default() })];
        Held { sites, as_of: Some(SystemTime::UNIX_EPOCH) }
    }

    fn list(&self, order: &ListOrder, _: &Progress) -> Result<Listing, String> {
        match order.site.as_deref() {
            Some(name) => Err(format!("no site is named {name}")),
            None => Ok(Listing { next: order.after.clone(), ..Listing::default() }),
        }
    }

    fn observatory(&self) -> &weir_observe::Observatory {
        &self.observatory
    }

    fn site_named(&self, name: &str) -> Option<String> {
        name.strip_suffix(".test").map(|_| name.to_owned())
    }

    fn site_of_url(&self, url: &str) -> Option<String> {
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        self.site_named(rest.split('/').next()?)
    }

    fn admin_hosts(&self) -> Vec<HostPattern> {
        vec!["weir".parse().unwrap()]
    }

    fn phase(&self) -> Phase {
        if self.draining.load(Ordering::SeqCst) { Phase::Draining } else { Phase::Serving }
    }
}

fn asked(method: Method, path: &str, body: &str) -> Ask {
    Ask { method, path: path.to_owned(), body: body.into(), patience: Duration::from_secs(10) }
}

/// A control plane that serves, with its folder.
struct Running {
    folder: PathBuf,
    data_plane: Arc<Scripted>,
    admin: SocketAddr,
    _state: StateFolder,
}

impl Running {
    fn start(source: impl FnOnce(PathBuf) -> Source) -> Running {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("weir-control-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let config = folder.join("weir.toml");
        std::fs::write(&config, CONFIG).unwrap();
        let state = StateFolder::open(&folder.join("state")).unwrap();
        let observatory = Observatory::start(1, &[]).unwrap();
        let data_plane =
            Arc::new(Scripted { observatory, plan: AtomicU64::new(1), draining: AtomicBool::new(false) });
        data_plane.observatory.history.open(state.path()).unwrap();
        let control = Control::new(data_plane.clone(), source(config), state.path());
        let admin = AdminListener::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let at = admin.tcp().unwrap();
        ControlThread::start(control, admin, state.bind_socket().unwrap(), None).unwrap();
        Running { folder, data_plane, admin: at, _state: state }
    }

    fn ask(&self, method: Method, path: &str, body: &str) -> Asked {
        let way = Way::Folder(self.folder.join("state"));
        client::ask(&way, asked(method, path, body)).unwrap()
    }

    fn admin(&self, request_line: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        write!(stream, "{request_line} HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), body.to_owned())
    }

    /// The head of what the admin listener answers.
    fn admin_head(&self, path: &str, fields: &str) -> String {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text[..text.find("\r\n\r\n").unwrap() + 2].to_owned()
    }

    /// As [`Running::admin`], with these lines for fields.
    fn admin_with(&self, path: &str, fields: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), body.to_owned())
    }

    /// Sends these lines and this content to the admin listener.
    fn admin_asked(&self, line: &str, fields: &str, content: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        write!(stream, "{line} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n{content}").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), body.to_owned())
    }

    /// Makes a token.
    fn token(&self, name: &str, role: Role, sites: &[&str]) -> String {
        let sites = sites.iter().map(|site| (*site).to_owned()).collect();
        let order = TokenOrder { name: name.to_owned(), role, sites, expires_s: None };
        let asked = self.ask(Method::POST, "/v1/tokens", &serde_json::to_string(&order).unwrap());
        assert_eq!(asked.refusal(), None);
        serde_json::from_slice::<TokenMade>(&asked.body).unwrap().token
    }

    /// The history, as JSON.
    fn history(&self) -> Vec<HistoryEntry> {
        let asked = self.ask(Method::GET, "/v1/history", "");
        serde_json::from_slice::<HistoryShown>(&asked.body).unwrap().entries
    }

    fn write_config(&self, text: &str) {
        std::fs::write(self.folder.join("weir.toml"), text).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn reload_swaps_refuses_and_says_why() {
    let running = Running::start(Source::File);
    let done = running.ask(Method::POST, "/v1/reload", "");
    assert_eq!(done.refusal(), None);
    let done: Reloaded = serde_json::from_slice(&done.body).unwrap();
    assert_eq!((done.plan, done.sites, done.warnings.len()), (2, 1, 1));

    running.write_config("listne = bad\n");
    let refused = running.ask(Method::POST, "/v1/reload", "");
    assert_eq!(refused.status, 422);
    assert!(refused.refusal().unwrap().contains("error"), "{refused:?}");
    assert_eq!(running.data_plane.plan.load(Ordering::SeqCst), 2);

    running.write_config(CONFIG);
    let refused = running.ask(Method::POST, "/v1/reload", "");
    assert_eq!(refused.refusal().unwrap(), "the third is refused");

    let status: Status = serde_json::from_slice(&running.ask(Method::GET, "/v1/status", "").body).unwrap();
    assert_eq!((status.reloads, status.reloads_refused), (1, 2));
    assert_eq!(status.last_reload.unwrap().refused.unwrap(), "the third is refused");
    assert_eq!(status.phase, Phase::Serving);
}

#[test]
fn flags_cannot_be_reloaded() {
    let running = Running::start(|_| Source::Flags);
    let refused = running.ask(Method::POST, "/v1/reload", "");
    assert_eq!(refused.status, 409);
    assert!(refused.refusal().unwrap().contains("--config FILE"));
}

#[test]
fn purge_answers_with_the_mark_or_says_why_not() {
    let running = Running::start(Source::File);
    let ask = |body: &str| running.ask(Method::POST, "/v1/purge", body);
    for (scope, expect) in [
        (r#"{"url":"http://a/b"}"#, PurgeScope::Url("http://a/b".to_owned())),
        (r#"{"prefix":"a/b"}"#, PurgeScope::Prefix("a/b".to_owned())),
        (r#"{"tags":["x","y"]}"#, PurgeScope::Tags(vec!["x".to_owned(), "y".to_owned()])),
    ] {
        let done = ask(&format!(r#"{{"scope":{scope},"soft":true}}"#));
        let done: Purged = serde_json::from_slice(&done.body).unwrap();
        let (scopes, wider) = (vec![expect], vec!["http://a/".to_owned()]);
        assert_eq!(done, Purged { mark: 17, scopes, soft: true, held: Some(3), wider, by_hand: 0 });
    }
    for (body, status, expect) in [
        (r#"{"scope":{"site":"x"}}"#, 422, "no site is named x"),
        (r#"{"scope":"all"}"#, 500, "purged until a restart only: no space"),
        (r#"{"scope":"every"}"#, 400, "unknown variant `every`, expected one of `url`, `prefix`"),
        (r#"{"scope":{"url":"a","site":"b"}}"#, 400, "not a purge: "),
        (r#"{"scope":"all","sotf":true}"#, 400, "unknown field `sotf`"),
        ("{}", 422, "name what is meant"),
        ("", 400, "not a purge: "),
    ] {
        let refused = ask(body);
        assert_eq!(refused.status, status, "{body}");
        assert!(refused.refusal().unwrap().contains(expect), "{refused:?}");
    }
    assert_eq!(running.admin("POST /v1/purge").0, 401);
}

#[test]
fn lifetimes_are_ordered_listed_and_in_the_history() {
    let running = Running::start(Source::File);
    let ask = |body: &str| running.ask(Method::POST, "/v1/ttl", body);
    let done = ask(r#"{"scope":{"url":"http://a/b"},"lifetime_s":600}"#);
    let done: Retained = serde_json::from_slice(&done.body).unwrap();
    assert_eq!((done.mark, done.lifetime_s), (17, 600));
    assert_eq!(done.scopes, [PurgeScope::Url("http://a/b".to_owned())]);
    for (body, status, expect) in [
        (r#"{"scope":{"site":"x"},"lifetime_s":1}"#, 422, "no site is named x"),
        (r#"{"scope":{"prefix":"x"},"lifetime_s":1}"#, 503, "there is no room"),
        (r#"{"scope":"all","lifetime_s":1}"#, 500, "in force until a restart only: no space"),
        (r#"{"scope":"all","lifetime_s":316224001}"#, 422, "ten years"),
        (r#"{"scope":"all","lifetime_s":-1}"#, 400, "not a retention: "),
        (r#"{"scope":"all"}"#, 400, "missing field `lifetime_s`"),
        (r#"{"lifetime_s":1}"#, 422, "name what is meant"),
    ] {
        let refused = ask(body);
        assert_eq!(refused.status, status, "{body}");
        assert!(refused.refusal().unwrap().contains(expect), "{refused:?}");
    }
    assert_eq!(running.admin("POST /v1/ttl").0, 401);
}

#[test]
fn the_accounts_are_shown_by_both_servers() {
    let running = Running::start(Source::File);
    let asked = running.ask(Method::GET, "/v1/sites?site=a%20b&since=2026-11&days=1", "");
    let sites: Sites = serde_json::from_slice(&asked.body).unwrap();
    assert_eq!((sites.since.as_deref(), &*sites.sites[0].site), (Some("2026-11"), "a b"));
    assert_eq!(sites.sites[0].days[0].used.requests, 3);
    assert!(sites.sweep_pending && sites.unsound.len() == 1);
    let metrics = running.admin("GET /metrics").1;
    assert!(metrics.contains("\nweir_site_held_bytes{site=\"a\",tier=\"total\"} 7\n"), "{metrics}");
    let token = running.token("all", Role::View, &[]);
    let bearer = format!("Host: weir\r\nAuthorization: Bearer {token}\r\n");
    let (status, csv) = running.admin_with("/v1/sites?site=a&format=csv", &bearer);
    assert_eq!(status, 200);
    assert!(
        csv.starts_with("site,customer,day,requests,")
            && csv.ends_with("a,,2026-11-22,3,0,0,0,0,0,0,0,0,0,0\r\n"),
        "{csv}"
    );
    let head = |query: &str| running.admin_head(&format!("/v1/sites?site=a&format=csv{query}"), &bearer);
    assert!(head("").contains("\r\nweir-unsound: 2026-10.unsound-7\r\n"), "{}", head(""));
    assert!(!head("&since=2026-11-01").contains("weir-unsound"));
    assert_eq!(running.admin_with("/v1/sites?format=xml", &bearer).0, 422);
    assert_eq!(running.ask(Method::GET, "/v1/sites", "").refusal().unwrap(), "no site is named");
    assert_eq!(running.ask(Method::POST, "/v1/sites", "").status, 405);
}

#[test]
fn explain_hands_the_question_on() {
    let running = Running::start(Source::File);
    let question = r#"{"method":"GET","url":"http://a/","headers":[["X-A","1"],["X-A","2"]]}"#;
    let explained: Explained =
        serde_json::from_slice(&running.ask(Method::POST, "/v1/explain", question).body).unwrap();
    assert_eq!(explained.verdict, "miss");
    assert_eq!(explained.reason, r#"GET [("X-A", "1"), ("X-A", "2")]"#);
    let refused = running.ask(Method::POST, "/v1/explain", r#"{"method":"GET","url":"a"}"#);
    assert_eq!(refused.refusal().unwrap(), "not a URL");
    assert_eq!(running.ask(Method::POST, "/v1/explain", "{").status, 400);
}

#[test]
fn the_socket_knows_its_paths_and_the_admin_listener_changes_nothing() {
    let running = Running::start(Source::File);
    assert_eq!(running.ask(Method::GET, "/v1/reload", "").status, 405);
    assert_eq!(running.ask(Method::POST, "/v1/status", "").status, 405);
    assert_eq!(running.ask(Method::GET, "/v1/purge", "").status, 405);
    assert_eq!(running.ask(Method::POST, "/v1/forget", "").status, 404);
    for path in ["/status", "/sites", "/reload"] {
        assert_eq!(running.ask(Method::GET, path, "").status, 404, "a path without a version: {path}");
    }
    assert_eq!(running.admin("POST /v1/reload").0, 401);
    assert_eq!(running.data_plane.plan.load(Ordering::SeqCst), 1);
}

#[test]
fn the_admin_listener_answers_to_its_names_and_health_to_any() {
    let running = Running::start(|_| Source::Flags);
    for host in ["127.0.0.1", "127.0.0.1:9180", "localhost:9180", "[::1]:9180", "weir"] {
        assert_eq!(running.admin_with("/metrics", &format!("Host: {host}\r\n")).0, 200, "{host}");
    }
    let others = ["Host: evil.example:9180\r\n", "", "Host: weir\r\nHost: evil.example\r\n", "Host: a b\r\n"];
    for fields in others {
        for path in ["/v1/sites", "/v1/status", "/metrics", "/"] {
            let (status, body) = running.admin_with(path, fields);
            assert!(status == 421 && body.contains("`[admin] hosts`"), "{fields:?} {path}: {status} {body}");
        }
        assert_eq!(running.admin_with("/health/ready", fields).0, 200, "{fields:?}");
    }
}

#[test]
fn a_token_opens_what_its_role_and_sites_allow() {
    let running = Running::start(Source::File);
    let view = running.token("looker", Role::View, &[]);
    let cms = running.token("cms", Role::Purge, &["a.test"]);
    let ask = |token: &str, line: &str, body: &str| {
        let fields = format!(
            "Authorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            body.len()
        );
        let (status, body) = running.admin_asked(line, &format!("Host: weir\r\n{fields}"), body);
        (status, serde_json::from_str::<Refused>(&body).map(|refused| refused.error).unwrap_or_default())
    };
    let purge = |scope: &str| format!("{{\"scope\":{scope}}}");
    for (token, line, body, status, word) in [
        (&view, "GET /v1/status", String::new(), 200, ""),
        (&view, "POST /v1/purge", purge("{\"site\":\"a.test\"}"), 403, "role"),
        (&view, "POST /v1/reload", String::new(), 403, "role"),
        (&view, "GET /v1/nothing", String::new(), 404, "unknown-path"),
        (&view, "PUT /v1/status", String::new(), 405, "method"),
        (&cms, "GET /v1/status", String::new(), 403, "role"),
        (&cms, "POST /v1/purge", purge("{\"url\":\"http://a.test/x\"}"), 200, ""),
        (&cms, "POST /v1/purge", purge("{\"url\":\"http://b.test/x\"}"), 403, "other-site"),
        (&cms, "POST /v1/purge", purge("{\"site\":\"nowhere\"}"), 403, "other-site"),
        (&cms, "POST /v1/purge", purge("\"all\""), 403, "whole"),
        (&cms, "POST /v1/purge", "{".to_owned(), 400, "malformed"),
    ] {
        assert_eq!(ask(token, line, &body), (status, word.to_owned()), "{line} {body}");
    }
    // Nobody waits for the entry of a refused attempt.
    let entries = || {
        let of_cms = |entry: &HistoryEntry| entry.actor == "token:cms";
        running.history().into_iter().filter(of_cms).collect::<Vec<_>>()
    };
    for _ in 0..1000 {
        if entries().len() == 6 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let of_cms = entries();
    let results: Vec<(&str, &str)> =
        of_cms.iter().map(|entry| (entry.act.as_str(), entry.result.as_str())).collect();
    let (done, refused) = (("purge", "done"), ("purge", "refused"));
    let expect = [("GET /v1/status", "refused"), done, refused, refused, refused, refused];
    assert_eq!(results, expect);
    assert_eq!((of_cms[1].mark.as_deref(), &of_cms[1].sites), (Some("17"), &vec!["a.test".to_owned()]));
    assert_eq!(of_cms[1].address.as_deref(), Some("127.0.0.1"));
    assert_eq!(running.ask(Method::DELETE, "/v1/tokens/cms", "").status, 200);
    assert_eq!(ask(&cms, "GET /v1/status", "").0, 401, "at once");
}

#[test]
fn idle_connections_delay_nobody() {
    let running = Running::start(|_| Source::Flags);
    let mut idle: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(running.admin).unwrap()).collect();
    for stream in idle.iter_mut().skip(100) {
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: we").unwrap();
    }
    // Less than the time that a head may take.
    assert_eq!(running.admin_with("/health/live", "Host: x\r\n"), (200, "live\n".to_owned()));
    assert_eq!(running.admin_with("/metrics", "Host: localhost\r\n").0, 200);
    // Those that came last are there still.
    let last = idle.last_mut().unwrap();
    last.write_all(b"ir\r\n\r\n").unwrap();
    let mut begin = [0; 12];
    last.read_exact(&mut begin).unwrap();
    assert_eq!(&begin, b"HTTP/1.1 200");
}

#[test]
fn readiness_ends_with_the_drain_and_liveness_does_not() {
    let running = Running::start(Source::File);
    assert_eq!(running.admin("GET /health/ready"), (200, "ready\n".to_owned()));
    assert_eq!(running.admin("HEAD /health/ready"), (200, String::new()));
    running.data_plane.draining.store(true, Ordering::SeqCst);
    assert_eq!(running.admin("GET /health/ready"), (503, "draining\n".to_owned()));
    assert_eq!(running.admin("GET /health/live"), (200, "live\n".to_owned()));
    assert!(running.admin("GET /metrics").1.contains("\nweir_ready 0.0\n"));
}

#[test]
fn metrics_show_what_was_counted() {
    let running = Running::start(Source::File);
    let observer = running.data_plane.observatory.observer(0);
    let site = running.data_plane.observatory.site("a \"quoted\" site");
    observer.counters().connection_accepted();
    for us in [100, 300, 90_000_000] {
        let facts = Facts {
            site,
            status: 200,
            outcome: Outcome::Hit,
            body_bytes: 1_000,
            first_byte: Some(Duration::from_micros(us)),
            ..Facts::default()
        };
        observer.record(&facts, || None, |_| Description::default());
    }
    let pass = Facts {
        status: 200,
        outcome: Outcome::Pass,
        storing: Storing::NotStored("set-cookie"),
        ..Facts::default()
    };
    observer.record(&pass, || None, |_| Description::default());
    let (status, text) = running.admin("GET /metrics");
    assert_eq!(status, 200);
    for line in [
        "# TYPE weir_requests_total counter",
        "weir_requests_total{outcome=\"hit\"} 3",
        "weir_requests_total{outcome=\"pass\"} 1",
        "weir_responses_total{status=\"2xx\"} 4",
        "weir_site_requests_total{site=\"a \\\"quoted\\\" site\",outcome=\"hit\"} 3",
        "weir_client_body_bytes_total 3000",
        "weir_cached_body_bytes_total 3000",
        "weir_responses_not_stored_total{reason=\"set-cookie\"} 1",
        "weir_connections_open 1.0",
        "weir_request_first_byte_seconds_bucket{le=\"0.000128\",outcome=\"hit\"} 1",
        "weir_request_first_byte_seconds_bucket{le=\"+Inf\",outcome=\"hit\"} 3",
        "weir_request_first_byte_seconds_count{outcome=\"hit\"} 3",
        "weir_origin_requests_total{upstream=\"main\",origin=\"http://127.0.0.1:1\"} 7",
        "weir_cache_memory_limit_bytes 268435456.0",
        "weir_reloads_total{result=\"done\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let status: Status = serde_json::from_slice(&running.ask(Method::GET, "/v1/status", "").body).unwrap();
    assert_eq!(status.requests.hit_ratio, Some(0.75));
    assert_eq!(status.requests.outcomes["hit"].count, 3);
    assert_eq!(status.requests.not_stored["set-cookie"], 1);
}

#[test]
fn nobody_there_is_said() {
    let folder = std::env::temp_dir().join("weir-control-nobody");
    let error = client::ask(&Way::Folder(folder), asked(Method::GET, "/v1/status", "")).unwrap_err();
    assert!(error.to_string().starts_with("no Weir runs with the state folder"), "{error}");
}

#[test]
fn an_occupied_admin_address_is_said() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let error = AdminListener::bind(&address.parse().unwrap()).unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "cannot listen on {address} for metrics and health: the address is in use, perhaps by another \
             Weir; \
             stop it or name another address with --admin or [admin] listen"
        )
    );
}
