//! What scripts see, what they may not, and how their mistakes look.

use super::*;
use crate::made::{MadeOrigin, MadeRow};
use crate::sample::usual_origins;
use crate::state::State;
use crate::trial::{self, words};

fn source(text: &str) -> Source {
    Source { file: "picks/a.rhai".into(), text: text.into() }
}

fn compile(text: &str) -> Result<Program, Box<Mistake>> {
    Program::compile(source(text), &[])
}

fn row() -> MadeRow {
    MadeRow(vec![
        MadeOrigin { id: Some("a-1".into()), ..MadeOrigin::new("http://a.example:80").with("cpu", 0.5) },
        MadeOrigin { in_flight: 4, weight: 2.0, ..MadeOrigin::new("http://b.example:80").with("cpu", 0.25) },
        MadeOrigin { is_up: false, ..MadeOrigin::new("http://c.example:8080").with("cpu", 0.1) },
        MadeOrigin { is_backup: true, latency_ms: 1.5, ..MadeOrigin::new("https://spare.example:443") },
    ])
}

/// What `fn pick` with this body says of a request.
fn said(body: &str, change: impl FnOnce(&mut crate::MadeRequest)) -> String {
    let text = format!("fn pick(request, client, origins, state) {{ {body} }}");
    let program = compile(&text).unwrap_or_else(|mistake| panic!("{mistake}"));
    let mut request = trial::request("GET https://shop.example/cart?id=7&x=a%20b").unwrap();
    trial::field(&mut request, "cookie", "a=1; b = two ;c").unwrap();
    trial::field(&mut request, "user-agent", "Test/1").unwrap();
    request.about.client = Some("192.0.2.7:4711".parse().unwrap());
    request.about.session = Some("s1".into());
    change(&mut request);
    let state = State::new(crate::clock::now());
    words(&request.ask(&program, &row(), &state, (crate::clock::now(), 1)).answer, &row())
}

/// Asserts that an expression over the arguments is true.
fn holds(expression: &str) {
    let body = format!("if {expression} {{ deny(418) }} else {{ () }}");
    assert_eq!(said(&body, |_| {}), "deny 418", "{expression}");
}

#[test]
fn a_script_sees_the_request_and_its_client() {
    for expression in [
        r#"request.method == "GET""#,
        r#"request.scheme == "https""#,
        r#"request.host == "shop.example""#,
        r#"request.site == "shop.example""#,
        r#"request.route == "otherwise""#,
        r#"request.kind == "pass""#,
        r#"request.path == "/cart""#,
        r#"request.query == "id=7&x=a%20b""#,
        r#"request.field("User-Agent") == "Test/1""#,
        r#"request.field("nothing") == ()"#,
        r#"request.field("no such name") == ()"#,
        r#"request.cookie("a") == "1""#,
        r#"request.cookie("b") == "two""#,
        r#"request.cookie("c") == ()"#,
        r#"request.param("id") == "7""#,
        r#"request.param("x") == "a%20b""#,
        r#"request.param("y") == ()"#,
        r#"client.address == "192.0.2.7""#,
        r#"client.network == "192.0.2.7""#,
        "client.port == 4711",
        r#"client.session == "s1""#,
        r#"(request.cookie("no") ?? "else") == "else""#,
    ] {
        holds(expression);
    }
}

