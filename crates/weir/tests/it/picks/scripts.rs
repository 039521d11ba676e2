//! Scripts that pick origins, on the real program: what they decide, what hostile ones cost, how their files
//! change, and how they are tried by hand.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use weir_testkit::{Origin, Setup, Weir, until};

use crate::origins::changes::named;
use crate::server::{Server, server, setup};

/// What goes past the cache.
const PASS: &str = "bypass = { paths = [\"/pass/**\"] }";

/// Three origins: two without `id`, and one that is called `c`.
struct Trio([Origin; 3]);

impl Trio {
    fn new() -> Trio {
        Trio(["a", "b", "c"].map(named))
    }

    /// A Weir in front of them with a script, which is in the file `calm.rhai`. Where it is silent the first
    /// origin answers.
    fn server(&self) -> Server {
        let [a, b, c] = self.0.each_ref().map(Origin::url);
        server(&self.0.each_ref())
            .origins(&format!("\"{a}\", \"{b}\", {{ url = \"{c}\", id = \"c\" }}"))
            .upstream("pick = [\"calm\", \"first\"]")
            .site(PASS)
            .more("[pick.calm]\nscript = \"calm.rhai\"")
    }

    fn start(&self, body: &str) -> Weir {
        let setup = setup();
        setup.file("calm.rhai", script(body));
        self.server().start_in(setup)
    }
}

fn script(body: &str) -> String {
    format!("fn pick(request, client, origins, state) {{\n    {body}\n}}\n")
}

fn change(folder: &Path, text: &str) {
    // As editors do: another file takes the name.
    std::fs::write(folder.join("calm.new"), text).unwrap();
    std::fs::rename(folder.join("calm.new"), folder.join("calm.rhai")).unwrap();
}

/// Status and text of an answer.
fn said(weir: &Weir, target: &str, fields: &[(&str, &str)]) -> (u16, String) {
    let response = weir.get_with(target, fields);
    (response.status(), response.text())
}

/// What `weir status` says of the script.
fn state(weir: &Weir) -> Value {
    let output = weir.command(&["status", "--json"]);
    let status: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    status["picks"][0].clone()
}

fn counted(weir: &Weir, outcome: &str) -> u64 {
    state(weir)["outcomes"][outcome].as_u64().unwrap()
}

