//! Each rule fails on a sample that breaks it, and the tree breaks none.

use super::rooms::Import;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::circles::circles;
use super::dependencies::Named;
use super::parameters;
use super::ratchet::{CIRCLES, Counts, PARAMETERS, WIDTHS, WORDS};
use super::source::{Offence, Source, without_comment};
use super::syntax::{Import as FileImport, Tree};
use super::{
    connections, dependencies, indexes, judge, loops, map, pages, product, rooms, root, rules, wording,
};

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
fn an_example_in_a_comment_offends() {
    let path = "crates/a/src/b.rs";
    check(rules::examples, path, "/// ```text\n/// x\n/// ```\n/// ```\n/// a();\n/// ```\n", &[4]);
    check(rules::examples, path, "    //! ```rust\n    //! a();\n    //! ```\n", &[1]);
    check(rules::examples, "docs/a.md", "```rust\na();\n```\n", &[]);
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
        ("crates/weir-body/src/a.rs", "tokio::task::yield_now().await;"),
        ("crates/weir-edge/src/a.rs", "let is_old = request.protocol.ends_with('1');"),
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
fn dates_that_may_panic_offend_outside_their_list() {
    check(rules::dates, "crates/weir-edge/src/a.rs", "let a = httpdate::fmt_http_date(b);", &[1]);
    check(rules::dates, "crates/weir-edge/tests/walk/a.rs", "httpdate::fmt_http_date(b)", &[]);
    check(rules::dates, "crates/weir-policy/src/date.rs", "httpdate::fmt_http_date(b)", &[]);
}

#[test]
fn serialization_offends_outside_its_list() {
    check(rules::serialization, "crates/weir-store/src/a.rs", "#[derive(Serialize)]", &[1]);
    check(rules::serialization, "crates/weir-observe/src/record.rs", "#[derive(Serialize)]", &[]);
    check(rules::serialization, "crates/weir-config/src/a.rs", "#[derive(Serialize)]", &[1]);
    check(rules::serialization, "crates/weir-config/src/a.rs", "#[cfg_attr(test, derive(Serialize))]", &[]);
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
fn a_row_that_no_crate_uses_offends() {
    let rows: &[(&str, &[&str])] = &[("weir-edge", &["weir-store", "weir-wire"])];
    let import = |to: &str| Import { from: "weir-edge".into(), to: to.into(), kind: "normal".into() };
    let idle = |imports: &[Import]| rooms::idle_rows(rows, imports).len();
    assert_eq!(idle(&[import("weir-store"), import("weir-wire")]), 0);
    assert_eq!(idle(&[import("weir-store")]), 1);
    assert_eq!(idle(&[]), 2);
}

#[test]
fn comments_are_left_out_and_strings_are_not() {
    assert_eq!(without_comment("a // b"), "a ");
    assert_eq!(without_comment("let a = \"http://b\";"), "let a = \"http://b\";");
}

/// An empty folder, removed when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weir-tidy-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The imports of a tree of files, as `from>to`. A file is a path below `src/` and its text; the root comes
/// first.
fn imports(files: &[(&str, &str)]) -> Vec<String> {
    let folder = Scratch::new();
    for (path, text) in files {
        let path = folder.0.join("src").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let tree = Tree::read(&folder.0, &format!("src/{}", files[0].0)).unwrap();
    let short = |file: usize| tree.files[file].trim_start_matches("src/").trim_end_matches(".rs").to_owned();
    let mut found: Vec<String> =
        tree.imports().iter().map(|i| format!("{}>{}", short(i.from), short(i.to))).collect();
    found.dedup();
    found
}

#[test]
fn imports_are_found_in_whatever_form() {
    let root = ("lib.rs", "mod a; mod b;");
    for text in [
        "use crate::b::B;",
        "use super::b::{self, B};",
        "use crate::b::*;",
        "use crate::b; fn f() -> b::B { b::B }",
        "fn f(_: &crate::b::B) {}",
        "fn f() { println!(\"{}\", crate::b::B::C) }",
        "mod inline { fn f(_: super::super::b::B) {} }",
        "fn f() { use crate::b::B; }",
    ] {
        assert_eq!(imports(&[root, ("a.rs", text), ("b.rs", "pub struct B;")]), ["a>b"], "{text}");
    }
    for text in
        ["use crate::b;", "#[cfg(test)] use crate::b::B;", "#[cfg(test)] mod tests { use crate::b::B; }"]
    {
        assert!(imports(&[root, ("a.rs", text), ("b.rs", "pub struct B;")]).is_empty(), "{text}");
    }
}

#[test]
fn a_re_export_belongs_to_the_file_that_defines_it() {
    let files = [
        ("lib.rs", "mod a; mod c; pub use a::inside::Thing;"),
        ("a.rs", "pub(crate) mod inside;"),
        ("a/inside.rs", "pub struct Thing;"),
        ("c.rs", "use crate::Thing;"),
    ];
    assert_eq!(imports(&files), ["c>a/inside"]);
}

#[test]
fn circles_are_the_components_of_several_files() {
    let import = |(from, to)| FileImport { from, to, path: String::new() };
    let found = |edges: &[(usize, usize)]| circles(6, &edges.iter().copied().map(import).collect());
    assert!(found(&[(0, 1), (1, 2), (0, 2)]).is_empty());
    assert_eq!(found(&[(0, 1), (1, 0), (2, 3), (3, 4), (4, 2), (1, 2)]), [vec![2, 3, 4], vec![0, 1]]);
    assert_eq!(found(&[(0, 1), (1, 2), (2, 3), (3, 1), (3, 0), (5, 0)]), [vec![0, 1, 2, 3]]);
}

#[test]
fn tuples_count_by_their_members() {
    let text = "fn free(a: u8, b: &(u8, String), c: (u8, u8)) {}\n\
                struct A;\nimpl A { fn new(&self, a: u8) {} }\nimpl X for A { fn x(a: u8) {} }\n\
                trait T { fn t(&self, a: u8, b: u8); }\n#[cfg(test)] mod tests { fn t(a: u8) {} }";
    let source = |path: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let found = parameters::count(&[source("crates/a/src/b.rs"), source("crates/a/tests/it/c.rs")]).unwrap();
    let expected = [("A::new", 1), ("T::t", 2), ("b::free", 4)];
    assert_eq!(found, expected.map(|(name, number)| (name.to_owned(), number)).into());
}

#[test]
fn ratchets_hold_what_is_above_their_bound_exactly() {
    let counts = |number: usize| Counts::from([("a".to_owned(), number)]);
    let offends = |table: &Counts, found: usize| PARAMETERS.judge(table, &counts(found)).len();
    assert_eq!(offends(&Counts::new(), 5), 0);
    assert_eq!(offends(&Counts::new(), 6), 1);
    assert_eq!(offends(&counts(7), 7), 0);
    assert_eq!(offends(&counts(7), 8), 1);
    assert_eq!(offends(&counts(7), 6), 1);
    assert_eq!(PARAMETERS.judge(&counts(7), &Counts::new()).len(), 1);
    assert_eq!(WORDS.judge(&counts(7), &counts(8)).len(), 1);
    assert!(WORDS.judge(&counts(7), &counts(6)).is_empty());
}

#[test]
fn avoided_words_are_found_as_words() {
    let words = wording::words("# a list\nanew -> again\nlet down -> written\n");
    assert_eq!(words, ["anew", "let down"]);
    assert_eq!(wording::occurrences("Anew, and anew: `anew`; canew anew_", "anew"), 3);
    assert_eq!(wording::occurrences("is let down, outlet down", "let down"), 1);
}

#[test]
fn one_more_avoided_word_offends() {
    let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let judge = wording::avoided(&root()).unwrap();
    let list = std::fs::read_to_string(root().join("xtask/avoided-words.txt")).unwrap();
    let words = wording::words(&list);
    assert!(words.len() >= 12 && words.iter().all(|word| judge(&source("a/b/c.rs", ""), word) > 0));
    let sources = [
        source("crates/a/src/b.rs", "// Begins anew.\nfn heir() {}\nfn their() {}\n"),
        source("docs/guide/c.md", "Whoever asks.\n"),
        source("STYLE.md", "not \"anew\"\n"),
    ];
    let found = wording::by_folder(&sources, &judge);
    assert_eq!((found["crates/a"], found["docs/guide"], found["STYLE.md"]), (2, 1, 0));
    let table = |number: usize| Counts::from([("crates/a".to_owned(), number), ("docs/guide".to_owned(), 1)]);
    assert!(WORDS.judge(&table(2), &found).is_empty());
    let offences: Vec<_> = WORDS.judge(&table(1), &found).iter().map(ToString::to_string).collect();
    assert!(offences.len() == 1 && offences[0].contains("crates/a has 2, at most 1"), "{offences:?}");
}

#[test]
fn wide_lines_are_counted_by_folder() {
    let source = |path: &str, text: String| Source { path: path.to_owned(), text };
    let line = |width: usize| "ä".repeat(width);
    let sources = [
        source("crates/a/src/b.rs", format!("{}\n{}\n", line(110), line(111))),
        source("crates/a/tests/it/b.rs", line(111)),
        source("docs/c/d.md", format!("{}\n{}\n| {}\n", line(120), line(121), line(200))),
        source("e.md", line(121)),
        source("f.txt", line(300)),
    ];
    let found = wording::by_folder(&sources, &wording::wide());
    assert_eq!(wording::places(&sources, &wording::wide(), "crates/a").len(), 2);
    let above: Vec<_> = found.iter().filter(|(_, n)| **n > 0).map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(above, [("crates/a", 2), ("docs/c", 1), ("e.md", 1)]);
    assert_eq!(WIDTHS.judge(&Counts::new(), &found).len(), 3);
    assert!(WIDTHS.judge(&found, &found).is_empty());
}

#[test]
fn unlisted_pages_and_broken_links_offend() {
    let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let found = |index: &str| {
        let sources = [
            source("docs/README.md", index),
            source("docs/guide/a.md", ""),
            source("docs/adr/README.md", ""),
            source("examples/README.md", ""),
        ];
        indexes::judge(&sources).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(found("[a](guide/a.md#b), [more](https://x/y), [up](../examples/README.md)").is_empty());
    assert_eq!(found(""), ["docs/guide/a.md:1: not listed in docs/README.md"]);
    assert_eq!(found("[a](guide/a.md)\n[b](guide/b.md)"), ["docs/README.md:2: `guide/b.md` leads nowhere"]);
}

#[test]
fn ratchets_are_written_smaller_and_never_larger() {
    let folder = Scratch::new();
    std::fs::create_dir_all(folder.0.join("xtask/ratchets")).unwrap();
    let write = |pairs: &[(&str, usize)]| {
        let found = pairs.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect();
        CIRCLES.write(&folder.0, &found)
    };
    let read = || CIRCLES.read(&folder.0).unwrap().into_iter().collect::<Vec<_>>();
    write(&[("a", 9), ("b", 3)]).unwrap();
    assert_eq!(read(), [("a".to_owned(), 9)]);
    write(&[("moved", 8)]).unwrap();
    assert_eq!(read(), [("moved".to_owned(), 8)]);
    assert!(write(&[("moved", 8), ("b", 4)]).is_err());
    assert_eq!(read(), [("moved".to_owned(), 8)]);
}

#[test]
fn a_dependency_that_nothing_mentions_offends() {
    let file = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let named = |folder: &str, name: &str| Named { folder: folder.to_owned(), name: name.to_owned() };
    let sources = [
        file("crates/a/src/lib.rs", "use used_crate::A;\n// only_said\nlet other = used_crates::A;\n"),
        file("crates/a/tests/it.rs", "mod tests {\n    use for_tests::B;\n}\n"),
        file("crates/ab/src/lib.rs", "use of_another::C;\n"),
    ];
    let offends = |name: &str| dependencies::offence(&named("crates/a", name), &sources).is_some();
    assert!(!offends("used-crate") && !offends("for-tests"));
    assert!(offends("only-said") && offends("used") && offends("of-another"));
    let manifest = "[workspace]\nx = 1\n[workspace.dependencies]\na = \"1\"\nb = { x = 1 }\n[p]\nc = 1\n";
    let found = dependencies::unnamed(&file("Cargo.toml", manifest), &[named("crates/a", "a")]);
    assert_eq!(found.iter().map(|offence| offence.line).collect::<Vec<_>>(), [5]);
}

#[test]
fn a_loop_that_waits_has_a_row_on_its_page() {
    let file = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let code = "//! A card.\nasync fn pulls() { loop { peer.next().await; } }\n\
                fn polls() { while poll_one().is_ready() {} }\n\
                fn lines() { let (a, b) = mpsc::channel(LINES_MAX); }\n\
                async fn once() { peer.next().await; for x in y { x.z(); } }\n\
                fn shares() { if all.fits(who, what, 1, most) {} all.iter().count(); room.fits(x); }\n\
                fn tells() { let (a, b) = mpsc::channel(); let c = oneshot::channel(); bounded(1); }\n\
                #[cfg(test)]\nmod tests { async fn t() { loop { a.await; } } }\n";
    let row = |names: &str, rest: &str| format!("| `weir-front/src/a.rs` | {names} | {rest} |\n");
    let check = |page: &str, expect: &[(&str, usize)]| {
        let sources = [file("docs/loops.md", page), file("crates/weir-front/src/a.rs", code)];
        let found = loops::judge(&sources).unwrap();
        let found: Vec<(&str, usize)> = found.iter().map(|one| (&*one.path, one.line)).collect();
        assert_eq!(found, expect, "{page}");
    };
    check(&row("`pulls`, `polls`, `lines`, `shares`", "one | ever | all"), &[]);
    // A function that waits in no loop may have a row as well.
    check(&row("`pulls`, `polls`, `lines`, `shares`, `once`", "one | ever | all"), &[]);
    check(&row("`pulls`, `lines`, `shares`", "one | ever | all"), &[("crates/weir-front/src/a.rs", 3)]);
    check(&row("`pulls`, `polls`, `lines`", "one | ever | all"), &[("crates/weir-front/src/a.rs", 6)]);
    check(&row("`pulls`, `polls`, `lines`, `shares`, `gone`", "one | ever | all"), &[("docs/loops.md", 1)]);
    // A row that does not say all is none.
    let all = [2, 3, 4, 6].map(|line| ("crates/weir-front/src/a.rs", line));
    check(
        &row("`pulls`, `polls`, `lines`, `shares`", "one | | all"),
        &[&all[..], &[("docs/loops.md", 1)]].concat(),
    );
    assert_eq!(loops::judge(&[file("a.md", "")]).unwrap().len(), 1, "there is such a page");
}

#[test]
fn product_lines_are_those_of_code() {
    let lines = |text: &str| product::product(text).lines;
    assert_eq!(lines("//! A card.\n\nuse a; // b\n/// C\nfn d() {}\n"), 2);
    assert_eq!(lines("/* a\nb /* c */ d\n*/ x();\ny();\n"), 2);
    // What looks like a comment, a bracket or an end in a text is none.
    assert_eq!(lines("a(\"// }\\\" {\");\nb(r#\"/* \" \"#);\nc('\"', '\\'', 'd');\n// e\n"), 3);
    assert_eq!(lines("let a = \"b \\\n    // c\n\n    d\";\ne();\n"), 4);
    let items = [
        "mod tests {\n    fn a() {}\n\n    fn b() { \"{\" }\n}",
        "mod tests;",
        "use a::{\n    b,\n    c,\n};",
        "#[derive(Debug)]\npub(crate) struct A<B, C>(\n    B,\n    C,\n);",
        "const A: &str =\n    \"b\";",
        "pub fn a<B>(\n    b: B,\n) -> bool\nwhere\n    B: C,\n{\n    b\n}",
        "const A: B = {\n    c()\n};",
    ];
    for item in items {
        for condition in ["test", "any(test, feature = \"testing\")"] {
            let text = format!("fn a() {{}}\n#[cfg({condition})]\n{item}\nfn z() {{}}\n");
            assert_eq!(lines(&text), 2, "{text}");
        }
        assert!(lines(&format!("fn a() {{}}\n#[cfg(not(test))]\n{item}\nfn z() {{}}\n")) > 3, "{item}");
    }
    let field = "struct A {\n    #[cfg(test)]\n    a: B<C, D>,\n    e: F,\n}\n";
    assert_eq!(lines(field), 3);
    let first = "#[cfg(test)]\nmod a;\n#[cfg(test)]\npub(crate) mod b;\n";
    assert_eq!(product::product(first).tests, ["a", "b"]);
}

#[test]
fn product_lines_are_counted_by_crate() {
    let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let sources = [
        source(
            "crates/weir-a/src/lib.rs",
            "mod b;\n#[cfg(any(test, feature = \"testing\"))]\npub mod double;\n",
        ),
        source("crates/weir-a/src/double.rs", "a();\n"),
        source("crates/weir-a/src/double/inside.rs", "a();\n"),
        source("crates/weir-a/src/double_of.rs", "a();\n"),
        source("crates/weir-a/src/b.rs", "a();\nb();\n#[cfg(test)]\nmod made;\n"),
        source("crates/weir-a/src/b/made.rs", "a();\n"),
        source("crates/weir-a/src/b/tests.rs", "a();\n"),
        source("crates/weir-a/src/b/tests/c.rs", "a();\n"),
        source("crates/weir-a/tests/it.rs", "a();\n"),
        source("crates/weir-b/src/main.rs", "a();\n"),
        source("crates/weir-testkit/src/lib.rs", "a();\n"),
        source("xtask/src/main.rs", "a();\n"),
    ];
    let counts = product::count(&sources);
    let expected = [("weir-a", 4), ("weir-b", 1)];
    assert_eq!(counts, expected.map(|(name, lines)| (name.to_owned(), lines)).into());
    assert_eq!(product::table(&counts), "       4 weir-a\n       1 weir-b\n       5 in all\n");
}

#[test]
fn a_birds_eye_that_is_long_or_lacks_a_room_offends() {
    let source = |text: &str| Source { path: "ARCHITECTURE.md".to_owned(), text: text.to_owned() };
    let found = |text: &str| {
        let offences = pages::birds_eye(&source(text), &["weir-a", "weir-ab"]);
        offences.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let whole = "**`weir-a`** is. *Invariant:* it.\n**`weir-ab`** is. *Invariant:* it.\n";
    let long = |lines: usize| whole.to_owned() + &"x\n".repeat(lines - 2);
    assert!(found(&long(120)).is_empty());
    assert_eq!(found(&long(121)), ["ARCHITECTURE.md:121: 121 lines; at most 120 (STYLE.md 29)"]);
    let table = whole.to_owned() + "| a | b |\n";
    assert_eq!(found(&table), ["ARCHITECTURE.md:3: prose has no table: docs/files.md has them"]);
    let none = "**`weir-a`** is.\n**`weir-ab`** is. *Invariant:* it.\n";
    assert_eq!(found(none), ["ARCHITECTURE.md:1: weir-a has 0 invariants, not one"]);
    assert_eq!(
        found("**`weir-a`** is. *Invariant:* it.\n"),
        ["ARCHITECTURE.md:1: no paragraph begins with **`weir-ab`**"]
    );
}

#[test]
fn a_name_that_is_nowhere_offends() {
    let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let all = [
        source("crates/weir-fill/src/reader/choose.rs", "fn choose() -> Next { Next::Wait }"),
        source("docs/adr/README.md", ""),
    ];
    let code = pages::words(&all);
    let lines = |text: &str| {
        let found = pages::names(&source("ARCHITECTURE.md", text), &all, &code);
        found.iter().map(|offence| offence.line).collect::<Vec<_>>()
    };
    let there = "`fill::reader`, `choose`, `Next::Wait`, `reader::choose`\n\
                 `weir-fill/src/reader/choose.rs`, `reader/choose`, `docs/adr/`, `adr/README.md`\n\
                 `make all`, `weir-worker-N`, `If-Range`, `a >= b`";
    assert!(lines(there).is_empty(), "{:?}", lines(there));
    assert_eq!(lines("`Next`\n`Nexts`\n`fill::gone`\n`gone::choose`\n`weir-fill/src/gone.rs`"), [2, 3, 4, 5]);
}

#[test]
fn the_map_shows_the_first_sentence_of_each_card() {
    let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let file = |name: &str, text: &str| source(&format!("crates/weir-a/src/{name}"), text);
    let cards = |card: &str| {
        [
            file("lib.rs", "//! The room.\n"),
            file("b.rs", card),
            file("b/c.rs", "//! Inside.\n"),
            file("b/tests.rs", "//! Tests.\n"),
            file("d/mod.rs", "//! Another\n//! one\n\nuse x;\n"),
        ]
    };
    let first = cards("//! What [`b`] is ([`E`](mod@e)), a|b. And more.\n//!\n//! Below.\n");
    let printed = map::map(&first);
    assert_eq!(
        printed,
        "\n\n### `weir-a`\n\n| file | what it is |\n|---|---|\n\
         | `b` | What `b` is (`E`), a\\|b. Inside: `c` |\n| `d` | Another one |\n"
    );
    let offences = |sources: &[Source], before: &str| {
        let page =
            format!("{before}\n<!-- printed from the files' cards: cargo run -p xtask -- files -->{printed}");
        let files = sources.iter().map(|one| source(&one.path, &one.text));
        map::judge(&files.chain([source("docs/files.md", &page)]).collect::<Vec<_>>())
    };
    assert!(offences(&first, "# Files").is_empty());
    let found = offences(&cards("//! What it became.\n"), "# Files");
    assert_eq!(found.iter().map(|offence| offence.line).collect::<Vec<_>>(), [8]);
    assert_eq!(offences(&first[..4], "# Files").len(), 1);
}

#[test]
fn a_decision_without_a_true_status_offends() {
    let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let found = |rows: &[&str]| {
        let sources = [
            source("docs/README.md", ""),
            source("examples/README.md", ""),
            source("docs/adr/README.md", &rows.join("\n")),
            source("docs/adr/0001-a.md", ""),
            source("docs/adr/0002-b.md", ""),
        ];
        indexes::judge(&sources).iter().map(|offence| offence.line).collect::<Vec<_>>()
    };
    let row =
        |number: &str, name: &str, status: &str| format!("| [{number}]({number}-{name}.md) | A | {status} |");
    let second = row("0002", "b", "in force");
    let first = |status: &str| row("0001", "a", status);
    for status in ["in force", "in part: 0002 (its rates)", "superseded by 0002"] {
        assert!(found(&[&first(status), &second]).is_empty(), "{status}");
    }
    let wrong = [
        "",
        "valid",
        "in part",
        "in part: later",
        "in part: 0003",
        "superseded by 0003",
        "superseded by 0001",
    ];
    for status in wrong {
        assert_eq!(found(&[&first(status), &second]), [1], "{status}");
    }
    assert_eq!(found(&[&first("in force"), &second, &second]), [3]);
    // Listed, but in no row.
    assert_eq!(found(&["[0001](0001-a.md)", &second]), [1]);
}

#[test]
fn what_counts_by_connection_has_a_row() {
    let file = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let code = "const HELD_BYTES_MAX: usize = 1;\nconst HEAD_BYTES: usize = 2;\n\
                pub struct PeerInfo {\n    pub peer: u8,\n    held: u8,\n}\nstruct Other {\n    x: u8,\n}\n";
    let path = "crates/weir-front/src/message.rs";
    let row = |names: &str, rest: &str| format!("| `weir-front/src/message.rs` | {names} | {rest} |\n");
    let check = |page: &str, expect: &[(&str, usize)]| {
        let sources = [file("docs/connections.md", page), file(path, code), file("crates/a/src/b.rs", code)];
        let found = connections::judge(&sources).unwrap();
        let found: Vec<(&str, usize)> = found.iter().map(|one| (&*one.path, one.line)).collect();
        assert_eq!(found, expect, "{page}");
    };
    let all = "`HELD_BYTES_MAX`, `peer`, `held`";
    check(&row(all, "bytes | one client | nothing"), &[]);
    check(&row("`HELD_BYTES_MAX`, `held`", "bytes | one client | nothing"), &[(path, 4)]);
    check(&row("`peer`, `held`", "bytes | one client | nothing"), &[(path, 1)]);
    check(&row(&format!("{all}, `HEAD_BYTES`"), "a | b | c"), &[("docs/connections.md", 1)]);
    check(&row(all, "a | | c"), &[(path, 1), (path, 4), (path, 5), ("docs/connections.md", 1)]);
    assert_eq!(connections::judge(&[file("a.md", "")]).unwrap().len(), 1, "there is such a page");
}
