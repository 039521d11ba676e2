//! Words of HAProxy and nginx about the origins of an upstream, keys and values: what `[upstream.NAME]` has
//! in their place. A correct file never needs it.

/// Words, the table below `[upstream.NAME]` that they stand in (empty: any), what to write there or in the
/// upstream, and a remark. Without anything to write the remark stands alone.
type Row = (&'static [&'static str], &'static str, &'static str, &'static str);

/// Keys. The first row that fits counts.
const KEYS: &[Row] = &[
    (
        &["cookie", "route", "name", "label"],
        "origins",
        "{ url = \"http://10.0.0.7:8080\", id = \"node1\" }",
        "`id` is the origin's name in sessions",
    ),
    (
        &["address", "addr", "host", "port", "server"],
        "origins",
        "{ url = \"http://10.0.0.7:8080\" }",
        "address and port are one text",
    ),
    (
        &["down", "disabled", "enabled", "maint"],
        "origins",
        "",
        "leave the origin out of the file, or say at run time: weir origins maint UPSTREAM ORIGIN --keep",
    ),
    (
        &["drain", "draining"],
        "origins",
        "",
        "an origin is drained at run time: weir origins drain UPSTREAM ORIGIN --wait",
    ),
    (
        &["maxconn", "max_conns", "max_connections", "minconn"],
        "",
        "connections = 100",
        "it stands in the upstream, for each of its origins; an `agent` can say a number for one",
    ),
    (
        &["fullconn"],
        "",
        "",
        "`connections` bounds each origin at all times; nothing changes it with the load",
    ),
    (&["max_fails", "error_limit", "on_error"], "", "eject = { failures = 3 }", ""),
    (
        &["fail_timeout"],
        "",
        "eject = { within = \"10s\", time = \"10s\" }",
        "how long failures count, and how long the origin is left out at first",
    ),
    (&["observe"], "", "eject = { status = \"500-599\" }", "connections that fail are always observed"),
    (&["slowstart"], "", "slow_start = \"30s\"", "it stands in the upstream, for all of its origins"),
    (&["slow_start"], "origins", "slow_start = \"30s\"", "it stands in the upstream, for all of its origins"),
    (
        &["on_marked_down", "on_marked_up"],
        "",
        "",
        "requests under way finish: an origin that is down gets no new ones",
    ),
    (
        &["inter", "interval", "fastinter", "downinter"],
        "agent",
        "agent = { port = 9707, every = \"2s\" }",
        "",
    ),
    (&["inter", "interval", "fastinter", "downinter"], "", "check = { every = \"2s\" }", ""),
    (&["fall", "fails", "unhealthy_threshold"], "", "check = { fall = 3 }", ""),
    (&["rise", "passes", "healthy_threshold"], "", "check = { rise = 2 }", ""),
    (&["uri", "url"], "check", "check = { path = \"/up\" }", ""),
    (&["expect", "match", "expected_status"], "check", "check = { status = \"200\", body = \"ok\" }", ""),
    (&["send", "header"], "check", "check = { headers = { X-Check = \"1\" } }", ""),
    (
        &["port", "addr", "address"],
        "check",
        "",
        "a check goes where the requests go (docs/guide/health.md says what to do for another port)",
    ),
    (&["addr", "address"], "agent", "agent = { port = 9707 }", "the agent is at its origin's address"),
    (&["timeout"], "agent", "", "an agent has until its next turn, at most `every`"),
    (
        &["balance", "lb_policy", "lb_algorithm", "lbmethod", "algorithm", "strategy", "policy", "method"],
        "",
        "pick = \"least_requests\"",
        "docs/guide/balancing.md has HAProxy's and nginx's names beside Weir's",
    ),
    (&["least_conn", "leastconn"], "", "pick = \"least_requests\"", ""),
    (&["ip_hash", "source"], "", "pick = \"client_address\"", "for sessions: `affinity`"),
    (
        &["hash", "hash_type", "hash_balance_factor", "consistent", "uri", "url_param"],
        "",
        "pick = { hash = { of = \"uri\" } }",
        "it is consistent, with bounded loads",
    ),
    (&["random"], "", "pick = \"two_choices\"", "the less busy of two drawn at random; or `\"random\"`"),
    (&["roundrobin", "round_robin", "static_rr"], "", "pick = \"round_robin\"", "it is the default"),
    (
        &["sticky", "cookie", "stick", "stick_table", "stick_on", "persist", "session", "sessions"],
        "",
        "affinity = { by = \"own\", key_file = \"sessions.key\" }",
        "docs/guide/sessions.md has the other ways",
    ),
    (&["insert", "prefix", "rewrite", "indirect", "nocache"], "affinity", "", "`by` says which cookie it is"),
    (&["httponly"], "affinity", "http_only = true", ""),
    (&["maxlife", "maxidle", "expires", "max_age", "ttl"], "affinity", "lifetime = \"8h\"", ""),
    (&["retry_on", "conditions"], "", "retry = { on = [\"connect\", \"closed\"] }", ""),
    (&["retries", "tries", "attempts", "proxy_next_upstream_tries"], "", "retry = { times = 1 }", ""),
    (&["redispatch"], "", "", "it is always so: Weir sends again to another origin first"),
    (&["non_idempotent"], "", "", "Weir sends a POST again only if no origin has seen a byte of it"),
    (&["allbackups"], "", "", "it is always so: requests spread over all backups that are up"),
    (&["timeout_connect", "connect_timeout"], "", "connect = \"3s\"", ""),
    (&["timeout_server", "read_timeout"], "", "first_byte = \"30s\"", "and `between_bytes`, within a body"),
    (&["timeout_queue"], "", "queue_wait = \"5s\"", ""),
    (&["timeout_tunnel"], "", "", "Weir has `tunnel_idle` of `[limits]` for it"),
    (&["maxqueue"], "", "queue = 1000", ""),
    (
        &["timeout", "timeouts"],
        "",
        "connect = \"3s\"",
        "and `first_byte`, `between_bytes`, `queue_wait`; each is a key of the upstream",
    ),
    (&["resolver", "resolvers"], "", "nameservers = [\"10.0.0.2\"]", "with `resolve = \"each\"`"),
    (
        &["server_template"],
        "",
        "resolve = \"each\"",
        "each address of a name is then an origin; `origins` has the name",
    ),
    (&["zone"], "", "", "Weir needs none: all of its workers share an upstream"),
    (&["keepalive"], "", "pool_idle = \"4s\"", "how many: `connections`"),
    (
        &["server", "servers", "backend", "targets", "upstreams"],
        "",
        "origins = [\"http://10.0.0.7:8080\"]",
        "",
    ),
    (
        &["ssl", "sni", "verify", "ca_file"],
        "origins",
        "tls = { verify = true }",
        "it stands in the upstream, for origins with `https://`",
    ),
];

