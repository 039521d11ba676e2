//! What a sitemap names, and what it cannot make a reader do.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::*;

fn entries(text: &[u8]) -> Result<Vec<Entry>, SitemapError> {
    let mut found = Vec::new();
    let mut each = |entry| {
        found.push(entry);
        Ok(())
    };
    read(text, &mut each).map(|()| found)
}

fn urls(text: &[u8]) -> Vec<String> {
    let url = |entry| match entry {
        Entry::Url(url) => url,
        Entry::Sitemap(_) => panic!("{entry:?}"),
    };
    entries(text).unwrap().into_iter().map(url).collect()
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

const SITEMAP: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
    <urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" xmlns:i=\"http://i\">\n\
    <url><loc> http://a.test/?x=1&amp;y=&#50; </loc><lastmod>2026-01-01</lastmod>\
    <i:image><i:loc>http://a.test/image</i:loc></i:image></url>\n\
    <url><loc><![CDATA[http://a.test/<2>]]></loc></url><url/><url><loc></loc></url></urlset>";

#[test]
fn it_reads_what_the_protocol_has() {
    let expect = ["http://a.test/?x=1&y=2", "http://a.test/<2>"];
    assert_eq!(urls(SITEMAP.as_bytes()), expect);
    assert_eq!(urls(format!("\u{feff}  {SITEMAP}").as_bytes()), expect);
    assert_eq!(urls(&gzip(SITEMAP.as_bytes())), expect);
    assert_eq!(urls(b"http://a.test/1\r\n\n  http://a.test/2"), ["http://a.test/1", "http://a.test/2"]);
    assert_eq!(urls(b""), [""; 0]);
    let index = b"<sitemapindex><sitemap><loc>http://a.test/1.xml.gz</loc></sitemap></sitemapindex>";
    assert_eq!(entries(index).unwrap(), [Entry::Sitemap("http://a.test/1.xml.gz".to_owned())]);
    let prefixed = b"<s:urlset xmlns:s=\"x\"><s:url><s:loc>http://a.test/</s:loc></s:url></s:urlset>";
    assert_eq!(urls(prefixed), ["http://a.test/"]);
}

#[test]
fn it_expands_no_entity_and_says_what_is_wrong() {
    let bomb = "<!DOCTYPE x [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;\">]>\
                <urlset><url><loc>http://a.test/&b;</loc></url></urlset>";
    let outside = "<!DOCTYPE x [<!ENTITY f SYSTEM \"file:///etc/passwd\">]>\
                   <urlset><url><loc>&f;</loc></url></urlset>";
    for (text, expect) in [
        (bomb, "the entity `b` is not one of XML"),
        (outside, "the entity `f` is not one of XML"),
        ("<html><body/></html>", "is no sitemap, but `html`"),
        ("<urlset><url><loc>http://a.test/", "the document ends in the middle"),
        ("<urlset><url></loc></urlset>", "is malformed"),
        ("<urlset></urlset><urlset></urlset>", "is no sitemap, but `urlset`"),
        ("", "nothing"),
    ] {
        match entries(text.as_bytes()) {
            Err(error) => assert!(error.to_string().contains(expect), "{text}: {error}"),
            Ok(found) => assert!(expect == "nothing" && found.is_empty(), "{text}"),
        }
    }
    assert!(matches!(entries(&[b'x', 0xff, b'\n']), Err(SitemapError::Malformed { .. })));
    let cut = gzip(SITEMAP.as_bytes());
    assert!(matches!(entries(&cut[..cut.len() - 9]), Err(SitemapError::Read(_))));
}

/// A stream that repeats a text without an end.
struct Endless(&'static [u8], usize);

impl Read for Endless {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        for byte in into.iter_mut() {
            *byte = self.0[self.1 % self.0.len()];
            self.1 += 1;
        }
        Ok(into.len())
    }
}

#[test]
fn it_ends_whatever_goes_on() {
    let mut none = |_| Ok(());
    let begun = |first: &'static [u8], again| first.chain(Endless(again, 0));
    let read_all = |from: Box<dyn Read>, none: &mut dyn FnMut(Entry) -> Result<(), String>| read(from, none);
    for (first, again, expect) in [
        (&b"<urlset>"[..], &b" "[..], "has a piece of more than 64 KiB"),
        (b"<urlset>", b"<!-- x -->", "has more than 64 MiB"),
        (b"<urlset>", b"<url><loc>http://a.test/</loc></url>", "has more than 50000 entries"),
        (b"<urlset>", b"<a>", "elements stand too deep"),
        (b"<urlset><url><loc>", b"a<!-- -->", "has a piece of more than 64 KiB"),
        (b"<urlset ", b"a=\"b\" ", "has a piece of more than 64 KiB"),
        (b"", b" ", "has a piece of more than 64 KiB"),
        (b"", b"x", "has a piece of more than 64 KiB"),
        (b"", b"http://a.test/\n", "has more than 50000 entries"),
        (b"", b"\n", "has a piece of more than 64 KiB"),
    ] {
        let error = read_all(Box::new(begun(first, again)), &mut none).unwrap_err().to_string();
        assert!(error.contains(expect), "{error} instead of {expect}");
    }
    // Some hundred kilobytes of gzip are 70 MB of text.
    let block = b"<!-- x -->".repeat(1 << 17);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(b"<urlset>").unwrap();
    (0..55).for_each(|_| encoder.write_all(&block).unwrap());
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 1 << 20);
    assert!(matches!(entries(&bomb), Err(SitemapError::Huge)));
}

#[test]
fn a_receiver_that_takes_no_more_is_obeyed() {
    let error = read(SITEMAP.as_bytes(), &mut |_| Err("enough".to_owned())).unwrap_err();
    assert_eq!(error.to_string(), "enough");
}

#[test]
fn a_url_of_a_list_can_stand_in_a_line() {
    assert!(is_url("http://a.test/%20?x") && is_url("HTTPS://a.test") && is_url("https://ä.test/"));
    let long = format!("http://a.test/{}", "x".repeat(URL_BYTES_MAX));
    for text in ["", "a.test/x", "ftp://a.test/", "http://a.test/ x", "http://a.test/\n", "http:/a", &long] {
        assert!(!is_url(text), "{text}");
    }
}

proptest! {
    #[test]
    fn it_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..400), is_xml: bool) {
        let text = if is_xml { [b"<urlset><url><loc>", &bytes[..]].concat() } else { bytes };
        let _ = entries(&text);
        let _ = entries(&[&GZIP[..], &text].concat());
    }
}
