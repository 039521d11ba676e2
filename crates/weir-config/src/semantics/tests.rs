//! What `semantics` must do, by example.

use crate::sample::{expect, good};

/// An upstream and a site around what is tested.
fn site(inner: &str) -> String {
    format!(
        "[upstream.app]\norigins = [\"http://127.0.0.1:1\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"app\"\n\
         {inner}"
    )
}

#[test]
fn names_lead_somewhere() {
    expect(&site("[[site.route]]\nprefix = \"/a\"\nupstream = \"ap\""), &[(8, "there is no upstream `ap`")]);
    expect("[[site]]\nhosts = [\"*\"]\nupstream = \"app\"", &[(3, "there is no upstream `app`")]);
    expect("", &[(0, "there is no `[[site]]`, so every request would be answered 421")]);
    expect("[[site]]\nhosts = [\"*\"]", &[(1, "this site has no upstream")]);
    expect(
        "[[site]]\nhosts = [\"*\"]\n[[site.route]]\nprefix = \"/a\"\n[[site.route]]\nprefix = \"/b\"\nanswer \
         = {}",
        &[(3, "this route has no upstream")],
    );
    good("[[site]]\nhosts = [\"*\"]\n[[site.route]]\nredirect = \"https://{host}{uri}\"");
}

#[test]
fn nothing_stands_twice() {
    let two = "[upstream.app]\norigins = [\"http://127.0.0.1:1\"]\n[defaults]\nupstream = \"app\"\n";
    expect(
        &format!(
            "{two}[[site]]\nhosts = [\"a.example\", \"A.example.\"]\n[[site]]\nhosts = [\"*.b.example\", \
             \"a.example\"]"
        ),
        &[(6, "the host `a.example` appears twice"), (8, "the host `a.example` appears twice")],
    );
    expect(
        &format!(
            "{two}[[site]]\nhosts = [\"*\"]\n[admin]\nlisten = \"127.0.0.1:80\"\n[[listen]]\naddress = \
             \"127.0.0.1:80\""
        ),
        &[(10, "`127.0.0.1:80` is listened on twice")],
    );
    expect(
        &format!(
            "{two}[[site]]\nhosts = [\"*\"]\n[[listen]]\naddress = \"unix:/a\"\n[[listen]]\naddress = \
             \"unix:/a?mode=0600\""
        ),
        &[(10, "`unix:/a?mode=0600` is listened on twice")],
    );
    good(&format!(
        "{two}[[site]]\nhosts = [\"*\"]\n[[listen]]\naddress = \"127.0.0.1:0\"\n[[listen]]\naddress = \
         \"127.0.0.1:0\""
    ));
}

#[test]
fn routes_are_reached() {
    let never = "this route is never reached";
    for (first, second, is_reached) in [
        ("path = \"/a/**\"", "path = \"/a/b\"", false),
        ("path = \"/a/**\"", "prefix = \"/a/b\"", false),
        ("path = \"/a/**\"", "path = \"/*/b\"", true),
        ("path = \"/a/*\"", "path = \"/a/b\"", true),
        ("prefix = \"/a\"", "path = \"/a*\"", false),
        ("prefix = \"/\"", "regex = \"^/a\"", false),
        ("prefix = \"/a\"", "regex = \"^/a\"", true),
        ("regex = \"^/a\"", "regex = \"^/a\"", false),
        ("prefix = \"/a\"\nmethod = \"GET\"", "prefix = \"/a\"", true),
        ("prefix = \"/a\"\nmethod = [\"GET\", \"POST\"]", "prefix = \"/a\"\nmethod = \"POST\"", false),
        ("prefix = \"/a\"\nscheme = \"http\"", "prefix = \"/a\"", true),
        ("prefix = \"/a\"\nscheme = \"http\"", "prefix = \"/a\"\nscheme = \"http\"", false),
        ("", "prefix = \"/a\"", false),
        ("prefix = \"/a\"", "", true),
    ] {
        let text = site(&format!("[[site.route]]\n{first}\n[[site.route]]\n{second}"));
        let line = 7 + first.lines().count() as u32 + u32::from(first.is_empty());
        match is_reached {
            true => drop(good(&text)),
            false => expect(&text, &[(line, never)]),
        }
    }
}

