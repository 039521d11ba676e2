//! The rules on a single file.

use super::source::{Offence, Source};

/// A file has fewer lines than this.
const FILE_LINES_MAX: usize = 600;
/// A function has fewer lines than this, its first and last included.
const FUNCTION_LINES_MAX: usize = 70;

/// All rules.
pub(super) const ALL: &[fn(&Source) -> Vec<Offence>] = &[
    file_length,
    function_length,
    card,
    absences,
    spawning,
    dates,
    serialization,
    unsafe_code,
    file_names,
    unfinished,
    machine_paths,
    download_addresses,
    examples,
];

/// STYLE.md 3.
pub(super) fn file_length(source: &Source) -> Vec<Offence> {
    let lines = source.text.lines().count();
    if !source.is_rust() || source.is_exempt() || lines < FILE_LINES_MAX {
        return Vec::new();
    }
    vec![source.offence(1, format!("{lines} lines; a file stays below {FILE_LINES_MAX}"))]
}

/// STYLE.md 3. A function ends at the brace that rustfmt puts below its first letter.
pub(super) fn function_length(source: &Source) -> Vec<Offence> {
    if !source.is_rust() || source.is_exempt() {
        return Vec::new();
    }
    let mut offences = Vec::new();
    let mut open: Vec<(usize, usize, String)> = Vec::new();
    for (number, line) in source.code() {
        let indent = line.len() - line.trim_start().len();
        if let Some(name) =
            function_name(line.trim_start()).filter(|_| !line.trim_end().ends_with([';', '}']))
        {
            open.push((indent, number, name.to_owned()));
        } else if line.trim_end() == format!("{}}}", " ".repeat(indent)) {
            let Some((_, from, name)) = open.pop_if(|(at, _, _)| *at == indent) else { continue };
            let lines = number - from + 1;
            if lines >= FUNCTION_LINES_MAX {
                let what = format!("`{name}` has {lines} lines; a function stays below {FUNCTION_LINES_MAX}");
                offences.push(source.offence(from, what));
            }
        } else if line.trim_end().ends_with(");") || line.trim_end().ends_with(';') {
            // A signature without a body, over several lines, ends with a semicolon at its own indent.
            open.pop_if(|(at, from, _)| *at == indent && *from + 1 < number && !line.contains("let "));
        }
    }
    offences
}

/// The name, if a line begins a function.
fn function_name(line: &str) -> Option<&str> {
    let mut rest = line;
    loop {
        rest = match rest.split_once(' ') {
            Some(("fn", name)) => return name.split(['(', '<']).next(),
            Some((word, after)) if word == "pub" || word.starts_with("pub(") => after,
            Some(("async" | "const" | "unsafe" | "extern" | "\"C\"", after)) => after,
            _ => return None,
        }
    }
}

/// STYLE.md 17.
pub(super) fn card(source: &Source) -> Vec<Offence> {
    match source.is_rust() && !source.text.starts_with("//! ") {
        true => vec![source.offence(1, "no card: a file opens with `//!` and says what it is")],
        false => Vec::new(),
    }
}

