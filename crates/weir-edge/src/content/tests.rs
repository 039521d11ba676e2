//! What is laid is found by the URLs that lead to it, and by no other.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use http::HeaderMap;
use weir_content::Entry;

use super::laid::LaidIndex;
use super::named::{canonical, keys, site_of};
use super::*;
use crate::plan::Plan;
use crate::plan::tests::load;

const SITES: &str = "[upstream.a]\norigins = [\"http://127.0.0.1:1\"]\n\
    [[site]]\nhosts = [\"a.test\", \"www.a.test\"]\nupstream = \"a\"\n\
    [[site.route]]\npath = \"/tracked/**\"\nkey = { query = { drop = [\"utm_*\"], sort = true } }\n\
    [[site.route]]\npath = \"/plain/**\"\nkey = { query = \"none\" }\n\
    [[site]]\nhosts = [\"b.test\"]\nupstream = \"a\"\n";

fn plan(text: &str) -> Plan {
    Plan::compile(&load(text), &|_| weir_observe::SiteId::NONE)
}

fn laid(number: u64, url: &str, site: &str) -> Arc<Laid> {
    let entry = Entry {
        number,
        url: url.into(),
        site: site.into(),
        content_type: "text/plain".into(),
        body_bytes: 0,
        digest: number.into(),
        laid: UNIX_EPOCH,
        ends: None,
    };
    Arc::new(Laid::new(Arc::new(entry)))
}

/// The number of what a request finds.
fn found(index: &LaidIndex, plan: &Plan, method: &Method, url: &str) -> Option<u64> {
    let (scheme, rest) = url.split_once("://").unwrap();
    let (host, path_and_query) = rest.split_at(rest.find('/').unwrap());
    let headers = HeaderMap::new();
    let (has_body, is_trusted) = (false, false);
    let view = RequestView { method, scheme, host, path_and_query, headers: &headers, has_body, is_trusted };
    let site = plan.site(view.hostname())?;
    let route = site.route(&view, view.path(), None)?;
    let laid = index.find(write_key(&view, site.mark, route, &mut Vec::new())?)?;
    Some(laid.entry.number)
}

#[test]
fn requests_find_what_is_laid_over_their_url() {
    let plan = plan(SITES);
    let all = [
        laid(1, "a.test/x", "a.test"),
        laid(2, "a.test/x?q=1", "a.test"),
        laid(3, "a.test/tracked/x?b=2&a=1&utm_x=y", "a.test"),
        laid(4, "a.test/plain/x?any", "a.test"),
        laid(5, "a.test:8080/x", "a.test"),
        laid(6, "b.test/x", "a.test"),
    ];
    let index = LaidIndex::of(&plan, all.iter());
    for (url, expect) in [
        ("http://a.test/x", Some(1)),
        ("https://a.test/x", Some(1)),
        ("http://www.a.test/x", None),
        ("http://a.test/x?", None),
        ("http://a.test/x?q=1", Some(2)),
        ("http://a.test/x?q=1&utm_x=y", None),
        ("http://a.test/X", None),
        ("http://a.test/x/", None),
        ("https://a.test/tracked/x?a=1&b=2", Some(3)),
        ("http://a.test/tracked/x?utm_z=1&b=2&a=1", Some(3)),
        ("http://a.test/tracked/x?a=1", None),
        ("http://a.test/plain/x", Some(4)),
        ("http://a.test/plain/x?other=1", Some(4)),
        ("http://a.test:8080/x", Some(5)),
        // It was laid for another site.
        ("http://b.test/x", None),
    ] {
        for method in [Method::GET, Method::HEAD] {
            assert_eq!(found(&index, &plan, &method, url), expect, "{method} {url}");
        }
        assert_eq!(found(&index, &plan, &Method::POST, url), None);
    }
    assert!(index.shows(&plan, &all[0]) && !index.shows(&plan, &all[5]));
    assert!(index.covering(&plan, &all[0]).is_none() && index.covering(&plan, &all[5]).is_none());
    assert!(LaidIndex::default().is_empty() && !index.is_empty());
}

/// Where the rules make one key of several URLs, the newest answers, and the one before it comes back.
#[test]
fn of_several_urls_with_one_key_the_newest_answers() {
    let (plan, content) = (plan(SITES), laid::Content::default());
    let index = LaidIndex::default();
    let still = content.still();
    let finds = || found(&index, &plan, &Method::GET, "http://a.test/plain/x");
    let show = |number, url| {
        let laid = Arc::into_inner(laid(number, url, "a.test")).unwrap();
        content.show(&still, &index, &plan, laid);
    };
    show(1, "a.test/plain/x?1");
    show(2, "a.test/plain/x?2");
    assert_eq!(finds(), Some(2));
    let covering = index.covering(&plan, &laid(1, "a.test/plain/x?1", "a.test"));
    assert_eq!(&*covering.unwrap().entry.url, "a.test/plain/x?2");
    show(3, "a.test/plain/x?1");
    assert_eq!(finds(), Some(3));
    content.hide(&still, &index, &plan, "a.test/plain/x?1");
    assert_eq!(finds(), Some(2));
    content.hide(&still, &index, &plan, "a.test/plain/x?2");
    content.hide(&still, &index, &plan, "a.test/plain/x?2");
    assert!(finds().is_none() && index.is_empty());
}

#[test]
fn urls_in_words_have_one_form() {
    let plan = plan(SITES);
    for (text, expect) in [
        ("a.test/x", Ok("a.test/x")),
        ("HTTPS://A.Test:443/b/./x?q", Ok("a.test/b/x?q")),
        ("http://a.test:80", Ok("a.test/")),
        ("https://a.test:80/", Ok("a.test:80/")),
        ("a.test?q", Ok("a.test/?q")),
        ("[::1]:8080/x", Ok("[::1]:8080/x")),
        ("ftp://a.test/", Err(())),
        ("/x", Err(())),
        ("a.test/#x", Err(())),
        ("a.test/\u{e9}", Err(())),
    ] {
        let read = canonical(text);
        assert_eq!(read.as_deref().map_err(|_| ()), expect, "{text}: {read:?}");
    }
    assert!(site_of(&plan, "none.test/x").is_err());
    assert_eq!(keys(site_of(&plan, "a.test/x").unwrap(), "a.test/x").len(), 1);
}