#[test]
fn keys_that_exclude_each_other() {
    for (inner, line, sentence) in [
        ("[[site.route]]\npath = \"/a\"\nregex = \"b\"", 8, "`path` and `regex` exclude each other"),
        ("[[site.route]]\nanswer = {}\nredirect = \"/\"", 8, "`answer` and `redirect` exclude each other"),
        ("[[site.route]]\nanswer = {}\nupstream = \"app\"", 8, "`answer` and `upstream` exclude each other"),
        ("key = { query = { keep = [], drop = [] } }", 6, "`keep` and `drop` exclude each other"),
        ("[[site.route]]\nredirect = { to = \"/\", status = 304 }", 7, "304 is not a redirect status"),
        (
            "response_headers = { set = { Content-Length = \"1\" } }",
            6,
            "the field `Content-Length` cannot be set",
        ),
    ] {
        expect(&site(inner), &[(line, sentence)]);
    }
}

#[test]
fn upstreams() {
    let after = "\n[[site]]\nhosts = [\"*\"]\nupstream = \"app\"\n";
    for (inner, line, sentence) in [
        ("origins = []", 2, "`origins` is empty"),
        ("connect = \"1s\"", 1, "`origins` is missing in `app`"),
        ("origins = [{ url = \"http://a\", backup = true }]", 2, "all origins are backups"),
        (
            "origins = [\"http://a\"]\neject = { time = \"5s\", time_max = \"1s\" }",
            3,
            "`time_max` is less than `time` (5s)",
        ),
        (
            "origins = [\"http://a\", \"http://b\"]\nhost = \"origin\"",
            3,
            "`host = \"origin\"`, but the origins of `app` have no one name",
        ),
        (
            "origins = [\"unix:/a\"]\nhost = \"origin\"",
            3,
            "`host = \"origin\"`, but the origins of `app` have no one name",
        ),
        ("origins = [\"http://a\"]\nconnections = 0", 3, "`connections` is out of bounds"),
        ("origins = [\"http://a\"]\nretries = -1", 3, "`retries` is out of bounds"),
        ("origins = [\"http://a\"]\nconnections = 1e3", 3, "`connections` is of the wrong kind"),
    ] {
        expect(&format!("[upstream.app]\n{inner}{after}"), &[(line, sentence)]);
    }
    good(&format!(
        "[upstream.app]\norigins = [\"http://a\", {{ url = \"http://a\", backup = true }}]\nhost = \
         \"origin\"{after}"
    ));
}

#[test]
fn what_is_not_there_yet_is_not_taken() {
    for (text, sentence) in [
        ("[cache]\ndisk = \"10GiB\"", "unknown key `disk` in `cache`"),
        (
            "[[cache.volume]]\npath = \"/a\"\n[[cache.volume]]\npath = \"/a/\"",
            "two volumes have the same folder",
        ),
        (
            "[[cache.volume]]\npath = \"/a/b\"\n[[cache.volume]]\npath = \"/a\"",
            "one volume's folder is inside another's",
        ),
    ] {
        let found = crate::sample::sentences(text);
        assert!(found.iter().any(|(_, found)| found == sentence), "{found:?}");
    }
}

#[test]
fn a_chunk_is_made_of_blocks() {
    let title = "a chunk is a multiple of 64 KiB, and at most 1 GiB";
    for size in ["0", "1kB", "100KiB", "2GiB"] {
        expect(&site(&format!("range = {{ chunk = \"{size}\" }}")), &[(6, title)]);
    }
    good(&site("range = { chunk = \"192KiB\", fill = \"whole\", ahead = \"1MiB\", parallel = 2 }"));
}

