//! Failures pause a script, and programs are swapped while it is asked.

use std::sync::atomic::AtomicBool;

use http::{HeaderMap, Method};
use weir_upstream::{About, Kind, OriginView, Origins};

use super::*;
use crate::mistake::Source;

struct NoOrigins;

impl Origins for NoOrigins {
    fn upstream(&self) -> &str {
        "none"
    }
    fn count(&self) -> usize {
        0
    }
    fn get(&self, _: usize) -> Option<OriginView<'_>> {
        None
    }
    fn at(&self, _: std::net::SocketAddr) -> Option<usize> {
        None
    }
}

fn program(body: &str) -> Program {
    let text = format!("fn pick(request, client, origins, state) {{ {body} }}");
    Program::compile(Source { file: "a.rhai".into(), text: text.into() }, &[]).unwrap()
}

fn ask(script: &Script, path: &str, now: Instant) -> Decision {
    ask_as(script, 7, path, now)
}

fn ask_as(script: &Script, client: u8, path: &str, now: Instant) -> Decision {
    let client = std::net::SocketAddr::from(([192, 0, 2, client], 1));
    let about = About { kind: Kind::Pass, client: Some(client), ..About::default() };
    let question = Question {
        method: &Method::GET,
        target: path.as_bytes(),
        headers: &HeaderMap::new(),
        about: &about,
        origins: &NoOrigins,
    };
    script.asked(&question, now)
}

#[test]
fn ten_failures_in_a_row_pause_it_for_a_second() {
    let script = Script::new("calm", program("if request.path == \"/bad\" { throw \"bad\" } deny(403)"));
    let now = clock::now();
    for client in 0..9 {
        assert_eq!(ask_as(&script, client, "/bad", now), Decision::Failed);
    }
    assert!(matches!(ask(&script, "/good", now), Decision::Deny(_)), "nine are not ten");
    for client in 0..10 {
        assert_eq!(ask_as(&script, client % 3, "/bad", now), Decision::Failed);
    }
    assert_eq!(ask(&script, "/good", now), Decision::Failed, "it pauses");
    assert_eq!(ask(&script, "/good", now + Duration::from_millis(990)), Decision::Failed);
    assert!(matches!(ask(&script, "/good", now + Duration::from_millis(1001)), Decision::Deny(_)));
    assert_eq!(script.count(Asking::Failed), 19);
    assert_eq!(script.count(Asking::Paused), 2);
    assert_eq!(script.count(Asking::Denied), 2);
}

#[test]
fn one_client_pauses_it_for_nobody() {
    let script = Script::new("calm", program("if request.path == \"/bad\" { throw \"bad\" } deny(403)"));
    let now = clock::now();
    (0..1000).for_each(|at| assert_eq!(ask_as(&script, at as u8 % 2, "/bad", now), Decision::Failed));
    assert!(matches!(ask_as(&script, 0, "/good", now), Decision::Deny(_)), "nor for itself");
    assert!(matches!(ask_as(&script, 9, "/good", now), Decision::Deny(_)));
    assert_eq!(script.count(Asking::Paused), 0);
}

#[test]
fn another_program_ends_a_pause_and_keeps_what_is_remembered() {
    let script = Script::new("calm", program("state.count(\"a\", 60); throw \"bad\""));
    let now = clock::now();
    (0..20).for_each(|client| drop(ask_as(&script, client, "/", now)));
    assert!(script.snapshot().trouble.is_some_and(|trouble| trouble.contains("bad")));
    script.swap(program("if state.counted(\"a\", 60) == 10 { deny(403) }"));
    assert!(matches!(ask(&script, "/", now), Decision::Deny(_)));
    assert_eq!(script.snapshot().trouble, None);
}

#[test]
fn a_thousand_swaps_while_it_is_asked() {
    let script = Script::new("calm", program("if state.count(\"a\", 60) > 0 { deny(403) }"));
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = || {
            let mut asked = 0_u64;
            while !ended.load(Ordering::Relaxed) || asked == 0 {
                assert!(matches!(ask(&script, "/", clock::now()), Decision::Deny(_)));
                asked += 1;
            }
            asked
        };
        let askers = [scope.spawn(asking), scope.spawn(asking)];
        for number in 0..1000 {
            script.swap(program(&format!("if state.count(\"a\", 60) > {} {{ deny(403) }}", number % 2 - 1)));
        }
        ended.store(true, Ordering::Relaxed);
        let asked: u64 = askers.map(|asker| asker.join().unwrap()).iter().sum();
        assert_eq!(script.count(Asking::Denied), asked);
        assert_eq!(script.count(Asking::Failed), 0);
        let counted = script.state().counted("a", 60, clock::now()).unwrap();
        assert_eq!(u64::try_from(counted).unwrap(), asked, "counted by all threads and programs");
    });
}