#[test]
fn a_script_sees_the_origins() {
    for expression in [
        "origins.len == 4",
        "!origins.is_empty",
        r#"origins[0].name == "http://a.example:80""#,
        r#"origins[0].id == "a-1""#,
        "origins[1].id == ()",
        "origins[4] == ()",
        "origins[-5] == ()",
        r#"origins[-1].name == "https://spare.example:443""#,
        "origins[0].up && !origins[2].up",
        r#"origins[0].standing == "ready" && origins[2].standing == "down""#,
        "origins[1].weight == 2.0",
        "origins[1].in_flight == 4",
        "origins[3].latency == 1.5",
        "origins[3].backup",
        r#"origins[0].metric("cpu") == 0.5"#,
        r#"origins[3].metric("cpu") == ()"#,
        r#"origins[0].age("cpu") == 0.0"#,
        "origins[0] == origins[0] && origins[0] != origins[1]",
        "origins[0] != ()",
        "origins.up().len == 2",
        r#"origins.where("cpu < 0.3").len == 2"#,
        r#"origins.up().where("cpu < 0.3")[0].name == "http://b.example:80""#,
        r#"origins.where("cpu > 7").is_empty"#,
        r#"origins.where("cpu > 7").drawn() == ()"#,
        r#"origins.named("a-1").name == "http://a.example:80""#,
        r#"origins.named("http://a.example") == origins[0]"#,
        r#"origins.named("http://a.example:80/") == origins[0]"#,
        r#"origins.named("https://spare.example") == origins[3]"#,
        r#"origins.named("http://c.example") == ()"#,
        r#"origins.hashed("x") == origins.hashed("x")"#,
        r#"origins.hashed("x", 2).len == 2"#,
        r#"origins.hashed("x", 9).len == 2"#,
        "origins.hashed(()) == ()",
        "let n = 0; for origin in origins { n += origin.in_flight } n == 4",
        r#"let n = 0; for origin in origins.where("backup") { n += 1 } n == 1"#,
    ] {
        match expression.rsplit_once("} ") {
            Some((before, last)) if before.contains("for") => {
                let body = format!("{before}}} if {last} {{ deny(418) }}");
                assert_eq!(said(&body, |_| {}), "deny 418", "{expression}");
            }
            _ => holds(expression),
        }
    }
}

