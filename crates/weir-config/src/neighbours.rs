//! Keys of other proxies' configurations, and keys in the wrong table: what Weir has in their place. A
//! correct file never needs it.

mod upstream;

pub(crate) use upstream::value as in_place_of_value;

use crate::shape::{CONFIG, Shape, TableShape};

/// Keys of nginx, Varnish, HAProxy, Apache and Squid, Weir's keys that do the same, and a remark. A path
/// leads from the top-level table to the key; `NAME` stands for any name. Where Weir has no key, the remark
/// is a sentence by itself.
const NEIGHBOURS: &[(&[&str], &[&str], &str)] = &[
    (
        &["rate_limit", "ratelimit", "limit_req", "limit_req_zone", "requests_per_second", "throttle"],
        &["limits.connections_per_client", "upstream.NAME.client_share"],
        "Weir counts no requests a second; these bound what one client may have at a time",
    ),
    (
        &["limit_rate", "limit_rate_after", "bandwidth", "max_rate"],
        &["site.rate.limit", "site.rate.burst"],
        "",
    ),
    (&["limit_conn", "limit_conn_zone", "conn_limit"], &["limits.connections_per_client"], ""),
    (&["maxconn", "worker_connections", "max_clients", "max_connections"], &["limits.connections"], ""),
    (&["vhost", "virtualhost", "frontend", "server_block"], &["site"], ""),
    (&["server", "servers"], &["site", "upstream.NAME.origins"], ""),
    (
        &["server_name", "server_names", "servername", "server_alias", "domain", "domains"],
        &["site.hosts"],
        "",
    ),
    (&["location", "locations", "path_rule", "match"], &["site.route"], ""),
    (
        &["backend", "backends", "proxy_pass", "proxypass", "director", "cache_peer", "balancer"],
        &["upstream.NAME.origins", "site.upstream"],
        "",
    ),
    (&["max_conns", "keepalive"], &["upstream.NAME.connections"], ""),
    (&["agent-check", "agent_check", "agent-port", "agent-send"], &["upstream.NAME.agent"], ""),
    (&["max_fails"], &["upstream.NAME.eject.failures"], ""),
    (&["fail_timeout"], &["upstream.NAME.eject.time"], ""),
    (
        &["probe", "health_check", "healthcheck", "httpchk"],
        &["upstream.NAME.check", "health.path"],
        "`check` asks the origins; `health.path` is what Weir itself answers",
    ),
    (&["proxy_connect_timeout", "connect_timeout"], &["upstream.NAME.connect"], ""),
    (
        &["proxy_read_timeout", "read_timeout", "first_byte_timeout", "timeout_server"],
        &["upstream.NAME.first_byte"],
        "",
    ),
    (&["between_bytes_timeout"], &["upstream.NAME.between_bytes"], ""),
    (
        &["keepalive_timeout", "timeout_idle", "timeout_client"],
        &["limits.idle", "upstream.NAME.pool_idle"],
        "",
    ),
    (&["client_header_timeout", "request_timeout"], &["limits.head_time"], ""),
    (&["send_timeout"], &["limits.send_stall"], ""),
    (&["client_max_body_size", "max_body_size", "body_limit"], &["limits.body", "site.limits.body"], ""),
    (
        &["large_client_header_buffers", "client_header_buffer_size", "max_header_size"],
        &["limits.head", "limits.line"],
        "",
    ),
    (&["proxy_next_upstream", "max_retries", "retries"], &["upstream.NAME.retry"], ""),
    (&["proxy_ssl_verify", "ssl_verify"], &["upstream.NAME.tls.verify"], ""),
    (
        &["ssl", "ssl_certificate", "ssl_certificate_key", "crt", "certificates", "tls_certificate"],
        &["listen.tls", "certificate"],
        "certificates are chosen by the names in them (docs/guide/certificates.md)",
    ),
    (
        &["ssl_client_certificate", "ssl_verify_client", "ca_file", "sslcacertificatefile"],
        &["site.client_certificate", "upstream.NAME.tls.ca_file"],
        "",
    ),
    (&["force_https", "https_redirect", "ssl_redirect", "redirect_scheme"], &["site.https"], ""),
    (&["strict_transport_security", "sts"], &["site.hsts"], ""),
    (
        &["set_real_ip_from", "real_ip", "real_ip_header", "use_proxy"],
        &["trusted_proxies", "listen.proxy_protocol"],
        "",
    ),
    (&["proxy_cache_path", "storage", "cache_dir", "max_size", "disk"], &["cache.volume"], ""),
    (&["malloc", "cache_mem", "memory_size"], &["cache.memory"], ""),
    (&["proxy_cache_valid", "default_ttl", "cache_valid", "cachedefaultexpire"], &["site.ttl"], ""),
    (
        &["force_ttl", "cache_ttl", "proxy_ignore_headers", "ignore_headers", "edge_ttl"],
        &["site.ttl_override", "site.ignore"],
        "",
    ),
    (&["expires", "max_age"], &["site.browser_ttl"], ""),
    (
        &["grace", "proxy_cache_use_stale", "proxy_cache_background_update", "stale_while_revalidate"],
        &["site.stale.while_revalidate", "site.stale.if_error"],
        "",
    ),
    (&["stale_if_error", "keep"], &["site.stale.if_error"], ""),
    (&["proxy_cache_key", "cache_key", "hash_data"], &["site.key"], ""),
    (&["ignore_query", "query_string", "strip_query", "querystring"], &["site.key.query"], ""),
    (
        &["proxy_cache_bypass"],
        &["site.refresh"],
        "`bypass` does what `proxy_cache_bypass` and `proxy_no_cache` do together",
    ),
    (
        &["proxy_no_cache"],
        &["site.no_store"],
        "`bypass` does what `proxy_cache_bypass` and `proxy_no_cache` do together",
    ),
    (&["no_cache", "pass", "cachedisable"], &["site.bypass"], ""),
    (&["proxy_cache"], &["site.bypass"], "`bypass = { paths = [\"/**\"] }` is `proxy_cache off`"),
    (
        &["proxy_cache_lock", "proxy_cache_lock_age", "proxy_cache_lock_timeout", "coalesce"],
        &[],
        "it is always so: requests for what is being fetched wait for that one fetch",
    ),
    (&["proxy_cache_methods"], &[], "responses to GET are stored, and answer HEAD as well; no others are"),
    (&["proxy_redirect"], &["site.back.location"], ""),
    (&["proxy_cookie_path"], &["site.back.cookie_path"], ""),
    (&["proxy_cookie_flags"], &["site.set_cookie"], "`flags` adds and removes attributes"),
    (&["proxy_cookie_domain"], &["site.back.cookie_domain"], ""),
    (&["proxy_hide_header"], &["site.response_headers.remove"], ""),
    (&["http2", "http2_push", "listen_http2"], &["listen.protocols"], ""),
    (&["sticky", "stick_table", "session_affinity"], &["upstream.NAME.affinity"], ""),
    (&["resolver", "resolvers"], &["upstream.NAME.nameservers"], "with `resolve = \"each\"`"),
    (&["access_log"], &["log.access", "log.path"], "there is one for all sites"),
    (
        &["proxy_intercept_errors"],
        &["site.error_pages"],
        "it is for Weir's own errors; those of an origin go out as they are",
    ),
    (
        &["least_conn", "leastconn", "ip_hash", "hash", "random", "lb_policy", "balance"],
        &["upstream.NAME.pick"],
        "docs/guide/balancing.md has HAProxy's and nginx's names beside Weir's",
    ),
    (&["document_root", "documentroot", "file_server"], &["site.root"], ""),
    (&["alias"], &["site.root", "site.rewrite"], "`root` has the whole path, as `rewrite` leaves it"),
    (
        &["try_files", "fallbackresource"],
        &["site.fallback"],
        "`fallback = \"upstream\"` is `try_files $uri $uri/ @app`",
    ),
    (&["autoindex", "browse", "directory_listing"], &["site.files.listing"], ""),
    (&["directoryindex", "index_file"], &["site.files.index"], ""),
    (
        &["gzip_static", "brotli_static", "zstd_static"],
        &["site.files.precompressed"],
        "it is on where there is a `root`",
    ),
    (&["disable_symlinks", "followsymlinks"], &["site.files.symlinks"], ""),
    (
        &["open_file_cache", "sendfile", "aio", "directio", "tcp_nopush"],
        &["files.memory"],
        "small files are held in memory, and the kernel sends large ones from there",
    ),
    (
        &[
            "auth_basic",
            "auth_basic_user_file",
            "auth_request",
            "satisfy",
            "secure_link",
            "sub_filter",
            "valid_referers",
        ],
        &[],
        "Weir has nothing in its place yet (docs/guide/from-nginx.md says what helps meanwhile)",
    ),
    (&["slice", "proxy_cache_slice"], &["site.range.chunk"], ""),
    (&["proxy_cache_min_uses", "cache_min_uses"], &["site.min_uses"], ""),
    (&["proxy_cache_convert_head", "convert_head"], &["site.head"], ""),
    (&["proxy_cache_purge", "acl", "ban", "purgers"], &["site.purge.allow"], "`weir purge` needs no key"),
    (&["add_header", "resp_headers", "header_set"], &["site.response_headers"], ""),
    (&["proxy_set_header", "req_headers", "requestheader"], &["site.request_headers"], ""),
    (&["return", "synth", "rewrite", "redirects"], &["site.route.redirect", "site.route.answer"], ""),
    (&["error_page", "errorfile", "errordocument"], &["site.error_pages"], ""),
    (
        &["gzip", "brotli", "compress", "compression", "do_gzip"],
        &["upstream.NAME.via"],
        "Weir compresses nothing, and keeps what the origin codes (docs/guide/behind.md)",
    ),
];