#[test]
fn a_script_decides_for_a_pass() {
    let trio = Trio::new();
    let weir = trio.start(
        "if request.path == \"/pass/closed\" { return deny(403); }
         if request.path == \"/pass/later\" { return deny(429, 30); }
         if request.cookie(\"canary\") == \"1\" { return origins.named(\"c\"); }
         if request.field(\"X-Zone\") == \"b\" { return origins.where(`not id begins 'c'`)[1]; }
         if request.param(\"some\") != () { return origins.where(\"id == 'c'\"); }",
    );
    assert_eq!(said(&weir, "/pass/x", &[]), (200, "a".into()), "silent: the next pick decides");
    assert_eq!(said(&weir, "/pass/x", &[("Cookie", "x=y; canary=1")]), (200, "c".into()));
    assert_eq!(said(&weir, "/pass/x", &[("X-Zone", "b")]), (200, "b".into()));
    assert_eq!(said(&weir, "/pass/x?some=1", &[]), (200, "c".into()), "one of a list of one");
    assert_eq!(said(&weir, "/pass/closed", &[]).0, 403);
    let later = weir.get("/pass/later");
    assert_eq!((later.status(), later.header("Retry-After")), (429, Some("30".to_owned())));
    for (outcome, count) in [("nothing", 1), ("origin", 2), ("among", 1), ("denied", 2), ("failed", 0)] {
        assert_eq!(counted(&weir, outcome), count, "{outcome}: {}", state(&weir));
    }
}

#[test]
fn a_fill_has_no_client_and_is_never_denied() {
    let trio = Trio::new();
    for origin in &trio.0 {
        origin.on("/page", |exchange| {
            exchange.reply(200, &[("Cache-Control", "max-age=60")], "page");
        });
    }
    let weir = trio.start(
        "if request.kind == \"fill\" && client.address == () && client.session == () { return deny(403); }
         origins.named(\"c\")",
    );
    assert_eq!(said(&weir, "/page", &[]).0, 200);
    assert_eq!(trio.0[0].count("/page"), 1, "the next pick decides");
    assert_eq!(said(&weir, "/page", &[]).0, 200);
    assert_eq!(trio.0.iter().map(|origin| origin.count("/page")).sum::<usize>(), 1, "the second is a hit");
    assert_eq!(said(&weir, "/pass/x", &[]), (200, "c".into()), "a pass has a client");
}

#[test]
fn hostile_scripts_cost_no_request_its_answer() {
    let trio = Trio::new();
    let weir = trio.start(
        "let way = request.param(\"way\");
         if way == \"loop\" { loop { } }
         if way == \"calls\" { return deeper(0); }
         if way == \"text\" { let text = \"x\"; loop { text += text; } }
         if way == \"list\" { let list = [1]; loop { list += list; } }
         if way == \"nested\" { let list = []; loop { list = [list, list]; } }
         if way == \"map\" { let map = #{ }; for n in 0..1000000 { map[`n${n}`] = map; } }
         if way == \"work\" { let list = []; list.pad(4000, 1); loop { let other = list; list.sort(); } }
         if way == \"keys\" { for n in 0..1000000 { state.set(`${n}`, n, 3600); } }
         if way == \"throw\" { throw \"on purpose\" }
         if way == \"kind\" { return 7; }
         origins.named(\"c\")
     }
     fn deeper(n) { deeper(n + 1)",
    );
    let ways = ["loop", "calls", "text", "list", "nested", "map", "work", "keys", "throw", "kind"];
    for (number, way) in ways.iter().enumerate() {
        let target = format!("/pass/x?way={way}");
        assert_eq!(said(&weir, &target, &[]), (200, "a".into()), "{way}: the next pick decides");
        assert_eq!(counted(&weir, "failed"), number as u64 + 1, "{way}");
        // One that works is between two that do not: they are no ten in a row.
        assert_eq!(said(&weir, "/pass/x", &[]), (200, "c".into()), "{way}");
    }
    let log = weir.stderr();
    assert!(log.contains("script failed: it took more than 2000 operations"), "{log}");
    assert!(log.contains("calm.rhai"), "{log}");
}

#[test]
fn a_script_that_always_fails_pauses() {
    let trio = Trio::new();
    let weir = trio.start("if request.param(\"bad\") != () { throw \"on purpose\"; } origins.named(\"c\")");
    for number in 0..50 {
        // Of one client alone it never pauses.
        let client = format!("192.0.2.{number}");
        let fields = [("X-Forwarded-For", &*client)];
        assert_eq!(said(&weir, "/pass/x?bad=1", &fields), (200, "a".into()));
    }
    let (failed, paused) = (counted(&weir, "failed"), counted(&weir, "paused"));
    assert_eq!(failed + paused, 50);
    assert!(failed >= 10 && paused > 0, "{}", state(&weir));
    until("it is asked again", || said(&weir, "/pass/x", &[]) == (200, "c".into()));
    let lines = weir.stderr().lines().filter(|line| line.contains("on purpose")).count();
    assert!((1..failed as usize).contains(&lines), "{failed} failures, {lines} lines");
}

#[test]
fn all_workers_count_together() {
    let trio = Trio::new();
    let setup = setup();
    setup.file("calm.rhai", script("if state.count(\"all\", 600) > 60 { return deny(429, 5); }"));
    let weir = trio.server().start_in(setup.arg("--workers").arg("2"));
    let (served, denied) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                let mut client = weir.client();
                for _ in 0..10 {
                    match client.get("x", "/pass/x", &[]).status() {
                        200 => served.fetch_add(1, Ordering::Relaxed),
                        429 => denied.fetch_add(1, Ordering::Relaxed),
                        other => panic!("{other}"),
                    };
                }
            });
        }
    });
    assert_eq!((served.into_inner(), denied.into_inner()), (60, 40));
}

const BROKEN: &str = "// A pick.\nfn pick(request, client, origins, state) {\n    origins.lest(\"cpu\")\n}\n";

#[test]
fn a_broken_script_is_refused_with_line_and_caret() {
    let trio = Trio::new();
    let setup = setup();
    setup.file("calm.rhai", BROKEN);
    let config = setup.write_config(&trio.server().text());
    let output = setup.command(&["check", config.to_str().unwrap()]);
    assert_eq!(output.code, Some(1), "{output:?}");
    for part in [
        "error: [pick.calm]: there is no function `lest (",
        "calm.rhai:3:13",
        "    origins.lest(\"cpu\")",
        "^^^^",
    ] {
        assert!(output.stderr.contains(part), "{part}: {}", output.stderr);
    }
    let refused = setup.try_run_config(&trio.server().text()).err().expect("it does not start");
    assert!(refused.contains("there is no function `lest (") && refused.contains("^^^^"), "{refused}");
}

