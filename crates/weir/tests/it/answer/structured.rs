//! Compares Weir's reading of structured fields (RFC 9651) in `CDN-Cache-Control` (RFC 9213 §2.1) with
//! another reader's: `http-sf` in Python. Both get the same random dictionaries, well and badly formed ones.

use std::fmt::Write as _;
use std::process::Command;

use weir_testkit::{Origin, Random, Resource};

use crate::answer::lint;
use crate::server::before;

/// How many dictionaries.
const COUNT: usize = 600;
/// The lifetime if the targeted field cannot be read.
const PLAIN_S: i64 = 3600;
/// The time that may pass between a response and the look at its remaining lifetime.
const SLACK_S: i64 = 30;

/// Well-formed and badly formed examples of each part of a dictionary.
const KEYS: [&[&str]; 2] =
    [&["max-age", "max-age", "a", "b.c-d_*9", "*k"], &["A", "1a", "a b", "", "\u{e4}"]];
const VALUES: [&[&str]; 2] = [
    &[
        "=10000",
        "=700",
        "=1800",
        "=7200",
        "=0",
        "=007",
        "=999999999999999",
        "=1.5",
        "",
        "=?1",
        "=?0",
        "=\"x, y\"",
        "=\"x\\\"\\\\\"",
        "=tok",
        "=*t/o:k",
        "=:YQ==:",
        "=()",
        "=(1 \"2\";q)",
        "=(1  2 )",
        "=@1659578233",
        "=%\"f%c3%bc\"",
    ],
    &[
        "=1000000000000000",
        "=+5",
        "=5.",
        "=1.0000",
        "=",
        "=?2",
        "=\"x\\y\"",
        "=\"x",
        "=t{o",
        "=:YQ==",
        "=:Y Q:",
        "=(1,2)",
        "=(1",
        "=@1.5",
        "=%\"f%C3\"",
        "=%\"f%c3\"",
        " =5",
        "= 5",
    ],
];
const PARAMETERS: [&[&str]; 2] =
    [&["", "", "", ";x", ";x=1;y=?0", ";  x=\"v\""], &["; \tx", ";x=\"", ";", ";;x", ";X", " ;x", ";x=(1)"]];
const SEPARATORS: [&[&str]; 2] = [&[", ", ",", "  ,\t"], &[",,", " ", ", ,", ";"]];
/// One in this many parts is badly formed.
const ODD: u64 = 20;

fn dictionary(random: &mut Random) -> String {
    let mut text = String::new();
    let mut add = |random: &mut Random, parts: [&[&str]; 2]| {
        let parts = parts[usize::from(random.below(ODD) == 0)];
        text.push_str(random.one_of::<&str>(parts));
    };
    for number in 0..=random.below(3) {
        if number > 0 {
            add(random, SEPARATORS);
        }
        for parts in [KEYS, VALUES, PARAMETERS] {
            add(random, parts);
        }
    }
    if random.below(ODD) == 0 {
        text.push(',');
    }
    text
}

/// The other reader's result for each.
fn read(python: &std::path::Path, all: &[String]) -> Vec<String> {
    let mut input = String::new();
    for text in all {
        let _ = writeln!(input, "{}", lint::hex(text.as_bytes()));
    }
    let mut command = Command::new(python);
    command.arg(lint::folder().join("fields.py"));
    let output = lint::feed(&mut command, &input);
    let mut lines: Vec<String> = output.lines().map(ToOwned::to_owned).collect();
    assert_eq!(lines.pop().as_deref(), Some("read"), "the reader broke off");
    lines
}

#[test]
fn targeted_dictionaries_are_read_as_another_reader_does() {
    let Some(python) = lint::python() else { return lint::skipped() };
    let seed = 9213;
    let mut random = Random::new(seed);
    let all: Vec<String> = (0..COUNT).map(|_| dictionary(&mut random)).collect();
    let expected = read(&python, &all);
    assert_eq!(expected.len(), all.len());
    let readable = expected.iter().filter(|line| *line != "none").count();
    assert!(readable > COUNT / 10 && readable < COUNT * 9 / 10, "{readable} of {COUNT} can be read");
    let origin = Origin::start();
    let weir = before(&origin);
    let mut client = weir.client();
    let mut wrong = Vec::new();
    for (number, (text, expected)) in all.iter().zip(&expected).enumerate() {
        let path = format!("/{number}");
        let resource = Resource::new("x").header("Cache-Control", &format!("max-age={PLAIN_S}"));
        origin.put(&path, resource.header("CDN-Cache-Control", text.trim()));
        client.get("localhost", &path, &[]);
        let second = client.get("localhost", &path, &[]);
        let left_s =
            second.cache_status().split("; ").find_map(|part| part.strip_prefix("ttl=")?.parse().ok());
        let lifetime_s = match expected.as_str() {
            "none" => Some(PLAIN_S),
            "other" | "0" => None,
            seconds => seconds.parse::<i64>().ok().map(|seconds| seconds.min(1 << 31)),
        };
        let is_fine = match (lifetime_s, left_s, second.is_hit()) {
            (Some(lifetime_s), Some(left_s), true) => (lifetime_s - SLACK_S..=lifetime_s).contains(&left_s),
            (None, _, is_hit) => !is_hit,
            _ => false,
        };
        if !is_fine {
            wrong.push(format!("{text:?}: {:?} where http-sf reads {expected}", second.cache_status()));
        }
    }
    assert!(wrong.is_empty(), "seed {seed}, {} of {COUNT}:\n{}", wrong.len(), wrong.join("\n"));
}