/// Values, with the key whose values they are.
const VALUES: &[Row] = &[
    (&["leastconn", "least_conn", "least_connections", "least_request", "lor"], "pick", "least_requests", ""),
    (&["ip_hash", "source", "ip", "src", "client_ip"], "pick", "client_address", "for sessions: `affinity`"),
    (&["roundrobin", "static_rr", "rr", "wrr", "weighted"], "pick", "round_robin", ""),
    (
        &["random(2)", "random two", "random two least_conn", "p2c", "power_of_two", "random_choose"],
        "pick",
        "two_choices",
        "",
    ),
    (&["ewma", "peak_ewma", "least_time", "fastest", "response_time"], "pick", "latency", ""),
    (&["byrequests"], "pick", "by_requests", ""),
    (&["bytraffic"], "pick", "by_traffic", ""),
    (&["bybusyness"], "pick", "by_busyness", ""),
    (
        &["cookie", "sticky", "session"],
        "pick",
        "",
        "sessions have a table of their own: [upstream.NAME.affinity] (docs/guide/sessions.md)",
    ),
    (
        &["uri", "url", "uri_hash", "consistent", "consistent_hash", "ring_hash", "maglev"],
        "pick",
        "",
        "write `pick = { hash = { of = \"uri\" } }`",
    ),
    (&["url_param", "query"], "pick", "", "write `pick = { hash = { of = \"query:NAME\" } }`"),
    (&["hdr", "header"], "pick", "", "write `pick = { hash = { of = \"header:NAME\" } }`"),
    (&["path"], "pick", "", "write `pick = { hash = { of = \"path\" } }`"),
    (&["conn_failure", "conn_error", "refused"], "on", "connect", ""),
    (&["empty_response", "reset", "disconnect"], "on", "closed", ""),
    (&["error"], "on", "", "nginx's `error` is `\"connect\", \"closed\"`"),
    (&["response_timeout"], "on", "timeout", ""),
    (&["http_502"], "on", "502", ""),
    (&["http_503"], "on", "503", ""),
    (&["http_504"], "on", "504", ""),
    (
        &["all_retryable_errors"],
        "on",
        "",
        "write `on = [\"connect\", \"closed\", \"timeout\", \"502\", \"503\", \"504\"]`",
    ),
    (&["none", "off", "never"], "on", "", "write `on = []`"),
    (
        &["500", "http_500", "5xx", "http_5xx", "http_429", "429", "http_403", "http_404"],
        "on",
        "",
        "of statuses, Weir sends again after 502, 503 and 504 alone; `eject.status` counts others",
    ),
    (&["non_idempotent"], "on", "", "Weir sends a POST again only if no origin has seen a byte of it"),
    (
        &["cookie", "sticky", "insert", "learn", "prefix", "route", "jsessionid"],
        "by",
        "",
        "`\"own\"`: Weir sets a cookie; `\"suffix\"`: the origins' cookie ends with their `id`; `\"hash\"`: \
         of any cookie or field",
    ),
    (
        &["source", "ip", "ip_hash", "client_address"],
        "by",
        "",
        "an address is no session: `pick = \"client_address\"` goes by it",
    ),
    (&["header"], "by", "hash", "with `of = \"header:NAME\"`"),
    (&["http", "https", "httpchk", "get", "on", "yes", "true"], "check", "", CHECK),
    (&["connect", "tcp_check", "l4"], "check", "tcp", ""),
];

