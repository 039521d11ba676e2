//! Pages in Prometheus' text: what is read, and what is refused with its line.

use super::fuzzing::{exposition, read};
use super::*;

fn shown(page: &str, name: &str) -> Vec<String> {
    let samples = read(page.as_bytes(), 5).unwrap();
    let named = samples.get(name).unwrap();
    let of = |labels: &[(Box<str>, Box<str>)]| {
        labels.iter().map(|(label, value)| format!("{label}={value}")).collect::<Vec<_>>().join(",")
    };
    named.series.iter().map(|one| format!("{} {}", of(&one.labels), one.value)).collect()
}

#[test]
fn a_line_is_a_series() {
    let page = "# HELP a Some help.\n# TYPE a gauge\na{y=\"2\",x=\"1\\\"\\n\\\\\"} 1.5 1700000000\n\
                a 2e3\r\n a {x=\"3\",} -7 # {trace=\"1\"} 1\n\na{x=\"4\"}+Inf\nb{c=\"d\"} 1\nb 3\n# EOF\n";
    assert_eq!(shown(page, "a"), ["x=1\"\n\\,y=2 1.5", " 2000", "x=3 -7"]);
    // Names whose labels nobody asks for have a mean alone.
    let samples = read(page.as_bytes(), usize::MAX).unwrap();
    let named = samples.get("b").unwrap();
    assert_eq!((named.mean(), named.series.len()), (2.0, 0));
    assert!(read(b"a NaN\nb 1", 3).unwrap().get("a").is_none());
}

#[test]
fn what_is_no_page_is_refused_with_its_line() {
    let rows = [
        ("", "line 0: the page has no series"),
        ("<html>\n", "line 1: a series begins with its name"),
        ("a 1\n{\"a\": 1}\n", "line 2: a series begins with its name"),
        ("a", "line 1: a name is followed by labels or a value"),
        ("a one\n", "line 1: the value is no number"),
        ("a \n", "line 1: a name is followed by labels or a value"),
        ("a{} \n", "line 1: there is no value"),
        ("a infinity\n", "line 1: the value is no number"),
        ("1a 1\n", "line 1: a name begins with a letter"),
        ("a{b=\"c} 1\n", "line 1: the value of a label does not end"),
        ("a{b=c} 1\n", "line 1: the value of a label is in quotes"),
        ("a{b \"c\"} 1\n", "line 1: a label has `=`"),
        ("a{b=\"c\" d=\"e\"} 1\n", "line 1: labels are separated by commas"),
        ("a{=\"c\"} 1\n", "line 1: a label has a name"),
    ];
    for (page, expect) in rows {
        for size in [1, 3, 1000] {
            assert_eq!(read(page.as_bytes(), size).unwrap_err().to_string(), expect, "{page:?}");
        }
    }
    assert_eq!(read(b"a \xff\n", 9).unwrap_err().to_string(), "line 1: this is not UTF-8");
    let long = format!("a{{b=\"{}", "c".repeat(LINE_BYTES_MAX));
    assert_eq!(read(long.as_bytes(), 100).unwrap_err().to_string(), "line 1: the line is too long");
    let labels: String = (0..LABELS_MAX + 1).map(|at| format!("l{at}=\"\",")).collect();
    let many = format!("a{{{labels}}} 1\n");
    assert_eq!(read(many.as_bytes(), 100).unwrap_err().to_string(), "line 1: too many labels");
}

#[test]
fn a_page_of_any_length_is_held_in_bounds() {
    let names: String = (0..10_000).map(|at| format!("n{at} 1\n")).collect();
    assert_eq!(read(names.as_bytes(), 1000).unwrap().names().len(), 4096);
    let series: String = (0..30_000).map(|at| format!("a{{b=\"{at}\"}} 1\n")).collect();
    let samples = read(series.as_bytes(), 1000).unwrap();
    assert_eq!(samples.get("a").unwrap().series.len(), 20_000);
}

#[test]
fn the_fuzz_target_holds_for_its_seeds() {
    weir_testkit::fuzz("exposition", &[b"{", b"}", b"\"", b"\\", b"\n", b"a 1", b",", b"="], exposition);
    for page in ["a 1\n", "a{b=\"c\"} 1\na{b=\"d\"} 2", "", "a{", "# x\n\nnode_cpu_seconds_total{} 1 2 3\n"] {
        exposition(page.as_bytes());
    }
}
