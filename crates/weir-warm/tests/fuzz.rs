//! Runs the fuzz bodies of this crate over their seeds and over a bounded number of mutations, on any
//! toolchain.

#[path = "../../../fuzz/src/warm.rs"]
mod warm;

use weir_testkit::fuzz;

/// Words that mutations insert, beside bytes of other seeds.
const WORDS: &[&[u8]] = &[
    b"<urlset>",
    b"</urlset>",
    b"<sitemapindex>",
    b"<sitemap>",
    b"<url>",
    b"</url>",
    b"<loc>",
    b"</loc>",
    b"<loc/>",
    b"<x:loc xmlns:x='y'>",
    b"<![CDATA[",
    b"]]>",
    b"<!--",
    b"-->",
    b"<!DOCTYPE x [",
    b"&amp;",
    b"&#0;",
    b"&#x1F600;",
    b"&x;",
    b"<?x ?>",
    b"http://a.test/",
    b"#",
    b"\n",
    b"\r",
    b" ",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\x1f\x8b",
];

#[test]
fn sitemaps_keep_their_promises() {
    fuzz("sitemap", WORDS, warm::sitemap);
}
