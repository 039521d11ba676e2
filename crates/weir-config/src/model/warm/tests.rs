//! The line of an entry is what serde makes of it, so that no key is left out.

use super::*;

#[test]
fn the_line_of_an_entry_is_that_of_serde() {
    let full = Warm {
        urls: vec!["http://a/\"".into(), "http://b/".into()],
        list: Some("/list".parse().unwrap()),
        sitemaps: vec!["http://a/sitemap.xml".into()],
        folder: Some("/folder".parse().unwrap()),
        url: Some("http://a/".into()),
        headers: [("accept".into(), "text/html".into()), ("a".into(), "b".into())].into(),
        rate: NonZeroU32::new(7),
        parallel: 2,
        refresh: true,
        every: Some(Duration::seconds(90)),
    };
    for entry in [Warm::default(), full] {
        assert_eq!(entry.line(), serde_json::to_string(&entry).unwrap());
    }
}
