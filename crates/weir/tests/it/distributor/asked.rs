//! What a distributor is asked, and what its answer does: origins, denials, nothing, backups, signatures, the
//! plain form, and answers that are used again.

use std::net::UdpSocket;

use weir_testkit::{Origin, Weir, free_port};

use super::played::{Asked, Played};
use crate::origins::changes::named;
use crate::server::{Server, server};

/// What goes past the cache.
pub(crate) const PASS: &str = "bypass = { paths = [\"/pass/**\"] }";

/// A Weir whose upstream asks these distributors first.
pub(crate) fn asking(origins: &[&Origin], distributors: &[String], lines: &str) -> Server {
    let pick = format!("[pick.asked]\ndistributor = {distributors:?}\n{lines}");
    server(origins).upstream("pick = [\"asked\", \"round_robin\"]").site(PASS).more(&pick)
}

/// Who answers a request.
pub(crate) fn answer(weir: &Weir, target: &str) -> String {
    let response = weir.get(target);
    assert_eq!(response.status(), 200, "{target}: {}", weir.stderr());
    response.text()
}

fn to(origin: &Origin) -> impl FnMut(&Asked) -> Vec<Vec<u8>> + Send + 'static {
    let address = origin.addr();
    move |asked| vec![asked.address(address)]
}

#[test]
fn the_origin_that_was_answered_gets_the_request() {
    let origins = ["a", "b", "c"].map(named);
    let distributor = Played::start(to(&origins[1]));
    let weir = asking(&origins.each_ref(), &[distributor.url()], "policy = \"least_cpu\"").start();
    for number in 0..6 {
        assert_eq!(answer(&weir, &format!("/pass/{number}?q=1")), "b");
    }
    let asked = distributor.asked();
    assert_eq!(asked.len(), 6);
    assert!(asked.iter().all(|asked| asked.policy == "least_cpu" && asked.client.starts_with("127.0.0.1:")));
    assert!(asked[0].head.starts_with("GET /pass/0?q=1 HTTP/1.1\r\nhost: "), "{}", asked[0].head);
}

#[test]
fn secrets_stay_and_a_fill_has_no_client() {
    let origins = ["a", "b"].map(named);
    let distributor = Played::start(to(&origins[1]));
    let weir = asking(&origins.each_ref(), &[distributor.url()], "send = [\"X-Tenant\"]").start();
    let secrets = [("Cookie", "sid=1"), ("Authorization", "Basic eDp5"), ("X-Tenant", "t1")];
    assert_eq!(weir.get_with("/pass/1", &secrets).text(), "b");
    assert_eq!(weir.get_with("/kept", &secrets[2..]).text(), "b");
    let [pass, fill] = <[Asked; 2]>::try_from(distributor.asked()).unwrap();
    assert!(pass.head.contains("x-tenant: t1\r\n"), "{}", pass.head);
    assert!(!pass.head.contains("sid=1") && !pass.head.contains("eDp5"), "{}", pass.head);
    assert!(!pass.is_fill && !pass.client.is_empty());
    assert!(fill.is_fill && fill.client.is_empty(), "{fill:?}");
}

#[test]
fn a_denial_is_the_clients_answer_and_a_fill_ignores_it() {
    let origins = ["a", "b"].map(named);
    let distributor = Played::start(|asked| vec![asked.answer(2, "429 30")]);
    let weir = asking(&origins.each_ref(), &[distributor.url()], "").start();
    let denied = weir.get("/pass/1");
    assert_eq!(denied.status(), 429);
    assert_eq!(denied.header("retry-after").as_deref(), Some("30"));
    assert_eq!(weir.get("/kept").status(), 200);
    assert_eq!(origins.iter().map(|origin| origin.count("/pass/1")).sum::<usize>(), 0);
}

#[test]
fn an_answer_that_says_nothing_leaves_it_to_the_next_pick() {
    let origins = ["a", "b"].map(named);
    let distributor = Played::start(|asked| vec![asked.answer(0, "")]);
    let weir = asking(&origins.each_ref(), &[distributor.url()], "").start();
    let mut answers: Vec<String> = (0..4).map(|at| answer(&weir, &format!("/pass/{at}"))).collect();
    answers.sort();
    assert_eq!(answers, ["a", "a", "b", "b"]);
}

