//! What `value` must do, by example.

use super::*;
use std::{fmt::Display, str::FromStr};

/// Each text parses, and prints as the second; or fails with a message that contains it.
fn check<T: FromStr<Err = String> + Display>(good: &[(&str, &str)], bad: &[(&str, &str)]) {
    for (text, printed) in good {
        match text.parse::<T>() {
            Ok(value) => {
                assert_eq!(value.to_string(), *printed, "{text}");
                assert_eq!(printed.parse::<T>().map(|again| again.to_string()), Ok((*printed).to_owned()));
            }
            Err(reason) => panic!("{text}: {reason}"),
        }
    }
    for (text, part) in bad {
        match text.parse::<T>() {
            Ok(value) => panic!("{text:?} was taken for {value}"),
            Err(reason) => assert!(reason.contains(part), "{text:?}: {reason}"),
        }
    }
}

#[test]
fn durations() {
    check::<Duration>(
        &[
            ("60s", "1m"),
            ("90s", "1m30s"),
            ("1h30m", "1h30m"),
            ("500ms", "500ms"),
            ("0", "0s"),
            ("0s", "0s"),
            ("7 d", "7d"),
            (" 5m ", "5m"),
        ],
        &[
            ("", "empty"),
            ("60", "did you mean `60s`"),
            ("-1s", "not a duration"),
            ("1.5h", "unknown unit of time `.`"),
            ("5 minutes", "did you mean `m`"),
            ("3 sec", "did you mean `s`"),
            ("1w", "use one of"),
            ("+5s", "not a duration"),
            ("99999999999999999999s", "not a duration"),
            ("9999999d", "ten years"),
            ("18446744073709551615h", "ten years"),
        ],
    );
}

#[test]
fn sizes() {
    check::<Size>(
        &[
            ("256MiB", "256MiB"),
            ("1024KiB", "1MiB"),
            ("10 GiB", "10GiB"),
            ("1500B", "1500B"),
            ("1GB", "1GB"),
            ("64kib", "64KiB"),
            ("0", "0B"),
        ],
        &[
            ("", "not a size"),
            ("12", "did you mean `12B`"),
            ("12MiB3", "not a size"),
            ("-1B", "not a size"),
            ("32KiX", "did you mean `KiB`"),
            ("1.5GiB", "not a size"),
            ("1G", "did you mean `GiB`"),
            ("99999999TiB", "16 EiB"),
        ],
    );
}

#[test]
fn listening_addresses() {
    check::<ListenAddress>(
        &[
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("[::]:8080", "[::]:8080"),
            ("unix:/run/w.sock", "unix:/run/w.sock"),
            ("unix:/run/w.sock?mode=0600", "unix:/run/w.sock?mode=0600"),
        ],
        &[
            ("127.0.0.1", "did you mean `127.0.0.1:8080`"),
            ("::1", "did you mean `[::1]:8080`"),
            (":80", "`0.0.0.0:80`"),
            ("*:80", "`0.0.0.0:80`"),
            ("8080", "`0.0.0.0:8080`"),
            ("localhost:80", "did you mean `127.0.0.1:80`"),
            ("example.com:80", "not an address"),
            ("127.0.0.1:99999", "not an address"),
            ("unix:run/w.sock", "absolute"),
            ("unix:/run/w.sock?mode=0999", "octal"),
            ("unix:/run/w.sock?mode=+600", "octal"),
        ],
    );
    let long = format!("unix:/{}", "a".repeat(103));
    check::<ListenAddress>(&[], &[(&long, "at most 103")]);
}

#[test]
fn what_can_never_be_meant() {
    let dots = "always have a dot segment";
    check::<RewriteTarget>(
        &[("/..{1}", "/..{1}"), ("/a?x=/../{1}", "/a?x=/../{1}")],
        &[("/../{1}", dots), ("/{1}/%2e/x", dots), ("/{1}/..", dots)],
    );
    let plain = "{{\"uri\": {uri | json}, \"of\": \"{method}\"}}";
    let quoted = "{{\"uri\": \"{uri | json}\"}}";
    check::<LogLine>(&[(plain, plain)], &[(quoted, "`{uri | json}` writes its own quotes")]);
}

