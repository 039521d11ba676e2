//! Sessions in a configuration, by example.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::sample::{expect, good, load, sentences};

const KEY: &str = "0123456789abcdef0123456789abcdef\n";

/// A file of keys that is removed with it.
struct KeyFile(std::path::PathBuf);

impl KeyFile {
    fn of(name: &str, text: &str, mode: u32) -> KeyFile {
        let path = std::env::temp_dir().join(format!("weir-affinity-{}-{name}", std::process::id()));
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        KeyFile(path)
    }

    fn setting(&self) -> String {
        format!("by = \"own\"\nkey_file = {:?}\n", self.0)
    }
}

impl Drop for KeyFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// What the table has stands from the fourth line on.
fn with(origins: &str, inner: &str) -> String {
    format!(
        "[upstream.app]\norigins = [{origins}]\n[upstream.app.affinity]\n{inner}\n[[site]]\nhosts = [\"*\"]\n\
         upstream = \"app\"\n"
    )
}

const TWO: &str = "{ url = \"http://a\", id = \"node1\" }, { url = \"http://b\", id = \"node2\" }";

#[test]
fn each_way_needs_what_tells_sessions() {
    let file = KeyFile::of("needs", KEY, 0o600);
    good(&with(TWO, &file.setting()));
    good(&with(TWO, "by = \"suffix\"\ncookie = \"JSESSIONID\""));
    good(&with(TWO, "by = \"hash\"\nof = \"header:X-User\""));
    expect(&with(TWO, "by = \"own\""), &[(4, "`by = \"own\"` needs `key_file`")]);
    expect(&with(TWO, "by = \"suffix\""), &[(4, "`by = \"suffix\"` needs `cookie`")]);
    expect(&with(TWO, "by = \"hash\""), &[(4, "`by = \"hash\"` needs `of`")]);
    expect(&with(TWO, "bypass = true"), &[(3, "`by` is missing in `affinity`")]);
    expect(&with(TWO, "by = \"hsh\"\nof = \"cookie:a\""), &[(4, "unknown value `hsh` for `by`")]);
    expect(
        &with(TWO, "by = \"hash\"\nof = \"cookie:a\"\ncookie = \"b\""),
        &[(6, "`cookie` has no use with `by = \"hash\"`")],
    );
    expect(
        &with(TWO, "by = \"suffix\"\ncookie = \"b\"\nlifetime = \"1h\""),
        &[(6, "`lifetime` has no use with `by = \"suffix\"`")],
    );
    expect(
        &with(TWO, &format!("{}parameter = \"x\"", file.setting())),
        &[(6, "`parameter` has no use with `by = \"own\"`")],
    );
    let hash = |of: &str, sentence: &str| {
        let of = with(TWO, &format!("by = \"hash\"\nof = \"{of}\""));
        assert_eq!(sentences(&of).first(), Some(&(5, sentence.to_owned())), "{of}");
    };
    hash("cooki:sid", "unknown part `cooki`: did you mean `cookie:sid`?");
    hash("sid", "`sid` does not say what is hashed: write `cookie:NAME` or `header:NAME`");
    hash("cookie:", "`cookie:` names nothing: write `cookie:NAME` or `header:NAME`");
}

#[test]
fn a_session_id_names_each_origin_once() {
    let suffix = "by = \"suffix\"\ncookie = \"JSESSIONID\"";
    let none = "this origin has no `id`, by which session ids name it";
    expect(&with("{ url = \"http://a\", id = \"node1\" }, \"http://b\"", suffix), &[(2, none)]);
    let shown = load(&with("{ url = \"http://a\", id = \"node1\" }, \"http://b\", \"http://c\"", suffix));
    let shown = shown.unwrap_err().to_string();
    for help in ["{ url = \"http://b\", id = \"node2\" }", "{ url = \"http://c\", id = \"node3\" }"] {
        assert!(shown.contains(help), "{shown}");
    }
    let twice = "{ url = \"http://a\", id = \"node1\" }, { url = \"http://b\", id = \"node1\" }";
    expect(&with(twice, suffix), &[(2, "two origins have the id `node1`")]);
    let dotted = "{ url = \"http://a\", id = \"node.1\" }";
    expect(&with(dotted, suffix), &[(2, "`node.1` is no `id`: 1 to 64 letters, digits, `-` and `_`")]);
}

#[test]
fn keys_are_a_secret_of_some_length() {
    let title = "this is no file of keys for sessions";
    for (name, text, mode) in [("open", KEY, 0o644), ("short", "secret", 0o600), ("empty", "", 0o600)] {
        let file = KeyFile::of(name, text, mode);
        expect(&with(TWO, &file.setting()), &[(5, title)]);
    }
    let missing = with(TWO, "by = \"own\"\nkey_file = \"/nowhere/keys\"");
    expect(&missing, &[(5, "cannot read the file `/nowhere/keys`")]);
}

#[test]
fn browsers_take_the_cookie() {
    let file = KeyFile::of("browsers", KEY, 0o640);
    let own = |inner: &str| with(TWO, &format!("{}{inner}", file.setting()));
    good(&own("cookie = \"__Host-o\"\nsecure = true"));
    good(&own("same_site = \"none\""));
    for (inner, line, sentence) in [
        (
            "cookie = \"__Host-o\"",
            6,
            "browsers refuse a cookie `__Host-…` unless it is `secure`, with the path `/` and no domain",
        ),
        ("cookie = \"__Secure-o\"", 6, "browsers refuse a cookie `__Secure-…` that is not `secure`"),
        (
            "same_site = \"none\"\nsecure = false",
            7,
            "browsers refuse a cookie with `same_site = \"none\"` that is not `secure`",
        ),
        ("lifetime = \"0s\"", 6, "`lifetime` is at least 1s"),
        ("path = \"a;b\"", 6, "`a;b` is not the path of a cookie: it begins with `/` and has no `;`"),
    ] {
        expect(&own(inner), &[(line, sentence)]);
    }
}

#[test]
fn a_cookie_is_of_one_upstream() {
    let file = KeyFile::of("two", KEY, 0o600);
    let other = |cookie: &str| {
        format!("[upstream.b]\norigins = [\"http://b\"]\n[upstream.b.affinity]\n{}{cookie}", file.setting())
    };
    let both =
        |one: &str, two: &str| format!("{}{}", with(TWO, &format!("{}{one}", file.setting())), other(two));
    good(&both("", ""));
    good(&both("cookie = \"a\"", "cookie = \"b\""));
    let twice = both("cookie = \"a\"", "cookie = \"a\"");
    let title = "the cookie `a` would name origins of `app` and of `b`";
    assert_eq!(sentences(&twice).iter().map(|(_, title)| title.as_str()).collect::<Vec<_>>(), [title]);
}