#[test]
fn what_chooses_takes_what_is_up_and_primaries_first() {
    let none = |_: &mut crate::MadeRequest| {};
    assert_eq!(said(r#"origins.least("cpu")"#, none), "http://b.example:80");
    assert_eq!(said(r#"origins.least("in_flight / weight")"#, none), "http://a.example:80");
    assert_eq!(said(r#"origins.least("nothing")"#, none), "nothing");
    assert_eq!(said(r#"origins.where("cpu < 0.2").least("cpu")"#, none), "nothing");
    assert_eq!(said(r#"origins.where("not up or backup").drawn()"#, none), "https://spare.example:443");
    assert_eq!(said(r#"origins.drawn("0.5 - cpu")"#, none), "http://b.example:80");
    assert_eq!(said(r#"origins.up()"#, none), "one of http://a.example:80, http://b.example:80");
    assert_eq!(said(r#"origins.where("cpu > 7")"#, none), "nothing");
}

#[test]
fn draws_go_by_weight_and_hashes_move_little() {
    let program = compile("fn pick(request, client, origins, state) { origins.drawn() }").unwrap();
    let state = State::new(crate::clock::now());
    let request = trial::request("GET https://a.example/").unwrap();
    let mut counts = [0_u32; 4];
    for chance in 0..3000 {
        let tried = request.ask(&program, &row(), &state, (crate::clock::now(), chance));
        let Ok(Answer::Origin(at)) = tried.answer else { panic!("{tried:?}") };
        counts[at] += 1;
    }
    assert!(counts[0].abs_diff(1000) < 150 && counts[1].abs_diff(2000) < 150, "{counts:?}");
    assert_eq!(counts[2..], [0, 0]);

    let text = "fn pick(request, client, origins, state) { origins.hashed(request.path) }";
    let program = compile(text).unwrap();
    let mut fewer = row();
    fewer.0[1].is_up = false;
    let mut counts = [0_u32; 4];
    for number in 0..3000 {
        let request = trial::request(&format!("GET https://a.example/{number}")).unwrap();
        let ask =
            |row: &MadeRow| request.ask(&program, row, &state, (crate::clock::now(), 0)).answer.unwrap();
        let (whole, without) = (ask(&row()), ask(&fewer));
        let Answer::Origin(at) = whole else { panic!("{whole:?}") };
        counts[at] += 1;
        if at == 0 {
            assert_eq!(without, whole, "what was not at the missing origin stays");
        }
    }
    assert!(counts[0].abs_diff(1000) < 150 && counts[1].abs_diff(2000) < 150, "{counts:?}");
}

#[test]
fn a_fill_has_no_client_and_is_not_denied() {
    let fill = |request: &mut crate::MadeRequest| request.about.kind = weir_upstream::Kind::Fill;
    let body = "if client.address == () && client.network == () && client.port == () \
                && client.session == () && request.kind == \"fill\" { origins[0] } else { () }";
    assert_eq!(said(body, fill), "http://a.example:80");
    assert_eq!(said("deny(403)", fill), "nothing");
    assert_eq!(said("if state.count(client.address, 10) == 0 { origins[0] }", fill), "http://a.example:80");
    assert_eq!(said("state.set(client.session, 1, 5); state.get(client.session)", fill), "nothing");
}

#[test]
fn a_script_remembers() {
    for expression in [
        r#"state.count("a", 10) == 1 && state.count("a", 10) == 2 && state.counted("a", 10) == 2"#,
        r#"state.get("a") == ()"#,
        r#"state.count(client.address, 10) == 1"#,
        "state.count(7, 10) == 1",
    ] {
        holds(expression);
    }
    let body = r#"state.set("a", "b", 5); let was = state.get("a"); state.remove("a");
                  if was == "b" && state.get("a") == () { deny(418) }"#;
    assert_eq!(said(body, |_| {}), "deny 418");
    for (body, why) in [
        (r#"state.count("a", 0)"#, "1 to 86400 seconds"),
        (r#"state.set("a", [1], 5)"#, "keeps numbers"),
        ("state.count(origins, 5)", "is no key"),
    ] {
        let said = said(body, |_| {});
        assert!(said.starts_with("an error") && said.contains(why), "{body}: {said}");
    }
}

#[test]
fn denials_are_refusals() {
    assert_eq!(said("deny(403)", |_| {}), "deny 403");
    assert_eq!(said("deny(429, 30)", |_| {}), "deny 429 30");
    for body in ["deny(200)", "deny(600)", "deny(-1)", "deny(429, -1)", "deny(429, 86401)"] {
        assert!(said(body, |_| {}).starts_with("an error"), "{body}");
    }
}

#[test]
fn what_pick_gives_is_checked() {
    for (body, kind) in
        [("1", "i64"), ("\"http://a.example\"", "string"), ("request", "request"), ("true", "bool")]
    {
        let said = said(body, |_| {});
        assert!(said.contains(&format!("gave {kind}")), "{body}: {said}");
    }
}

#[test]
fn endless_and_growing_scripts_end() {
    let cases = [
        ("loop { }", "2000 operations"),
        ("while true { let a = 1; }", "2000 operations"),
        ("let n = 0; for number in 0..1000000000000 { n += 1; }", "2000 operations"),
        ("let n = 0; for number in range(0, 1000000000000, 1) { n += 1; }", "2000 operations"),
        ("let text = \"x\"; loop { text += text; }", "64 KiB"),
        ("let text = \"\"; text.pad(1000000000, 'x');", "64 KiB"),
        ("let list = [1]; loop { list += list; }", "64 KiB"),
        ("let list = []; list.pad(1000000000, 1);", "64 KiB"),
        ("let list = [1]; loop { list = [list, list]; }", "64 KiB"),
        ("let map = #{}; for number in 0..100000 { map[number.to_string()] = number; }", "2000 operations"),
        ("let map = #{}; loop { map = #{ a: map, b: map }; }", "64 KiB"),
        ("try { loop { } } catch { return origins[0]; }", "2000 operations"),
        ("9223372036854775807 + origins.len", "overflow"),
        ("1 / (origins.len - 4)", "division by zero"),
        ("throw \"on purpose\"", "on purpose"),
    ];
    for (body, why) in cases {
        let said = said(body, |_| {});
        assert!(said.starts_with("an error") && said.contains(why), "{body}: {said}");
    }
    let text = "fn deeper(n) { deeper(n + 1) }
                fn pick(request, client, origins, state) { deeper(0) }";
    let program = compile(text).unwrap();
    let request = trial::request("GET https://a.example/").unwrap();
    let state = State::new(crate::clock::now());
    let answer = request.ask(&program, &row(), &state, (crate::clock::now(), 0)).answer;
    assert_eq!(answer.unwrap_err().why, "its calls went deeper than 16");
}

#[test]
fn operations_on_long_values_are_stopped_in_time() {
    let text = "fn pick(request, client, origins, state) {
                    let list = []; list.pad(4000, 1); let text = \"\"; text.pad(60000, 'x');
                    loop { let copy = list; text.index_of(\"xy\"); list.sort(); } }";
    let program = compile(text).unwrap();
    let request = trial::request("GET https://a.example/").unwrap();
    let state = State::new(crate::clock::now());
    let tried = request.ask(&program, &row(), &state, (crate::clock::now(), 0));
    assert!(tried.operations < 2000, "it ended by time, not by operations");
    assert_eq!(tried.answer.unwrap_err().why, "it computed for more than 5 ms");
}

#[test]
fn nothing_reaches_outside() {
    for body in ["sleep(1)", "timestamp()", "parse_json(\"1\")", "open(\"a\")", "exit()", "rand()"] {
        let said = said(body, |_| {});
        assert!(said.contains("there is no function"), "{body}: {said}");
    }
    for body in
        ["eval(\"1\")", "import \"a\" as b;", "export a;", "let f = |x| x; f = f.curry(f);", "Fn(\"pick\")"]
    {
        let text = format!("fn pick(request, client, origins, state) {{ {body} }}");
        assert!(compile(&text).is_err(), "{body}");
    }
}

#[test]
fn constants_are_seen_everywhere_and_can_be_set() {
    let text = "const LIMIT = 3; const RATE = 0.5; const NAMES = [\"a\"]; const WORD = \"w\";
                fn limit() { LIMIT }
                fn pick(request, client, origins, state) { deny(400 + limit() + NAMES.len, 9) }";
    let said = |settings: &[(String, Setting)]| {
        let program = Program::compile(source(text), settings)?;
        let request = trial::request("GET https://a.example/").unwrap();
        let state = State::new(crate::clock::now());
        let answer = request.ask(&program, &row(), &state, (crate::clock::now(), 0)).answer;
        Ok::<_, Box<Mistake>>(words(&answer, &row()))
    };
    let set = |name: &str, value: Setting| [(name.to_owned(), value)];
    assert_eq!(said(&[]).unwrap(), "deny 404 9");
    assert_eq!(said(&set("LIMIT", Setting::Integer(17))).unwrap(), "deny 418 9");
    assert_eq!(said(&set("RATE", Setting::Integer(1))).unwrap(), "deny 404 9");
    let list = Setting::List(vec![Setting::Text("b".into()), Setting::Text("c".into())]);
    assert_eq!(said(&set("NAMES", list)).unwrap(), "deny 405 9");
    for (name, value, why) in [
        ("LIMT", Setting::Integer(1), "did you mean `LIMIT`?"),
        ("LIMIT", Setting::Text("1".into()), "`LIMIT` is string in the configuration, and i64 in the script"),
        ("LIMIT", Setting::Number(1.5), "f64 in the configuration"),
    ] {
        let mistake = said(&set(name, value)).unwrap_err().to_string();
        assert!(mistake.contains(why), "{mistake}");
    }
}

#[test]
fn a_mistake_has_its_line_and_a_caret() {
    let check = |text: &str, place: Option<(usize, usize)>, why: &str| {
        let mistake = compile(text).and_then(|program| program.sample(&usual_origins())).expect_err(text);
        assert!(mistake.to_string().contains(why), "{text}\n{mistake}");
        assert_eq!(mistake.place, place, "{text}\n{mistake}");
    };
    let of =
        |body: &str| format!("// A pick.\nfn pick(request, client, origins, state) {{\n    {body}\n}}\n");
    check("", None, "the script has no `fn pick(request, client, origins, state)`");
    check("fn pick(request) { }", Some((1, 1)), "`pick` has 1 arguments");
    check("fn pick(request, client, origins, state) {", Some((1, 43)), "");
    check("let limit = 3;", Some((1, 1)), "only `const` and `fn`");
    check("const A = 1;\nprint(A);", Some((2, 1)), "only `const` and `fn`");
    check("const A = unknown;", Some((1, 11)), "unknown");
    check(&of("let = 3;"), Some((3, 9)), "");
    check(&of("limit + 1"), Some((3, 5)), "nothing is called `limit` here");
    check(&of("origins.lest(\"cpu\")"), Some((3, 13)), "there is no function `lest");
    check(&of("request.methd"), Some((3, 13)), "methd");
    check(&of("if origins.least(\"cpu\").name == \"a\" { }"), Some((3, 29)), "no metric known");
    check(&of("request.cookie(\"a\").len > 3"), Some((3, 25)), "with the sample");
    check(&of("origins.where(\"cpu < \")"), Some((3, 26)), "it ends where");
    check(&of("if client.port == 1 { origins.least(\"cpu <\") }"), Some((3, 47)), "it ends where");
    check(&of("loop { }"), Some((2, 1)), "2000 operations");
    check(&of("origins.named(\"no\").id"), Some((3, 25)), "`id` is asked of nothing (`()`)");
    check(&of("\"http://a.example\""), Some((2, 1)), "it gives an origin");
}

#[test]
fn a_mistake_looks_like_those_of_the_configuration() {
    let text = "fn pick(request, client, origins, state) {\n    origins.least(limit)\n}\n";
    let mistake = compile(text).unwrap_err();
    let expected = "error: nothing is called `limit` here
 --> picks/a.rhai:2:19
  |
2 |     origins.least(limit)
  |                   ^^^^^
  |
  = help: functions see their arguments, and constants of the first level";
    assert_eq!(mistake.to_string(), expected);
    assert_eq!(mistake.line(), "picks/a.rhai:2:19: nothing is called `limit` here");
}

#[test]
fn samples_let_useful_scripts_pass() {
    for body in [
        "",
        "origins.least(\"cpu\")",
        "origins.where(\"memory < 0.9\").drawn()",
        "if state.count(client.address, 10) > 100 { return deny(429, 10); }",
        "origins.hashed(request.cookie(\"session\") ?? client.network)",
        "let one = origins.named(\"http://a.example\"); if one != () && one.up { one }",
    ] {
        let text = format!("fn pick(request, client, origins, state) {{ {body} }}");
        let sampled = compile(&text).and_then(|program| program.sample(&usual_origins()));
        assert!(sampled.is_ok(), "{body}: {}", sampled.unwrap_err());
    }
}

#[test]
fn a_switch_of_very_many_cases_is_a_mistake_and_one_of_a_thousand_is_none() {
    let script = |count: usize| {
        let cases: String = (0..count).map(|number| format!("\"{number}\" => {number},\n")).collect();
        format!(
            "fn pick(request, client, origins, state) {{ switch request.path {{\n{cases}_ => () }}; () }}"
        )
    };
    assert!(compile(&script(1000)).is_ok());
    let mistake = compile(&script(12_000)).unwrap_err().to_string();
    assert!(mistake.contains("at most 1024 cases"), "{mistake}");
}