#[test]
fn trusted_proxies() {
    check::<TrustedProxy>(
        &[
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("::1", "::1/128"),
            ("192.0.2.7", "192.0.2.7/32"),
            ("unix", "unix"),
            // Clients are never written in this way, so networks are not either.
            ("::ffff:10.0.0.7", "10.0.0.7/32"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
            ("::/0", "::/0"),
        ],
        &[
            ("10.0.0.1/8", "did you mean `10.0.0.0/8`"),
            ("10.0.0.0/33", "not a network"),
            ("proxy", "not a network"),
        ],
    );
}

#[test]
fn origins() {
    check::<OriginUrl>(
        &[
            ("http://A.example:80/", "http://a.example"),
            ("HTTPS://a.example", "https://a.example"),
            ("https://a.example:8443", "https://a.example:8443"),
            ("http://[2001:db8::1]:8080", "http://[2001:db8::1]:8080"),
            ("unix:/run/app.sock", "unix:/run/app.sock"),
        ],
        &[
            ("a.example", "did you mean `http://a.example`"),
            ("ftp://a.example", "unknown scheme `ftp`"),
            ("http://", "missing"),
            ("http://a.example/path", "write `http://a.example`"),
            ("http://a.example?q", "no path"),
            ("http://u:p@a.example", "no user name"),
            ("http://a.example:0", "not a port"),
            ("http://a.example:+80", "not a port"),
            ("http://a.example:", "not a port"),
            ("http://2001:db8::1", "brackets"),
            ("http://[2001:db8::1", "missing `]`"),
            ("http://[::1]80", "not a port"),
            ("http://a b", "not allowed"),
            ("http://bücher.example", "xn--"),
            ("unix:app.sock", "absolute"),
            ("unix:/run/app\n.sock", "'\\n' is not allowed"),
            ("unix:/run/\u{1b}[2J", "is not allowed"),
            ("http://a\u{7f}.example", "not allowed"),
        ],
    );
    assert_eq!("http://10.0.0.1:3000".parse::<OriginUrl>().unwrap().dns_name(), None);
    assert_eq!("https://a.example".parse::<OriginUrl>().unwrap().dns_name(), Some("a.example"));
    assert_eq!("unix:/a".parse::<OriginUrl>().unwrap().authority(), None);
}

#[test]
fn hosts() {
    check::<HostPattern>(
        &[
            ("WWW.Example.com.", "www.example.com"),
            ("*.Example.com", "*.example.com"),
            ("*", "*"),
            ("[::1]", "[::1]"),
            ("192.0.2.7", "192.0.2.7"),
            ("a_b.example", "a_b.example"),
        ],
        &[
            ("", "missing"),
            ("http://a.example", "without scheme"),
            ("a.example:8080", "no port"),
            ("a.*.example", "first part"),
            ("*a.example", "first part"),
            ("*.", "missing"),
            ("a..b", "each part"),
            ("a/b", "not allowed"),
        ],
    );
    let hosts = ["*", "*.a.example", "a.example"].map(|text| text.parse::<HostPattern>().unwrap());
    assert_eq!(
        hosts,
        [
            HostPattern::Default,
            HostPattern::Below(".a.example".into()),
            HostPattern::Exact("a.example".into())
        ]
    );
    check::<HostRule>(
        &[
            ("client", "client"),
            ("origin", "origin"),
            ("A.example:8080", "a.example:8080"),
            ("[::1]:80", "[::1]:80"),
        ],
        &[("a b", "not allowed"), ("a.example:x", "not a port")],
    );
}

#[test]
fn fields_and_names() {
    check::<FieldName>(
        &[("X-Country", "x-country")],
        &[
            ("X Country", "not a field name"),
            ("X-Country:", "did you mean `X-Country`"),
            ("", "not a field name"),
        ],
    );
    check::<FieldMatch>(
        &[("X-Preview", "x-preview"), ("X-Mode:debug*", "x-mode: debug*")],
        &[("X Mode: a", "not a field name"), ("X-Mode: a\nb", "visible")],
    );
    check::<NameGlob>(
        &[("utm_*", "utm_*"), ("session", "session")],
        &[("", "empty"), ("a=b", "not allowed"), ("a b", "not allowed")],
    );
    check::<CookieName>(&[("currency", "currency")], &[("c*", "no meaning")]);
    check::<MethodName>(
        &[("GET", "GET"), ("PURGE", "PURGE")],
        &[("get", "did you mean `GET`"), ("TRACE", "405"), ("A B", "not a method"), ("", "not a method")],
    );
    for (format, bad) in [
        ("weir-field-value", " a"),
        ("weir-field-value", "a\r\nb"),
        ("weir-upstream-name", "a b"),
        ("weir-upstream-name", ""),
        ("weir-page-status", "200"),
        ("weir-page-status", "5xx"),
        ("weir-sni", "a b"),
        ("weir-directory", "http://ca.example/dir"),
        ("weir-directory", "https:///dir"),
        ("weir-directory", "https://ca.example/a b"),
        ("weir-path", ""),
        ("weir-file", ""),
        ("weir-file-name", ""),
        ("weir-file-name", ".."),
        ("weir-file-name", "a/index.html"),
        ("weir-fallback", "app"),
        ("weir-fallback", "/../index.html"),
        ("weir-fallback", "/a b"),
        ("weir-fallback", "/a/"),
        ("weir-log-target", ""),
        ("weir-health-path", "health"),
    ] {
        assert!(check_format(format, bad).is_err(), "{format} {bad:?}");
    }
}

#[test]
fn paths() {
    check::<PathGlob>(
        &[("/img/*.png", "/img/*.png"), ("**", "**"), ("/a/**/b", "/a/**/b")],
        &[
            ("img/*", "did you mean `/img/*`"),
            ("/a?b", "never part"),
            ("/a#b", "never part"),
            ("/a***", "more than two"),
            ("/[ab]", "use `regex`"),
            ("/{a,b}", "use `regex`"),
            ("/a b", "percent-encoded"),
            ("/ä", "percent-encoded"),
        ],
    );
    check::<PathPrefix>(
        &[("/api/", "/api/")],
        &[("api/", "begins with `/`"), ("/api/*", "no meaning"), ("", "begins with")],
    );
    check::<PathRegex>(
        &[("^/p/[0-9]+$", "^/p/[0-9]+$"), (r"\d", r"\d")],
        &[("(", "unclosed group"), ("a{1000}{1000}", "too large"), (r"(a)\1", "backreference")],
    );
}

#[test]
fn targets_of_redirects() {
    check::<Target>(
        &[
            ("https://{host}{uri}", "https://{host}{uri}"),
            ("{scheme}://a.example{path}?{query}", "{scheme}://a.example{path}?{query}"),
            ("/new", "/new"),
            ("{uri}", "{uri}"),
            ("/{1}?{header.X-A|lower}", "/{1}?{header.x-a | lower}"),
            ("https://{host}:{port}/", "https://{host}:{port}/"),
            ("https://{map.shop}.example/{1}", "https://{map.shop}.example/{1}"),
            ("/a//b{1}", "/a//b{1}"),
            ("https://a.example?{query.x}", "https://a.example?{query.x}"),
        ],
        &[
            ("", "empty"),
            ("https://www.example.com{query.x}", "`{query.x}` would let a client choose the host"),
            ("{scheme}://{1}.example.com{uri}", "`{1}` would let a client choose the host"),
            ("//{header.X-A}/", "`{header.x-a}` would let a client choose the host"),
            ("https://{hots}", "did you mean `{host}`"),
            ("https://{ports}", "did you mean `{port}`"),
            ("https://{remote_addr}", "did you mean `{client.address}`"),
            ("/{headers.X}", "did you mean `{header.X}`"),
            ("/{zzzz}", "under placeholders"),
            ("/{outcome}", "is not known in an answer or redirect of Weir's own; known in: response, log"),
            ("{header.X-Next}", "begins with `/`"),
            ("{query.next}", "begins with `/`"),
            ("https://{host", "missing `}`"),
            ("https://host}", "without `{`"),
            ("new", "begins with `/`"),
            ("{host}/a", "begins with `/`"),
            ("/a b", "percent-encoded"),
            ("/a\r\nX: b", "percent-encoded"),
        ],
    );
}

#[test]
fn values_of_the_key() {
    check::<KeyValue>(
        &[("{scheme}", "{scheme}"), ("{query.a}-{header.X-B | lower}", "{query.a}-{header.x-b | lower}")],
        &[("x", "is the same for all requests"), ("{age}", "is not known in the key"), ("{", "missing `}`")],
    );
}

#[test]
fn maps_find_the_first_rule() {
    let mapping = |of: &str, rules: &[[&str; 2]], default: Option<&str>| {
        let texts = |rule: &[&str; 2]| rule.iter().map(|text| (*text).to_owned()).collect();
        let rules: Vec<Vec<String>> = rules.iter().map(texts).collect();
        Mapping::compile(&of.parse().unwrap(), &rules, default.map(str::to_owned).as_ref())
    };
    let agents =
        [["~*mobile", "phone"], ["~Mob", "other"], ["Mobile 1", "exact"], ["", "none"], ["~^x+$", "x"]];
    let found = mapping("{header.User-Agent}", &agents, Some("desktop"));
    for (text, expected) in [
        ("Mobile 1", "exact"),
        ("mobile 2", "phone"),
        ("Mob", "other"),
        ("", "none"),
        ("mob", "desktop"),
        ("xxxx", "x"),
    ] {
        assert_eq!(found.find(text.as_bytes()), Some(expected), "{text}");
    }
    assert_eq!(found.find(b"\xff\x00MOBILE"), Some("phone"));
    assert_eq!(mapping("{host}", &[["a", "b"]], None).find(b"c"), None);
    let networks = [
        ["192.0.2.7", "one"],
        ["192.0.2.0/24", "net"],
        ["2001:db8::/32", "six"],
        ["::ffff:10.1.0.0/112", "v4"],
    ];
    let place = mapping("{client.address}", &networks, None);
    for (address, expected) in [
        ("192.0.2.7", Some("one")),
        ("192.0.2.8", Some("net")),
        ("2001:db8::1", Some("six")),
        ("10.1.0.1", Some("v4")),
        ("10.0.0.1", None),
        ("", None),
    ] {
        assert_eq!(place.find(address.as_bytes()), expected, "{address}");
    }
    // A pattern that makes backtracking matchers take years.
    let evil = mapping("{host}", &[["~(a+)+b$", "b"]], None);
    assert_eq!(evil.find(&[b'a'; 50_000]), None);
}

#[test]
fn captures_are_what_stars_and_groups_match() {
    let found = |capturing: &Capturing, path: &str| {
        let found = capturing.find(path)?;
        let text =
            |number| found.get(number).map_or("-".into(), |text| String::from_utf8_lossy(text).into_owned());
        Some((1..=capturing.count() as u8).map(text).collect::<Vec<String>>().join(" "))
    };
    let glob = |pattern: &str, path: &str| found(&Capturing::of_glob(pattern).unwrap(), path);
    for (pattern, path, expected) in [
        ("/api/**", "/api/a/b", Some("a/b")),
        ("/api/**", "/api/", Some("")),
        ("/api/**", "/api", None),
        ("/*/x/**", "/a/x/b/x/c", Some("a b/x/c")),
        ("/**/x/*", "/a/x/b/x/c", Some("a/x/b c")),
        ("/*.png", "/a/b.png", None),
        ("/a.b", "/axb", None),
        ("/a.b", "/a.b", Some("")),
    ] {
        assert_eq!(glob(pattern, path).as_deref(), expected, "{pattern} {path}");
    }
    assert_eq!(found(&Capturing::of_prefix("/a").unwrap(), "/a/b").as_deref(), Some("/b"));
    let regex = Capturing::of_regex(&"^/(a)|(b)$".parse().unwrap());
    assert_eq!(found(&regex, "/b").as_deref(), Some("- b"));
    // A pattern that makes backtracking matchers take years.
    let evil = glob("/**a**a**a**a**a**a**a**a**a**b", &format!("/{}", "a".repeat(100_000)));
    assert_eq!(evil, None);
}

#[test]
fn rates_are_bytes_a_second() {
    let rate = |text: &str| text.parse::<ByteRate>().map(|rate| rate.0);
    assert_eq!(rate("500KB/s"), Ok(500_000));
    assert_eq!(rate(" 2 MiB /s"), Ok(2 << 20));
    assert_eq!(rate("1B"), Ok(1));
    for bad in ["0", "0B/s", "500", "8Mbit/s", "8mbps", "1MB/m", "", "-1kB/s"] {
        assert!(rate(bad).is_err(), "{bad}");
    }
    assert_eq!(ByteRate(500_000).to_string(), "500kB/s");
    assert_eq!(ByteRate(1536).to_string().parse(), Ok(ByteRate(1536)));
}

#[test]
fn clients_ask_for_rates() {
    let asked = |value: &str| ByteRate::asked(value).map(|rate| rate.0);
    let good = [
        ("300k", 300_000),
        ("300K", 300_000),
        ("5M", 5_000_000),
        ("1g", 1_000_000_000),
        ("4096", 4096),
        ("64KiB", 65_536),
        ("64kb/s", 64_000),
        ("1000B", 1000),
    ];
    for (value, bytes) in good {
        assert_eq!(asked(value), Some(bytes), "{value}");
    }
    let long = "9".repeat(40);
    for bad in
        ["", "0", "0k", "k", "-5", "+5", "1.5M", "3 00", "1e6", "300kbit", "%31", "ü", "1k1", "/s", &long]
    {
        assert_eq!(asked(bad), None, "{bad}");
    }
    assert_eq!(asked("18446744073709551615"), Some(u64::MAX));
    assert_eq!(asked("18446744073709551616"), None);
    assert_eq!(asked("18446744073709551615k"), None);
}

#[test]
fn a_parameter_has_one_name() {
    assert!("rate".parse::<ParameterName>().is_ok());
    for bad in ["", "ra*", "a=b", "a&b", "a b", "#"] {
        assert!(bad.parse::<ParameterName>().is_err(), "{bad}");
    }
}

#[test]
fn lists_of_statuses() {
    for (text, count) in [("404", 1), ("200,301", 2), (" 5xx , any ", 2), ("any", 1), ("200,206", 2)] {
        assert_eq!(text.parse::<StatusList>().map(|list| list.0.len()), Ok(count), "{text}");
        assert_eq!(check_format("weir-stored-statuses", text), Ok(()), "{text}");
    }
    for (text, part) in [
        ("", "no status"),
        (" ", "no status"),
        (",", "missing beside a comma"),
        ("200,,301", "missing beside a comma"),
        ("200,301,", "missing beside a comma"),
        ("200, 200", "`200` appears twice"),
        ("any,any", "`any` appears twice"),
        ("0", "use 200 to 599"),
        ("99", "use 200 to 599"),
        ("600", "use 200 to 599"),
        ("4294967496", "use 200 to 599"),
        ("-200", "not a status"),
        ("103", "not final"),
        ("1xx", "not final"),
        ("6xx", "not a class"),
        ("4XX", "did you mean `4xx`"),
        ("all", "did you mean `any`"),
        ("*", "did you mean `any`"),
        ("default", "did you mean `any`"),
        ("anny", "did you mean `any`"),
        ("error", "write one, a class"),
        ("206", "`200,206`"),
        ("206,301", "`200,206`"),
        ("304", "renews"),
        ("429", "never stored"),
        ("416", "never stored"),
        ("511", "never stored"),
    ] {
        let reason = check_format("weir-stored-statuses", text).expect_err(text);
        assert!(reason.contains(part), "{text:?}: {reason}");
    }
}

#[test]
fn percentiles() {
    let percentile =
        |text: &str| text.parse::<Percentile>().map(|percentile| (percentile.0, percentile.to_string()));
    let ok = |per_mille, text: &str| Ok((per_mille, text.to_owned()));
    assert_eq!([percentile("p50"), percentile(" p95 ")], [ok(500, "p50"), ok(950, "p95")]);
    assert_eq!([percentile("p99.9"), percentile("p99.0")], [ok(999, "p99.9"), ok(990, "p99")]);
    for text in ["95", "95%"] {
        assert_eq!(percentile(text), Err("a percentile begins with `p`: did you mean `p95`?".to_owned()));
    }
    for text in ["p49", "p49.9", "p100", "p0", "p999"] {
        assert_eq!(percentile(text), Err(format!("`{text}` is out of bounds: use `p50` to `p99.9`")));
    }
    for text in ["", "p", "p-5", "p99.99", "p9999", "p95.", "p.5", "half", "p+95"] {
        assert_eq!(percentile(text), Err(format!("`{text}` is not a percentile: write `p50` to `p99.9`")));
    }
}

#[test]
fn percents() {
    let percent = |text: &str| text.parse::<Percent>().map(|Percent(percent)| percent);
    assert_eq!([percent("1%"), percent(" 50 %"), percent("100%")], [Ok(1), Ok(50), Ok(100)]);
    assert_eq!(percent("50"), Err("a share without its sign: did you mean `50%`?".to_owned()));
    for text in ["0%", "101%", "999999%"] {
        assert_eq!(percent(text), Err(format!("`{text}` is out of bounds: use `1%` to `100%`")));
    }
    for text in ["", "%", "-5%", "1.5%", "half", "+5%"] {
        assert_eq!(percent(text), Err(format!("`{text}` is not a share: write `1%` to `100%`")));
    }
}
