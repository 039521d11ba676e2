//! A whole site: an example's own file before scripted origins, and requests to it as its clients send them.

use weir_testkit::{Client, Origin, Response, Trouble, Weir};

use crate::run::examples;
use crate::server::setup;

/// An example with these origins in place of those that it names, and its volumes in a folder of its own.
pub(super) fn site(name: &str, origins: &[(&str, &Origin)]) -> Weir {
    examples::run(setup(), name, origins)
}

/// A request of any method, on a connection of its own. `Host` is the first host of the site.
pub(super) fn ask(weir: &Weir, host: &str, request: &str, fields: &[(&str, &str)], body: &[u8]) -> Response {
    let mut client = weir.client();
    let (method, target) = request.split_once(' ').unwrap();
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n");
    for (name, value) in fields {
        head += &format!("{name}: {value}\r\n");
    }
    if !body.is_empty() {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    client.send([format!("{head}\r\n").as_bytes(), body].concat());
    received(&mut client, method).unwrap_or_else(|why| panic!("{request} of {host}: {why}"))
}

fn received(client: &mut Client, method: &str) -> Result<Response, Trouble> {
    if method == "HEAD" { client.recv_head() } else { client.recv() }
}

/// Makes all that is stored stale, as time would.
pub(super) fn outdate(weir: &Weir) {
    let purged = weir.command(&["purge", "--soft", "--all"]);
    assert_eq!(purged.code, Some(0), "{purged:?}");
}

/// The field of the last request for this target at the origin.
pub(super) fn said(origin: &Origin, target: &str, name: &str) -> Option<String> {
    let requests = origin.requests(target);
    requests.last().unwrap_or_else(|| panic!("no request for {target}")).header(name)
}
