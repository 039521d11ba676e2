//! What is kept of an order is what was ordered.

use super::*;

#[test]
fn an_order_comes_back_whole() {
    let order = Order {
        actor: "token:cms".to_owned(),
        owner: "f00".to_owned(),
        sites: Some(vec!["a.test".to_owned()]),
        entry: Some("1".to_owned()),
        sitemaps: vec!["https://a.test/sitemap.xml".to_owned()],
        folder: Some(Folder { path: "/srv/x".into(), url: "https://a.test/x/".to_owned() }),
        headers: vec![("accept-encoding".to_owned(), "br".to_owned())],
        rate: Some(7),
        parallel: 3,
        refresh: true,
    };
    let listed = Stage::Listed { bytes: 99, urls: 9 };
    for stage in [Stage::Receiving, Stage::Received { bytes: 12, urls: 1 }, listed] {
        assert_eq!(Order::of_bytes(&order.to_bytes(stage)), Some((order.clone(), stage)));
    }
    let bare = Order { parallel: 1, ..Order::default() };
    let bytes = bare.to_bytes(Stage::Receiving);
    assert_eq!(Order::of_bytes(&bytes), Some((bare, Stage::Receiving)));
    // No sites is not all sites.
    let of_none = Order { sites: Some(Vec::new()), ..Order::default() };
    assert_eq!(Order::of_bytes(&of_none.to_bytes(Stage::Receiving)).unwrap().0.sites, Some(Vec::new()));
    for length in 0..bytes.len() {
        assert_eq!(Order::of_bytes(&bytes[..length]), None, "{length}");
    }
    let other = String::from_utf8(bytes).unwrap().replace("\"version\":1", "\"version\":2");
    assert_eq!(Order::of_bytes(other.as_bytes()), None);
}
