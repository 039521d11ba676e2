//! Orders in words, and the marks that they become.

use super::*;
use weir_observe::SiteId;
use weir_policy::{CacheKey, Tags};
use weir_store::{Judged, Ledger};

const CONFIG: &str = r#"
[upstream.a]
origins = ["http://127.0.0.1:1"]
[[site]]
hosts = ["www.example.com", "example.com", "*.example.org"]
upstream = "a"
key = { query = { drop = ["utm_*"] } }
[[site.route]]
prefix = "/keyed/"
key = { headers = ["X-Country"], query = { keep = [] } }
[[site]]
hosts = ["*"]
upstream = "a"
"#;

fn plan() -> Plan {
    Plan::compile(&crate::plan::tests::load(CONFIG), &|_| SiteId::NONE)
}

fn check(target: PurgeTarget, dead: &[&str], alive: &[&str]) {
    let (plan, ledger) = (plan(), Ledger::default());
    let before = ledger.current();
    let order = PurgeOrder { target, force: Force::Hard };
    let marks = of_order(&plan, &order).unwrap();
    ledger.mark(&marks.all, weir_clock::now());
    let judged = |full: &str| {
        let authority = full.split("://").nth(1).unwrap().split('/').next().unwrap();
        let site = plan.site(authority.split(':').next().unwrap()).unwrap().mark;
        let key = CacheKey::new(Bytes::copy_from_slice(full.as_bytes())).of_site(site);
        ledger.judge(&key, &Tags::default(), before)
    };
    assert!(dead.iter().all(|full| judged(full) == Judged::Dead), "{order:?} {dead:?}");
    assert!(alive.iter().all(|full| judged(full) == Judged::Alive), "{order:?} {alive:?}");
}

fn url(text: &str) -> PurgeTarget {
    PurgeTarget::Url(text.to_owned())
}

fn prefix(text: &str) -> PurgeTarget {
    PurgeTarget::Prefix(text.to_owned())
}

#[test]
fn a_url_is_purged_under_all_its_keys() {
    let others = ["http://www.example.com/a/b", "http://example.com/a", "http://www.example.com/a?x=1"];
    check(url("http://www.example.com/a"), &["http://www.example.com/a"], &others);
    check(url("http://www.example.com/a"), &[], &["https://www.example.com/a"]);
    let both = ["http://www.example.com/a", "https://www.example.com/a"];
    check(url("WWW.Example.com/a"), &both, &others);
    check(url("http://www.example.com:80/a"), &both[..1], &[]);
    check(
        url("www.example.com:8080"),
        &["http://www.example.com:8080/", "https://www.example.com:8080/"],
        &both,
    );
    // The purge leaves out what a route leaves out of the key, and covers what it adds.
    check(url("http://www.example.com/a?utm_source=x&x=1"), &["http://www.example.com/a?x=1"], &others[..2]);
    let keyed = ["http://www.example.com/keyed/a\nx-country:DE", "http://www.example.com/keyed/a\nx-country"];
    check(url("http://www.example.com/keyed/a?b"), &keyed, &["http://www.example.com/keyed/b\nx-country"]);
}

#[test]
fn a_prefix_is_a_text_and_no_folder() {
    let dead =
        ["http://www.example.com/img", "http://www.example.com/img/1?x", "http://www.example.com/imgs"];
    check(
        prefix("http://www.example.com/img"),
        &dead,
        &["https://www.example.com/img", "http://www.example.com/"],
    );
    check(prefix("http://www.example.com/img/"), &dead[1..2], &[dead[0], dead[2]]);
    check(
        prefix("www.example.com"),
        &["https://www.example.com/x", dead[0]],
        &["http://www.example.com:81/"],
    );
}

#[test]
fn a_site_is_all_its_hosts() {
    let dead = ["http://www.example.com/", "https://example.com/", "http://a.example.org/"];
    for name in ["www.example.com", "example.com", "*.example.org"] {
        check(PurgeTarget::Site(name.to_owned()), &dead, &["http://other.test/"]);
    }
    check(PurgeTarget::Site("*".to_owned()), &["http://other.test/"], &dead);
    check(PurgeTarget::All, &["http://other.test/", dead[0]], &[]);
}

#[test]
fn what_cannot_be_is_said_in_a_sentence() {
    let tags = |tags: &[&str]| PurgeTarget::Tags {
        tags: tags.iter().map(ToString::to_string).collect(),
        site: None,
    };
    for (target, expect) in [
        (url("/a"), "/a: write it with its host: HOST/PATH or http://HOST/PATH"),
        (url("ftp://a/b"), "ftp://a/b: the scheme is http or https, not ftp"),
        (url("http://a b/"), "a b is not a host"),
        (url("http://a/b#c"), "http://a/b#c: what follows `#` is never sent to a server; leave it out"),
        (url("http://a/ü"), "http://a/ü: write blanks and other than ASCII characters percent-encoded"),
        (prefix("http://a/b*"), "a prefix means all that begins with it: leave the `*` at its end out"),
        (
            PurgeTarget::Site("nobody.test".into()),
            "no site is named nobody.test; there are: www.example.com, *",
        ),
        (tags(&[]), "name 1 to 4096 tags at once, not 0"),
        (tags(&["a", " "]), "a tag is empty"),
        (tags(&[&"x".repeat(1025)]), "a tag has 1025 bytes; they have at most 1024"),
    ] {
        let order = PurgeOrder { target, force: Force::Soft };
        let sentence = of_order(&plan(), &order).unwrap_err();
        assert!(sentence.starts_with(expect), "{sentence}");
    }
    let long = PurgeOrder { target: prefix(&format!("a/{}", "x".repeat(9000))), force: Force::Hard };
    assert!(of_order(&plan(), &long).unwrap_err().contains("at most 8192"));
}