/// What a crate must not name: its folder, the words, and why. The absences of docs/files.md.
const ABSENCES: &[(&str, &[&str], &str)] = &[
    (
        "crates/weir-policy/src/",
        &[
            "Instant::now",
            "SystemTime::now",
            "tokio",
            "TcpStream",
            "UdpSocket",
            "std::fs",
            "std::io",
            "std::thread",
            "std::env",
        ],
        "policy does no I/O and reads no clock",
    ),
    (
        "crates/weir-wire/src/",
        &[
            "Instant::now",
            "SystemTime::now",
            "tokio",
            "TcpStream",
            "UdpSocket",
            "std::fs",
            "std::thread",
            "std::env",
        ],
        "wire is pure",
    ),
    (
        "crates/weir-store/src/",
        &["HeaderName", "header::", "headers.get(", "headers.contains_key(", "headers().get("],
        "store carries headers and never reads one by name",
    ),
    (
        "crates/weir-volume/src/",
        &["HeaderName", "header::", "headers.get(", "headers.contains_key(", "headers().get("],
        "volumes carry headers and never read one by name",
    ),
    (
        "crates/weir-tls/src/",
        &["weir_", "http::", "tokio", "TcpStream", "std::fs", "std::io", "std::thread"],
        "TLS knows no HTTP, no socket and no file",
    ),
    ("crates/weir-disk/src/", &["weir_", "http::", "bytes::"], "a disk knows no cache"),
    (
        "crates/weir-body/src/",
        &["tokio", "Instant", "SystemTime", "std::fs", "std::io", "std::net", "std::thread", "std::env"],
        "a body and a stage know no runtime, no clock and no socket",
    ),
    (
        "crates/weir-upstream/src/",
        &["weir_policy", "weir_store", "CACHE_CONTROL", "cache-control", "CacheKey", "Cache-Status"],
        "upstream knows no cache",
    ),
    (
        "crates/weir-upstream/src/",
        &["tokio::net", "TcpStream", "UnixStream", "TlsStream", "rustls", "socket2"],
        "upstream names no socket: what speaks to one origin is the client's",
    ),
    (
        "crates/weir-client/src/",
        &[
            "weir_policy",
            "weir_store",
            "CACHE_CONTROL",
            "cache-control",
            "CacheKey",
            "Cache-Status",
            "Roster",
            "roster",
            "Pick",
            "pick::",
            "Health",
            "health",
            "Standing",
        ],
        "client knows one origin: no cache, and nothing that chooses or judges",
    ),
    ("crates/weir-edge/src/", &["rocksdb", "weir_rocks"], "edge never names RocksDB"),
    (
        "crates/weir-edge/src/",
        &[
            "Version",
            "Persistence",
            "status_line",
            "print::end",
            "TcpStream",
            "UnixStream",
            "Chunked",
            "IoSlice",
        ],
        "edge answers with values; what a connection speaks is the front's",
    ),
    ("crates/weir-edge/src/", &["h2::"], "HTTP/2 is the front's"),
    (
        "crates/weir-edge/src/",
        &["request.protocol.", "request.protocol ==", "request.protocol !=", "protocol.starts_with"],
        "the protocol is a word for logs; `Client` says what a connection can",
    ),
    ("crates/weir-fill/src/reader", &["sleep"], "a reader is woken"),
    ("crates/weir-fill/src/transfer.rs", &["sleep"], "a writer is woken"),
    ("crates/weir-fill/src/gap/task.rs", &["sleep"], "a writer is woken"),
    (
        "crates/weir-front/src/",
        &["weir_store", "weir_policy", "cache-status", "CACHE_CONTROL", "Freshness", "Generation"],
        "front knows no cache",
    ),
];

pub(super) fn absences(source: &Source) -> Vec<Offence> {
    let mut offences = Vec::new();
    for (folder, words, why) in ABSENCES.iter().filter(|(folder, ..)| source.path.starts_with(folder)) {
        if source.is_test() {
            continue;
        }
        for (number, line) in source.code() {
            if let Some(word) = words.iter().find(|word| line.contains(**word)) {
                offences.push(source.offence(number, format!("`{word}` in {folder}: {why}")));
            }
        }
    }
    offences
}

