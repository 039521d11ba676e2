//! `weir explain URL`: what the running Weir would do with a request, and why.

use std::fmt::Write;
use std::net::IpAddr;
use std::process::ExitCode;

use clap::Args;
use http::Method;
use weir_control::{
    CertificateUse, Explained, ExplainedGate, ExplainedTls, HeldRange, OriginChoice, OriginConsidered,
    Question, RetainedUntil, RetentionShown, Setting, StoredVariant,
};

use super::find::Find;
use super::purge::name as scope_name;
use crate::print::plain;

/// The command line of `weir explain`.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The URL; its host chooses the site.
    #[arg(value_name = "URL")]
    url: String,
    /// The method.
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "GET")]
    method: String,
    /// A field of the request, any number of times.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// A cookie of the request, any number of times.
    #[arg(long = "cookie", value_name = "NAME=VALUE")]
    cookies: Vec<String>,
    /// The client's address, for conditions, `allow`, `deny` and maps of it. Default: no client is known.
    #[arg(long, value_name = "ADDRESS")]
    client: Option<IpAddr>,
    #[command(flatten)]
    find: Find,
}

impl Explain {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        if self.url.starts_with('/') {
            anyhow::bail!("the URL needs its host, which chooses the site: http://HOST{}", self.url);
        }
        let url = if self.url.contains("://") { self.url } else { format!("http://{}", self.url) };
        let mut headers = self.headers;
        if !self.cookies.is_empty() {
            headers.push(("cookie".to_owned(), self.cookies.join("; ")));
        }
        let question = Question { method: self.method, url, headers, client: self.client };
        let asked = self.find.ask(Method::POST, "/v1/explain", serde_json::to_vec(&question)?)?;
        self.find.answer(&asked, |explained| plain(&show(&question, explained)))
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write it as `Name: value`")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Lines of `name` and what it says.
struct Page(String);

impl Page {
    fn line(&mut self, name: &str, value: &str) {
        // Invariant: writing to a String cannot fail.
        let _ = writeln!(self.0, "  {name:<12} {value}");
    }

    fn line_if(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.line(name, value);
        }
    }

    /// The first with the name, the others below it.
    fn lines(&mut self, name: &str, values: impl IntoIterator<Item = String>) {
        for (at, value) in values.into_iter().enumerate() {
            self.line(if at == 0 { name } else { "" }, &value);
        }
    }
}

fn show(question: &Question, explained: &Explained) -> String {
    let from = question.client.map_or_else(String::new, |client| format!(" from {client}"));
    let mut page = Page(format!("{} {}{from}\n", question.method, question.url));
    page.lines("tls", explained.tls.iter().flat_map(tls_text));
    page.line_if("site", explained.site.as_deref());
    let route = match (&explained.route, &explained.defined_at) {
        (Some(route), Some(place)) => Some(format!("{route}  ({place})")),
        (route, place) => route.clone().or(place.clone()),
    };
    page.line_if("route", route.as_deref());
    page.lines("set", explained.settings.iter().map(setting_text));
    page.line_if("maps", joined(&explained.maps).as_deref());
    page.line_if("upstream", explained.upstream.as_deref());
    // A key with fields or cookies has a line for each.
    page.lines("key", explained.key.iter().flat_map(|key| key.lines()).map(str::to_owned));
    if !explained.query_dropped.is_empty() {
        let names = explained.query_dropped.join(", ");
        page.line("query drops", &format!("{names}  (neither in the key nor sent to the origin)"));
    }
    page.line_if("rewritten", explained.rewritten.as_deref());
    if !explained.cookies_dropped.is_empty() {
        let names = explained.cookies_dropped.join(", ");
        page.line("cookie drops", &format!("{names}  (neither the cache nor the origin sees them)"));
    }
    if !explained.cookies_not_in_key.is_empty() {
        let names = explained.cookies_not_in_key.join(", ");
        let why = "not in key.cookies: a response with Vary: Cookie is not stored";
        page.line("cookies left", &format!("{names}  ({why})"));
    }
    if !explained.not_in_key.is_empty() {
        page.line("not in key", &explained.not_in_key.join(", "));
    }
    if let Some(asked) = &explained.origin_request {
        let fields = asked.headers.iter().map(|(name, value)| format!("  {name}: {value}"));
        page.lines("origin gets", std::iter::once(asked.line.clone()).chain(fields));
        if !asked.lost.is_empty() {
            let names = asked.lost.join(", ");
            page.line("fields lost", &format!("{names}  (the origin does not get what the client sent)"));
        }
        page.lines("picked", asked.choice.iter().flat_map(choice_text));
    }
    for variant in &explained.stored {
        page.lines("stored", variant_text(variant));
    }
    page.line_if("hint", explained.hint.as_deref());
    if let Some(word) = &explained.not_stored {
        page.line("not stored", &format!("{word}  (the last response to this key)"));
    }
    if let Some(word) = &explained.failed {
        page.line("failed", &format!("{word}  (the origin, a moment ago)"));
    }
    page.lines("bypass by", joined(&explained.bypass));
    page.lines("refresh by", joined(&explained.refresh));
    page.lines("no store by", joined(&explained.no_store));
    page.line_if("gates", gates_text(&explained.gates).as_deref());
    page.line("verdict", &verdict_text(explained));
    page.line_if("cache-status", explained.cache_status.as_deref());
    page.0
}