/// What to write in place of an unknown key; `None` where no proxy has it. `path` are the keys that lead to
/// it, itself the last.
pub(crate) fn in_place_of(path: &[String], word: &str) -> Option<String> {
    if let Some(meant) = upstream::key(path, word) {
        return Some(meant);
    }
    if matches!(path, [table, _] if table == "admin") && ["address", "bind", "port"].contains(&word) {
        return Some("write `listen = \"127.0.0.1:9180\"`".to_owned());
    }
    let word = word.to_ascii_lowercase().replace('-', "_");
    let (_, keys, more) = NEIGHBOURS.iter().find(|(words, ..)| words.contains(&&*word))?;
    if keys.is_empty() {
        return Some((*more).to_owned());
    }
    let keys: Vec<String> = keys.iter().map(|key| place_of(key)).collect();
    let more = if more.is_empty() { String::new() } else { format!("; {more}") };
    Some(format!("Weir has {} for it{more}", keys.join(" and ")))
}

/// What to write in place of `true` or `false`, where a table stands.
pub(crate) fn in_place_of_truth(key: &str) -> Option<&'static str> {
    match key {
        "bypass" => Some("to send all past the cache: `bypass = { paths = [\"/**\"] }`"),
        "no_store" => Some("to store nothing new: `no_store = { paths = [\"/**\"] }`"),
        "cookies" => Some("to take all cookies out of requests: `cookies = { keep = [] }`"),
        _ => None,
    }
}