#[test]
fn a_dead_distributor_gets_three_datagrams_and_the_backup_the_request() {
    let origins = ["a", "b", "backup"].map(named);
    let (dead, other) = (Played::start(|_| Vec::new()), Played::start(|_| Vec::new()));
    let list = format!(
        "{:?}, {:?}, {{ url = {:?}, backup = true }}",
        origins[0].url(),
        origins[1].url(),
        origins[2].url()
    );
    let weir = asking(&[&origins[0]], &[dead.url(), other.url()], "").origins(&list).start();
    assert_eq!(answer(&weir, "/pass/1"), "backup");
    assert_eq!((dead.count(), other.count()), (2, 1));
    let all = dead.asked().into_iter().chain(other.asked());
    assert!(all.map(|asked| asked.id).collect::<std::collections::BTreeSet<_>>().len() == 1, "one question");
    // Without a backup that is up the next pick decides.
    let weir = asking(&[&origins[0]], &[dead.url()], "").start();
    assert_eq!(answer(&weir, "/pass/2"), "a");
}

#[test]
fn the_plain_form_is_asked_with_a_socket_for_each_question() {
    let origins = ["a", "b"].map(named);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (place, to) = (format!("udp://{}", socket.local_addr().unwrap()), origins[1].addr());
    let playing = std::thread::spawn(move || {
        let mut bytes = [0; 2048];
        let mut senders = std::collections::BTreeSet::new();
        for _ in 0..3 {
            let (length, from) = socket.recv_from(&mut bytes).unwrap();
            let text = String::from_utf8(bytes[..length].into()).unwrap();
            assert!(text.starts_with("asked\n127.0.0.1:"), "{text}");
            assert!(text.contains("\nGET /pass/") && text.ends_with("\r\n\r\n"), "{text}");
            senders.insert(from);
            socket.send_to(to.to_string().as_bytes(), from).unwrap();
        }
        senders.len()
    });
    let patient = "form = \"plain\"\ntimeout = \"1s\"";
    let weir = asking(&origins.each_ref(), &[place], patient).start();
    (0..3).for_each(|at| assert_eq!(answer(&weir, &format!("/pass/{at}")), "b"));
    assert_eq!(playing.join().unwrap(), 3);
}

#[test]
fn an_answer_is_used_again_for_the_same_client_only() {
    let origins = ["a", "b"].map(named);
    let distributor = Played::start(to(&origins[1]));
    let weir = asking(&origins.each_ref(), &[distributor.url()], "keep = \"60s\"").start();
    let of = |client: &str, target: &str| weir.get_with(target, &[("X-Forwarded-For", client)]).text();
    for at in 0..3 {
        assert_eq!(of("192.0.2.1", &format!("/pass/{at}")), "b");
    }
    assert_eq!(distributor.count(), 1);
    assert_eq!(of("192.0.2.2", "/pass/9"), "b");
    assert_eq!(distributor.count(), 2);
}

#[test]
fn the_distributor_in_python_is_believed_by_its_key() {
    let origins = ["a", "b"].map(named);
    let folder = std::env::temp_dir().join(format!("weir-distributor-py-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let key = folder.join("key");
    std::fs::write(&key, "0123456789abcdefghijklmnopqrstuvwxyzABCD\n").unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    let free = free_port();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/distributor.py");
    let mut python = std::process::Command::new("python3");
    python.arg(script).arg(free.to_string()).arg(&key).arg(origins[1].addr().to_string());
    let mut python = python.spawn().unwrap();
    let lines = format!("key_file = {key:?}\ntimeout = \"1s\"");
    let weir = asking(&origins.each_ref(), &[format!("udp://127.0.0.1:{free}")], &lines).start();
    let all: Vec<String> = (0..8).map(|at| answer(&weir, &format!("/pass/{at}"))).collect();
    python.kill().unwrap();
    python.wait().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    // It may have begun after the first question.
    assert!(all[2..].iter().all(|who| who == "b"), "{all:?}");
}
