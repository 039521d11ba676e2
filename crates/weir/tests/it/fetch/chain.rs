//! Two Weirs in a row, and a Weir in front of itself.

use std::time::Duration;

use weir_testkit::{Client, Origin, Resource};

use crate::server::{before, setup};

#[test]
fn ages_and_names_add_up_along_a_chain() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("hello"));
    let inner = before(&origin);
    inner.get("/x");
    std::thread::sleep(Duration::from_millis(2100));
    let outer = setup().run(&format!("http://{}", inner.addr()));
    let first = outer.get("/x");
    assert!(first.age().is_some_and(|age| age >= 2), "{:?}", first.head);
    let second = outer.get("/x");
    assert!(second.is_hit() && second.age().is_some_and(|age| age >= 2), "{:?}", second.head);
    let via = second.header("via").unwrap();
    assert_eq!(via.split(',').count(), 2, "{via}");
    let said = second.header("cache-status").unwrap();
    assert_eq!(said.matches("weir").count(), 2, "{said}");
    assert_eq!(origin.count("/x"), 1);
}

#[test]
fn a_request_through_two_tells_the_origin_of_both() {
    let origin = Origin::start();
    origin.put("/x", Resource::new("hello"));
    let inner = before(&origin);
    let outer = setup().run(&format!("http://{}", inner.addr()));
    assert_eq!(outer.get("/x").text(), "hello");
    let asked = &origin.requests("/x")[0];
    let members = |name: &str| asked.header(name).map_or(0, |value| value.split(',').count());
    assert_eq!((members("via"), members("cdn-loop")), (2, 2), "{asked:?}");
}

#[test]
fn a_weir_in_front_of_itself_finds_the_loop() {
    let port = weir_testkit::free_port();
    let own = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let weir = setup().listen(own).run(&format!("http://{own}"));
    let answer = weir.get("/x");
    assert_eq!(answer.status(), 508, "{:?}", answer.head);
}

#[test]
fn a_loop_of_two_is_found() {
    let ports = [weir_testkit::free_port(), weir_testkit::free_port()];
    let addr = |at: usize| std::net::SocketAddr::from(([127, 0, 0, 1], ports[at]));
    let one = setup().listen(addr(0)).run(&format!("http://{}", addr(1)));
    let _two = setup().listen(addr(1)).run(&format!("http://{}", addr(0)));
    assert_eq!(one.get("/x").status(), 508);
}

#[test]
fn a_strangers_loop_is_not_ours() {
    let origin = Origin::start();
    origin.put("/x", Resource::new("hello"));
    let weir = before(&origin);
    let headers = [("CDN-Loop", "other.example; a=b, third"), ("Via", "1.1 other.example, 1.0 fred")];
    assert_eq!(weir.get_with("/x", &headers).status(), 200);
    let own = origin.requests("/x")[0].header("cdn-loop").unwrap();
    let own = own.rsplit(',').next().unwrap().trim();
    let mut client = Client::connect(weir.addr());
    assert_eq!(client.get("localhost", "/x", &[("CDN-Loop", own)]).status(), 508);
}
