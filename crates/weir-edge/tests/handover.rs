//! An old process does not end before its connections have moved to the new one, and asks origins for nothing
//! but what its clients want.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use weir_config::{Flags, from_flags};
use weir_edge::plan::Plan;
use weir_edge::{Edge, FromOutside};
use weir_observe::Observatory;
use weir_store::Store;
use weir_testkit::{Client, Origin, Resource, free_port};

/// Longer than anything takes that is not stuck.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn the_end_waits_for_connections_on_their_way_to_the_new_process() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("hello"));
    let port = free_port();
    let flags = Flags { origin: origin.url(), listen: vec![format!("127.0.0.1:{port}")], ..Flags::default() };
    let observatory = Observatory::start(2, &[]).unwrap();
    let plan = Plan::compile(&from_flags(&flags).ok().unwrap(), &|name| observatory.site(name));
    let edge =
        Edge::start(plan, 2, observatory.clone(), Store::new(1 << 20), FromOutside::default()).unwrap();
    let mut client = Client::connect(std::net::SocketAddr::from(([127, 0, 0, 1], port)));
    assert_eq!(client.get("x", "/x", &[]).status(), 200);
    assert!(edge.shut(PATIENCE));
    let (handover, departing) = mpsc::channel();
    edge.leave(&handover);
    let handed_over = departing.recv_timeout(PATIENCE).unwrap();
    let is_sent = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The delay of a link that is full.
            std::thread::sleep(Duration::from_millis(100));
            is_sent.store(true, Ordering::SeqCst);
            drop(handed_over);
        });
        while edge.connections() > 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(is_sent.load(Ordering::SeqCst), "ended with a connection in its hands");
    });
}

#[test]
fn the_old_process_asks_no_origin_whether_it_is_up() {
    const CHECK: &str = r#"check = { path = "/up", every = "100ms", timeout = "50ms" }"#;
    let origin = Origin::start();
    origin.put("/up", Resource::fresh("up"));
    let file = std::env::temp_dir().join(format!("weir-handover-{}.toml", std::process::id()));
    let text = format!(
        "[[listen]]\naddress = \"127.0.0.1:{}\"\n[upstream.main]\norigins = [\"{}\"]\n{CHECK}\n\
         [[site]]\nhosts = [\"*\"]\nupstream = \"main\"\n",
        free_port(),
        origin.url()
    );
    std::fs::write(&file, text).unwrap();
    let loaded = weir_config::load(&file).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    std::fs::remove_file(&file).unwrap();
    let observatory = Observatory::start(1, &[]).unwrap();
    let plan = Plan::compile(&loaded, &|name| observatory.site(name));
    let edge =
        Edge::start(plan, 1, observatory.clone(), Store::new(1 << 20), FromOutside::default()).unwrap();
    origin.await_count("/up", 3);
    let (handover, _departing) = mpsc::channel();
    assert!(edge.shut(PATIENCE));
    edge.leave(&handover);
    // One may be under way.
    std::thread::sleep(Duration::from_millis(300));
    let asked = origin.count("/up");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(origin.count("/up"), asked);
}
