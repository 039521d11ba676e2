//! Every reason in the log, `Cache-Status` and the metrics, with its meaning: one table, from which the
//! guide's page is printed. It must not decide anything.
//!
//! A word without a row fails the test beside this file, which looks for words in the rooms that say them. In
//! a debug build it also fails every scenario that meets it.

use std::fmt::Write;

/// What a reason explains. One word may explain several things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasonFor {
    /// The response was not stored.
    NotStored,
    /// The cache did not answer by itself, or answered with something stale.
    NotHit,
    /// Weir answered by itself.
    Local,
    /// The request was not understood, or passed a limit; or the origin's response was malformed in the same
    /// way.
    Message,
    /// The origin gave no response, or not all of one.
    Origin,
    /// The response ended early.
    Cut,
}

/// A word and what it means.
#[derive(Clone, Copy, Debug)]
pub struct Reason {
    /// The word.
    pub word: &'static str,
    /// What it explains.
    pub of: ReasonFor,
    /// Its meaning, in a sentence or two.
    pub meaning: &'static str,
}

const fn row(of: ReasonFor, word: &'static str, meaning: &'static str) -> Reason {
    Reason { word, of, meaning }
}

/// A client took no byte for `limits.send_stall`.
pub(crate) const SEND_STALL: &str = "send-stall";

