//! When certificates are taken up, and when those before stay.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use weir_testkit::Authority;
use weir_tls::{Certificates, ClientMode, Ring, Template};

use super::super::change::{Change, Stage};
use super::super::files::Pattern;
use super::super::reading::Found;
use super::super::wanted::{Wanted, WantedSite};
use super::Loader;

const DAY: Duration = Duration::from_secs(86_400);

/// A loader with files in a folder of its own.
struct Bench {
    folder: PathBuf,
    authority: Authority,
    loader: Loader,
    handle: Certificates,
    wanted: Wanted,
    now: SystemTime,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Bench {
    fn new() -> Bench {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("weir-loader-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let now = weir_clock::now().wall;
        let handle = Certificates::default();
        let template = Template::new(&Arc::new(Ring::new(now)), &[b"h2"]);
        let loader = Loader::new(template, handle.clone());
        Bench { folder, authority: Authority::new(), loader, handle, wanted: Wanted::default(), now }
    }

    /// Writes a file whole, as programs do that renew.
    fn file(&self, name: &str, text: &str) {
        let path = self.folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let beside = path.with_extension("new");
        fs::write(&beside, text).unwrap();
        fs::rename(beside, path).unwrap();
    }

    /// Writes `NAME.pem` and `NAME.key`, valid for so many days.
    fn pair(&self, name: &str, names: &[&str], days: u32) {
        let (chain, key) = self.authority.certificate(names).until(self.now + DAY * days).issue();
        self.file(&format!("{name}.pem"), &chain);
        self.file(&format!("{name}.key"), &key);
    }

    fn pattern(&self, chain: &str, key: &str) -> Pattern {
        Pattern { chain: self.folder.join(chain), key: Some(self.folder.join(key)), is_default: false }
    }

    fn configure(&mut self) -> Vec<String> {
        let found = self.read(Some(self.wanted.clone())).fit().unwrap();
        let changes = self.loader.configure(found, self.now);
        self.said(&changes)
    }

    fn look(&mut self) -> Vec<String> {
        let found = self.read(None);
        let changes = self.loader.look(found, self.now);
        self.said(&changes)
    }

    fn read(&self, wanted: Option<Wanted>) -> Found {
        self.loader.reading(wanted).read(self.now)
    }

    /// What happened, in words, without the folder.
    fn said(&self, changes: &[Change]) -> Vec<String> {
        let folder = format!("{}/", self.folder.display());
        let word = |change: &Change| match change {
            Change::Came(identity) => format!("came {}", identity.names),
            Change::Aged(identity, stage) => format!("{} {}", stage.word(), identity.names),
            Change::Failed { names, why } => {
                let why = why.replace(&folder, "");
                let why = why.split(" on ").next().unwrap();
                format!("failed {why}{}", if names.is_some() { ", stays" } else { "" })
            }
        };
        changes.iter().map(word).collect()
    }

    /// Until when the certificate for a name is valid, in days from now.
    fn days(&self, name: &str) -> Option<u64> {
        let set = self.handle.current();
        let identity = set.choose(Some(name), true)?;
        Some((identity.not_after.duration_since(self.now).unwrap() + DAY / 2).as_secs() / DAY.as_secs())
    }
}

fn site(name: &str, hosts: &[&str]) -> WantedSite {
    let hosts = hosts.iter().map(ToString::to_string).collect();
    WantedSite { name: name.to_owned(), hosts, is_self_signed: false, clients: None }
}

fn nothing() -> [String; 0] {
    []
}

#[test]
fn a_changed_pair_is_taken_up_whole_or_not_at_all() {
    let mut bench = Bench::new();
    bench.pair("a", &["a.example"], 30);
    bench.wanted.patterns = vec![bench.pattern("a.pem", "a.key")];
    assert_eq!(bench.configure(), ["came a.example"]);
    assert_eq!(bench.look(), nothing());
    // One file after the other, as certbot writes them.
    let (chain, key) = bench.authority.certificate(&["a.example"]).until(bench.now + DAY * 80).issue();
    bench.file("a.pem", &chain);
    assert_eq!(bench.look(), ["failed a.key: its key does not belong to the certificate, stays"]);
    assert_eq!((bench.look(), bench.days("a.example")), (nothing().to_vec(), Some(30)));
    bench.file("a.key", &key);
    assert_eq!(bench.look(), ["came a.example"]);
    assert_eq!((bench.days("a.example"), bench.loader.failures), (Some(80), 1));
    assert_eq!(bench.look(), nothing());
}

#[test]
fn what_cannot_be_used_leaves_the_one_before() {
    let mut bench = Bench::new();
    bench.pair("a", &["a.example"], 30);
    bench.wanted.patterns = vec![bench.pattern("a.pem", "a.key")];
    bench.configure();
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let (expired, its_key) =
        bench.authority.certificate(&["a.example"]).from(bench.now - DAY * 9).until(bench.now - DAY).issue();
    for (chain, key, expected) in [
        (None, Some(encrypted), "a.key: its key is encrypted: write it without a password (openssl pkey)"),
        (Some(&*expired), Some(&*its_key), "a.pem: its certificate has expired"),
        (Some("nothing"), None, "a.pem: there is no certificate in it"),
    ] {
        chain.iter().for_each(|text| bench.file("a.pem", text));
        key.iter().for_each(|text| bench.file("a.key", text));
        assert_eq!(bench.look(), [format!("failed {expected}, stays")]);
        assert_eq!(bench.days("a.example"), Some(30));
        // A reload does not lose it either.
        assert_eq!(bench.configure(), nothing());
        assert_eq!(bench.days("a.example"), Some(30));
    }
    fs::remove_file(bench.folder.join("a.pem")).unwrap();
    assert_eq!(bench.look(), ["failed a.pem: there is no such file, stays"]);
    assert_eq!(bench.days("a.example"), Some(30));
    bench.pair("a", &["a.example"], 60);
    assert_eq!(bench.look(), ["came a.example"]);
    assert_eq!(bench.days("a.example"), Some(60));
}

#[test]
fn one_bad_pair_holds_up_no_other() {
    let mut bench = Bench::new();
    bench.pair("live/a", &["a.example"], 30);
    bench.pair("live/b", &["b.example"], 30);
    bench.file("live/b.key", "");
    bench.wanted.patterns = vec![bench.pattern("live/*.pem", "live/*.key")];
    assert_eq!(bench.configure(), ["came a.example", "failed live/b.key: there is no key in it"]);
    assert_eq!((bench.days("a.example"), bench.days("b.example")), (Some(30), None));
    bench.pair("live/c", &["c.example"], 30);
    assert_eq!(bench.look(), ["came c.example"]);
    assert_eq!(bench.days("c.example"), Some(30));
    bench.pair("live/b", &["b.example"], 30);
    assert_eq!(bench.look(), ["came b.example"]);
}

#[test]
fn what_is_gone_stays_until_a_reload() {
    let mut bench = Bench::new();
    bench.pair("live/a", &["a.example"], 30);
    bench.pair("live/b", &["b.example"], 30);
    bench.wanted.patterns = vec![bench.pattern("live/*.pem", "live/*.key")];
    bench.configure();
    fs::remove_file(bench.folder.join("live/a.pem")).unwrap();
    assert_eq!(bench.look(), ["failed live/a.pem: the file is gone, stays"]);
    assert_eq!((bench.look(), bench.days("a.example")), (nothing().to_vec(), Some(30)));
    assert_eq!(bench.configure(), nothing());
    assert_eq!((bench.days("a.example"), bench.days("b.example")), (None, Some(30)));
}

#[test]
fn links_are_followed_when_they_lead_elsewhere() {
    let mut bench = Bench::new();
    bench.pair("archive/a1", &["a.example"], 30);
    bench.pair("archive/a2", &["a.example"], 80);
    let folder = bench.folder.clone();
    let link = |number: u32| {
        for end in ["pem", "key"] {
            let at = folder.join(format!("live.{end}"));
            let _ = fs::remove_file(&at);
            std::os::unix::fs::symlink(folder.join(format!("archive/a{number}.{end}")), at).unwrap();
        }
    };
    link(1);
    bench.wanted.patterns = vec![bench.pattern("live.pem", "live.key")];
    bench.configure();
    link(2);
    assert_eq!(bench.look(), ["came a.example"]);
    assert_eq!(bench.days("a.example"), Some(80));
}

#[test]
fn its_end_is_said_once_when_it_is_near_and_once_when_it_comes() {
    let mut bench = Bench::new();
    bench.pair("a", &["a.example"], 90);
    bench.wanted.patterns = vec![bench.pattern("a.pem", "a.key")];
    bench.configure();
    let begun = bench.now;
    for (day, expected) in
        [(30, vec![]), (80, vec!["near-end a.example"]), (81, vec![]), (91, vec!["expired a.example"])]
    {
        bench.now = begun + DAY * day;
        assert_eq!(bench.look(), expected, "day {day}");
    }
    assert!(bench.handle.current().choose(Some("a.example"), true).is_some(), "better than none");
}

#[test]
fn weir_signs_what_a_site_wants_signed() {
    let mut bench = Bench::new();
    let own = |name, hosts: &[&str]| WantedSite { is_self_signed: true, ..site(name, hosts) };
    bench.wanted.sites = vec![own("dev.example", &["dev.example", "*.dev.example"]), own("*", &["*"])];
    bench.configure();
    let set = bench.handle.current();
    let first = set.choose(Some("a.dev.example"), true).unwrap().clone();
    assert!(first.covers("dev.example") && !first.covers("other.example"));
    let rest = set.choose(Some("other.example"), true).unwrap();
    assert!(rest.is_default && rest.names.cover("localhost") && rest.names.cover("127.0.0.1"));
    // A reload and a look leave it alone.
    assert_eq!((bench.configure(), bench.look()), (vec![], vec![]));
    assert!(Arc::ptr_eq(bench.handle.current().choose(Some("dev.example"), true).unwrap(), &first));
    // Another host, and the end of its time, need another one.
    bench.wanted.sites[0].hosts.push("new.example".to_owned());
    assert_eq!(bench.configure(), ["came dev.example, *.dev.example, new.example"]);
    bench.now += DAY * 380;
    assert_eq!(bench.look().len(), 2);
    bench.wanted.sites.clear();
    bench.configure();
    assert!(bench.handle.current().choose(Some("dev.example"), true).is_none());
}

#[test]
fn a_site_whose_clients_cannot_be_verified_is_refused() {
    let mut bench = Bench::new();
    bench.pair("a", &["a.example"], 30);
    bench.file("ca.pem", bench.authority.pem());
    bench.wanted.patterns = vec![bench.pattern("a.pem", "a.key")];
    let ca = bench.folder.join("ca.pem");
    let clients = Some((ca.clone(), ClientMode::Required));
    bench.wanted.sites = vec![WantedSite { clients, ..site("a.example", &["a.example"]) }];
    bench.configure();
    let asked = |bench: &Bench| {
        let set = bench.handle.current();
        set.choose(Some("a.example"), true).unwrap().client_auth.clone().unwrap()
    };
    let first = asked(&bench);
    assert_eq!((&*first.site, first.mode), ("a.example", ClientMode::Required));
    assert!(Arc::ptr_eq(&first, &asked(&bench)));
    // Unchanged files leave it alone, so that tickets go on opening.
    bench.configure();
    assert!(Arc::ptr_eq(&first, &asked(&bench)));
    bench.file("ca.pem", "nothing");
    assert_eq!(bench.look(), ["failed ca.pem: there is no certificate in it"]);
    assert_eq!(bench.look(), nothing());
    assert!(Arc::ptr_eq(&first, &asked(&bench)));
    let refused = bench.read(Some(bench.wanted.clone())).fit().err().unwrap();
    assert_eq!(refused, format!("{}: there is no certificate in it", ca.display()));
    bench.file("ca.pem", Authority::new().pem());
    bench.look();
    assert!(!Arc::ptr_eq(&first, &asked(&bench)));
}

#[test]
fn the_default_may_move_without_a_change_of_files() {
    let mut bench = Bench::new();
    bench.pair("a", &["a.example"], 30);
    bench.wanted.patterns = vec![bench.pattern("a.pem", "a.key")];
    bench.configure();
    assert!(bench.handle.current().choose(None, true).is_none());
    bench.wanted.patterns[0].is_default = true;
    bench.configure();
    assert!(bench.handle.current().choose(None, true).is_some());
    bench.wanted.patterns[0].is_default = false;
    bench.configure();
    assert!(bench.handle.current().choose(None, true).is_none());
}

#[test]
fn a_certificate_of_an_authority_is_used_until_its_next() {
    let mut bench = Bench::new();
    for days in [30, 80] {
        let (chain, key) = bench.authority.certificate(&["a.example"]).until(bench.now + DAY * days).issue();
        let pem = weir_tls::Pem { chain: chain.as_bytes(), key: key.as_bytes() };
        let (changes, failures) = bench.loader.issue(std::iter::once(pem), bench.now);
        assert_eq!((bench.said(&changes), failures), (vec!["came a.example".to_owned()], vec![]));
        assert_eq!(bench.days("a.example"), Some(days.into()));
    }
    bench.pair("a", &["a.example"], 10);
    bench.wanted.patterns = vec![bench.pattern("a.pem", "a.key")];
    bench.configure();
    assert_eq!(bench.days("a.example"), Some(10), "a file wins");
    let pem = weir_tls::Pem { chain: b"", key: b"" };
    assert_eq!(bench.loader.issue(std::iter::once(pem), bench.now).1.len(), 1);
}

#[test]
fn stages_go_by_the_lifetime() {
    let bench = Bench::new();
    let stage = |lifetime: u32, left: u32| {
        let authority = &bench.authority;
        let until = bench.now + DAY * left;
        let (chain, key) =
            authority.certificate(&["a.example"]).from(until - DAY * lifetime).until(until).issue();
        let template = Template::new(&Arc::new(Ring::new(bench.now)), &[b"h2"]);
        let pem = weir_tls::Pem { chain: chain.as_bytes(), key: key.as_bytes() };
        let identity = template.identity(pem, weir_tls::Source::Acme, bench.now).unwrap();
        Stage::of(&identity, bench.now)
    };
    assert_eq!([stage(90, 29), stage(90, 14)], [Stage::Valid, Stage::NearEnd]);
    assert_eq!([stage(397, 22), stage(397, 20)], [Stage::Valid, Stage::NearEnd]);
    assert_eq!([stage(6, 2), stage(7, 1)], [Stage::Valid, Stage::NearEnd]);
}