#[test]
fn a_rate_bounds_something() {
    let rate = |inner: &str| site(&format!("rate = {{ {inner} }}"));
    expect(&rate("query_max = \"1MB\""), &[(6, "`query_max` needs `query` beside it")]);
    expect(&rate("burst = \"1MB\""), &[(6, "`burst` needs `limit` or `query` beside it")]);
    expect(&rate("burst = \"1MB\", media = 1.5"), &[(6, "`burst` needs `limit` or `query` beside it")]);
    expect(
        &rate("limit = \"2MB\", query = \"rate\", query_max = \"1MB\""),
        &[(6, "`query_max` is less than `limit`")],
    );
    expect(&rate("media = 0.9"), &[(6, "`media` is out of bounds")]);
    expect(&rate("media = nan"), &[(6, "`media` is out of bounds")]);
    expect(&rate("media = \"1.2\""), &[(6, "`media` is of the wrong kind")]);
    expect(&rate("limit = 500"), &[(6, "`limit` is of the wrong kind")]);
    expect(
        &rate("limit = \"0\""),
        &[(6, "a rate of 0 would never end: leave the key out to send at full speed")],
    );
    good(&rate(""));
    good(&rate("media = 2"));
    good(&rate(
        "limit = \"500KB/s\", burst = \"1MiB\", query = \"rate\", query_max = \"1MB/s\", media = 1.2",
    ));
}

#[test]
fn a_listener_with_tls_needs_a_certificate() {
    let tls = "[[listen]]\naddress = \"127.0.0.1:443\"\ntls = true\n";
    let nothing = "a listener has TLS, but there is no certificate";
    expect(&site(tls), &[(8, nothing)]);
    good(&site(&format!("certificate = \"self\"\n{tls}")));
    good(&site(&format!("{tls}[[certificate]]\nchain = \"/not/there.pem\"")));
    good(&site("[[listen]]\naddress = \"127.0.0.1:80\"\nprotocols = [\"h2\"]"));
    expect(
        &site("[[listen]]\naddress = \"127.0.0.1:80\"\nprotocols = [\"h2\", \"http/1.1\", \"h2\"]"),
        &[(8, "a protocol stands twice in `protocols`")],
    );
    expect(&site("[[listen]]\naddress = \"127.0.0.1:80\"\nprotocols = []"), &[(8, "`protocols` is empty")]);
}

#[test]
fn certificates_fit_their_keys_by_their_globs() {
    let unequal = "`chain` and `key` do not have the same number of `*`";
    for (chain, key, is_good) in [
        ("/live/*/fullchain.pem", "/live/*/privkey.pem", true),
        ("/c/*.pem", "/k/*.pem", true),
        ("/c/a.pem", "/k/a.pem", true),
        ("/c/a.pem", "/k/*.pem", false),
        ("/c/*.pem", "/k/a.pem", false),
        ("/*/*.pem", "/k/*.pem", false),
    ] {
        let text = site(&format!("[[certificate]]\nchain = \"{chain}\"\nkey = \"{key}\""));
        match is_good {
            true => drop(good(&text)),
            false => expect(&text, &[(8, unequal)]),
        }
    }
    expect(
        &site("[[certificate]]\nchain = \"/a/*.pem\"\ndefault = true"),
        &[(8, "a default certificate is one file, and no glob")],
    );
    expect(
        &site(
            "[[certificate]]\nchain = \"/a\"\ndefault = true\n\
             [[certificate]]\nchain = \"/b\"\ndefault = true",
        ),
        &[(11, "two certificates are the default")],
    );
}

#[test]
fn ordering_needs_listeners() {
    let tls = "[[listen]]\naddress = \"127.0.0.1:443\"\ntls = true\n";
    let plain = "[[listen]]\naddress = \"127.0.0.1:80\"\n";
    good(&site(&format!("{tls}{plain}[acme]")));
    good(&site(&format!("{tls}[acme]\nchallenge = \"tls-alpn-01\"")));
    good(&site(&format!("{tls}[acme]\ncontact = [\"a@b.example\", \"mailto:a@b.example\"]")));
    expect(&site("[acme]"), &[(6, "certificates are ordered, but no listener has TLS")]);
    expect(
        &site(&format!("{tls}[acme]\nchallenge = \"http-01\"")),
        &[(10, "`http-01` needs a listener without TLS, and there is none")],
    );
    expect(
        &site(&format!("{tls}[acme]\ncontact = [\"admin\"]")),
        &[(10, "a contact is a mail address or a URL")],
    );
    let same = "directory = \"https://ca.example/dir\"";
    expect(
        &site(&format!("{tls}[acme]\n{same}\n[acme.fallback]\n{same}")),
        &[(12, "the fallback is the same certificate authority")],
    );
}