/// All reasons, in the order of the page.
pub const REASONS: &[Reason] = {
    use ReasonFor::{Cut, Local, Message, NotHit, NotStored, Origin};
    &[
        row(
            NotStored,
            "no-freshness",
            "Neither the origin (`max-age`, `Expires`) nor the route (`ttl`) names a lifetime, and without \
             `Last-Modified` Weir guesses none (`heuristics`). If you can, have the origin name one; \
             otherwise set `ttl`.",
        ),
        row(NotStored, "no-store", "The origin says `Cache-Control: no-store`."),
        row(NotStored, "private", "The origin says `Cache-Control: private`: it is for one client."),
        row(
            NotStored,
            "no-cache",
            "The origin says `no-cache`, and the response cannot be revalidated: it has no `ETag` or \
             `Last-Modified`, or its status is not 2xx.",
        ),
        row(
            NotStored,
            "set-cookie",
            "The response sets a cookie. The route's `set_cookie` can strip the cookie, or store the \
             response all the same.",
        ),
        row(
            NotStored,
            "request-cookie",
            "The route ignores what the response says (`ignore`), and the request has a cookie that is not \
             in the key (`key.cookies`): the response may be for one visitor.",
        ),
        row(
            NotStored,
            "set-key-cookie",
            "The response sets a cookie that is part of the key (`key.cookies`).",
        ),
        row(
            NotStored,
            "authorization",
            "The request had `Authorization`; the response has no `public`, `s-maxage` or `must-revalidate`.",
        ),
        row(NotStored, "signature", "The same, where the query has a signature of an object storage."),
        row(
            NotStored,
            "vary-cookie",
            "The response says `Vary: Cookie`, and the request has a cookie that is not in `key.cookies`. \
             `cookies` takes out those that the origin does not read; `weir explain` names them.",
        ),
        row(NotStored, "vary-any", "The response says `Vary: *`, or has a `Vary` that cannot be read."),
        row(NotStored, "stale", "The response was stale when it came, and cannot be revalidated."),
        row(
            NotStored,
            "status",
            "Its status is never stored: it is not a whole response (304, or a 206 that Weir did not ask \
             for), or 511.",
        ),
        row(
            NotStored,
            "refused",
            "Its status is about this one request (400, 412, 414, 431, 501, …): other requests would most \
             likely get another answer.",
        ),
        row(
            NotStored,
            "server-error",
            "A 5xx without a lifetime of its own, or on a route that stores no 5xx (`errors`).",
        ),
        row(
            NotStored,
            "must-understand",
            "The origin says `must-understand`, and Weir does not know how this status is cached.",
        ),
        row(
            NotStored,
            "close-delimited",
            "Its body ends with the connection, so that nothing says whether it is whole \
             (`close_delimited`).",
        ),
        row(NotStored, "method", "Responses to this method are not stored."),
        row(NotStored, "body", "The request had a body, which is not part of any key."),
        row(
            NotStored,
            "request-no-store",
            "The client said `Cache-Control: no-store` (`client_directives`).",
        ),
        row(NotStored, "bypass", "The route's `bypass` sends the request past the cache."),
        row(
            NotStored,
            "respelled",
            "The request has a field with `_` for `-` that the response varies on, or that is in the key; or \
             cookies that can be read in another way than `key.cookies` has them (quotes, commas, several \
             `Cookie` fields): an origin may have read one as the other.",
        ),
        row(NotStored, "too-large", "The response is larger than memory keeps, and no volume takes it."),
        row(NotStored, "no-room", "Memory had no room at that moment: everything in it was in use."),
        row(NotStored, "unasked-not-modified", "The origin answered 304 to a request without a condition."),
        row(
            NotStored,
            "min-uses",
            "The URL was not asked for often enough yet (`min_uses`): the request went past the cache.",
        ),
        row(
            NotStored,
            "outlasted",
            "What is held may go out in place of this status (`stale.if_status`), and stays.",
        ),
        row(NotHit, "uri-miss", "Nothing is held under the key."),
        row(NotHit, "vary-miss", "What is held under the key is for requests with other values (`Vary`)."),
        row(NotHit, "gone", "What was held was purged, or was lost while it was read."),
        row(NotHit, "partial", "The object is held in part, and Weir asked the origin for the rest."),
        row(
            NotHit,
            "stale",
            "What is held is past its lifetime. With the outcome `stale` it went out inside \
             `stale-while-revalidate`; otherwise Weir asked the origin.",
        ),
        row(NotHit, "soft-purged", "A soft purge ended the lifetime of what is held."),
        row(NotHit, "no-cache", "What is held says `no-cache`: Weir asks the origin each time."),
        row(
            NotHit,
            "suspect",
            "What is held comes from a volume that was away, or whose ledger is a copy: Weir revalidates it \
             before it uses it (`docs/guide/drives.md`).",
        ),
        row(
            NotHit,
            "request",
            "The client wants it validated: `no-cache`, `max-age` or `min-fresh` in its request.",
        ),
        row(NotHit, "refresh", "The route's `refresh` fetches it again."),
        row(
            NotHit,
            "stale-if-error",
            "The origin failed, and what is held went out stale inside `stale-if-error`.",
        ),
        row(
            NotHit,
            "stale-if-unreachable",
            "The origin gave no answer at all, and what is held went out stale inside \
             `stale.if_unreachable`.",
        ),
        row(
            NotHit,
            "stale-if-status",
            "The origin answered with a status of `stale.if_status`, and what is held went out stale inside \
             its window.",
        ),
        row(
            NotHit,
            "revalidation-wait",
            "The origin took longer than `revalidation_wait`, and what is held went out stale.",
        ),
        row(NotHit, "method", "Past the cache: only GET and HEAD are answered from it."),
        row(NotHit, "body", "Past the cache: the request has a body, which is not part of any key."),
        row(NotHit, "request-no-store", "Past the cache: the client says `no-store`."),
        row(NotHit, "bypass-cookie", "Past the cache: a cookie that the route's `bypass` names."),
        row(NotHit, "bypass-header", "Past the cache: a field that the route's `bypass` names."),
        row(NotHit, "early-data", "Past the cache: the request may have been replayed (`Early-Data`)."),
        row(NotHit, "login", "Past the cache: its client logs in on the connection (NTLM), or has done so."),
        row(NotHit, "signed", "Past the cache as it came: it may be signed, and no answer was public yet."),
        row(NotHit, "bypass-path", "Past the cache: a path that the route's `bypass` names."),
        row(NotHit, "bypass-query", "Past the cache: a query parameter that the route's `bypass` names."),
        row(NotHit, "bypass-method", "Past the cache: a method that the route's `bypass` names."),
        row(NotHit, "bypass-client", "Past the cache: a client that the route's `bypass` names."),
        row(
            NotHit,
            "bypass-map",
            "Past the cache: a map gives what the route's `bypass` names, or would by another value of a \
             field that the request has twice.",
        ),
        row(
            NotHit,
            "session",
            "Past the cache: the request has a session, and its upstream says `affinity.bypass`, or the \
             session is in the path.",
        ),
        row(NotHit, "route-no-store", "Nothing held answers, and the route's `no_store` names this request."),
        row(
            NotHit,
            "dot-segment",
            "Past the cache: the path has a segment `..`, or one `.` that is encoded or the last (each `/./` \
             is removed before). An origin that resolves it answers for a path that did not choose the \
             route.",
        ),
        row(NotHit, "host-in-path", "Past the cache: two slashes begin the path; some read a host there."),
        row(
            NotHit,
            "uncacheable",
            "Past the cache: responses to this key were not storable a moment ago. Weir remembers that for a \
             while, so that requests do not wait for each other in vain. `not_stored` then says why they \
             were not, which need not be true of this response; so do `Cache-Status` and `weir explain`.",
        ),
        row(NotHit, "upgrade", "Past the cache: the client asks for another protocol (`Upgrade`)."),
        row(Local, "static", "The route's `answer`."),
        row(Local, "redirect", "The route's `redirect`."),
        row(Local, "file", "A file below the route's `root`."),
        row(
            Local,
            "folder",
            "301: the path of a folder below the route's `root` lacks the slash at its end.",
        ),
        row(
            Local,
            "by-hand",
            "Content that an operator has laid over the URL (`weir content list`; `weir content reset`).",
        ),
        row(Local, "listing", "The list of a folder below the route's `root` (`files.listing`)."),
        row(
            Local,
            "no-file",
            "404: there is no such file below the route's `root`; or it is refused, and goes to no \
             `fallback`: a name begins with a dot, the path could be read in two ways, a link leads out, it \
             is a device.",
        ),
        row(
            Local,
            "method-case",
            "501: the method is a known one but for its case (`post`), in which some programs read it.",
        ),
        row(Local, "method-override", "400: fields that override the method name two, or none."),
        row(
            Local,
            "path-ambiguous",
            "400: where the path leads depends on what `;` and `\\` mean to its origin.",
        ),
        row(Local, "file-method", "405: files below a `root` are asked for with GET and HEAD."),
        row(Local, "file-denied", "403: Weir's user may not read this file below the route's `root`."),
        row(
            Local,
            "file-changing",
            "503: the file is being written, again and again. Write a new one beside it, and rename it.",
        ),
        row(
            Local,
            "file-crowded",
            "503: long files are being sent, as many as may be open: a quarter of the process's \
             `LimitNOFILE`.",
        ),
        row(Local, "maintenance", "The route's `maintenance` is on."),
        row(Local, "health", "The health path."),
        row(Local, "acme", "A certificate authority asked whether the host is ours (`[acme]`)."),
        row(Local, "draining", "503 on the health path: Weir is ending, and takes no new requests."),
        row(Local, "options", "`OPTIONS` with `Max-Forwards: 0`, or for `*`."),
        row(Local, "purged", "A purge by request succeeded."),
        row(Local, "purge-refused", "405: this client may not purge here (`purge`)."),
        row(
            Local,
            "purge-unnamed",
            "403: this client may purge one URL at a time, since the proxy in front names no client, or \
             only a route of the site has `purge`.",
        ),
        row(Local, "purge-malformed", "400: the request for a purge names nothing to purge."),
        row(
            Local,
            "ledger-unwritten",
            "500: the purge is in force, but could not be written to disk. Mend the disk of the state \
             folder, and purge again.",
        ),
        row(Local, "unknown-host", "421: no site has this host."),
        row(Local, "misdirected", "421: the certificate of the connection is not for this host."),
        row(
            Local,
            "no-client-certificate",
            "403: the site asks for a client certificate, and the request came without TLS.",
        ),
        row(Local, "denied", "403: the route's `allow` or `deny` refuses this client."),
        row(
            Local,
            "needs-https",
            "403: the site sends requests without TLS to `https`, and this one names no URL that it could be \
             sent to: `OPTIONS *`, or HTTP/1.0 without `Host`.",
        ),
        row(Local, "https", "308: the site sends requests without TLS to `https`."),
        row(
            Local,
            "no-route",
            "404: no route of the site takes this request. For an origin: the network has no route to it.",
        ),
        row(Local, "no-upstream", "502: the route has no upstream."),
        row(Local, "loop", "508: the request has been here before (`Via`, `CDN-Loop`)."),
        row(
            Local,
            "only-if-cached",
            "504: the client accepts only what is held (`only-if-cached`), and nothing held answers it.",
        ),
        row(
            Local,
            "precondition",
            "412: a precondition of the client (`If-Match`, `If-Unmodified-Since`) is false.",
        ),
        row(Local, "range", "416: the range lies wholly beyond the end."),
        row(
            Local,
            "too-many-requests",
            "429: a client behind a trusted proxy has as many requests under way as \
             `limits.connections_per_client`.",
        ),
        row(Message, "head-late", "408: the head of the request did not arrive within `limits.head_time`."),
        row(Message, "body-too-large", "413: the body is larger than `limits.body`, of the route or of all."),
        row(
            Message,
            "body-too-slow",
            "408: the body arrived slower than `limits.body_rate`, of the route or of all.",
        ),
        row(
            Message,
            "content-on-get",
            "A GET or HEAD has a body. Elasticsearch's clients do that: have them send a search by POST.",
        ),
        row(
            Message,
            "field-twice",
            "A field that may have one value has two that differ. The name follows a colon: \
             `field-twice:referer`.",
        ),
        row(Message, "host-missing", "HTTP/1.1 without `Host`."),
        row(Message, "host-twice", "`Host` more than once."),
        row(Message, "host", "The host is not valid."),
        row(Message, "host-port", "The port of the host is not valid."),
        row(Message, "host-not-authority", "`Host` names another host than `:authority` (HTTP/2)."),
        row(Message, "connection-field", "A field that only HTTP/1 has, such as `Connection` (HTTP/2)."),
        row(Message, "space-around-value", "A field's value begins or ends with white space (HTTP/2)."),
        row(Message, "pseudo-field", "`:protocol` without CONNECT (HTTP/2)."),
        row(Message, "protocol-unknown", "501: an extended CONNECT for something else than a WebSocket."),
        row(Message, "host-userinfo", "The host has a user's name (`user@`)."),
        row(Message, "length-and-coding", "Both `Content-Length` and `Transfer-Encoding`."),
        row(Message, "content-length", "`Content-Length` is not one decimal number."),
        row(Message, "content-length-twice", "`Content-Length` appears more than once."),
        row(Message, "transfer-encoding", "`Transfer-Encoding` cannot be read."),
        row(Message, "not-ending-in-chunked", "`chunked` is not the last coding of `Transfer-Encoding`."),
        row(Message, "chunked-twice", "`chunked` is named more than once."),
        row(Message, "transfer-encoding-on-1.0", "`Transfer-Encoding` with HTTP/1.0."),
        row(Message, "transfer-coding-unknown", "501: a transfer coding besides `chunked`."),
        row(Message, "chunk-size", "The size of a chunk is not valid (RFC 9112 §7.1)."),
        row(Message, "chunk-extension", "An extension of a chunk cannot be read."),
        row(Message, "chunk-extensions-too-large", "The extensions of the chunks are too large together."),
        row(Message, "chunk-end", "A chunk does not end with CRLF."),
        row(Message, "start-line", "The first line is not three parts with one blank between each."),
        row(
            Message,
            "method",
            "The method is not a token; a TLS handshake on a plain listener looks like this.",
        ),
        row(Message, "method-refused", "405: CONNECT or TRACE."),
        row(Message, "version", "The version is not `HTTP/` and two digits."),
        row(Message, "version-unsupported", "505: another version than 1.0 and 1.1."),
        row(Message, "status-code", "The status of a response is not three digits."),
        row(Message, "target", "The target is not a path, a URL, or the `*` of OPTIONS."),
        row(
            Message,
            "target-bytes",
            "The target has a blank, a control byte or a byte beyond ASCII; write `%20` and so on.",
        ),
        row(Message, "target-fragment", "The target has a `#`."),
        row(Message, "target-scheme", "The target is a URL of another scheme than http and https."),
        row(Message, "bare-lf", "A line ends without CR."),
        row(Message, "bare-cr", "A CR is within a line."),
        row(Message, "nul", "A NUL is within the head."),
        row(Message, "control-byte", "A control byte is within the head."),
        row(Message, "empty-lines", "Too many empty lines come before the request."),
        row(Message, "leading-whitespace", "A blank comes before the first field."),
        row(Message, "no-colon", "A field line has no colon."),
        row(Message, "space-before-colon", "A field line has a blank before its colon."),
        row(Message, "field-name", "The name of a field is not a token."),
        row(Message, "obs-fold", "A field continues on the next line (RFC 9112 §5.2)."),
        row(
            Message,
            "lookalike-name",
            "A field's name would be `Content-Length` or `Transfer-Encoding` to a program that reads \
             names loosely (`Content_Length`).",
        ),
        row(Message, "connection", "`Connection` is not a list of names."),
        row(
            Message,
            "connection-names-needed-field",
            "`Connection` names a field that is needed to understand the message, such as `Host` or \
             `Cookie`.",
        ),
        row(Message, "expect", "417: `Expect` says something else than `100-continue`."),
        row(Message, "interim-with-content", "A response of 1xx, or one that has no body, announces one."),
        row(Message, "line-too-long", "414: the first line is longer than `limits.line`."),
        row(
            Message,
            "head-too-large",
            "431: the head is larger than `limits.head`, of the route or of all. For an origin: larger than \
             `head` of the upstream.",
        ),
        row(
            Message,
            "too-many-fields",
            "431: there are more fields than `limits.fields`, of the route or of all. For an origin: more \
             than `fields` of the upstream.",
        ),
        row(Message, "truncated", "The message ended early."),
        row(
            Message,
            "too-many-interim-responses",
            "An origin sent more interim responses (1xx) than Weir reads.",
        ),
        row(Origin, "connection-refused", "Nothing listens at the origin's address."),
        row(Origin, "connect-timeout", "No connection was open within `connect`."),
        row(Origin, "cannot-connect", "The connection could not be made; the diagnostics say why."),
        row(Origin, "dns-error", "The origin's name has no address."),
        row(Origin, "dns-timeout", "The name server did not answer in time."),
        row(
            Origin,
            "certificate",
            "The origin's certificate is not valid for it (`tls.verify`, `tls.ca_file`, `tls.sni`).",
        ),
        row(Origin, "tls-alert", "The origin ended the TLS handshake with an alert."),
        row(Origin, "tls-error", "TLS with the origin failed."),
        row(Origin, "closed-early", "The origin closed the connection without a response."),
        row(Origin, "incomplete", "The origin closed the connection in the middle of a response."),
        row(Origin, "first-byte-timeout", "No response began within `first_byte`."),
        row(Origin, "read-timeout", "No byte of the body came within `between_bytes`."),
        row(Origin, "write-timeout", "The origin took no byte of the request within `between_bytes`."),
        row(Origin, "upgrade-unasked", "The origin switched to a protocol that Weir did not ask for."),
        row(Origin, "pick-denied", "400 to 599: a script or a distributor of `pick` denies the request."),
        row(Origin, "body-aborted", "The client stopped before its request's body was whole."),
        row(
            Origin,
            "no-origin",
            "503: no origin of the upstream may be asked now: all are drained or in maintenance.",
        ),
        row(
            Origin,
            "busy",
            "503: all `connections` to the origin were in use, and the request waited for `queue_wait`, \
             or the `queue` was full.",
        ),
        row(Origin, "streams", "503: as many tunnels and event streams are open as `streams` says."),
        row(Origin, "client-share", "503: the client has its share of the origin, or most of its queue."),
        row(
            Origin,
            "unplaced-part",
            "502: the origin answered a plain request with a part (206) that does not say where it belongs.",
        ),
        row(
            Origin,
            "origin-status",
            "The origin answered a request for the rest of a part with another status than 206.",
        ),
        row(Origin, "no-validator", "Weir could not ask for the rest of a part: it has no strong `ETag`."),
        row(Origin, "no-length", "Weir could not ask for the rest of a part: its length is not known."),
        row(Origin, "no-range", "Weir could not ask for the rest of a part: there is no range to name."),
        row(
            Cut,
            "file-changed",
            "The file was changed in place while it was sent. A new file that is renamed to its name harms \
             no reader.",
        ),
        row(
            Cut,
            "file-failed",
            "The file could not be read: the drive failed, or its folder went away. Before the \
             head it is a 500.",
        ),
        row(Cut, "file-hangs", "The device of the file does not answer. Before the head it is a 503."),
        row(Cut, SEND_STALL, "The client took no byte for `limits.send_stall`."),
        row(Cut, "client-share", "It gave way: its client had most `streams`, or most of lists of folders."),
        row(Cut, "memory-share", "The client's connections hold all the memory that they may."),
        row(Cut, "read-rate", "The client took less than `limits.read_rate`."),
        row(Cut, "half-close", "The client left or half-closed, and took nothing for `limits.half_close`."),
        row(Cut, "client-gone", "The client's connection failed."),
        row(Cut, "rest-too-short", "The origin sent less than it had announced."),
        row(Cut, "body-too-short", "The body was shorter than its length."),
        row(Cut, "body-too-long", "The body was longer than its length."),
        row(
            Cut,
            "generation-gone",
            "The object was purged or replaced while it was read, and the origin no longer has the rest.",
        ),
        row(Cut, "part-gone", "The origin now has another version than the part that was being read."),
        row(
            Cut,
            "reader-behind",
            "The client was slower than a transfer of which memory keeps only the newest bytes.",
        ),
        row(Cut, "kept-no-longer", "It was purged or evicted, and its volume could keep the rest no longer."),
        row(Cut, "deserted", "The transfer had no readers any more."),
        row(Cut, "memory", "Memory had no room for the next bytes."),
        row(Cut, "fill-ended", "The transfer that was being read ended early."),
        row(Cut, "fill-aborted", "The transfer that was being read failed inside Weir: please report it."),
        row(Cut, "no-seat", "Weir could not begin the transfer: please report it."),
        row(Cut, "stage-failed", "What changes the body on its way went wrong: please report it."),
    ]
};