/// The other tables that have a key, where they are few.
pub(crate) fn tables_of(key: &str) -> Option<String> {
    const PLACES_MAX: usize = 3;
    let mut places = Vec::new();
    let Shape::Table(table) = &*CONFIG else { return None };
    collect(table, key, "", &mut places);
    let last = places.pop()?;
    if places.len() >= PLACES_MAX {
        return None;
    }
    let first = if places.is_empty() { String::new() } else { format!("{} or ", places.join(", ")) };
    Some(format!("`{key}` belongs in {first}{last}"))
}

/// The headers of all tables that have this key.
fn collect(table: &TableShape, key: &str, path: &str, places: &mut Vec<String>) {
    if table.keys.iter().any(|(known, _)| known == key) {
        places.push(if path.is_empty() { "the top-level table".to_owned() } else { place_of(path) });
    }
    let named = table.other.iter().map(|shape| ("NAME", &**shape));
    for (name, shape) in table.keys.iter().map(|(name, shape)| (name.as_str(), shape)).chain(named) {
        if let Some(inner) = table_in(shape) {
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            collect(inner, key, &path, places);
        }
    }
}

/// How a key is written: `` `body` of `[limits]` ``, or the header of a table that has a header of its own.
fn place_of(path: &str) -> String {
    let mut header: Vec<&str> = Vec::new();
    let mut segments = path.split('.').peekable();
    let (mut shape, mut is_list) = (&*CONFIG, false);
    while let Some(segment) = segments.peek() {
        let Some((inner, is_list_inside)) = child(shape, segment).and_then(as_header) else { break };
        // A key below a site or an upstream is written within its table.
        if header.len() >= 2 || (!header.is_empty() && !is_list_inside && *segment != "NAME") {
            break;
        }
        header.push(segment);
        (shape, is_list) = (inner, is_list_inside);
        segments.next();
    }
    let key: Vec<&str> = segments.collect();
    let written = write_header(&header, is_list);
    match (key.is_empty(), header.is_empty()) {
        (true, _) => format!("`{written}`"),
        (false, true) => format!("`{}` in the top-level table", key.join(".")),
        (false, false) => format!("`{}` of `{written}`", key.join(".")),
    }
}

