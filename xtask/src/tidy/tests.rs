//! Each rule fails on a sample that breaks it, and the tree breaks none.

use super::rooms::Import;
use super::{Offence, Source, judge, rooms, root, rules, without_comment};

type Rule = fn(&Source) -> Vec<Offence>;

fn check(rule: Rule, path: &str, text: &str, lines: &[usize]) {
    let source = Source { path: path.to_owned(), text: text.to_owned() };
    let found: Vec<usize> = rule(&source).iter().map(|offence| offence.line).collect();
    assert_eq!(found, lines, "{path}: {text:.60}");
}

#[test]
fn the_tree_is_tidy() {
    let offences = judge(&root()).unwrap();
    let text: String = offences.iter().map(|offence| format!("\n{offence}")).collect();
    assert!(offences.is_empty(), "{} untidy places:{text}", offences.len());
}

#[test]
fn long_files_offend_unless_they_are_tests_or_tables() {
    let long = "x\n".repeat(600);
    check(rules::file_length, "crates/a/src/b.rs", &long, &[1]);
    check(rules::file_length, "crates/a/src/b.rs", &"x\n".repeat(599), &[]);
    for exempt in ["crates/a/src/tests.rs", "crates/a/tests/it/b.rs", "crates/a/src/table_of_x.rs", "a.md"] {
        check(rules::file_length, exempt, &long, &[]);
    }
}

#[test]
fn long_functions_offend() {
    let function = |lines: usize, head: &str| format!("{head} {{\n{}}}\n", "    x;\n".repeat(lines - 2));
    let path = "crates/a/src/b.rs";
    check(rules::function_length, path, &function(70, "pub(crate) async fn a()"), &[1]);
    check(rules::function_length, path, &function(69, "fn a<T>()"), &[]);
    check(rules::function_length, path, &function(100, "struct A"), &[]);
    let nested = "impl A {\n    const fn a(\n        b: u8,\n    ) {\n".to_owned()
        + &"        x;\n".repeat(70)
        + "    }\n}\n";
    check(rules::function_length, path, &nested, &[2]);
    let declared = format!("trait A {{\n    fn a();\n    fn b() {{}}\n{}}}\n", "    // x\n".repeat(90));
    check(rules::function_length, path, &declared, &[]);
    check(rules::function_length, path, &format!("mod tests {{\n{}}}", function(99, "fn a()")), &[]);
}

#[test]
fn a_file_without_a_card_offends() {
    check(rules::card, "crates/a/src/b.rs", "use x;\n", &[1]);
    check(rules::card, "crates/a/src/b.rs", "//! A thing.\n", &[]);
}

#[test]
fn each_absence_is_kept() {
    let cases = [
        ("crates/weir-policy/src/a.rs", "let now = Instant::now();"),
        ("crates/weir-policy/src/a.rs", "use std::fs;"),
        ("crates/weir-wire/src/a.rs", "use tokio::net::TcpStream;"),
        ("crates/weir-store/src/a.rs", "let a = headers.get(\"x\");"),
        ("crates/weir-store/src/a.rs", "use http::header::AGE;"),
        ("crates/weir-upstream/src/a.rs", "use weir_policy::Now;"),
        ("crates/weir-edge/src/a.rs", "use rocksdb::DB;"),
    ];
    for (path, line) in cases {
        check(rules::absences, path, line, &[1]);
        check(rules::absences, path, &format!("// {line}"), &[]);
        check(rules::absences, path, &format!("mod tests {{\n{line}\n}}"), &[]);
        check(rules::absences, "crates/weir/src/a.rs", line, &[]);
    }
}

#[test]
fn spawning_offends_outside_its_list() {
    check(rules::spawning, "crates/weir-edge/src/a.rs", "x\ntokio::spawn(async {});", &[2]);
    check(rules::spawning, "crates/weir-edge/src/a.rs", "local.spawn_local(x);", &[1]);
    check(rules::spawning, "crates/weir-edge/src/tests.rs", "tokio::spawn(async {});", &[]);
}

#[test]
fn serialization_offends_outside_its_list() {
    check(rules::serialization, "crates/weir-store/src/a.rs", "#[derive(Serialize)]", &[1]);
    check(rules::serialization, "crates/weir-observe/src/record.rs", "#[derive(Serialize)]", &[]);
}

#[test]
fn a_crate_that_may_be_unsafe_offends() {
    check(rules::unsafe_code, "crates/a/src/lib.rs", "//! A.\n", &[1]);
    check(rules::unsafe_code, "crates/a/src/lib.rs", "#![forbid(unsafe_code)]\n", &[]);
}

#[test]
fn names_that_say_nothing_offend() {
    check(rules::file_names, "crates/a/src/utils.rs", "", &[1]);
    check(rules::file_names, "crates/a/src/common/b.rs", "", &[1]);
    check(rules::file_names, "crates/a/src/route.rs", "", &[]);
}

#[test]
fn unfinished_places_offend() {
    check(rules::unfinished, "crates/a/src/b.rs", concat!("x\nto", "do!()"), &[2]);
    check(rules::unfinished, "crates/a/src/b.rs", concat!("#[ig", "nore]"), &[1]);
    check(rules::unfinished, "crates/a/src/b.rs", concat!("#[ig", "nore = \"needs a disk\"]"), &[]);
}

#[test]
fn paths_of_one_machine_offend() {
    check(rules::machine_paths, "a.md", concat!("see /", "work/x"), &[1]);
    check(rules::machine_paths, "a.md", concat!("see frame/", "work/x and net", "work/"), &[]);
}

#[test]
fn download_addresses_offend() {
    check(rules::download_addresses, "a/package-lock.json", "{\n\"resolved\": \"https://x/y.tgz\"", &[2]);
    check(rules::download_addresses, "a/package-lock.json", "{ \"integrity\": \"x\"", &[]);
}

#[test]
fn imports_go_one_way() {
    let import = |from: &str, to: &str, kind: &str| {
        rooms::offence(&Import { from: from.to_owned(), to: to.to_owned(), kind: kind.to_owned() }).is_some()
    };
    assert!(import("weir-policy", "weir-wire", "normal"));
    assert!(import("weir-store", "weir-upstream", "normal"));
    assert!(import("weir-edge", "weir-testkit", "normal"));
    assert!(import("a-new-room", "weir-wire", "normal"));
    assert!(!import("weir-edge", "weir-testkit", "dev"));
    assert!(!import("weir-edge", "weir-store", "normal"));
    assert!(import("weir", "rocksdb", "normal"));
    assert!(import("weir-store", "rocksdb", "dev"));
    assert!(!import("weir-rocks", "rocksdb", "normal"));
}

#[test]
fn comments_are_left_out_and_strings_are_not() {
    assert_eq!(without_comment("a // b"), "a ");
    assert_eq!(without_comment("let a = \"http://b\";"), "let a = \"http://b\";");
}