/// The gates that the request comes to, and what the last one asks.
fn gates_text(gates: &[ExplainedGate]) -> Option<String> {
    let names: Vec<&str> = gates.iter().map(|gate| gate.name.as_str()).collect();
    Some(format!("{}  <- {}", names.join(", "), gates.last()?.asks))
}

fn joined(all: &[String]) -> Option<String> {
    (!all.is_empty()).then(|| all.join("; "))
}

fn verdict_text(explained: &Explained) -> String {
    let Explained { verdict, reason, explanation, .. } = explained;
    match (reason.as_str(), explanation.as_str()) {
        ("", "") => verdict.clone(),
        ("", explanation) => format!("{verdict}: {explanation}"),
        (reason, "") => format!("{verdict}: {reason}"),
        (reason, explanation) => format!("{verdict}: {reason}  ({explanation})"),
    }
}

fn setting_text(setting: &Setting) -> String {
    let text = format!("{} = {}", setting.key, setting.value);
    format!("{text:<40}  {:<8}  {}", setting.from, setting.place)
}

/// What a client of TLS meets.
fn tls_text(tls: &ExplainedTls) -> Vec<String> {
    if tls.listeners.is_empty() {
        return vec!["no listener has TLS".to_owned()];
    }
    let mut lines = Vec::new();
    match &tls.certificate {
        None => {
            lines.push("no certificate for this host: the handshake fails (unrecognized_name)".to_owned())
        }
        Some(certificate) => {
            let CertificateUse { names, key, state, expires, source, .. } = certificate;
            let until = expires.as_deref().map_or_else(String::new, |until| format!(" until {until}"));
            lines.push(format!("{}  ({key}, {state}{until}, {source})", names.join(", ")));
            if !tls.covered {
                lines.push("the default; it does not name this host, so browsers refuse it".to_owned());
            }
        }
    }
    match tls.client_certificate.as_deref() {
        Some(asked) => lines.push(format!(
            "client certificate {asked}; a connection that was made for another site gets 421"
        )),
        None => {
            lines.push("a connection with a certificate that does not name this host gets 421".to_owned())
        }
    }
    lines
}

/// The most origins that are printed.
const ORIGINS_SHOWN_MAX: usize = 16;

