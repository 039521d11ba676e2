//! Attacks as rows: what is sent first, what the origin answers, and what a clean client must see afterwards.
//!
//! What must never reach the clean client has the word `evil` (an attacker's) or `secret` (another client's)
//! in it. In requests `{}` stands for the row's own path.

use weir_testkit::Exchange;

use super::said;

/// How the origin answers.
pub type Script = fn(&mut Exchange<'_>);

/// One attack.
pub struct Row {
    /// Its name.
    pub name: String,
    /// Lines of the attacked site; empty for the defaults.
    pub site: &'static str,
    /// What is sent first, each on a connection of its own.
    pub evil: Vec<String>,
    /// The origin.
    pub origin: Script,
    /// The clean client's request.
    pub clean: String,
    /// The status that the clean client must see.
    pub status: u16,
    /// What the clean client's response must have.
    pub text: &'static str,
}

/// All rows.
pub fn rows() -> Vec<Row> {
    [
        deception(),
        deception_in_spite(),
        denial(),
        denial_with_lifetimes(),
        denial_with_lifetimes_by_status(),
        denial_for_long(),
        contents(),
        parameters(),
        reflected(),
        hop_by_hop(),
        spellings(),
        credentials(),
        parts(),
        heads(),
        freshening(),
        splitting(),
        said::rows(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A GET of the row's own path with `tail` behind it and more field lines.
pub(super) fn get(tail: &str, fields: &str) -> String {
    format!("GET {{}}{tail} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
}

pub(super) fn row(name: impl Into<String>, evil: Vec<String>, origin: Script, clean: String) -> Row {
    Row { name: name.into(), site: "", evil, origin, clean, status: 200, text: "" }
}

impl Row {
    pub(super) fn site(self, site: &'static str) -> Row {
        Row { site, ..self }
    }

    pub(super) fn sees(self, status: u16, text: &'static str) -> Row {
        Row { status, text, ..self }
    }
}

/// Answers with the head of the request, fresh for an hour.
pub(super) fn reflect(exchange: &mut Exchange<'_>) {
    exchange.body();
    let raw = exchange.request.raw.clone();
    exchange.reply(200, &[("Cache-Control", "max-age=3600")], raw);
}

/// The account of the client, by cookie or credentials.
fn account(exchange: &Exchange<'_>) -> String {
    let field = |name| exchange.request.header(name).unwrap_or_default();
    format!("account of [{}{}]", field("cookie"), field("authorization"))
}

fn personal_private(exchange: &mut Exchange<'_>) {
    let text = account(exchange);
    exchange.reply(200, &[("Cache-Control", "private, max-age=600")], text);
}

fn personal_no_store(exchange: &mut Exchange<'_>) {
    let text = account(exchange);
    exchange.reply(200, &[("Cache-Control", "no-store")], text);
}

fn personal_unmarked(exchange: &mut Exchange<'_>) {
    let text = account(exchange);
    exchange.reply(200, &[("Content-Type", "text/css")], text);
}

fn personal_by_cookie(exchange: &mut Exchange<'_>) {
    let text = account(exchange);
    exchange.reply(200, &[("Cache-Control", "max-age=600"), ("Vary", "Accept-Encoding, Cookie")], text);
}

fn personal_with_cookie(exchange: &mut Exchange<'_>) {
    let text = account(exchange);
    let cookie = exchange.request.header("cookie").unwrap_or_default();
    exchange.reply(200, &[("Cache-Control", "max-age=600"), ("Set-Cookie", &cookie)], text);
}

fn personal_to_all(exchange: &mut Exchange<'_>) {
    let text = account(exchange);
    exchange.reply(200, &[("Cache-Control", "max-age=600")], text);
}

/// Web cache deception: the victim is sent to a path that looks like a file, and the attacker requests it
/// afterwards.
fn deception() -> Vec<Row> {
    const TAILS: [&str; 19] = [
        "/account/x.css",
        "/account%2Fx.css",
        "/account%252Fx.css",
        "/account;x.css",
        "/account%3Bx.css",
        "/account%3Fx.css",
        "/account%23x.css",
        "/account?x.css",
        "/account%00.css",
        "/account%0A.css",
        "/account%5Cx.css",
        "/account/.css",
        "/account/favicon.ico",
        "/static/../account",
        "/static/..%2Faccount",
        "/static/%2e%2e/account",
        "/static/./../account",
        "/./account/./x.css",
        "/account/%2e/x.css",
    ];
    const PAGES: [(&str, Script); 5] = [
        ("private", personal_private),
        ("no-store", personal_no_store),
        ("unmarked", personal_unmarked),
        ("by cookie", personal_by_cookie),
        ("with cookie", personal_with_cookie),
    ];
    let one = |tail: &str, (marked, page): (&str, Script)| {
        let victim = get(tail, "Cookie: session=secret\r\n");
        row(format!("deception {tail}, {marked}"), vec![victim], page, get(tail, ""))
            .sees(200, "account of []")
    };
    let mut rows: Vec<Row> = TAILS.iter().flat_map(|tail| PAGES.map(|page| one(tail, page))).collect();
    // A route that stores one path must not be talked into storing another.
    for tail in [
        "/static/../account",
        "/static/..%2Faccount",
        "/static/..%2faccount",
        "/static/%2e%2e/account",
        "/static/%2E%2E%2Faccount",
        "/static/.%2e/account",
        "/static/..%5Caccount",
        "/static/x/../../account",
        "/static/..;/account",
        "/static/x/..%2F..%2Faccount",
        "/static/./../account",
        "/static/././%2e%2e/./account",
        "/static/.%2e/./account",
        "/static/%2e/../account",
    ] {
        let kept = one(tail, ("unmarked, kept", personal_unmarked))
            .site("[[site.route]]\npath = \"**/static/**\"\nttl = \"1h\"");
        // Origins read these two in ways that lead to different routes.
        let is_refused = tail.contains(';') || tail.contains("%5C");
        rows.push(if is_refused { kept.sees(400, "") } else { kept });
    }
    let fragment = get("/account#x.css", "Cookie: session=secret\r\n");
    rows.push(
        row("deception by fragment", vec![fragment.clone()], personal_to_all, get("/account#x.css", ""))
            .sees(400, ""),
    );
    rows
}

fn personal_in_every_way(exchange: &mut Exchange<'_>) {
    let text = account(exchange);
    let control = "public, private, no-store, no-cache, s-maxage=600, must-revalidate";
    exchange.reply(200, &[("Cache-Control", control), ("ETag", "\"one\"")], text);
}

/// The same where the route ignores what the origin says: a page of one client is not stored all the same.
fn deception_in_spite() -> Vec<Row> {
    const PAGES: [(&str, Script); 4] = [
        ("private", personal_private),
        ("no-store", personal_no_store),
        ("in every way", personal_in_every_way),
        ("with cookie", personal_with_cookie),
    ];
    const OWN: [&str; 5] = [
        "Cookie: session=secret",
        "Cookie: lang=de; session=secret",
        "Cookie: ; =secret",
        "Authorization: secret",
        "Cookie: lang=de\r\nAuthorization: secret",
    ];
    const SITES: [&str; 3] = [
        "ignore = [\"no-store\", \"private\", \"no-cache\"]\nttl_override = { any = \"1h\" }",
        "ignore = { \"200,404\" = [\"no-store\", \"private\", \"no-cache\"] }\nttl_override = \"1h\"\n\
         key = { cookies = [\"lang\"] }",
        "ignore = { 2xx = [\"no-store\", \"private\", \"no-cache\"] }\nttl = \"1h\"\nset_cookie = \"strip\"",
    ];
    let mut rows = Vec::new();
    for site in SITES {
        for (marked, page) in PAGES {
            // Where nothing is ignored, a cookie in no key does not keep a response out.
            let is_marked = marked != "with cookie" || !site.contains("strip");
            for own in OWN.into_iter().filter(|_| is_marked) {
                let victim = get("/account", &format!("{own}\r\n"));
                let name = format!("deception in spite: {own:?}, {marked}, {site}");
                rows.push(
                    row(name, vec![victim], page, get("/account", "")).site(site).sees(200, "account of []"),
                );
            }
        }
    }
    rows
}

/// Refuses a request that is long or has an evil field, as origins do whose limits are lower than a proxy's.
pub(super) fn refuses<const STATUS: u16>(exchange: &mut Exchange<'_>) {
    respond_refusing(exchange, STATUS, &[]);
}

/// The same with a date, so that a lifetime could be guessed.
pub(super) fn refuses_dated<const STATUS: u16>(exchange: &mut Exchange<'_>) {
    respond_refusing(exchange, STATUS, &[("Last-Modified", "Mon, 01 Jan 2001 00:00:00 GMT")]);
}

fn respond_refusing(exchange: &mut Exchange<'_>, status: u16, fields: &[(&str, &str)]) {
    exchange.body();
    let request = exchange.request;
    let is_odd = request.raw.len() > 4000 || request.raw.windows(4).any(|word| word == b"evil");
    if is_odd {
        exchange.reply(status, fields, "evil error page");
    } else {
        exchange.reply(200, &[("Cache-Control", "max-age=600")], "clean");
    }
}

/// Cache-poisoned denial of service: one odd request makes the origin refuse. No other client must see the
/// refusal.
fn denial() -> Vec<Row> {
    const REFUSALS: [(&str, Script); 18] = [
        ("400", refuses::<400>),
        ("401", refuses::<401>),
        ("403", refuses::<403>),
        ("404", refuses::<404>),
        ("405", refuses::<405>),
        ("408", refuses::<408>),
        ("411", refuses::<411>),
        ("412", refuses::<412>),
        ("413", refuses::<413>),
        ("414", refuses::<414>),
        ("416", refuses::<416>),
        ("417", refuses::<417>),
        ("421", refuses::<421>),
        ("426", refuses::<426>),
        ("431", refuses::<431>),
        ("500", refuses::<500>),
        ("501", refuses::<501>),
        ("503", refuses::<503>),
    ];
    let long = format!("X-Long: {}\r\n", "x".repeat(12_000));
    let many: String = (0..80).map(|number| format!("X-{number}: {}\r\n", "x".repeat(100))).collect();
    let mut rows = Vec::new();
    for (status, refusal) in REFUSALS {
        let odd = [("oversized", &*long), ("many", &*many), ("odd", "X-Odd: evil\r\n")];
        for (name, fields) in odd {
            let evil = vec![get("/x", fields), get("/x", fields)];
            rows.push(
                row(format!("denial: {name}, {status}"), evil, refusal, get("/x", "")).sees(200, "clean"),
            );
        }
    }
    let beyond = format!("X-Long: {}\r\n", "x".repeat(40_000));
    let here = [
        ("beyond limit", get("/x", &beyond)),
        ("meta 07", get("/x", "X-Meta: \u{7}evil\r\n")),
        ("meta nul", get("/x", "X-Meta: evil\0\r\n")),
        ("bare cr", get("/x", "X-Meta: evil\r-\r\n")),
        ("bare lf", get("/x", "X-Meta: evil\n-evil: 1\r\n")),
        ("bad name", get("/x", "X Evil: evil\r\n")),
        ("folded", get("/x", "X-Meta: 1\r\n evil\r\n")),
        ("unknown coding", get("/x", "Transfer-Encoding: evil\r\n")),
        ("bad length", get("/x", "Content-Length: evil\r\n")),
        ("method in lower case", "get {}/x HTTP/1.1\r\nHost: localhost\r\nX: evil\r\n\r\n".to_owned()),
        ("unknown method", "EVIL {}/x HTTP/1.1\r\nHost: localhost\r\nX: evil\r\n\r\n".to_owned()),
        ("post", "POST {}/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nevil".to_owned()),
        ("upgrade", get("/x", "Connection: upgrade\r\nUpgrade: evil\r\n")),
        ("expectation", get("/x", "Expect: evil\r\n")),
        ("condition", get("/x", "If-Match: \"evil\"\r\n")),
        ("range", get("/x", "Range: bytes=evil-\r\n")),
        ("range of the end", get("/x", "Range: bytes=999999999-\r\nX-Odd: evil\r\n")),
        ("coding", get("/x", "Accept-Encoding: evil\r\n")),
        ("method override", get("/x", "X-HTTP-Method-Override: evil\r\n")),
        ("method override 2", get("/x", "X-Method-Override: evil\r\nX-HTTP-Method: evil\r\n")),
        ("scheme", get("/x", "X-Forwarded-Scheme: evil\r\nX-Forwarded-Proto: evil\r\n")),
        ("port", get("/x", "X-Forwarded-Port: evil\r\n")),
        ("ssl", get("/x", "X-Forwarded-Ssl: evil\r\nFront-End-Https: evil\r\n")),
    ];
    rows.extend(here.map(|(name, evil)| {
        row(format!("denial: {name}"), vec![evil], refuses::<400>, get("/x", "")).sees(200, "clean")
    }));
    rows
}

/// The same with a configured lifetime: statuses that a request can cause get none.
fn denial_with_lifetimes() -> Vec<Row> {
    const DATED: [(&str, Script); 6] = [
        ("400", refuses_dated::<400>),
        ("413", refuses_dated::<413>),
        ("414", refuses_dated::<414>),
        ("431", refuses_dated::<431>),
        ("500", refuses_dated::<500>),
        ("501", refuses_dated::<501>),
    ];
    let mut rows = Vec::new();
    for (status, refusal) in DATED {
        for site in ["", "ttl = \"1h\"", "ttl_override = \"1h\""] {
            let evil = vec![get("/x", "X-Odd: evil\r\n")];
            let name = format!("denial: {status} with a date, {site}");
            rows.push(row(name, evil, refusal, get("/x", "")).site(site).sees(200, "clean"));
        }
    }
    rows
}

/// The same with lifetimes for whole classes and for all: these leave out what one request may cause.
fn denial_with_lifetimes_by_status() -> Vec<Row> {
    const REFUSALS: [(&str, Script); 14] = [
        ("400", refuses::<400>),
        ("401", refuses::<401>),
        ("403", refuses::<403>),
        ("405", refuses::<405>),
        ("406", refuses::<406>),
        ("407", refuses::<407>),
        ("414", refuses::<414>),
        ("429", refuses::<429>),
        ("430", refuses::<430>),
        ("431", refuses::<431>),
        ("494", refuses::<494>),
        ("501", refuses::<501>),
        ("505", refuses::<505>),
        ("506", refuses::<506>),
    ];
    const SITES: [&str; 3] = [
        "ttl = { any = \"1h\" }",
        "ttl = { 4xx = \"1h\", 5xx = \"1h\" }",
        "ttl_override = { 4xx = \"1h\", any = \"1h\" }",
    ];
    let mut rows = Vec::new();
    for (status, refusal) in REFUSALS {
        for site in SITES {
            let evil = vec![get("/x", "X-Odd: evil\r\n")];
            let name = format!("denial: {status}, {site}");
            rows.push(row(name, evil, refusal, get("/x", "")).site(site).sees(200, "clean"));
        }
    }
    rows
}

/// A refusal that may be stored.
fn refuses_for_long<const STATUS: u16>(exchange: &mut Exchange<'_>) {
    let fields = [("Cache-Control", "public, max-age=3600"), ("ETag", "\"evil\"")];
    respond_refusing(exchange, STATUS, &fields);
}

/// One request is refused, and the refusal would be stored for all for an hour.
fn denial_for_long() -> Vec<Row> {
    const REFUSALS: [(&str, Script); 16] = [
        ("400", refuses_for_long::<400>),
        ("408", refuses_for_long::<408>),
        ("411", refuses_for_long::<411>),
        ("412", refuses_for_long::<412>),
        ("413", refuses_for_long::<413>),
        ("414", refuses_for_long::<414>),
        ("415", refuses_for_long::<415>),
        ("416", refuses_for_long::<416>),
        ("417", refuses_for_long::<417>),
        ("421", refuses_for_long::<421>),
        ("422", refuses_for_long::<422>),
        ("425", refuses_for_long::<425>),
        ("426", refuses_for_long::<426>),
        ("428", refuses_for_long::<428>),
        ("429", refuses_for_long::<429>),
        ("431", refuses_for_long::<431>),
    ];
    REFUSALS
        .into_iter()
        .map(|(status, refusal)| {
            let name = format!("denial: {status} for an hour");
            row(name, vec![get("/x", "X-Odd: evil\r\n")], refusal, get("/x", "")).sees(200, "clean")
        })
        .collect()
}

/// Answers with the content of the request.
fn echo(exchange: &mut Exchange<'_>) {
    let body = exchange.body();
    exchange.reply(200, &[("Cache-Control", "max-age=600")], [b"[", &body[..], b"]"].concat());
}

/// A GET with content, by length, by chunks, and behind other methods.
fn contents() -> Vec<Row> {
    let with = |name: &str, start: &str, fields: &str, content: &str| {
        let evil = format!("{start} {{}}/x HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n{content}");
        row(format!("content: {name}"), vec![evil], echo, get("/x", "")).sees(200, "[]")
    };
    vec![
        with("of a GET", "GET", "Content-Length: 4\r\n", "evil"),
        with(
            "of a GET as a form",
            "GET",
            "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 6\r\n",
            "q=evil",
        ),
        with("of a GET in chunks", "GET", "Transfer-Encoding: chunked\r\n", "4\r\nevil\r\n0\r\n\r\n"),
        with("of a HEAD", "HEAD", "Content-Length: 4\r\n", "evil"),
        with("of a POST", "POST", "Content-Length: 4\r\n", "evil"),
        with(
            "of a POST that would be a GET",
            "POST",
            "X-HTTP-Method-Override: GET\r\nContent-Length: 4\r\n",
            "evil",
        ),
        with("of a PUT", "PUT", "Content-Length: 4\r\n", "evil"),
    ]
}

/// Answers with its target.
fn target(exchange: &mut Exchange<'_>) {
    exchange.body();
    let target = exchange.request.target.clone();
    exchange.reply(200, &[("Cache-Control", "max-age=600")], format!("[{target}]"));
}

/// Answers with what `q` is to an origin that takes `;` for `&`, decodes names, and takes the last of
/// several.
fn lenient_query(exchange: &mut Exchange<'_>) {
    exchange.body();
    let query =
        exchange.request.target.split_once('?').map(|(_, query)| query.to_owned()).unwrap_or_default();
    let decoded = query.replace("%26", "&").replace("%3B", ";").replace("%3D", "=").replace("%71", "q");
    let last = decoded.split(['&', ';', '?']).filter_map(|pair| pair.strip_prefix("q=")).next_back();
    exchange.reply(200, &[("Cache-Control", "max-age=600")], format!("[{}]", last.unwrap_or_default()));
}

/// Parameter cloaking: what is dropped from the key is dropped from the origin's request, whatever else it
/// hides.
fn parameters() -> Vec<Row> {
    const DROP: &str = "[site.key.query]\ndrop = [\"utm_*\", \"fbclid\"]";
    const KEEP: &str = "[site.key.query]\nkeep = [\"q\"]";
    const NONE: &str = "[site.key.query]\nkeep = []";
    const SORT: &str = "[site.key.query]\nsort = true";
    let cloaked = |site: &'static str, query: &str, clean: &str, text: &'static str| {
        let name = format!("parameters {query}, {site}");
        row(name, vec![get(query, "")], lenient_query, get(clean, "")).site(site).sees(200, text)
    };
    let mut rows = vec![
        row("parameters dropped", vec![get("?utm_source=evil", "")], target, get("", "")).site(DROP),
        row("parameters kept", vec![get("?evil=1&q=1", "")], target, get("?q=1", ""))
            .site(KEEP)
            .sees(200, "?q=1]"),
        row("parameters none", vec![get("?evil=1", "")], target, get("", "")).site(NONE),
        cloaked(NONE, "?q=evil", "", "[]"),
        // Without a rule for order or repetition, each query is an object of its own.
        cloaked("", "?q=1&q=evil", "?q=1", "[1]"),
        cloaked("", "?q=1;q=evil", "?q=1", "[1]"),
        cloaked("", "?q=1%26q=evil", "?q=1", "[1]"),
        cloaked("", "?q=1?q=evil", "?q=1", "[1]"),
        cloaked("", "?Q=1&q=evil", "?Q=1", "[]"),
        cloaked(SORT, "?q=1&q=evil", "?q=evil0&q=1", "[1]"),
        cloaked(SORT, "?b&q=evil&a", "?a&b", "[]"),
    ];
    for site in [DROP, SORT] {
        rows.extend([
            cloaked(site, "?q=1&utm_x=1;q=evil", "?q=1", "[1]"),
            cloaked(site, "?q=1&utm_x=1%3Bq=evil", "?q=1", "[1]"),
            cloaked(site, "?q=1&utm_x=1%26q=evil", "?q=1", "[1]"),
            cloaked(site, "?q=1&utm_x=1?q=evil", "?q=1", "[1]"),
            cloaked(site, "?q=1&utm_x;q=evil", "?q=1", "[1]"),
            cloaked(site, "?q=1&utm_%71=1&q=evil", "?q=1", "[1]"),
            cloaked(site, "?q=1&%71=evil", "?q=1", "[1]"),
            cloaked(site, "?q=1&q=evil&utm_x", "?q=1", "[1]"),
        ]);
    }
    for hidden in
        ["q=1&z=1;q=evil", "q=1&z=1%26q=evil", "q=1&%71=evil", "q=1&utm_x=q=evil", "q=1&q;=1&;q=evil"]
    {
        rows.push(cloaked(KEEP, &format!("?{hidden}"), "?q=1", "[1]"));
    }
    rows
}

/// Fields that are in no key, which an origin reflects into a storable response.
fn reflected() -> Vec<Row> {
    let fields = [
        "X-Forwarded-Host: evil.example\r\n",
        "X-Forwarded-Host: localhost, evil.example\r\n",
        "X-Forwarded-Host: localhost\r\nX-Forwarded-Host: evil.example\r\n",
        "X-Forwarded-For: evil\r\n",
        "X-Forwarded-For: evil, 192.0.2.7\r\n",
        "Fastly-Client-IP: evil\r\n",
        "X-Cluster-Client-IP: evil\r\n",
        "X_Real_IP: evil\r\n",
        "X-HTTP-Method-Override: evil\r\n",
        "X-Envoy-Original-Path: /evil\r\n",
        "X-MS-Original-URL: /evil\r\n",
        "X-Forwarded-Url: /evil\r\n",
        "X-Forwarded-Request-Uri: /evil\r\n",
        "X-Middleware-Subrequest: evil\r\n",
        "Http-Host: evil.example\r\n",
        "Translate: evil\r\n",
        "X-Forwarded-Port: evil\r\n",
        "X-Forwarded-Proto: evil\r\n",
        "X-Forwarded-Scheme: evil\r\n",
        "X-Forwarded-Server: evil\r\n",
        "X-Forwarded-Prefix: /evil\r\n",
        "X-Forwarded-Path: /evil\r\n",
        "X-Forwarded-Uri: /evil\r\n",
        "X-Forwarded: evil\r\n",
        "Forwarded: host=evil.example;for=evil\r\n",
        "X-Original-URL: /evil\r\n",
        "X-Rewrite-URL: /evil\r\n",
        "X-Original-Host: evil.example\r\n",
        "X-Host: evil.example\r\n",
        "X-Real-IP: evil\r\n",
        "True-Client-IP: evil\r\n",
        "CF-Connecting-IP: evil\r\n",
        "X-Client-IP: evil\r\n",
        "Client-IP: evil\r\n",
        "X-Request-Id: evil\r\n",
        "Accept-Encoding: evil, gzip;q=0.1\r\n",
        "Proxy: http://evil.example\r\n",
        "Proxy-Authorization: evil\r\n",
        "TE: evil\r\nConnection: TE\r\n",
        "Keep-Alive: evil\r\n",
        "Surrogate-Capability: evil=\"Surrogate/1.0\"\r\n",
        "A-IM: evil\r\n",
        "Range: bytes=0-10, 20-evil\r\n",
        "If-Range: \"evil\"\r\n",
        "If-None-Match: \"evil\"\r\n",
        "If-Unmodified-Since: evil\r\n",
        "Expect: 100-continue-evil\r\n",
        "x_forwarded_host: evil.example\r\n",
        "X_Original_URL: /evil\r\n",
        "X-Original.URL: /evil\r\n",
        "X.Forwarded!Host: evil.example\r\n",
    ];
    let by_field = fields
        .map(|field| row(format!("reflected {field:?}"), vec![get("/x", field)], reflect, get("/x", "")));
    let hosts = [
        "Host: evil.example",
        "Host: localhost:1337",
        "Host: evil.localhost",
        "Host: localhost.evil.example",
        "Host: localhost@evil.example",
        "Host: localhost/evil",
        "Host: localhost evil",
        "Host: localhost\r\nHost: evil.example",
        "Host: localhost\r\n Host: evil.example",
        "Host:\r\nX: evil",
        "Host : evil.example",
        "X: evil",
    ];
    let by_host = hosts.map(|host| {
        let evil = format!("GET {{}}/x HTTP/1.1\r\n{host}\r\n\r\n");
        row(format!("reflected {host:?}"), vec![evil], reflect, get("/x", ""))
    });
    let targets = [
        "GET http://evil.example{}/x HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET http://localhost@evil.example{}/x HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET https://localhost{}/x HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        "GET //evil.example{}/x HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET http://localhost{}/x HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    ];
    let by_target =
        targets.map(|evil| row(format!("reflected {evil:?}"), vec![evil.to_owned()], reflect, get("/x", "")));
    by_field.into_iter().chain(by_host).chain(by_target).collect()
}

/// Answers by device. A client without one is a stranger.
fn by_device(exchange: &mut Exchange<'_>) {
    let text = if exchange.request.header("x-device").is_some() { "mobile" } else { "evil default" };
    exchange.reply(200, &[("Cache-Control", "max-age=600"), ("Vary", "X-Device")], text);
}

/// The same, with the device in the key of the route.
fn by_keyed_device(exchange: &mut Exchange<'_>) {
    let text = if exchange.request.header("x-device").is_some() { "mobile" } else { "evil default" };
    exchange.reply(200, &[("Cache-Control", "max-age=600")], text);
}

/// A client that makes Weir drop a field must not choose what clients with that field get.
fn hop_by_hop() -> Vec<Row> {
    let clean = || get("/x", "X-Device: mobile\r\n");
    let evil = |named: &str| vec![get("/x", &format!("X-Device: mobile\r\nConnection: {named}\r\n"))];
    let mut rows = Vec::new();
    for named in ["X-Device", "close, x-device", "keep-alive, X-DEVICE"] {
        rows.push(
            row(format!("hop by hop {named}, Vary"), evil(named), by_device, clean()).sees(200, "mobile"),
        );
        rows.push(
            row(format!("hop by hop {named}, key"), evil(named), by_keyed_device, clean())
                .site("[site.key]\nheaders = [\"X-Device\"]")
                .sees(200, "mobile"),
        );
    }
    for named in
        ["Cookie", "Authorization", "Accept-Language", "Host", "Via", "X-Forwarded-For", "Cache-Control"]
    {
        let evil = get("/x", &format!("Accept-Language: evil\r\nConnection: {named}\r\n"));
        rows.push(row(format!("hop by hop {named}"), vec![evil], reflect_language, get("/x", "")));
    }
    rows
}

fn reflect_language(exchange: &mut Exchange<'_>) {
    let language = exchange.request.header("accept-language").unwrap_or_default();
    exchange.reply(200, &[("Cache-Control", "max-age=600"), ("Vary", "Accept-Language")], language);
}

/// Reads a field as an origin behind CGI does: an underscore is a hyphen, and the last value wins.
fn by_device_of_cgi(exchange: &mut Exchange<'_>) {
    let is_device = |name: &str| name.replace('_', "-").eq_ignore_ascii_case("x-device");
    let headers = &exchange.request.headers;
    let device =
        headers.iter().filter(|(name, _)| is_device(name)).map(|(_, value)| value.clone()).next_back();
    let text = format!("[{}]", device.unwrap_or_default());
    exchange.reply(200, &[("Cache-Control", "max-age=600"), ("Vary", "X-Device")], text);
}

/// Two spellings of one field.
fn spellings() -> Vec<Row> {
    ["X_Device: evil\r\n", "X_DEVICE: evil\r\nX-Device: mobile\r\n", "x_device: evil\r\nx_device: evil2\r\n"]
        .into_iter()
        .flat_map(|fields| {
            let clean = if fields.contains("mobile") { "X-Device: mobile\r\n" } else { "" };
            let one = |site: &'static str| {
                let name = format!("spelling {fields:?} {site}");
                row(name, vec![get("/x", fields)], by_device_of_cgi, get("/x", clean)).site(site)
            };
            [one(""), one("[site.key]\nheaders = [\"X-Device\"]")]
        })
        .collect()
}

fn public_account(exchange: &mut Exchange<'_>) {
    // An origin that says public has nothing personal in its response.
    exchange.reply(200, &[("Cache-Control", "public, max-age=600")], "for all");
}

fn withholds_cookie(exchange: &mut Exchange<'_>) {
    let control =
        [("Cache-Control", "max-age=600, no-cache=\"set-cookie\""), ("Set-Cookie", "session=secret")];
    let is_first = exchange.request.header("x-own").is_some();
    exchange.reply(200, if is_first { &control } else { &control[..1] }, "page");
}

fn cookie_for_the_named(exchange: &mut Exchange<'_>) {
    let own = [("Cache-Control", "max-age=600"), ("Set-Cookie", "session=secret")];
    let is_named = exchange.request.header("x-own").is_some();
    exchange.reply(200, if is_named { &own } else { &own[..1] }, "page");
}

/// Cookies and credentials: what one client gets for them is not another's.
fn credentials() -> Vec<Row> {
    let victim = |fields: &str| vec![get("/x", fields)];
    vec![
        row(
            "credentials: authorization",
            victim("Authorization: secret\r\n"),
            personal_to_all,
            get("/x", ""),
        )
        .sees(200, "account of []"),
        row(
            "credentials: authorization under an override",
            victim("Authorization: secret\r\n"),
            personal_to_all,
            get("/x", ""),
        )
        .site("ttl_override = \"1h\"")
        .sees(200, "account of []"),
        row("credentials: for all", victim("Authorization: secret\r\n"), public_account, get("/x", ""))
            .sees(200, "for all"),
        row("credentials: a cookie is set", victim("X-Own: 1\r\n"), cookie_for_the_named, get("/x", ""))
            .sees(200, "page"),
        row(
            "credentials: a cookie is set, strip",
            victim("X-Own: 1\r\n"),
            cookie_for_the_named,
            get("/x", ""),
        )
        .site("set_cookie = \"strip\"")
        .sees(200, "page"),
        row(
            "credentials: a cookie is set, override",
            victim("X-Own: 1\r\n"),
            cookie_for_the_named,
            get("/x", ""),
        )
        .site("ttl_override = \"1h\"")
        .sees(200, "page"),
        row("credentials: a cookie is withheld", victim("X-Own: 1\r\n"), withholds_cookie, get("/x", ""))
            .sees(200, "page"),
        row(
            "credentials: the cookie in the key is set",
            victim("X-Own: 1\r\nCookie: lang=secret-0\r\n"),
            cookie_for_the_named,
            get("/x", ""),
        )
        .site("set_cookie = \"store\"\n[site.key]\ncookies = [\"session\"]")
        .sees(200, "page"),
        row(
            "credentials: another cookie in the key",
            victim("Cookie: lang=secret\r\n"),
            personal_to_all,
            get("/x", "Cookie: lang=de\r\n"),
        )
        .site("[site.key]\ncookies = [\"lang\"]")
        .sees(200, "account of [lang=de]"),
        row(
            "credentials: two cookies of one name",
            victim("Cookie: lang=de; lang=secret\r\n"),
            personal_to_all,
            get("/x", "Cookie: lang=de\r\n"),
        )
        .site("[site.key]\ncookies = [\"lang\"]")
        .sees(200, "account of [lang=de]"),
        row(
            "credentials: the keyed cookie is set and hidden",
            victim("X-Own: 1\r\n"),
            sets_keyed_cookie_hidden,
            get("/x", ""),
        )
        .site("[site.key]\ncookies = [\"lang\"]"),
    ]
}

fn sets_keyed_cookie_hidden(exchange: &mut Exchange<'_>) {
    let own = [
        ("Cache-Control", "max-age=600, private=\"set-cookie, x-own\""),
        ("Set-Cookie", "lang=secret"),
        ("X-Own", "secret"),
    ];
    let is_own = exchange.request.header("x-own").is_some();
    exchange.reply(200, if is_own { &own } else { &own[..1] }, "page");
}

/// An origin that sends the requested part, and an evil one for a part that it does not have.
fn partial(exchange: &mut Exchange<'_>) {
    match exchange.request.header("range") {
        Some(_) => exchange.reply(
            206,
            &[("Cache-Control", "max-age=600"), ("Content-Range", "bytes 0-3/9"), ("ETag", "\"1\"")],
            "evil",
        ),
        None => exchange.reply(200, &[("Cache-Control", "max-age=600"), ("ETag", "\"1\"")], "whole one"),
    };
}

/// An origin that answers with a part, requested or not.
fn unasked_part(exchange: &mut Exchange<'_>) {
    if exchange.request.header("x-own").is_some() {
        let fields = [("Cache-Control", "max-age=600"), ("Content-Range", "bytes 0-3/9")];
        exchange.reply(206, &fields, "evil");
    } else {
        exchange.reply(200, &[("Cache-Control", "max-age=600")], "whole one");
    }
}

/// An origin that cannot satisfy any range, for an hour.
fn unsatisfiable(exchange: &mut Exchange<'_>) {
    if exchange.request.header("range").is_some() {
        exchange.reply(416, &[("Cache-Control", "max-age=600"), ("Content-Range", "bytes */9")], "evil");
    } else {
        exchange.reply(200, &[("Cache-Control", "max-age=600")], "whole one");
    }
}

/// Ranges: a part is never sent for the whole.
fn parts() -> Vec<Row> {
    let ranges =
        ["bytes=0-3", "bytes=-4", "bytes=5-", "bytes=0-0,2-3", "bytes=9-3", "bytes=x", "lines=1-2", ""];
    let mut rows = Vec::new();
    for range in ranges {
        for (name, origin) in [("206", partial as Script), ("416", unsatisfiable)] {
            let evil = vec![get("/x", &format!("Range: {range}\r\n"))];
            rows.push(
                row(format!("part {range:?}, {name}"), evil, origin, get("/x", "")).sees(200, "whole one"),
            );
        }
    }
    let evil = vec![get("/x", "X-Own: 1\r\n")];
    rows.push(row("part that nobody asked for", evil, unasked_part, get("/x", "")).sees(200, "whole one"));
    rows
}

/// An origin whose HEAD contradicts its GET.
fn lying_head(exchange: &mut Exchange<'_>) {
    if exchange.request.method == "HEAD" {
        exchange.send(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nX-Evil: evil\r\nContent-Length: 9\r\n\
            Content-Type: evil/evil\r\n\r\n",
        );
    } else {
        exchange.reply(200, &[("Cache-Control", "max-age=600"), ("Content-Type", "text/plain")], "whole one");
    }
}

/// An origin whose HEAD has a personal field and says private.
fn personal_head(exchange: &mut Exchange<'_>) {
    let own = exchange.request.header("cookie").unwrap_or_default();
    if exchange.request.method == "HEAD" {
        exchange.send(format!(
            "HTTP/1.1 200 OK\r\nCache-Control: private\r\nX-User: {own}\r\nContent-Length: 9\r\n\
            ETag: \"1\"\r\n\r\n"
        ));
    } else if exchange.request.header("if-none-match").is_some() {
        exchange.send("HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=600\r\nETag: \"1\"\r\n\r\n");
    } else {
        exchange.reply(200, &[("Cache-Control", "max-age=600"), ("ETag", "\"1\"")], "whole one");
    }
}

/// An origin that tells clients with credentials who they are, in HEAD and 304, and marks none of it.
fn personal_unless_fetched(exchange: &mut Exchange<'_>) {
    let name = |field| exchange.request.header(field);
    let own = name("authorization").or_else(|| name("cookie")).unwrap_or_default();
    let fields = format!("Cache-Control: max-age=600\r\nETag: \"1\"\r\nX-User: {own}\r\n");
    if exchange.request.method == "HEAD" {
        exchange.send(format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 9\r\n\r\n"));
    } else if exchange.request.header("if-none-match").is_some() {
        exchange.send(format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n"));
    } else {
        exchange.reply(200, &[("Cache-Control", "max-age=600"), ("ETag", "\"1\"")], "whole one");
    }
}

/// HEAD and GET mixed up; also where a HEAD fills the cache.
fn heads() -> Vec<Row> {
    let filling = heads_that_are_passed().into_iter().map(|row| {
        let site = match row.site {
            "" => "head = \"fill\"",
            _ => "head = \"fill\"\n[site.bypass]\ncookies = [\"session\"]",
        };
        Row { name: format!("{}, filling", row.name), site, ..row }
    });
    let head = |fields: &str| format!("HEAD {{}}/x HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
    let personal = [
        ("private", personal_private as Script),
        ("no-store", personal_no_store),
        ("by cookie", personal_by_cookie),
        ("with cookie", personal_with_cookie),
    ];
    let personal = personal.into_iter().map(|(marked, page)| {
        let victim = vec![head("Cookie: session=secret\r\n"), head("Authorization: secret\r\n")];
        let row = row(format!("head of a page, {marked}, filling"), victim, page, get("/x", ""));
        row.site("head = \"fill\"").sees(200, "account of []")
    });
    heads_that_are_passed().into_iter().chain(filling).chain(personal).collect()
}

fn heads_that_are_passed() -> Vec<Row> {
    let head = |fields: &str| format!("HEAD {{}}/x HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
    vec![
        row(
            "head with credentials after get",
            vec![get("/x", ""), head("Authorization: secret\r\nCache-Control: no-cache\r\n")],
            personal_unless_fetched,
            get("/x", ""),
        )
        .sees(200, "whole one"),
        row(
            "head past the cache after get",
            vec![get("/x", ""), head("Cookie: session=secret\r\n")],
            personal_unless_fetched,
            get("/x", ""),
        )
        .site("[site.bypass]\ncookies = [\"session\"]")
        .sees(200, "whole one"),
        row("head before get", vec![head("")], lying_head, get("/x", "")).sees(200, "whole one"),
        row("head that shows itself", vec![head("X-Odd: evil\r\n")], refuses::<404>, get("/x", ""))
            .sees(200, "clean"),
        row(
            "private head after get",
            vec![get("/x", ""), head("Cookie: secret\r\nCache-Control: no-cache\r\n")],
            personal_head,
            get("/x", ""),
        )
        .sees(200, "whole one"),
        row(
            "private head after get, authenticated",
            vec![get("/x", ""), head("Cookie: secret\r\nAuthorization: x\r\nPragma: no-cache\r\n")],
            personal_head,
            get("/x", ""),
        )
        .sees(200, "whole one"),
    ]
}

/// An origin that confirms with fields that it should not send.
fn confirms(exchange: &mut Exchange<'_>, lines: &str) {
    let own = exchange.request.header("x-own").unwrap_or_default();
    if exchange.request.header("if-none-match").is_some() {
        let lines = if own.is_empty() { "" } else { lines };
        exchange.send(format!("HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n{lines}\r\n"));
    } else {
        exchange.reply(
            200,
            &[("Cache-Control", "max-age=600"), ("Content-Type", "text/plain"), ("ETag", "\"1\"")],
            "whole one",
        );
    }
}

fn confirms_with_cookie(exchange: &mut Exchange<'_>) {
    confirms(exchange, "Set-Cookie: session=secret\r\nCache-Control: max-age=600\r\n");
}

fn confirms_privately(exchange: &mut Exchange<'_>) {
    confirms(exchange, "X-User: secret\r\nCache-Control: private\r\n");
}

fn confirms_unstored(exchange: &mut Exchange<'_>) {
    confirms(exchange, "X-User: secret\r\nCache-Control: no-store\r\n");
}

fn confirms_with_private_field(exchange: &mut Exchange<'_>) {
    confirms(exchange, "X-User: secret\r\nCache-Control: max-age=600, private=\"x-user\"\r\n");
}

fn confirms_with_content(exchange: &mut Exchange<'_>) {
    confirms(
        exchange,
        "Content-Length: 4\r\nContent-Encoding: evil\r\nContent-Range: bytes 0-3/evil\r\n\
        Cache-Control: max-age=600\r\n",
    );
}

fn confirms_with_codings(exchange: &mut Exchange<'_>) {
    confirms(exchange, "Transfer-Encoding: chunked\r\nConnection: X-Evil\r\nX-Evil: evil\r\n");
}

fn confirms_another(exchange: &mut Exchange<'_>) {
    let own = exchange.request.header("x-own").is_some();
    if own && exchange.request.header("if-none-match").is_some() {
        let fields =
            "Last-Modified: Mon, 01 Jan 2001 00:00:00 GMT\r\nX-Evil: evil\r\nCache-Control: max-age=600\r\n";
        exchange.send(format!("HTTP/1.1 304 Not Modified\r\nETag: \"evil\"\r\n{fields}\r\n"));
    } else {
        exchange.reply(200, &[("Cache-Control", "max-age=600"), ("ETag", "\"1\"")], "whole one");
    }
}

/// An origin that says "not modified" to an unconditional request.
fn confirms_unasked(exchange: &mut Exchange<'_>) {
    if exchange.request.header("x-own").is_some() {
        exchange.send("HTTP/1.1 304 Not Modified\r\nETag: \"evil\"\r\nCache-Control: max-age=600\r\n\r\n");
    } else {
        exchange.reply(200, &[("Cache-Control", "max-age=600")], "whole one");
    }
}

/// What a 304 may change of the stored response, and what not.
fn freshening() -> Vec<Row> {
    const CASES: [(&str, Script); 7] = [
        ("with a cookie", confirms_with_cookie),
        ("private", confirms_privately),
        ("no-store", confirms_unstored),
        ("with a private field", confirms_with_private_field),
        ("with fields of another content", confirms_with_content),
        ("with codings", confirms_with_codings),
        ("of another entity tag", confirms_another),
    ];
    let mut rows: Vec<Row> = CASES
        .iter()
        .map(|(name, origin)| {
            let evil = vec![get("/x", ""), get("/x", "X-Own: 1\r\nCache-Control: no-cache\r\n")];
            row(format!("304 {name}"), evil, *origin, get("/x", "")).sees(200, "whole one")
        })
        .collect();
    let shown = vec![get("/x", ""), get("/x", "Authorization: secret\r\nCache-Control: no-cache\r\n")];
    rows.push(
        row("304 to credentials", shown, personal_unless_fetched, get("/x", "")).sees(200, "whole one"),
    );
    rows.push(
        row("304 that nobody asked for", vec![get("/x", "X-Own: 1\r\n")], confirms_unasked, get("/x", ""))
            .sees(200, "whole one"),
    );
    rows
}

/// An origin that decodes the target into its fields.
fn decodes(exchange: &mut Exchange<'_>) {
    let target = exchange.request.target.replace("%0d%0a", "\r\n").replace("%0a", "\n").replace("%0d", "\r");
    exchange.send(format!(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nX-Target: {target}\r\nContent-Length: 9\r\n\r\n\
        whole one"
    ));
}

/// Responses that are split by what an origin decodes: no piece becomes another object's response.
fn splitting() -> Vec<Row> {
    let second = "Content-Length:%200%0d%0a%0d%0aHTTP/1.1%20200%20OK%0d%0aCache-Control:max-age=9%0d%0a\
                  Content-Length:4%0d%0a%0d%0aevil";
    [
        format!("/y?%0d%0a{second}"),
        format!("/y?x%0d%0aX-A:1%0d%0a{second}"),
        "/y?%0a%0aevil".to_owned(),
        "/y?%0d%0d".to_owned(),
        "/y?%0d%0aTransfer-Encoding:chunked".to_owned(),
        "/y?%0d%0a%0d%0aevil".to_owned(),
        "/y?%0d%0aSet-Cookie:session=evil".to_owned(),
        "/y?%0d%0aContent-Length:4".to_owned(),
    ]
    .into_iter()
    .map(|tail| {
        let evil = vec![get(&tail, ""), get(&tail, "")];
        row(format!("splitting {tail}"), evil, decodes, get("/x", "")).sees(200, "whole one")
    })
    .collect()
}