/// Whether a word has a row. Of a word with a colon, the part before it counts.
pub fn is_known(word: &str) -> bool {
    let word = word.split(':').next().unwrap_or_default();
    REASONS.iter().any(|reason| reason.word == word)
}

/// The page of the guide.
pub fn markdown() -> String {
    let mut page = String::from(HEAD);
    for (of, title, text) in SECTIONS {
        // Writing to a string cannot fail.
        let _ = write!(page, "\n## {title}\n\n{text}\n\n| reason | meaning |\n|---|---|\n");
        for reason in REASONS.iter().filter(|reason| reason.of == of) {
            let _ = writeln!(page, "| `{}` | {} |", reason.word, reason.meaning);
        }
    }
    page
}

const HEAD: &str = "# Reasons

A *reason* is a word that says why a response was not stored, not a hit, refused or cut. The word is the same
in the access log (`detail`, `not_stored`), in `Cache-Status` (`detail`), in `weir status`, in `weir explain`
and in the metrics. Where a response was not stored, `Cache-Status` and the placeholder `{reason}` have
`not_stored`, as it says more; otherwise they have `detail`. This page is printed from the program's own table
(`crates/weir-observe/src/reasons.rs`); a test fails where a word is missing.
";

const SECTIONS: [(ReasonFor, &str, &str); 6] = [
    (
        ReasonFor::NotStored,
        "Not stored",
        "`not_stored` in the log, `weir_responses_not_stored_total{reason=\"…\"}`, `not stored: …` on a \
         terminal.",
    ),
    (
        ReasonFor::NotHit,
        "Not a hit",
        "`detail` of a `miss`, `revalidated`, `stale` or `pass` in the log,\n\
         `weir_request_details_total{detail=\"…\"}`, the reason of a verdict in `weir explain`.",
    ),
    (ReasonFor::Local, "Answered by Weir itself", "`detail` of a `local` or `refused` request."),
    (
        ReasonFor::Message,
        "Malformed, or beyond a limit",
        "`detail` of a `refused` request: its status is 400 where the table names none. Also `detail` of an\n\
         origin's response that Weir cannot use: the client gets 502.\n\
         [Behind nginx, Apache, PHP](behind.md#requests-that-are-refused) says more.",
    ),
    (
        ReasonFor::Origin,
        "The origin failed",
        "`detail` of a request that is answered with 502, 503 or 504, or `stale`; \
         `weir_errors_total{reason=\"…\"}`.",
    ),
    (
        ReasonFor::Cut,
        "Cut",
        "`detail` where `completion` is `cut` or `client-gone`; `weir_errors_total{reason=\"…\"}`.",
    ),
];

#[cfg(test)]
mod tests;