/// STYLE.md 15: the files that may start tasks or threads.
const SPAWNERS: &[&str] = &[
    "crates/weir-accounts/src/keeper.rs",
    "crates/weir-acme/src/acme.rs",
    "crates/weir-acme/src/transport.rs",
    "crates/weir-client/src/address.rs",
    "crates/weir-client/src/pool.rs",
    "crates/weir-control/src/api/objects.rs",
    "crates/weir-control/src/api/top.rs",
    "crates/weir-control/src/client.rs",
    "crates/weir-control/src/exchange.rs",
    "crates/weir-control/src/jobs.rs",
    "crates/weir-control/src/serve.rs",
    "crates/weir-control/src/streams.rs",
    "crates/weir-control/src/upload.rs",
    "crates/weir-distributor/src/ask/lane.rs",
    "crates/weir-distributor/src/serve.rs",
    "crates/weir-distributor/src/serve/streams.rs",
    "crates/weir-edge/src/edge.rs",
    "crates/weir-files/src/pool.rs",
    "crates/weir-fill/src/complete.rs",
    "crates/weir-fill/src/gap/task.rs",
    "crates/weir-fill/src/task.rs",
    "crates/weir-observe/src/events/hearers.rs",
    "crates/weir-observe/src/events/teller.rs",
    "crates/weir-observe/src/history.rs",
    "crates/weir-observe/src/log.rs",
    "crates/weir-observe/src/popular.rs",
    "crates/weir-edge/src/service.rs",
    "crates/weir-edge/src/warm.rs",
    "crates/weir-front/src/h2/serve.rs",
    "crates/weir-front/src/handshakes.rs",
    "crates/weir-front/src/worker.rs",
    "crates/weir-metrics/src/collect.rs",
    "crates/weir-store/src/ledger/book.rs",
    "crates/weir-store/src/drives/supervisor.rs",
    "crates/weir-store/src/inside/background.rs",
    "crates/weir-store/src/inside/sealer.rs",
    "crates/weir-store/src/inside/stocks/lately.rs",
    "crates/weir-store/src/inside/sweeper.rs",
    "crates/weir-stress/src/scenario/modules/program.rs",
    "crates/weir-stress/src/scenario/origin.rs",
    "crates/weir-stress/src/scenario/run.rs",
    "crates/weir-stress/src/scenario/server.rs",
    "crates/weir-stress/src/scenario/stage.rs",
    "crates/weir-stress/src/streams.rs",
    "crates/weir-volume/src/threads.rs",
    "crates/weir-upstream/src/health/check/tend.rs",
    "crates/weir-upstream/src/choice/names.rs",
    "crates/weir/src/answering/admin.rs",
    "crates/weir/src/answering/mod.rs",
    "crates/weir/src/certificates/reading.rs",
    "crates/weir/src/certificates/mod.rs",
    "crates/weir/src/cli/run.rs",
    "crates/weir/src/cli/top/asking.rs",
    "crates/weir/src/demo/mod.rs",
    "crates/weir/src/upgrade/attending.rs",
    "crates/weir/src/upgrade/leaving.rs",
    "crates/weir/src/upgrade/old.rs",
    "crates/weir/src/warming.rs",
    "crates/weir/src/warming/folder.rs",
    "crates/weir/src/written_picks/scripts.rs",
];

pub(super) fn spawning(source: &Source) -> Vec<Offence> {
    let words = ["spawn(", "spawn_local(", "spawn_blocking(", ".spawn_on("];
    let spawns = |line: &str| words.iter().any(|w| line.contains(w)) && !line.contains("Command::new");
    let what =
        "starts a task or a thread; who owns it? The files that may are listed in xtask/src/tidy/rules.rs";
    outside(SPAWNERS, source, what, spawns)
}

/// Lines of the crates, but for tests and for files that may have them. What ends with `/` is a folder.
fn outside(may: &[&str], source: &Source, what: &str, is_one: impl Fn(&str) -> bool) -> Vec<Offence> {
    let has = |entry: &&str| {
        if entry.ends_with('/') { source.path.starts_with(entry) } else { source.path == **entry }
    };
    if !source.path.starts_with("crates/") || !source.is_rust() || source.is_test() || may.iter().any(has) {
        return Vec::new();
    }
    source.code().filter(|(_, line)| is_one(line)).map(|(at, _)| source.offence(at, what)).collect()
}

/// The files that may print a date by a function that panics before 1970 and after 9999. Loads and doubles
/// run on a clock of today.
const DATERS: &[&str] = &[
    "crates/weir-policy/src/date.rs",
    "crates/weir-tls/src/template.rs",
    "crates/weir-stress/src/",
    "crates/weir-testkit/src/",
];

/// A wrong clock, or a file of the far future, is no error of a request.
pub(super) fn dates(source: &Source) -> Vec<Offence> {
    let what = "prints a date that may not be one; `weir_policy::http_date` says whether it is";
    outside(DATERS, source, what, |line| line.contains("fmt_http_date"))
}

/// The files that may serialize values. Elsewhere formats are written by hand, with a version. The
/// configuration is only read; its tests write it, for the schema.
const SERIALIZERS: &[&str] = &[
    "crates/weir-config/src/schema.rs",
    "crates/weir-observe/src/",
    "crates/weir-control/src/",
    "crates/weir/src/",
    "crates/weir-stress/src/",
];

