//! Attacks on what a site says for itself: rewritten paths, cookies and values in keys, maps, HEADs that
//! fill, counted uses, failures that are answered stale. Rows like those of [`super::table`].

use weir_testkit::Exchange;

use super::table::{Row, get, reflect, refuses, refuses_dated, row};

const FRESH: (&str, &str) = ("Cache-Control", "max-age=600");

/// All rows.
pub fn rows() -> Vec<Row> {
    [
        rewritten(),
        rewritten_by_field(),
        by_cookie(),
        by_values(),
        mapped(),
        behind_maps(),
        filled_by_heads(),
        counted(),
        stale(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A path as the most obliging origin reads it: decoded, without parameters behind `;`, and with its dot
/// segments resolved.
fn resolved(target: &str) -> String {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let bytes = path.as_bytes();
    let (mut plain, mut at) = (String::new(), 0);
    while at < bytes.len() {
        let code = path.get(at + 1..at + 3).and_then(|code| u8::from_str_radix(code, 16).ok());
        let escaped = code.filter(|_| bytes[at] == b'%');
        plain.push(char::from(escaped.unwrap_or(bytes[at])));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    let mut segments: Vec<&str> = Vec::new();
    for segment in plain
        .split(['/', '\\'])
        .map(|segment| segment.split([';', '\0', '?', '#']).next().unwrap_or_default())
    {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    segments.join("/")
}

/// An origin with one page, `/N/inner/x`. All else is evil, and all may be stored.
fn resolves(exchange: &mut Exchange<'_>) {
    let target = &exchange.request.target;
    let path = resolved(target);
    let is_page = path.split_once('/').is_some_and(|(_, rest)| rest == "inner/x") && !target.contains("evil");
    exchange.reply(200, &[FRESH], if is_page { "clean" } else { "evil" });
}

/// No spelling of another path is stored for one that is rewritten.
fn rewritten() -> Vec<Row> {
    const SITES: [&str; 3] = [
        "rewrite = [{ from = \"/*/app/**\", to = \"/{1}/inner/{2}\" }]",
        "rewrite = [{ from = \"/*/app/**\", to = \"/{1}/inner/{2}\" }]\nkey = { path = \"rewritten\" }",
        "rewrite = [{ regex = '^/([0-9]+)/app/(.*)$', to = \"/{1}/inner/{2}?{query}\" }]\n\
         key = { path = \"rewritten\", query = { drop = [\"utm_*\"] } }",
    ];
    let long = format!("/app/{}/../../../evil", "x/".repeat(3500));
    let tails = [
        "/app/../evil",
        "/app/x/../../evil",
        "/app/%2e%2e/evil",
        "/app/.%2E/evil",
        "/app/..%2fevil",
        "/app/..%5cevil",
        "/app/..;/evil",
        "/app/%2e%2e%2fevil",
        "/app/x%00evil",
        "/app/x%00",
        "/app/x%0d%0aX-Evil:1",
        "/app/x%0aevil",
        "/app//evil",
        "/app/\\evil",
        "/app/x%3fevil",
        "/app/x%23evil",
        "/app/x;evil",
        "/app/x&evil",
        "/app/x?evil",
        "/app/x?utm_a=1;evil",
        "/app/x?&evil",
        "/app/./../evil",
        "/app/.",
        "/app/x/..",
        "/app/%252e%252e/evil",
        "/app/%c0%ae%c0%ae/evil",
        "/app/{1}evil",
        &long,
    ];
    let rows = SITES.into_iter().flat_map(|site| {
        tails.map(|tail| {
            let evil = vec![get(tail, ""), get(tail, "")];
            let name = format!("rewritten {tail:.40}, {site}");
            row(name, evil, resolves, get("/app/x", "")).site(site).sees(200, "clean")
        })
    });
    rows.collect()
}

/// An origin with one page, `/N/a/x`.
fn resolves_field(exchange: &mut Exchange<'_>) {
    let is_page = resolved(&exchange.request.target).split_once('/').is_some_and(|(_, rest)| rest == "a/x");
    exchange.reply(200, &[FRESH], if is_page { "clean" } else { "evil" });
}

/// A field that chooses the path is in the key, as a whole.
fn rewritten_by_field() -> Vec<Row> {
    const SITE: &str = "rewrite = [{ from = \"/*/app/**\", to = \"/{1}/{header.X-A}/{2}\" }]\n\
                        key = { headers = [\"X-A\"] }";
    let fields = [
        "X-A: evil\r\n",
        "X-A: a\r\nX-A: evil\r\n",
        "X-A: evil\r\nX-A: a\r\n",
        "X-A: ..\r\n",
        "X-A: ../evil\r\n",
        "X-A: a/../evil\r\n",
        "X-A: a?evil\r\n",
        "X-A: a#evil\r\n",
        "X-A: a evil\r\n",
        "X-A: a%0d%0aevil\r\n",
        "X-A: %2e%2e\r\n",
        "X-A: \u{e9}vil\r\n",
        "X_A: evil\r\n",
        "X-A: a\r\nX_A: evil\r\n",
        "X-A: a\r\nConnection: X-A\r\n",
        "",
    ];
    let rows = fields.map(|field| {
        let evil = vec![get("/app/x", field), get("/app/x", field)];
        row(format!("rewritten by {field:?}"), evil, resolves_field, get("/app/x", "X-A: a\r\n"))
            .site(SITE)
            .sees(200, "clean")
    });
    rows.into()
}

/// Reads `lang` as the oddest of origins do: of all Cookie fields, with commas, blanks and quotes as ends, in
/// any case, decoded, and the last one wins.
fn speaks(exchange: &mut Exchange<'_>) {
    let fields = exchange.request.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("cookie"));
    let all: Vec<&str> = fields.map(|(_, value)| value.as_str()).collect();
    let all = all.join(", ").replace("%61", "a");
    let mut lang = "";
    for piece in all.split([';', ',', '"', ' ', '\t']) {
        if let Some((name, value)) = piece.split_once('=')
            && name.trim().replace('.', "_").eq_ignore_ascii_case("lang")
        {
            lang = value;
        }
    }
    exchange.reply(200, &[FRESH], format!("[{lang}]"));
}

/// A cookie in the key is the one that the origin reads, or nothing is stored.
fn by_cookie() -> Vec<Row> {
    const SITES: [&str; 4] = [
        "key = { cookies = [\"lang\"] }",
        "key = { cookies = [\"lang\"] }\ncookies = { keep = [\"lang\"] }",
        "key = { cookies = [\"lang\"] }\ncookies = { drop = [\"_ga*\"] }",
        "key = { values = [\"{cookie.lang | default 'none' | lower}\"] }",
    ];
    let long = format!("lang=de; a={}, lang=evil", "x".repeat(20_000));
    let beyond = format!("a={}; lang=evil", "x".repeat(60_000));
    let cookies = [
        "lang=de, lang=evil",
        "lang=de lang=evil",
        "lang=de; Lang=evil",
        "LANG=evil; lang=de",
        "lang=de\r\nCookie: lang=evil",
        "lang=de\r\nCookie: a=1; lang=evil",
        "lang=\"de; lang=evil\"",
        "lang=\"de, lang=evil\"",
        "a=\"x; lang=evil\"",
        "a=\"x; lang=evil",
        "a=x, lang=evil",
        "a=x\tlang=evil",
        "a=\"x\"lang=evil",
        "lang=de; lang=evil",
        "lang=de; l%61ng=evil",
        "l%61ng=evil",
        "lang =evil",
        "\tlang=evil",
        ";lang=evil",
        "lang=de;;lang=evil",
        "lang=de; _ga=1, lang=evil",
        "_ga=\"; lang=evil; x=\"",
        "lang=evil; $Version=1",
        &long,
        &beyond,
    ];
    let mut rows = Vec::new();
    for site in SITES {
        for (clean, sees) in [("", "[]"), ("Cookie: lang=de\r\n", "[de]")] {
            for cookie in cookies {
                let evil = get("/x", &format!("Cookie: {cookie}\r\n"));
                let name = format!("cookie {cookie:.40}, {clean:?}, {site}");
                rows.push(
                    row(name, vec![evil.clone(), evil], speaks, get("/x", clean)).site(site).sees(200, sees),
                );
            }
        }
    }
    rows
}

/// The last value of a field, in any spelling.
fn of_cgi(exchange: &Exchange<'_>, wanted: &str) -> String {
    let is_it = |name: &str| name.replace('_', "-").eq_ignore_ascii_case(wanted);
    let fields = exchange.request.headers.iter().filter(|(name, _)| is_it(name));
    fields.map(|(_, value)| value.clone()).next_back().unwrap_or_default()
}

fn shows_two(exchange: &mut Exchange<'_>) {
    let text = format!("[{}][{}]", of_cgi(exchange, "x-a"), of_cgi(exchange, "x-b"));
    exchange.reply(200, &[FRESH, ("Vary", "X-C")], text);
}

/// No value runs into its neighbour, and all fields of a name count.
fn by_values() -> Vec<Row> {
    const SITES: [&str; 3] = [
        "key = { values = [\"{header.X-A | lower}-{header.X-B | lower}\"] }",
        "key = { values = [\"{header.X-A}{header.X-B}\"] }",
        "key = { values = [\"{header.X-A | default ''}\", \"{header.X-B | json}\"] }",
    ];
    let fields = [
        "X-A: a-b\r\nX-B: evil\r\n",
        "X-A: a-b\r\n",
        "X-A: ab\r\n",
        "X-B: a-b\r\n",
        "X-A: a\r\nX-A: evil\r\nX-B: b\r\n",
        "X-A: a\r\nX-B: b\r\nX-B: evil\r\n",
        "X-A: a\\\"evil\r\nX-B: b\r\n",
        "X-A: a\\n\r\nX-B: b\r\n",
        "X-A: a\r\nX-B: \"evil\"\r\n",
        "X-A: a\tx-b=b\r\n",
        "X-A:\r\nX-B: a-b\r\n",
        "X_A: evil\r\nX-A: a\r\nX-B: b\r\n",
        "X-A: a\r\nX-B: b\r\nx_b: evil\r\n",
        "X-A: a\r\nX-B: b\r\nConnection: X-B\r\n",
        "X-A: a, evil\r\nX-B: b\r\n",
        "X-A: \u{e4}\r\nX-B: b\r\n",
    ];
    let rows = SITES.into_iter().flat_map(|site| {
        fields.map(|field| {
            let evil = vec![get("/x", field), get("/x", field)];
            let name = format!("values {field:?}, {site}");
            row(name, evil, shows_two, get("/x", "X-A: a\r\nX-B: b\r\n")).site(site).sees(200, "[a][b]")
        })
    });
    rows.collect()
}

fn by_device(exchange: &mut Exchange<'_>) {
    exchange.reply(200, &[FRESH], format!("[{}]", of_cgi(exchange, "x-device")));
}

/// What a map makes of a request is in the key, and nothing else of it reaches the origin by that name.
fn mapped() -> Vec<Row> {
    const SITE: &str = "key = { values = [\"{map.device}\"] }\n\
                        request_headers = { set = { X-Device = \"{map.device}\" } }\n\
                        [map.device]\nof = \"{header.User-Agent}\"\n\
                        rules = [[\"odd\", \"evil\"], [\"~*mobile\", \"evil phone\"]]\ndefault = \"desktop\"";
    let long = format!("User-Agent: {} mobile\r\n", "x".repeat(20_000));
    let beyond = format!("User-Agent: {} mobile\r\n", "x".repeat(40_000));
    let fields = [
        "User-Agent: odd\r\n",
        "User-Agent: x\r\nUser-Agent: mobile\r\n",
        "User-Agent: mobile\r\nUser-Agent: x\r\n",
        "User_Agent: mobile\r\n",
        "X-Device: evil\r\n",
        "X_Device: evil\r\n",
        "X-Device: evil\r\nConnection: X-Device\r\n",
        "User-Agent: mobile\r\nConnection: User-Agent\r\n",
        "User-Agent: \u{e4} mobile\r\n",
        &long,
        &beyond,
    ];
    let rows = fields.map(|field| {
        let evil = vec![get("/x", field), get("/x", field)];
        row(format!("map {field:.50?}"), evil, by_device, get("/x", "")).site(SITE).sees(200, "[desktop]")
    });
    rows.into()
}

/// An origin that reads the field that the map looks at, and a cookie, in any spelling.
fn by_agent(exchange: &mut Exchange<'_>) {
    let agent = of_cgi(exchange, "user-agent").to_ascii_lowercase();
    let kind = if agent.contains("mobile") || of_cgi(exchange, "cookie").contains("kind=phone") {
        "evil"
    } else {
        "desktop"
    };
    exchange.reply(200, &[FRESH], kind);
}

/// What a map looks at is read by the origin as well, perhaps in another way.
fn behind_maps() -> Vec<Row> {
    const SITE: &str = "key = { values = [\"{map.device}\", \"{map.kind}\"] }\n\
                        [map.device]\nof = \"{header.User-Agent}\"\n\
                        rules = [[\"~*mobile\", \"phone\"]]\ndefault = \"desktop\"\n\
                        [map.kind]\nof = \"{cookie.kind}\"\n\
                        rules = [[\"phone\", \"phone\"]]\ndefault = \"desktop\"";
    let fields = [
        "User-Agent: x mobile\r\n",
        "User_Agent: mobile\r\n",
        "User-Agent: x\r\nuser_agent: mobile\r\n",
        "User-Agent: x\r\nUser-Agent: mobile\r\n",
        "Cookie: kind=phone\r\n",
        "Cookie: a=b, kind=phone\r\n",
        "Cookie: kind=x\r\nCookie: kind=phone\r\n",
        "Cookie: a=\"x; kind=phone\"\r\n",
        "Cookie: kind=x; kind=phone\r\n",
    ];
    let rows = fields.map(|field| {
        let evil = vec![get("/x", field), get("/x", field)];
        row(format!("behind a map {field:?}"), evil, by_agent, get("/x", "")).site(SITE).sees(200, "desktop")
    });
    rows.into()
}

/// A HEAD that fills the cache fills it with what a GET would have got.
fn filled_by_heads() -> Vec<Row> {
    let long = format!("X-A: {}\r\n", "x".repeat(5000));
    let fields = [
        "X-Odd: evil\r\n",
        "Range: bytes=0-3\r\nX-Odd: evil\r\n",
        "If-None-Match: \"evil\"\r\n",
        "If-Match: \"evil\"\r\n",
        "X-Forwarded-Host: evil.example\r\n",
        "X-HTTP-Method-Override: evil\r\n",
        "Accept-Encoding: evil\r\n",
        "Cookie: a=evil\r\n",
        "Authorization: evil\r\n",
        "Content-Length: 0\r\nX-Odd: evil\r\n",
        &long,
    ];
    let mut rows = Vec::new();
    for (name, origin) in [
        ("400", refuses::<400> as super::table::Script),
        ("404", refuses::<404>),
        ("414", refuses_dated::<414>),
        ("416", refuses::<416>),
        ("503", refuses::<503>),
    ] {
        rows.extend(fields.map(|field| {
            let evil = get("/x", field).replacen("GET", "HEAD", 1);
            row(format!("HEAD {field:.40?}, {name}"), vec![evil.clone(), evil], origin, get("/x", ""))
                .site("head = \"fill\"")
                .sees(200, "clean")
        }));
    }
    rows.extend(
        fields.into_iter().filter(|field| field.contains("Forwarded") || field.contains("Method")).map(
            |field| {
                let evil = get("/x", field).replacen("GET", "HEAD", 1);
                row(format!("HEAD {field:.40?}, reflected"), vec![evil], reflect, get("/x", ""))
                    .site("head = \"fill\"")
            },
        ),
    );
    rows
}

/// Asking often enough makes nothing storable that is not.
fn counted() -> Vec<Row> {
    [
        ("400", refuses::<400> as super::table::Script),
        ("404", refuses::<404>),
        ("414", refuses_dated::<414>),
        ("431", refuses::<431>),
    ]
    .map(|(name, origin)| {
        let evil = vec![get("/x", "X-Odd: evil\r\n"); 4];
        row(format!("counted {name}"), evil, origin, get("/x", ""))
            .site("min_uses = { memory = 2, volume = 4 }")
            .sees(200, "clean")
    })
    .into()
}

/// Fresh for no time, with a validator; refuses odd requests.
fn refuses_stale<const STATUS: u16>(exchange: &mut Exchange<'_>) {
    match exchange.request.header("x-odd") {
        Some(_) => exchange.reply(STATUS, &[("Cache-Control", "max-age=600")], "evil"),
        None => exchange.reply(200, &[("Cache-Control", "max-age=0"), ("ETag", "\"1\"")], "clean"),
    };
}

/// A failure that one client causes takes nothing from others, and a stored one is theirs as well.
fn stale() -> Vec<Row> {
    [
        ("403", refuses_stale::<403> as super::table::Script),
        ("404", refuses_stale::<404>),
        ("429", refuses_stale::<429>),
    ]
    .map(|(name, origin)| {
        let odd = || get("/x", "X-Odd: evil\r\n");
        let evil = vec![get("/x", ""), odd(), odd()];
        row(format!("stale {name}"), evil, origin, get("/x", ""))
            .site("stale = { if_status = { 4xx = \"1h\" } }")
            .sees(200, "clean")
    })
    .into()
}
