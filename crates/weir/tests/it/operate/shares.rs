//! What a token of one site takes of others on the admin listener: places, orders.

use std::io::Write;
use std::net::TcpStream;

use weir_testkit::{Origin, Weir};

use crate::server::server;

fn started(origin: &Origin) -> Weir {
    server(&[origin]).more("[[site]]\nhosts = [\"a.test\"]\nupstream = \"main\"\n").start()
}

/// Sends the beginning of a request on a connection of its own.
fn begun(weir: &Weir, token: &str, line: &str, rest: &str) -> TcpStream {
    let mut stream = TcpStream::connect(weir.admin()).unwrap();
    let head = format!("{line} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n{rest}");
    // A connection that is closed at once is none of this test's.
    let _ = stream.write_all(head.as_bytes());
    stream
}

#[test]
fn stalled_uploads_and_unread_answers_of_one_token_leave_others_theirs() {
    let origin = Origin::start();
    let weir = started(&origin);
    let (own, other) = (weir.token("admin", &["a.test"]), weir.token("view", &[]));
    let mut kept = Vec::new();
    for number in 0..120 {
        let put = format!("PUT /v1/content?url=http://a.test/{number}");
        kept.push(begun(&weir, &own, &put, "Content-Type: text/plain\r\nContent-Length: 100000\r\n\r\nx"));
        kept.push(begun(&weir, &own, "GET /v1/openapi.json", "\r\n"));
    }
    for _ in 0..20 {
        assert_eq!(weir.admin_get_with("/v1/status", &other).status(), 200);
        assert_eq!(weir.admin_get("/metrics").status(), 200);
        assert_eq!(weir.admin_get("/health/live").status(), 200);
    }
    drop(kept);
}

#[test]
fn a_flood_of_orders_of_one_token_is_refused_and_leaves_the_history_of_others() {
    let origin = Origin::start();
    let weir = started(&origin);
    let (own, other) = (weir.token("admin", &["a.test"]), weir.token("admin", &[]));
    let delete = |token: &str, number: usize| {
        let mut client = weir_testkit::Client::connect(weir.admin());
        client.send(format!(
            "DELETE /v1/content?url=http://a.test/{number} HTTP/1.1\r\nHost: 127.0.0.1\r\n\
             Authorization: Bearer {token}\r\n\r\n"
        ));
        client.recv().unwrap().status()
    };
    let refused = (0..1000).filter(|number| delete(&own, *number) == 429).count();
    assert!(refused > 100, "{refused}");
    assert_ne!(delete(&other, 0), 429);
}
