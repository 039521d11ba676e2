//! What expressions make of what was read.

use std::collections::HashSet;
use std::time::Duration;

use super::fuzzing::expression;
use super::*;
use crate::exposition::Page;

fn samples(page: &str, after: Duration) -> Samples {
    let all = ["a", "b", "c", "node_cpu_seconds_total"].map(str::to_owned);
    let (wanted, now) = (HashSet::from(all), crate::clock::now());
    let mut reader = Page::new(&wanted, now + after);
    reader.feed(page.as_bytes()).unwrap();
    reader.end().unwrap()
}

fn check(text: &str, (before, now): (&str, &str), expect: Result<f64, &str>) {
    let begin = crate::clock::now();
    let (mut before, mut now) = (samples(before, Duration::ZERO), samples(now, Duration::ZERO));
    (before.at, now.at) = (begin, begin + Duration::from_secs(10));
    let part = |name: &str| (name == "port").then(|| "8081".to_owned());
    let given = Given { now: &now, before: Some(&before), part: &part };
    let found = evaluate(&text.parse().unwrap(), given);
    match (found, expect) {
        (Ok(found), Ok(expect)) => assert!((found.value - expect).abs() < 1e-9, "{text}: {found:?}"),
        (Err(why), Err(expect)) => assert_eq!(why.to_string(), expect, "{text}"),
        (found, expect) => panic!("{text}: {found:?}, not {expect:?}"),
    }
}

const BEFORE: &str = "node_cpu_seconds_total{cpu=\"0\",mode=\"idle\"} 100\n\
    node_cpu_seconds_total{cpu=\"1\",mode=\"idle\"} 200\n\
    node_cpu_seconds_total{cpu=\"0\",mode=\"user\"} 1\nb 1\n";
const NOW: &str = "node_cpu_seconds_total{cpu=\"0\",mode=\"idle\"} 105\n\
    node_cpu_seconds_total{cpu=\"1\",mode=\"idle\"} 203\nnode_cpu_seconds_total{cpu=\"0\",mode=\"user\"} 6\n\
    a{p=\"8081\"} 1\na{p=\"8082\"} 2\na{p=\"x\",q=\"y\"} 6\nb 4\nc{p=\"8082\"} 8\nc{p=\"z\"} 0\n";

#[test]
fn an_expression_becomes_one_number() {
    let rows = [
        ("1 - rate(node_cpu_seconds_total{mode=\"idle\"})", Ok(0.6)),
        ("sum(rate(node_cpu_seconds_total{mode=\"idle\"}))", Ok(0.8)),
        ("max(rate(node_cpu_seconds_total{mode=\"idle\"}))", Ok(0.5)),
        ("min(rate(node_cpu_seconds_total{mode=\"idle\"}))", Ok(0.3)),
        ("mean(a)", Ok(3.0)),
        ("a", Ok(3.0)),
        ("sum(a{p=~\"80.*\"})", Ok(3.0)),
        ("a{p!=\"x\"} + 1", Ok(2.5)),
        ("a{q!~\"y\",p!=\"8081\"}", Ok(2.0)),
        ("a{q=\"\",p=\"8082\"}", Ok(2.0)),
        ("a{p=\"{port}\"} * 5", Ok(5.0)),
        ("c / a", Ok(4.0)),
        ("rate(b)", Ok(0.3)),
        ("2 * (3 - 1) / 4", Ok(1.0)),
        ("a{p=\"80\"}", Err("no series a{p=\"80\"}")),
        ("nothing + 1", Err("no series nothing")),
        ("b / c", Err("no series of both sides have the same labels")),
        ("b / 0", Err("it is no number: a division by zero")),
        ("rate(a)", Err("rate(a) needs a second read")),
    ];
    for (text, expect) in rows {
        check(text, (BEFORE, NOW), expect);
    }
    // The counter of one core began again.
    check(
        "rate(node_cpu_seconds_total{cpu=\"0\",mode=\"idle\"})",
        (NOW, "node_cpu_seconds_total{cpu=\"0\",mode=\"idle\"} 4"),
        Ok(0.4),
    );
    let now = samples(NOW, Duration::ZERO);
    let given = Given { now: &now, before: None, part: &|_| None };
    assert_eq!(evaluate(&"rate(b)".parse().unwrap(), given), Err(Why::Once("b".to_owned())));
    let given = Given { now: &now, before: Some(&now), part: &|_| None };
    assert!(evaluate(&"rate(b)".parse().unwrap(), given).is_err(), "no time has passed");
}

#[test]
fn a_value_is_as_old_as_the_oldest_that_it_is_made_of() {
    let mut now = Samples::new(crate::clock::now());
    let s = Duration::from_secs;
    now.add("x", Some(Vec::new()), 1.0, Times { age: s(3), overdue: s(1), ends_in: None });
    now.add("y", Some(Vec::new()), 2.0, Times { age: s(9), overdue: s(0), ends_in: Some(s(20)) });
    now.add("z", Some(Vec::new()), 2.0, Times { age: s(30), overdue: s(30), ends_in: Some(s(5)) });
    let given = Given { now: &now, before: None, part: &|_| None };
    let found = evaluate(&"x + y".parse().unwrap(), given).unwrap();
    assert_eq!(found, Value { value: 3.0, times: Times { age: s(9), overdue: s(1), ends_in: Some(s(20)) } });
}

#[test]
fn the_fuzz_target_holds_for_its_seeds() {
    weir_testkit::fuzz(
        "expression",
        &[b"(", b")", b"a", b"/", b"rate(", b"sum(", b"{x=~\"", b"-"],
        expression,
    );
    for text in ["a", "1 - rate(a)", "a{x=\"1\"} / b", "sum(a) - -b", "a{", "ä", "'a b' + 1e309", "a / a"] {
        expression(text.as_bytes());
    }
}