/// Which origin is picked, and why not each other one.
fn choice_text(choice: &OriginChoice) -> Vec<String> {
    let picked = match &choice.origin {
        Some(origin) => format!("{origin}  ({}: {})", choice.pick, choice.reason),
        None => "none: no origin takes requests".to_owned(),
    };
    let not = |origin: &OriginConsidered| {
        let why = origin.why_not.as_ref()?;
        let OriginConsidered { name, share_percent, in_flight, .. } = origin;
        Some(format!("not {name}: {why}; {share_percent} % of the requests, {in_flight} under way"))
    };
    let mut lines = vec![picked];
    if !choice.asked.is_empty() {
        lines.insert(0, format!("asked first: {}; where they say nothing:", choice.asked.join(", ")));
    }
    lines.extend(choice.origins.iter().filter_map(not).take(ORIGINS_SHOWN_MAX));
    match choice.origins.len().saturating_sub(ORIGINS_SHOWN_MAX + 1) {
        0 => {}
        more => lines.push(format!("and {more} origins more")),
    }
    lines
}

/// The most ranges of one body that are printed.
const RANGES_SHOWN_MAX: usize = 16;

/// Which bytes of a body are held.
fn held_text(held: &[HeldRange]) -> Option<String> {
    let range = |range: &HeldRange| format!("{}-{}", range.first, range.last);
    let shown: Vec<String> = held.iter().take(RANGES_SHOWN_MAX).map(range).collect();
    let more = match held.len().saturating_sub(RANGES_SHOWN_MAX) {
        0 => String::new(),
        more => format!(", and {more} ranges more"),
    };
    (!shown.is_empty()).then(|| format!("{}{more}", shown.join(", ")))
}

/// Where the body is.
fn where_text(variant: &StoredVariant) -> Option<String> {
    let memory = match variant.memory_bytes {
        0 => None,
        bytes if bytes == variant.held_bytes => Some("in memory".to_owned()),
        bytes => Some(format!("{bytes} bytes in memory")),
    };
    let volume = variant.volume.as_ref().map(|volume| format!("on the volume {volume}"));
    let places: Vec<String> = memory.into_iter().chain(volume).collect();
    (!places.is_empty()).then(|| places.join(", "))
}

fn variant_text(variant: &StoredVariant) -> Vec<String> {
    let mut text = format!(
        "{}, age {} s of {} s ({}), ",
        variant.status, variant.age_s, variant.lifetime_s, variant.source
    );
    if variant.ttl_left_s > 0 {
        let _ = write!(text, "{} s left", variant.ttl_left_s);
    } else {
        let _ = write!(text, "stale for {} s", -variant.ttl_left_s);
    }
    match variant.body_bytes {
        Some(length) if length == variant.held_bytes => {
            let _ = write!(text, ", {length} bytes");
        }
        Some(length) => {
            let _ = write!(text, ", {} of {length} bytes", variant.held_bytes);
        }
        None => {
            let _ = write!(text, ", {} bytes so far", variant.held_bytes);
        }
    }
    if let Some(etag) = &variant.etag {
        let _ = write!(text, ", {etag}");
    }
    if variant.selected {
        text.push_str("  <- matches");
    }
    let mut lines = vec![text];
    lines.extend(variant.vary.iter().map(|selecting| match &selecting.value {
        Some(value) => format!("  for {}: {value}", selecting.field),
        None => format!("  for requests without {}", selecting.field),
    }));
    let windows = [
        ("stale-while-revalidate", variant.while_revalidate_s),
        ("stale-if-error", variant.if_error_s),
        ("stale-if-unreachable", variant.if_unreachable_s),
    ];
    let windows = windows.iter().filter(|(_, window_s)| *window_s > 0);
    let flags =
        variant.flags.iter().cloned().chain(windows.map(|(name, window_s)| format!("{name} {window_s} s")));
    let flags: Vec<String> = flags.collect();
    lines.extend(variant.retained.as_ref().map(|retained| format!("  {}", retained_text(retained))));
    lines.extend(joined(&flags).map(|flags| format!("  {flags}")));
    lines.extend(joined(&variant.by_status).map(|said| format!("  {}: {said}", variant.status)));
    lines.extend(joined(&variant.tags).map(|tags| format!("  tags: {tags}")));
    lines.extend(held_text(&variant.held).map(|held| format!("  holds {held}")));
    lines.extend(where_text(variant).map(|place| format!("  {place}")));
    lines.extend(variant.fields.iter().map(|(name, value)| format!("  {name}: {value}")));
    lines
}

