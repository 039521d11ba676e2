//! Askers against scripted distributors, and against the server.

mod hostile;
mod served;

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use http::{HeaderMap, HeaderValue};

use crate::format::{Answer, Head, Keys, Marks};
use crate::{AskedFor, Asker, Count, Form, Heard, Place, Settings};

const ORIGIN: &str = "10.0.0.1:8080";

fn address() -> Answer {
    Answer::Address(ORIGIN.parse().unwrap())
}

fn settings(distributors: &[Place]) -> Settings {
    Settings {
        pick: "asked".to_owned(),
        distributors: distributors.to_vec(),
        policy: "least_cpu".to_owned(),
        timeout: Duration::from_millis(20),
        tries: 3,
        send: Vec::new(),
        keys: Keys::default(),
        form: Form::Full,
    }
}

/// A distributor that the test plays: a socket and its place.
fn socket() -> (UdpSocket, Place) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let place = Place::Udp(socket.local_addr().unwrap());
    (socket, place)
}

fn client() -> SocketAddr {
    "192.0.2.7:40112".parse().unwrap()
}

/// The origins of these tests.
fn is_private(address: SocketAddr) -> bool {
    address.to_string().starts_with("10.0.0.")
}

async fn ask(asker: &Asker) -> Heard {
    ask_with(asker, &HeaderMap::new()).await
}

async fn ask_with(asker: &Asker, fields: &HeaderMap) -> Heard {
    let head = Head { method: "GET", target: b"/cart", host: "shop.example", fields };
    asker.ask(&AskedFor { client: Some(client()), marks: Marks::HTTPS, head }, &is_private).await
}

/// What is left after so many fields of this length.
fn long(bytes: usize) -> HeaderMap {
    let mut fields = HeaderMap::new();
    fields.insert("x-long", HeaderValue::from_str(&"y".repeat(bytes)).unwrap());
    fields
}

fn counted(asker: &Asker, expect: &[(Count, u64)]) {
    for (count, times) in expect {
        assert_eq!(asker.counts().get(*count), *times, "{}: {:?}", count.word(), asker.counts().all());
    }
}