#[test]
fn values_of_the_configuration_are_those_of_constants() {
    let trio = Trio::new();
    let text = format!("const STATUS = 403;\n{}", script("deny(STATUS)"));
    let with = |values: &str| {
        let setup = setup();
        setup.file("calm.rhai", &text);
        (trio.server().more(&format!("values = {values}")), setup)
    };
    let (config, setup) = with("{ STATUS = 451 }");
    assert_eq!(said(&config.start_in(setup), "/pass/x", &[]).0, 451);
    for (values, why) in
        [("{ STATS = 451 }", "did you mean `STATUS`?"), ("{ STATUS = \"x\" }", "`STATUS` is")]
    {
        let (config, setup) = with(values);
        let file = setup.write_config(&config.text());
        let output = setup.command(&["check", file.to_str().unwrap()]);
        assert!(output.code == Some(1) && output.stderr.contains(why), "{values}: {output:?}");
    }
}

#[test]
fn a_changed_script_is_taken_and_a_broken_one_is_not() {
    let trio = Trio::new();
    let weir = trio.start("state.count(\"kept\", 600); origins[0]");
    assert_eq!(said(&weir, "/pass/x", &[]), (200, "a".into()));
    change(weir.folder(), &script("if state.count(\"kept\", 600) == 2 { origins[1] } else { origins[2] }"));
    until("it is taken", || weir.stderr().contains("script taken"));
    assert_eq!(said(&weir, "/pass/x", &[]), (200, "b".into()), "it remembers what the old one counted");
    assert_eq!(said(&weir, "/pass/x", &[]), (200, "c".into()));
    change(weir.folder(), BROKEN);
    until("it is refused", || weir.stderr().contains("script refused, the old one stays"));
    assert!(weir.stderr().contains("calm.rhai:3:13"), "{}", weir.stderr());
    assert_eq!(said(&weir, "/pass/x", &[]), (200, "c".into()), "the old one stays");
    assert!(state(&weir)["trouble"].as_str().unwrap().contains("lest"), "{}", state(&weir));
    let output = weir.command(&["reload"]);
    assert!(output.code == Some(1) && output.stderr.contains("lest"), "{output:?}");
    assert_eq!(said(&weir, "/pass/x", &[]), (200, "c".into()));
    change(weir.folder(), &script("origins[1]"));
    let output = weir.command(&["reload"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(said(&weir, "/pass/x", &[]), (200, "b".into()), "a reload does not wait for the next look");
    assert_eq!(state(&weir)["trouble"], Value::Null);
}

#[test]
fn a_pipe_in_a_scripts_place_stops_no_later_one() {
    let trio = Trio::new();
    let weir = trio.start("origins[0]");
    let file = weir.folder().join("calm.rhai");
    std::fs::remove_file(&file).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    until("it is refused", || weir.stderr().contains("it is no regular file"));
    assert_eq!(said(&weir, "/pass/x", &[]), (200, "a".into()), "the old one stays");
    change(weir.folder(), &script("origins[1]"));
    until("the next one is taken", || said(&weir, "/pass/x", &[]) == (200, "b".into()));
}

/// How many reloads; a short run sets fewer.
fn reloads() -> usize {
    std::env::var("WEIR_SCRIPT_RELOADS").ok().and_then(|text| text.parse().ok()).unwrap_or(1000)
}

#[test]
fn a_thousand_reloads_under_load_lose_no_request() {
    let trio = Trio::new();
    let weir = Arc::new(trio.start("state.count(\"all\", 3600); origins[0]"));
    let ended = Arc::new(AtomicBool::new(false));
    let load = |weir: &Arc<Weir>| {
        let (weir, ended) = (weir.clone(), ended.clone());
        std::thread::spawn(move || {
            let (mut client, mut answers) = (weir.client(), 0_u64);
            while !ended.load(Ordering::Relaxed) {
                let response = client.get("x", "/pass/x", &[]);
                assert_eq!(response.status(), 200);
                assert!(["b", "c", "a"].contains(&response.text().as_str()));
                answers += 1;
            }
            answers
        })
    };
    let clients = [load(&weir), load(&weir)];
    let mut refused = 0;
    for number in 0..reloads() {
        let is_broken = number % 10 == 9;
        let good = script(&format!("state.count(\"all\", 3600); origins[{}]", number % 3));
        change(weir.folder(), if is_broken { BROKEN } else { &good });
        let output = weir.command(&["reload"]);
        assert_eq!(output.code, Some(i32::from(is_broken)), "{output:?}");
        refused += usize::from(is_broken);
        if !is_broken {
            let name = ["a", "b", "c"][number % 3];
            assert_eq!(said(&weir, "/pass/x", &[]), (200, name.into()), "reload {number}");
        }
    }
    ended.store(true, Ordering::Relaxed);
    let answers: u64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
    let own = (reloads() - refused) as u64;
    assert_eq!(counted(&weir, "origin"), answers + own, "{}", state(&weir));
    assert_eq!(counted(&weir, "failed"), 0);
    // What is remembered has stayed through all of them.
    change(
        weir.folder(),
        &script(&format!("if state.counted(\"all\", 3600) == {} {{ origins[1] }}", answers + own)),
    );
    assert_eq!(weir.command(&["reload"]).code, Some(0));
    assert_eq!(said(&weir, "/pass/x", &[]), (200, "b".into()));
}

fn shipped() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/picks")
}

#[test]
fn shipped_scripts_pass_their_tests_by_hand() {
    let setup = setup();
    let mut count = 0;
    for entry in std::fs::read_dir(shipped()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "rhai") {
            continue;
        }
        let output = setup.command(&["picks", "test", path.to_str().unwrap()]);
        assert_eq!(output.code, Some(0), "{path:?}: {output:?}");
        assert!(output.stdout.contains(" passed, 0 failed"), "{path:?}: {output:?}");
        count += 1;
    }
    assert_eq!(count, 7);
}