/// Which order gave a response its lifetime.
fn retained_text(RetainedUntil { until, order }: &RetainedUntil) -> String {
    let Some(order) = order else { return format!("fresh until {until} by an order (`weir ttl`)") };
    let RetentionShown { scope, given, actor, .. } = order;
    format!("fresh until {until} by an order of {actor}, {given}, for {}", scope_name(scope))
}

#[cfg(test)]
mod tests {
    use weir_control::{OriginRequest, SelectingField};

    use super::*;

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn it_shows_what_applies_and_no_more() {
        let question =
            Question { method: "GET".into(), url: "http://a/".into(), headers: Vec::new(), client: None };
        let variant = StoredVariant {
            selected: true,
            status: 200,
            age_s: 2,
            lifetime_s: 60,
            source: "max-age".into(),
            ttl_left_s: 58,
            body_bytes: Some(10),
            held_bytes: 10,
            etag: Some("\"x\"".into()),
            memory_bytes: 10,
            ..StoredVariant::default()
        };
        let explained = Explained {
            site: Some("a".into()),
            route: Some("/*".into()),
            defined_at: Some("weir.toml:3".into()),
            gates: ["cache", "held"]
                .map(|name| ExplainedGate { name: name.into(), asks: "may it?".into() })
                .to_vec(),
            verdict: "hit".into(),
            explanation: "58 s left".into(),
            stored: vec![variant],
            ..Explained::default()
        };
        let expect = "\
GET http://a/
  site         a
  route        /*  (weir.toml:3)
  stored       200, age 2 s of 60 s (max-age), 58 s left, 10 bytes, \"x\"  <- matches
                 in memory
  gates        cache, held  <- may it?
  verdict      hit: 58 s left
";
        assert_eq!(show(&question, &explained), expect);
    }

    #[test]
    fn it_shows_all_there_is_to_say() {
        let question = Question {
            method: "GET".into(),
            url: "http://a/?a=1&b=2".into(),
            headers: Vec::new(),
            client: Some([192, 0, 2, 7].into()),
        };
        let setting = Setting {
            key: "ttl".into(),
            value: "\"10m\"".into(),
            from: "site".into(),
            place: "weir.toml:4".into(),
        };
        let variant = StoredVariant {
            status: 200,
            lifetime_s: 60,
            source: "cdn-cache-control".into(),
            ttl_left_s: -5,
            age_s: 65,
            while_revalidate_s: 30,
            if_unreachable_s: 3600,
            flags: texts(&["no-cache"]),
            by_status: texts(&["ttl 60 s", "if_status 600 s"]),
            vary: vec![
                SelectingField { field: "accept-language".into(), value: Some("de".into()) },
                SelectingField { field: "x-mode".into(), value: None },
            ],
            tags: texts(&["t1", "t2"]),
            body_bytes: Some(20),
            held_bytes: 12,
            held: vec![HeldRange { first: 0, last: 9 }, HeldRange { first: 15, last: 16 }],
            memory_bytes: 2,
            volume: Some("/srv/one".into()),
            fields: vec![("content-type".into(), "text/plain".into())],
            ..StoredVariant::default()
        };
        let shown = |name: &str, why_not: Option<&str>| OriginConsidered {
            name: name.into(),
            share_percent: 50.0,
            in_flight: 3,
            why_not: why_not.map(str::to_owned),
        };
        let choice = OriginChoice {
            origin: Some("http://one:80".into()),
            pick: "latency".into(),
            reason: "least".into(),
            asked: vec!["calm (script)".into()],
            origins: vec![shown("http://one:80", None), shown("http://two:80", Some("draining"))],
        };
        let headers = vec![("host".into(), "a".into())];
        let asked = OriginRequest {
            line: "GET /?a=1".into(),
            headers,
            lost: texts(&["x-original-url", "range"]),
            choice: Some(choice),
        };
        let explained = Explained {
            settings: vec![setting],
            maps: texts(&["device=phone", "place"]),
            upstream: Some("app".into()),
            key: Some("http://a/?a=1\nx-mode".into()),
            query_dropped: texts(&["b=2"]),
            cookies_dropped: texts(&["_ga", "_fbp"]),
            cookies_not_in_key: texts(&["session"]),
            not_in_key: texts(&["user-agent"]),
            origin_request: Some(asked),
            verdict: "pass".into(),
            reason: "bypass-cookie".into(),
            explanation: "a cookie".into(),
            cache_status: Some("weir; fwd=bypass; detail=bypass-cookie".into()),
            not_stored: Some("no-store".into()),
            failed: Some("connection-refused".into()),
            stored: vec![variant],
            bypass: texts(&["cookie session*", "path /live/**"]),
            refresh: texts(&["field x-refresh"]),
            no_store: texts(&["parameter draft"]),
            ..Explained::default()
        };
        let expect = "\
GET http://a/?a=1&b=2 from 192.0.2.7
  set          ttl = \"10m\"                               site      weir.toml:4
  maps         device=phone; place
  upstream     app
  key          http://a/?a=1
               x-mode
  query drops  b=2  (neither in the key nor sent to the origin)
  cookie drops _ga, _fbp  (neither the cache nor the origin sees them)
  cookies left session  (not in key.cookies: a response with Vary: Cookie is not stored)
  not in key   user-agent
  origin gets  GET /?a=1
                 host: a
  fields lost  x-original-url, range  (the origin does not get what the client sent)
  picked       asked first: calm (script); where they say nothing:
               http://one:80  (latency: least)
               not http://two:80: draining; 50 % of the requests, 3 under way
  stored       200, age 65 s of 60 s (cdn-cache-control), stale for 5 s, 12 of 20 bytes
                 for accept-language: de
                 for requests without x-mode
                 no-cache; stale-while-revalidate 30 s; stale-if-unreachable 3600 s
                 200: ttl 60 s; if_status 600 s
                 tags: t1; t2
                 holds 0-9, 15-16
                 2 bytes in memory, on the volume /srv/one
                 content-type: text/plain
  not stored   no-store  (the last response to this key)
  failed       connection-refused  (the origin, a moment ago)
  bypass by    cookie session*; path /live/**
  refresh by   field x-refresh
  no store by  parameter draft
  verdict      pass: bypass-cookie  (a cookie)
  cache-status weir; fwd=bypass; detail=bypass-cookie
";
        assert_eq!(show(&question, &explained), expect);
    }

    #[test]
    fn it_says_what_a_client_of_tls_meets() {
        let certificate = CertificateUse {
            names: texts(&["a.example", "b.example"]),
            key: "ecdsa".into(),
            state: "valid".into(),
            expires: Some("2027-01-01T00:00:00Z".into()),
            source: "/etc/a.pem".into(),
            ..CertificateUse::default()
        };
        let tls = ExplainedTls {
            listeners: texts(&["0.0.0.0:443"]),
            certificate: Some(certificate),
            covered: true,
            client_certificate: None,
        };
        let first = "a.example, b.example  (ecdsa, valid until 2027-01-01T00:00:00Z, /etc/a.pem)";
        let without = "a connection with a certificate that does not name this host gets 421";
        assert_eq!(tls_text(&tls), [first, without]);
        let asks =
            ExplainedTls { covered: false, client_certificate: Some("required".into()), ..tls.clone() };
        assert_eq!(
            tls_text(&asks),
            [
                first,
                "the default; it does not name this host, so browsers refuse it",
                "client certificate required; a connection that was made for another site gets 421",
            ]
        );
        let none = ExplainedTls { certificate: None, ..tls.clone() };
        assert!(tls_text(&none)[0].contains("unrecognized_name"));
        assert_eq!(tls_text(&ExplainedTls { listeners: Vec::new(), ..tls }), ["no listener has TLS"]);
    }

    #[test]
    fn fields_are_split_at_the_first_colon() {
        assert_eq!(header("X-A:  b:c "), Ok(("X-A".into(), "b:c".into())));
        assert!(header("X-A").is_err());
    }
}