/// A table's header.
pub(crate) fn write_header(path: &[impl AsRef<str>], is_list: bool) -> String {
    let path: Vec<&str> = path.iter().map(AsRef::as_ref).collect();
    let path = path.join(".");
    if is_list { format!("[[{path}]]") } else { format!("[{path}]") }
}

/// The table in a shape, and whether it is in a list.
fn as_header(shape: &Shape) -> Option<(&Shape, bool)> {
    match shape {
        Shape::Table(_) => Some((shape, false)),
        Shape::List { item, .. } if matches!(**item, Shape::Table(_)) => Some((item, true)),
        _ => None,
    }
}

fn child<'s>(shape: &'s Shape, name: &str) -> Option<&'s Shape> {
    let table = table_in(shape)?;
    let key = table.keys.iter().find(|(key, _)| key == name);
    key.map(|(_, shape)| shape).or_else(|| table.other.as_deref().filter(|_| name == "NAME"))
}

/// The table that may be there, alone or in a list.
fn table_in(shape: &Shape) -> Option<&TableShape> {
    match shape {
        Shape::Table(table) => Some(table),
        Shape::List { item, .. } => table_in(item),
        Shape::Either(shapes) => shapes.iter().find_map(table_in),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_that_is_named_is_there() {
        for (words, keys, more) in NEIGHBOURS {
            assert!(!keys.is_empty() || !more.is_empty(), "{words:?}");
            for key in *keys {
                let found = key.split('.').try_fold(&*CONFIG, |shape, name| child(shape, name));
                assert!(found.is_some(), "{words:?} name `{key}`, which is not a key");
            }
            for word in *words {
                let others = NEIGHBOURS.iter().filter(|(words, ..)| words.contains(word)).count();
                assert_eq!(others, 1, "{word}");
            }
        }
    }

    #[test]
    fn a_place_is_written_as_in_a_file() {
        for (path, expect) in [
            ("trusted_proxies", "`trusted_proxies` in the top-level table"),
            ("limits.body", "`body` of `[limits]`"),
            ("site.stale.if_error", "`stale.if_error` of `[[site]]`"),
            ("site.route", "`[[site.route]]`"),
            ("site.route.redirect", "`redirect` of `[[site.route]]`"),
            ("upstream.NAME.eject.time", "`eject.time` of `[upstream.NAME]`"),
            ("cache.volume", "`[[cache.volume]]`"),
        ] {
            assert_eq!(place_of(path), expect);
        }
    }

    #[test]
    fn a_neighbours_word_and_a_key_of_another_table_are_known() {
        let word = in_place_of(&[], "rate-limit").unwrap();
        assert!(word.contains("`connections_per_client` of `[limits]`"), "{word}");
        assert_eq!(in_place_of(&[], "memory"), None);
        assert_eq!(tables_of("send_stall").as_deref(), Some("`send_stall` belongs in `[limits]`"));
        let rule = tables_of("ttl").unwrap();
        assert_eq!(rule, "`ttl` belongs in `[defaults]`, `[[site]]` or `[[site.route]]`");
    }
}
