//! What `load` must do, by example.

use super::*;
use std::fs;

/// A folder with files, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, &str)]) -> Folder {
        let path = std::env::temp_dir().join(format!("weir-config-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        for (file, text) in files {
            let file = path.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        Folder(path)
    }

    fn load(&self) -> Result<Loaded, Mistakes> {
        load_with(&self.0.join("weir.toml"), &|name| match name {
            "PORT" => Some("3000".into()),
            "COUNT" => Some("7".into()),
            "EMPTY" => Some(String::new()),
            "SECRET" => Some("a$1 $host".into()),
            _ => None,
        })
    }

    fn good(&self) -> Loaded {
        self.load().unwrap_or_else(|mistakes| panic!("{mistakes}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const SITE: &str = "[upstream.a]\norigins = [\"http://a\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"a\"\n";

#[test]
fn included_files_are_joined() {
    let folder = Folder::new(
        "include",
        &[
            ("weir.toml", "include = [\"sites/*.toml\", \"up/one.toml\"]\n[limits]\nhead = \"16KiB\"\n"),
            ("sites/b.toml", "[[site]]\nhosts = [\"b.example\"]\nupstream = \"one\"\n"),
            (
                "sites/a.toml",
                "[[site]]\nhosts = [\"a.example\"]\nupstream = \"one\"\n[limits]\nbody = \"1MiB\"\n",
            ),
            ("sites/.hidden.toml", "nonsense"),
            ("up/one.toml", "include = [\"../two.toml\"]\n[upstream.one]\norigins = [\"http://a\"]\n"),
            ("two.toml", "[upstream.two]\norigins = [\"http://a\"]\n"),
        ],
    );
    let loaded = folder.good();
    let names: Vec<_> = loaded.resolved().iter().map(|site| site.name.as_str()).collect();
    assert_eq!(names, ["a.example", "b.example"]);
    assert_eq!(loaded.config.upstream.keys().collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!((loaded.config.limits.head.0, loaded.config.limits.body.0), (16 << 10, 1 << 20));
    assert_eq!(loaded.files().len(), 5);
    assert!(loaded.resolved()[1].place.to_string().ends_with("sites/b.toml:1"));
    assert!(loaded.upstream_place("two").unwrap().to_string().ends_with("two.toml:1"));
}

#[test]
fn a_key_stands_in_one_file_only() {
    let folder = Folder::new(
        "twice",
        &[
            (
                "weir.toml",
                &format!("include = [\"more.toml\", \"weir.toml\"]\n{SITE}[limits]\nhead = \"16KiB\"\n"),
            ),
            ("more.toml", "[limits]\nhead = \"8KiB\"\n[upstream.a]\norigins = [\"http://b\"]\n"),
        ],
    );
    let sentences = folder.load().unwrap_err().sentences();
    let sentences: Vec<_> = sentences.iter().map(|(_, sentence)| sentence.as_str()).collect();
    assert_eq!(
        sentences,
        [
            "the file `weir.toml` is included twice",
            "`head` appears in two files",
            "`origins` appears in two files"
        ]
    );
}

#[test]
fn the_environment_fills_texts_and_numbers() {
    let folder = Folder::new(
        "environment",
        &[(
            "weir.toml",
            "[upstream.a]\norigins = [\"http://${NAME:-a.example}:${PORT}\"]\nconnections = \"${COUNT}\"\n\
             [[site]]\nhosts = [\"*\"]\nupstream = \"a\"\ndescription = \"$${NAME} ${EMPTY}.\"\n\
             request_headers.set.X-A = \"${SECRET}\"\n",
        )],
    );
    let config = folder.good().config;
    assert_eq!(config.upstream["a"].origins[0].url().to_string(), "http://a.example:3000");
    assert_eq!(config.upstream["a"].connections, 7);
    assert_eq!(config.site[0].description.as_deref(), Some("${NAME} ."));
}

#[test]
fn a_bad_use_of_the_environment_is_a_mistake() {
    for (text, sentence) in [
        ("${NO_SUCH}", "the environment variable `NO_SUCH` is not set"),
        ("${", "`${` without `}`"),
        ("${a b}", "`a b` is not the name of an environment variable"),
        ("${}", "`` is not the name of an environment variable"),
    ] {
        let folder = Folder::new("bad-environment", &[("weir.toml", &format!("{SITE}ttl = \"{text}\"\n"))]);
        let sentences = folder.load().unwrap_err().sentences();
        assert_eq!(sentences.iter().map(|(_, sentence)| sentence.as_str()).collect::<Vec<_>>(), [sentence]);
    }
}

#[test]
fn secrets_and_pages_come_from_files_beside() {
    let folder = Folder::new(
        "files",
        &[
            (
                "weir.toml",
                "include = [\"in/site.toml\"]\n[state]\npath = \"state\"\n\
                 [log]\npath = \"logs/access.log\"\n",
            ),
            (
                "in/site.toml",
                &format!(
                    "{SITE}request_headers = {{ set = {{ X-Token = {{ file = \"token\" }} }} }}\n\
                     error_pages = {{ \"503\" = {{ file = \"busy.html\" }} }}\n"
                ),
            ),
            ("in/token", "s3cret\r\n"),
            ("in/busy.html", "<p>busy"),
        ],
    );
    let loaded = folder.good();
    let route = &loaded.resolved()[0].routes[0];
    let (name, value) = &route.request_edits.set[0];
    assert_eq!((name.as_str(), value.as_bytes(), value.is_sensitive()), ("x-token", &b"s3cret"[..], true));
    assert_eq!(route.error_pages[0].1.content_type, "text/html; charset=utf-8");
    assert_eq!(loaded.config.state.path.as_ref().unwrap().0, folder.0.join("state"));
    assert_eq!(loaded.config.log.path, crate::value::LogTarget::File(folder.0.join("logs/access.log")));
    let shown = crate::show(&loaded);
    assert!(shown.contains("request_headers.set.X-Token = { file = \"token\" }"), "{shown}");
    assert!(!format!("{:?}", route.request_edits).contains("s3cret"));
}

#[test]
fn a_secret_is_one_line() {
    let folder = Folder::new(
        "secret",
        &[
            (
                "weir.toml",
                &format!("{SITE}request_headers = {{ set = {{ X-Token = {{ file = \"token\" }} }} }}\n"),
            ),
            ("token", "one\ntwo\n"),
        ],
    );
    let mistakes = folder.load().unwrap_err();
    assert!(mistakes.to_string().contains("does not hold the value of a field"), "{mistakes}");
}

#[test]
fn a_file_that_is_not_there() {
    let mistakes = load(Path::new("/no/such/weir.toml")).unwrap_err();
    assert_eq!(
        mistakes.to_string(),
        "error: cannot read the configuration /no/such/weir.toml: there is no such file\n\n1 mistake\n"
    );
    let folder = Folder::new(
        "folder",
        &[
            ("weir.toml", &format!("{SITE}maintenance = {{ page = {{ file = \"pages\" }} }}")),
            ("pages/a", ""),
        ],
    );
    let mistakes = folder.load().unwrap_err();
    assert!(mistakes.to_string().contains("this is a folder"), "{mistakes}");
}

#[test]
fn names_against_patterns() {
    for (pattern, name, expected) in [
        ("*.toml", "a.toml", true),
        ("*.toml", ".toml", true),
        ("*.toml", "a.tom", false),
        ("a*b*c", "abc", true),
        ("a*b*c", "axxbyyc", true),
        ("a*b*c", "ac", false),
        ("aa*aa", "aaa", false),
        ("a", "a", true),
        ("a", "ab", false),
    ] {
        assert_eq!(name_fits(pattern, name), expected, "{pattern} {name}");
    }
}

#[test]
fn files_that_include_each_other_are_read_once_each() {
    const FILES: usize = 3000;
    let one = |number: usize| {
        let text =
            format!("include = [\"*.toml\"]\n[[site]]\nhosts = [\"{number}.test\"]\nupstream = \"a\"\n");
        (format!("more/{number}.toml"), text)
    };
    let files: Vec<(String, String)> = (0..FILES).map(one).collect();
    let mut all: Vec<(&str, &str)> =
        vec![("weir.toml", "include = [\"more/*.toml\"]\n[upstream.a]\norigins = [\"http://a\"]\n")];
    all.extend(files.iter().map(|(name, text)| (name.as_str(), text.as_str())));
    assert_eq!(Folder::new("each-other", &all).good().sites.len(), FILES);
}

#[test]
fn files_that_include_each_other_one_by_one_are_a_mistake() {
    let one = |number: usize| (format!("{number}.toml"), format!("include = [\"{}.toml\"]\n", number + 1));
    let files: Vec<(String, String)> = (0..40).map(one).collect();
    let mut all: Vec<(&str, &str)> = vec![("weir.toml", "include = [\"0.toml\"]\n")];
    all.extend(files.iter().map(|(name, text)| (name.as_str(), text.as_str())));
    let mistakes = Folder::new("deep", &all).load().unwrap_err().to_string();
    assert!(mistakes.contains("files include each other more than 16 deep"), "{mistakes}");
}

#[test]
fn what_is_no_file_and_never_ends_is_not_read() {
    let text = "include = [\"/dev/zero\"]\n";
    let mistakes = Folder::new("endless", &[("weir.toml", text)]).load().unwrap_err().to_string();
    assert!(mistakes.contains("this is no file"), "{mistakes}");
    let pipe = Folder::new("pipe", &[("weir.toml", "include = [\"pipe\"]\n")]);
    let made = std::process::Command::new("mkfifo").arg(pipe.0.join("pipe")).status();
    assert!(made.unwrap().success());
    assert!(pipe.load().unwrap_err().to_string().contains("this is no file"));
}

#[test]
fn each_expression_of_a_map_is_compiled_a_few_times_however_many_there_are() {
    const RULES: usize = 400;
    let rules: Vec<String> =
        (0..RULES).map(|number| format!("[\"~^/old/{number}$\", \"{number}\"]")).collect();
    let text = format!("{SITE}[map.paths]\nof = \"{{path}}\"\nrules = [{}]\n", rules.join(", "));
    let folder = Folder::new("expressions", &[("weir.toml", &text)]);
    let before = crate::value::map::COMPILED.get();
    folder.good();
    let compiled = crate::value::map::COMPILED.get() - before;
    assert!((RULES..=4 * RULES).contains(&compiled), "{compiled}");
}

#[test]
fn thousands_of_wrong_names_are_each_a_mistake_and_few_of_them_are_compared() {
    use crate::nearest::{Bounded, COMPARED_MAX, nearest};
    let known: Vec<String> = (0..5000).map(|number| format!("origin{number}")).collect();
    let mut compared = 0;
    let _bounded = Bounded::begin();
    for number in 0..5000 {
        let legal = known.iter().map(String::as_str).inspect(|_| compared += 1);
        let _ = nearest(&format!("origni{number}"), legal);
    }
    assert!(compared <= COMPARED_MAX + 5000, "{compared}");
    let routes: String = (0..1000)
        .map(|number| format!("[[site.route]]\npath = \"/{number}\"\nupstream = \"x{number}\"\n"))
        .collect();
    let folder = Folder::new("unknown", &[("weir.toml", &format!("{SITE}{routes}"))]);
    assert_eq!(folder.load().unwrap_err().count(), 1000);
}
