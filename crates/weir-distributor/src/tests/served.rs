//! Askers against the server of this crate, over all three kinds of places.

use std::sync::Arc;

use super::hostile::all_of;
use super::*;
use crate::format::Question;
use crate::serve::{Server, Terms, What};

fn terms(keys: Keys, form: Form) -> Terms {
    let answer = Arc::new(|question: &Question<'_>| match question.client {
        Some(client) => Answer::Address(SocketAddr::from(([10, 0, 0, 1], client.port()))),
        None => Answer::Denial { status: 429, retry_after: Some(1) },
    });
    Terms { keys, form, allow: vec!["127.0.0.0/8".parse().unwrap()], rate: 1_000_000, answer }
}

fn server(place: &str, terms: Terms) -> Server {
    Server::start(&[place.parse().unwrap_or_else(|_| local(place))], 2, terms).map_err(|(_, e)| e).unwrap()
}

fn local(place: &str) -> Place {
    let free: SocketAddr = "127.0.0.1:0".parse().unwrap();
    if place == "udp" { Place::Udp(free) } else { Place::Tcp(free) }
}

fn path(name: &str) -> String {
    let folder = std::env::temp_dir().join(format!("weir-distributor-{}-{name}", std::process::id()));
    format!("unix:{}", folder.display())
}

/// Asks so many questions at once, each for a client of its own.
async fn storm(asker: &Asker, questions: u16) {
    let fields = HeaderMap::new();
    let asking = |port: u16| {
        let head = Head { method: "GET", target: b"/", host: "a", fields: &fields };
        let client = Some(SocketAddr::from(([192, 0, 2, 1], port)));
        let asked = AskedFor { client, marks: Marks::default(), head };
        async move {
            let there = Answer::Address(SocketAddr::from(([10, 0, 0, 1], port)));
            assert_eq!(asker.ask(&asked, &is_private).await, Heard::Answer(there));
        }
    };
    all_of((0..questions).map(|at| asking(1 + at)).collect()).await;
    counted(asker, &[(Count::Addresses, questions.into()), (Count::Unanswered, 0)]);
    assert_eq!(asker.open(), 0);
}

fn patient(server: &Server) -> Settings {
    Settings { timeout: Duration::from_secs(10), ..settings(server.listening()) }
}

#[tokio::test]
async fn ten_thousand_questions_at_once_over_streams() {
    for place in ["tcp", &path("storm")] {
        let server = server(place, terms(Keys::default(), Form::Full));
        let asker = Asker::new(patient(&server));
        storm(&asker, 10_000).await;
        counted(&asker, &[(Count::Connected, 1)]);
        assert_eq!(server.served().get(What::Questions), 10_000);
        assert_eq!(server.served().get(What::Connections), 1);
    }
}

#[tokio::test]
async fn datagrams_are_answered_by_whoever_has_the_key() {
    let keys = Keys::read(b"0123456789abcdef0123456789abcdef").unwrap();
    let server = server("udp", terms(keys.clone(), Form::Full));
    let asker = Asker::new(Settings { keys, ..patient(&server) });
    storm(&asker, 100).await;
    let asker = Asker::new(settings(server.listening()));
    assert_eq!(ask(&asker).await, Heard::Silence);
    assert_eq!(server.served().get(What::Forged), 3);
}

#[tokio::test]
async fn the_plain_form_is_served() {
    let server = server("udp", terms(Keys::default(), Form::Plain));
    let asker = Asker::new(Settings { form: Form::Plain, ..patient(&server) });
    storm(&asker, 100).await;
}

#[tokio::test]
async fn a_long_head_goes_over_the_stream() {
    let udp = server("udp", terms(Keys::default(), Form::Full));
    let tcp = server("tcp", terms(Keys::default(), Form::Full));
    let places = [udp.listening(), tcp.listening()].concat();
    let asker = Asker::new(Settings { timeout: Duration::from_secs(10), ..settings(&places) });
    assert!(matches!(ask(&asker).await, Heard::Answer(_)));
    assert_eq!((udp.served().get(What::Questions), tcp.served().get(What::Questions)), (1, 0));
    assert!(matches!(ask_with(&asker, &long(20_000)).await, Heard::Answer(_)));
    assert_eq!((udp.served().get(What::Questions), tcp.served().get(What::Questions)), (1, 1));
}

#[tokio::test]
async fn who_may_not_ask_gets_no_answer() {
    let none = Terms { allow: vec!["10.0.0.0/8".parse().unwrap()], ..terms(Keys::default(), Form::Full) };
    let server = server("udp", none);
    assert_eq!(ask(&Asker::new(settings(server.listening()))).await, Heard::Silence);
    assert_eq!(server.served().get(What::Refused), 3);
    server.change(terms(Keys::default(), Form::Full));
    assert!(matches!(ask(&Asker::new(patient(&server))).await, Heard::Answer(_)));
    server.change(Terms { rate: 0, ..terms(Keys::default(), Form::Full) });
    assert_eq!(ask(&Asker::new(settings(server.listening()))).await, Heard::Silence);
    assert_eq!(server.served().get(What::TooMany), 3);
}

#[tokio::test]
async fn a_server_that_comes_back_is_asked_again() {
    let place = path("back");
    let first = server(&place, terms(Keys::default(), Form::Full));
    let asker = Asker::new(Settings { timeout: Duration::from_millis(300), ..patient(&first) });
    assert!(matches!(ask(&asker).await, Heard::Answer(_)));
    drop(first);
    let _second = server(&place, terms(Keys::default(), Form::Full));
    // What is asked while the connection is made again may be lost.
    let asking = async { while ask(&asker).await == Heard::Silence {} };
    tokio::time::timeout(Duration::from_secs(60), asking).await.unwrap();
    assert_eq!(asker.counts().get(Count::Connected), 2);
}

#[tokio::test]
async fn nothing_is_answered_to_what_is_no_question() {
    let server = server("udp", terms(Keys::default(), Form::Full));
    let Place::Udp(address) = server.listening()[0].clone() else { unreachable!() };
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let other_version = [&b"WQ\x02"[..], &[0; 95]].concat();
    for bytes in [&b""[..], b"WQ", &[0; 95], &[b'W'; 4000], &other_version] {
        socket.send_to(bytes, address).unwrap();
    }
    let asker = Asker::new(patient(&server));
    assert!(matches!(ask(&asker).await, Heard::Answer(_)));
    while server.served().get(What::Malformed) + server.served().get(What::Version) < 5 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    socket.set_nonblocking(true).unwrap();
    assert!(socket.recv_from(&mut [0; 64]).is_err());
}