/// The form of a check that asks.
const CHECK: &str = "write `check = { path = \"/\" }` for a request, or `check = \"tcp\"` to connect alone";

/// What to write in place of a key within an upstream; `path` are the keys that lead to it, itself the last.
pub(super) fn key(path: &[String], word: &str) -> Option<String> {
    let [first, _, inner @ .., _] = path else { return None };
    if first != "upstream" {
        return None;
    }
    let table = inner.first().map_or("", String::as_str);
    let (_, _, write, more) = find(KEYS, word, |place| place.is_empty() || place == table)?;
    Some(match (write.is_empty(), more.is_empty()) {
        (true, _) => (*more).to_owned(),
        (false, true) => format!("write `{write}`"),
        (false, false) => format!("write `{write}`: {more}"),
    })
}

/// What to write in place of a value of `pick`, `retry.on`, `affinity.by` or `check`.
pub(crate) fn value(path: &[String], word: &str) -> Option<String> {
    let key = path.last()?;
    if key == "check" && word.starts_with('/') {
        return Some(format!("write `check = {{ path = \"{word}\" }}`"));
    }
    // HAProxy's have what they go by in brackets: `hdr(host)`.
    let begins = word.split('(').next().unwrap_or_default();
    let known = |word: &str| find(VALUES, word, |place| place == key);
    let (_, _, write, more) = known(word).or_else(|| known(begins).filter(|_| key == "pick"))?;
    Some(match (write.is_empty(), more.is_empty()) {
        (true, _) => (*more).to_owned(),
        (false, true) => format!("write `\"{write}\"`"),
        (false, false) => format!("write `\"{write}\"`: {more}"),
    })
}

fn find(rows: &'static [Row], word: &str, is_place: impl Fn(&str) -> bool) -> Option<&'static Row> {
    let word = word.to_ascii_lowercase().replace('-', "_");
    rows.iter().find(|(words, place, ..)| is_place(place) && words.contains(&&*word))
}

#[cfg(test)]
mod tests;