pub(super) fn serialization(source: &Source) -> Vec<Offence> {
    let what = "`Serialize` outside observe's records and control's API";
    outside(SERIALIZERS, source, what, |line| line.contains("Serialize") && !line.contains("cfg_attr(test"))
}

/// STYLE.md 14.
pub(super) fn unsafe_code(source: &Source) -> Vec<Offence> {
    let is_root = source.path.ends_with("src/lib.rs") || source.path.ends_with("src/main.rs");
    let says =
        ["#![forbid(unsafe_code)]", "#![deny(unsafe_code)]"].iter().any(|word| source.text.contains(word));
    match is_root && !says {
        true => vec![source.offence(1, "neither `#![forbid(unsafe_code)]` nor, with files that may, `deny`")],
        false => Vec::new(),
    }
}

/// STYLE.md 6.
pub(super) fn file_names(source: &Source) -> Vec<Offence> {
    let banned = ["util", "utils", "common", "manager", "handler", "handlers", "ctx", "helpers", "misc"];
    let stem = source.path.trim_end_matches(".rs");
    match source.is_rust() && stem.split('/').any(|part| banned.contains(&part)) {
        true => vec![source.offence(1, "a name that says nothing: one noun or one job a file")],
        false => Vec::new(),
    }
}

/// Marks of unfinished work.
pub(super) fn unfinished(source: &Source) -> Vec<Offence> {
    if !source.is_rust() {
        return Vec::new();
    }
    // Put together here, so that this file does not break the rule.
    let words =
        [concat!("to", "do!("), concat!("unimpl", "emented!("), concat!("FIX", "ME"), concat!("XX", "X ")];
    let bare = concat!("#[ig", "nore]");
    let found = source.text.lines().enumerate().filter_map(|(at, line)| {
        let word =
            words.iter().find(|word| line.contains(**word)).map(|word| format!("unfinished: `{word}`"));
        let ignored = line.contains(bare).then(|| "an ignored test says why".to_owned());
        word.or(ignored).map(|what| source.offence(at + 1, what))
    });
    found.collect()
}

/// No file names a path of the machine on which it was written.
pub(super) fn machine_paths(source: &Source) -> Vec<Offence> {
    let folders = [concat!("/", "work/"), concat!("/", "farm/")];
    let boundary = |c: char| !(c.is_ascii_alphanumeric() || "_./-".contains(c));
    let names = |line: &str| {
        folders.iter().any(|folder| {
            line.match_indices(folder).any(|(at, _)| line[..at].chars().next_back().is_none_or(boundary))
        })
    };
    let lines = source.text.lines().enumerate().filter(|(_, line)| names(line));
    lines.map(|(at, _)| source.offence(at + 1, "a path of one machine")).collect()
}

/// A lock file names packages and their digests, but not the server that one machine got them from.
pub(super) fn download_addresses(source: &Source) -> Vec<Offence> {
    if !source.path.ends_with("package-lock.json") {
        return Vec::new();
    }
    let lines = source.text.lines().enumerate().filter(|(_, line)| line.contains("\"resolved\": \"http"));
    lines.map(|(at, _)| source.offence(at + 1, "a download address in a lock file")).collect()
}

/// Examples in comments are not compiled (`doctest = false`): code that nobody tries goes wrong. What is no
/// code says so, as `text`.
pub(super) fn examples(source: &Source) -> Vec<Offence> {
    if !source.is_rust() {
        return Vec::new();
    }
    let fence = |line: &str| {
        let line = line.trim_start();
        let comment = line.strip_prefix("//!").or_else(|| line.strip_prefix("///"))?;
        comment.trim_start().strip_prefix("```").map(ToOwned::to_owned)
    };
    let fences = source.text.lines().enumerate().filter_map(|(at, line)| Some((at, fence(line)?)));
    // Every other fence ends what the one before it began.
    let begins =
        fences.step_by(2).filter(|(_, kind)| matches!(kind.trim(), "" | "rust" | "no_run" | "ignore"));
    begins
        .map(|(at, _)| source.offence(at + 1, "an example that no test compiles: make it a unit test"))
        .collect()
}