fn tried(setup: &Setup, args: &[&str]) -> (Option<i32>, String) {
    let file = setup.folder().join("calm.rhai");
    let output = setup.command(&[&["picks", "test", file.to_str().unwrap()], args].concat());
    (output.code, output.stdout + &output.stderr)
}

#[test]
fn a_script_is_tried_by_hand() {
    let setup = setup();
    let least = "print(`asked by ${client.address}`);
                 if request.cookie(\"a\") == \"b\" { deny(403) } else { origins.least(\"cpu\") }";
    setup.file("calm.rhai", script(least));
    let (a, b) = ("http://a.example,cpu=0.4", "http://b.example,cpu=0.2,in_flight=3");
    let ask = ["--request", "GET https://shop.example/x", "--origin", a, "--origin", b];
    let (code, text) = tried(&setup, &[&ask[..], &["--client", "192.0.2.7"]].concat());
    assert_eq!(code, Some(0), "{text}");
    for part in ["print: asked by 192.0.2.7\n", "http://b.example\n", " operations, ", " µs\n"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (code, text) = tried(&setup, &[&ask[..], &["--header", "Cookie: a=b"]].concat());
    assert!(code == Some(0) && text.contains("deny 403\n"), "{text}");
    let (code, text) = tried(&setup, &[&ask[..], &["--header", "Cookie: a=b", "--fill"]].concat());
    assert!(code == Some(0) && text.contains("nothing\n"), "{text}");
    let (code, text) = tried(&setup, &[&ask[..], &["--times", "5"]].concat());
    assert!(code == Some(0) && text.contains("\nhttp://b.example\n"), "{text}");
    let (code, text) = tried(&setup, &[]);
    assert!(code == Some(0) && text.contains("there are no tests"), "{text}");
    setup.file("calm.rhai.tests.toml", "[[test]]\nname = \"none\"\nexpect = \"deny 403\"\n");
    let (code, text) = tried(&setup, &[]);
    assert!(
        code == Some(1) && text.contains("FAILED  none: expected deny 403, but it said nothing"),
        "{text}"
    );
    setup.file("calm.rhai", BROKEN);
    let (code, text) = tried(&setup, &[]);
    assert!(code == Some(1) && text.contains("calm.rhai:3:13") && text.contains("^^^^"), "{text}");
    // As where an upstream has no backup: a sample fails, and the answer is shown all the same.
    setup.file(
        "calm.rhai",
        script(
            "let spare = origins.where(\"backup\")[0]; if spare.name != 1 && state.count(1, 9) > 2 { spare }",
        ),
    );
    let (code, text) = tried(&setup, &["--request", "GET https://a.example/", "--times", "3"]);
    assert!(code == Some(1) && text.contains("1 times http://spare.example:80\n2 times nothing\n"), "{text}");
    assert!(text.contains("the script fails here"), "{text}");
}

#[test]
fn a_file_that_goes_leaves_the_script_in_force() {
    let trio = Trio::new();
    let weir = trio.start("origins[2]");
    std::fs::remove_file(weir.folder().join("calm.rhai")).unwrap();
    until("it is missed", || weir.stderr().contains("script refused, the old one stays"));
    assert_eq!(said(&weir, "/pass/x", &[]), (200, "c".into()));
    std::thread::sleep(Duration::from_millis(1));
    change(weir.folder(), &script("origins[1]"));
    until("it is back", || said(&weir, "/pass/x", &[]) == (200, "b".into()));
}
