//! Requests with what Weir must do. A row has the bytes as on the wire.

use super::Must::{self, Refuse, RefuseContent, Take};

/// A name, what must happen, and the bytes.
pub type Row = (&'static str, Must, Vec<u8>);

/// All rows.
pub fn rows() -> Vec<Row> {
    [
        lines(),
        request_lines(),
        targets(),
        hosts(),
        fields(),
        lengths(),
        codings(),
        connections(),
        chunks(),
        taken(),
    ]
    .concat()
}

fn row(name: &'static str, must: Must, bytes: impl AsRef<[u8]>) -> Row {
    (name, must, bytes.as_ref().to_vec())
}

/// A GET with more field lines.
fn get(name: &'static str, must: Must, fields: impl AsRef<[u8]>) -> Row {
    with(name, must, b"GET / HTTP/1.1\r\nHost: localhost\r\n", fields, b"")
}

/// A POST with more field lines and this content.
fn post(name: &'static str, must: Must, fields: impl AsRef<[u8]>, content: &[u8]) -> Row {
    with(name, must, b"POST / HTTP/1.1\r\nHost: localhost\r\n", fields, content)
}

fn with(name: &'static str, must: Must, start: &[u8], fields: impl AsRef<[u8]>, content: &[u8]) -> Row {
    row(name, must, [start, fields.as_ref(), b"\r\n\r\n", content].concat())
}

/// A POST with this chunked content.
fn chunked(name: &'static str, must: Must, content: impl AsRef<[u8]>) -> Row {
    post(name, must, "Transfer-Encoding: chunked", content.as_ref())
}

/// A GET with this `Host`.
fn host(name: &'static str, must: Must, host: impl AsRef<[u8]>) -> Row {
    row(name, must, [b"GET / HTTP/1.1\r\nHost: ", host.as_ref(), b"\r\n\r\n"].concat())
}

/// A request with this first line.
fn line(name: &'static str, must: Must, line: impl AsRef<[u8]>) -> Row {
    row(name, must, [line.as_ref(), b"\r\nHost: localhost\r\n\r\n"].concat())
}

fn lines() -> Vec<Row> {
    let bad = Refuse(400);
    vec![
        row("LF after the request line", bad, "GET / HTTP/1.1\nHost: localhost\r\n\r\n"),
        row("LF after a field", bad, "GET / HTTP/1.1\r\nHost: localhost\n\r\n"),
        row("LF after every line", bad, "GET / HTTP/1.1\nHost: localhost\n\n"),
        row("LF as the empty line", bad, "GET / HTTP/1.1\r\nHost: localhost\r\n\n"),
        row(
            "LF CR LF as the empty line",
            bad,
            "GET / HTTP/1.1\r\nHost: localhost\n\r\nGET /b HTTP/1.1\r\n\r\n",
        ),
        row("LF CR as a line end", bad, "GET / HTTP/1.1\n\rHost: localhost\n\r\n\r"),
        row("CR CR LF after the request line", bad, "GET / HTTP/1.1\r\r\nHost: localhost\r\n\r\n"),
        row("CR alone after every line", bad, "GET / HTTP/1.1\rHost: localhost\r\rX\r\n"),
        row("LF before the request line", bad, "\nGET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        row("CR before the request line", bad, "\rGET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        row("three empty lines first", bad, "\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        row("a space first", bad, " GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        row("a tab first", bad, "\tGET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        row("a blank line of spaces first", bad, "  \r\nGET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        row("NUL first", bad, "\0GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        row("a byte order mark first", bad, "\u{feff}GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        row("a TLS hello", bad, b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"),
        row("JSON", bad, "{\"method\": \"GET\"}\r\n\r\n"),
        get("CR in a value", bad, "X: a\rb"),
        get("CR that starts a field", bad, "X: a\rContent-Length: 5"),
        get("CR at the end of a value", bad, "X: a\r"),
        get("CR in a name", bad, "X\rY: a"),
        get("CR before the colon", bad, "X\r: a"),
        get("LF that starts a field", bad, "X: a\nContent-Length: 5"),
        get("LF before the colon", bad, "X\n: a"),
        get("LF LF within the head", bad, "X: a\n\nGET /b HTTP/1.1"),
        get("NUL in a value", bad, "X: a\0b"),
        get("NUL alone as a value", bad, "X: \0"),
        get("NUL in a name", bad, "X\0: a"),
        get("NUL between fields", bad, "X: a\0\r\nY: b"),
        get("0x01 in a value", bad, "X: \u{1}"),
        get("backspace in a value", bad, "X: a\u{8}"),
        get("vertical tab in a value", bad, "X: a\u{b}b"),
        get("form feed in a value", bad, "X: a\u{c}b"),
        get("escape in a value", bad, "X: \u{1b}[31m"),
        get("0x1f in a value", bad, "X: \u{1f}"),
        get("DEL in a value", bad, "X: \u{7f}"),
        get("0x01 in a name", bad, "X\u{1}: a"),
        get("DEL in a name", bad, "X\u{7f}: a"),
        get("vertical tab before a name", bad, "\u{b}X: a"),
        get("form feed before the colon", bad, "X\u{c}: a"),
    ]
}

fn request_lines() -> Vec<Row> {
    let bad = Refuse(400);
    let version = Refuse(505);
    vec![
        line("no version", bad, "GET /"),
        line("a method alone", bad, "GET"),
        line("no target", bad, "GET  HTTP/1.1"),
        line("no target and one space", bad, "GET HTTP/1.1"),
        line("two spaces after the method", bad, "GET  / HTTP/1.1"),
        line("two spaces before the version", bad, "GET /  HTTP/1.1"),
        line("a space after the version", bad, "GET / HTTP/1.1 "),
        line("a tab after the version", bad, "GET / HTTP/1.1\t"),
        line("tabs between the parts", bad, "GET\t/\tHTTP/1.1"),
        line("a tab after the method", bad, "GET\t/ HTTP/1.1"),
        line("words after the version", bad, "GET / HTTP/1.1 HTTP/1.1"),
        line("vertical tabs between the parts", bad, "GET\u{b}/\u{b}HTTP/1.1"),
        line("a lower-case version", bad, "GET / http/1.1"),
        line("a mixed-case version", bad, "GET / Http/1.1"),
        line("HTTP/1.10", bad, "GET / HTTP/1.10"),
        line("HTTP/01.1", bad, "GET / HTTP/01.1"),
        line("HTTP/1", bad, "GET / HTTP/1"),
        line("HTTP/1.", bad, "GET / HTTP/1."),
        line("HTTP/2", bad, "GET / HTTP/2"),
        line("HTTP/11", bad, "GET / HTTP/11"),
        line("HTTP/1.a", bad, "GET / HTTP/1.a"),
        line("HTTP/1,1", bad, "GET / HTTP/1,1"),
        line("HTTP/+1.1", bad, "GET / HTTP/+1.1"),
        line("HTTP /1.1", bad, "GET / HTTP /1.1"),
        line("HTTP/ 1.1", bad, "GET / HTTP/ 1.1"),
        line("HTTPS/1.1", bad, "GET / HTTPS/1.1"),
        line("ICY/1.1", bad, "GET / ICY/1.1"),
        line("NUL in the version", bad, "GET / HTTP/1.1\0"),
        line("HTTP/0.9", version, "GET / HTTP/0.9"),
        line("HTTP/1.2", version, "GET / HTTP/1.2"),
        line("HTTP/1.9", version, "GET / HTTP/1.9"),
        line("HTTP/2.0", version, "GET / HTTP/2.0"),
        line("HTTP/3.0", version, "GET / HTTP/3.0"),
        row("the preface of HTTP/2", version, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        line("a parenthesis in the method", bad, "G(T / HTTP/1.1"),
        line("a colon in the method", bad, "GET: / HTTP/1.1"),
        line("a quoted method", bad, "\"GET\" / HTTP/1.1"),
        line("a slash in the method", bad, "GET/ / HTTP/1.1"),
        line("a comma in the method", bad, "GET,POST / HTTP/1.1"),
        line("a method beyond ASCII", bad, "G\u{c9}T / HTTP/1.1"),
        line("NUL in the method", bad, "GE\0T / HTTP/1.1"),
        line("a method of braces", bad, "{} / HTTP/1.1"),
        row("CONNECT", Refuse(405), "CONNECT localhost:443 HTTP/1.1\r\nHost: localhost:443\r\n\r\n"),
        line("CONNECT with a path", Refuse(405), "CONNECT / HTTP/1.1"),
        line("TRACE", Refuse(405), "TRACE / HTTP/1.1"),
        row(
            "TRACE with content",
            Refuse(405),
            "TRACE / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nok",
        ),
        line("a line of 8 KiB and a byte", Refuse(414), format!("GET /{} HTTP/1.1", "a".repeat(8193 - 14))),
        line("a target of 100,000 bytes", Refuse(414), format!("GET /{} HTTP/1.1", "a".repeat(100_000))),
        row("100,000 bytes without a space", Refuse(414), "A".repeat(100_000)),
    ]
}

fn targets() -> Vec<Row> {
    let bad = Refuse(400);
    vec![
        line("a space in the target", bad, "GET /a b HTTP/1.1"),
        line("a tab in the target", bad, "GET /a\tb HTTP/1.1"),
        line("NUL in the target", bad, "GET /a\0b HTTP/1.1"),
        line("CR in the target", bad, "GET /a\rb HTTP/1.1"),
        line("DEL in the target", bad, "GET /a\u{7f}b HTTP/1.1"),
        line("0x1f in the target", bad, "GET /a\u{1f}b HTTP/1.1"),
        line("UTF-8 in the target", bad, "GET /caf\u{e9} HTTP/1.1"),
        line("Latin-1 in the target", bad, b"GET /caf\xe9 HTTP/1.1"),
        line("0xff in the query", bad, b"GET /?\xff HTTP/1.1"),
        line("a fragment", bad, "GET /a#b HTTP/1.1"),
        line("a fragment in the query", bad, "GET /a?b#c HTTP/1.1"),
        line("a relative target", bad, "GET a HTTP/1.1"),
        line("a relative path", bad, "GET a/b HTTP/1.1"),
        line("a query alone", bad, "GET ?a HTTP/1.1"),
        line("an asterisk of GET", bad, "GET * HTTP/1.1"),
        line("two asterisks", bad, "OPTIONS ** HTTP/1.1"),
        line("an asterisk and a path", bad, "OPTIONS */a HTTP/1.1"),
        line("a backslash as a path", bad, "GET \\a HTTP/1.1"),
        line("an authority of GET", bad, "GET localhost:80 HTTP/1.1"),
        line("one slash after the scheme", bad, "GET http:/localhost/ HTTP/1.1"),
        line("no slash after the scheme", bad, "GET http:localhost HTTP/1.1"),
        line("a scheme alone", bad, "GET http:// HTTP/1.1"),
        line("an empty authority", bad, "GET http:///a HTTP/1.1"),
        line("another scheme", bad, "GET ftp://localhost/ HTTP/1.1"),
        line("a script", bad, "GET javascript:alert(1) HTTP/1.1"),
        line("a file", bad, "GET file:///etc/passwd HTTP/1.1"),
        row("another host that is none", bad, "GET http://other/ HTTP/1.1\r\nHost: local host\r\n\r\n"),
        row("another host and two", bad, "GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
        line("userinfo", bad, "GET http://user@localhost/ HTTP/1.1"),
        line("userinfo with a password", bad, "GET http://user:word@localhost/ HTTP/1.1"),
        line("userinfo that looks like the host", bad, "GET http://localhost@other/ HTTP/1.1"),
        line("a backslash in the authority", bad, "GET http://localhost\\@other/ HTTP/1.1"),
        line("a port that is too large", bad, "GET http://localhost:65536/ HTTP/1.1"),
        line("an open bracket", bad, "GET http://[::1/ HTTP/1.1"),
        row("an absolute target without Host", bad, "GET http://localhost/ HTTP/1.1\r\nX: a\r\n\r\n"),
    ]
}

fn hosts() -> Vec<Row> {
    let bad = Refuse(400);
    vec![
        row("no Host", bad, "GET / HTTP/1.1\r\n\r\n"),
        row("no Host but other fields", bad, "GET / HTTP/1.1\r\nX: a\r\n\r\n"),
        get("Host twice", bad, "Host: localhost"),
        get("two Hosts", bad, "Host: other"),
        get("two Hosts in two cases", bad, "HOST: other"),
        row("two Hosts on 1.0", bad, "GET / HTTP/1.0\r\nHost: localhost\r\nHost: other\r\n\r\n"),
        host("an empty Host", bad, ""),
        host("a Host of blanks", bad, " \t "),
        host("two hosts in one", bad, "localhost, other"),
        host("two hosts with a space", bad, "localhost other"),
        host("userinfo in Host", bad, "user@localhost"),
        host("userinfo with a password in Host", bad, "user:word@localhost"),
        host("a host behind an at sign", bad, "localhost:80@other"),
        host("a path in Host", bad, "localhost/a"),
        host("a query in Host", bad, "localhost?a"),
        host("a fragment in Host", bad, "localhost#a"),
        host("a backslash in Host", bad, "localhost\\a"),
        host("a scheme in Host", bad, "http://localhost"),
        host("a percent in Host", bad, "local%68ost"),
        host("an asterisk in Host", bad, "*.localhost"),
        host("a quote in Host", bad, "\"localhost\""),
        host("a semicolon in Host", bad, "localhost;a"),
        host("an angle bracket in Host", bad, "<localhost>"),
        host("UTF-8 in Host", bad, "l\u{f6}calhost"),
        host("0xff in Host", bad, b"local\xffhost"),
        host("port 0", bad, "localhost:0"),
        host("port 65536", bad, "localhost:65536"),
        host("port 080", bad, "localhost:080"),
        host("a port with a sign", bad, "localhost:+80"),
        host("a port in hex", bad, "localhost:0x50"),
        host("a port of letters", bad, "localhost:http"),
        host("two ports", bad, "localhost:80:80"),
        host("a port alone", bad, ":80"),
        host("an open bracket in Host", bad, "[::1"),
        host("no bracket in Host", bad, "::1"),
        host("no address in the brackets", bad, "[]"),
        host("a name in the brackets", bad, "[localhost]"),
        host("a zone", bad, "[fe80::1%25eth0]"),
        host("bytes after the bracket", bad, "[::1]a"),
        host("a dot", bad, "."),
        host("a dot first", bad, ".localhost"),
        host("two dots", bad, "local..host"),
        host("two dots last", bad, "localhost.."),
        host("a host of 300 bytes", bad, "a".repeat(300)),
        row("Host with a space before the colon", bad, "GET / HTTP/1.1\r\nHost : localhost\r\n\r\n"),
        row("Host folded", bad, "GET / HTTP/1.1\r\nHost:\r\n localhost\r\n\r\n"),
        row("a second Host folded", bad, "GET / HTTP/1.1\r\nHost: localhost\r\n Host: other\r\n\r\n"),
        row("Host as the first, indented line", bad, "GET / HTTP/1.1\r\n Host: localhost\r\n\r\n"),
    ]
}

fn fields() -> Vec<Row> {
    let bad = Refuse(400);
    let large = Refuse(431);
    vec![
        get("a space before the colon", bad, "X : a"),
        get("a tab before the colon", bad, "X\t: a"),
        get("two Authorizations", bad, "Authorization: Basic YTph\r\nAuthorization: Basic Yjpi"),
        get("two dates of a condition", bad, "If-Modified-Since: 0\r\nif-modified-since: 1"),
        get("two If-Ranges", bad, "Range: bytes=0-\r\nIf-Range: \"a\"\r\nIf-Range: \"b\""),
        get("two Ranges", bad, "Range: bytes=0-0\r\nRange: bytes=1-1"),
        get("two Referers", bad, "Referer: http://a/\r\nReferer: http://b/"),
        post(
            "two Content-Types",
            bad,
            "Content-Type: text/html\r\nContent-Type: a/b\r\nContent-Length: 1",
            b"a",
        ),
        post(
            "two Content-Ranges",
            bad,
            "Content-Range: bytes 0-0/1\r\nContent-Range: x\r\nContent-Length: 1",
            b"a",
        ),
        get("no colon", bad, "X"),
        get("a name and a value without a colon", bad, "X a"),
        get("a colon alone", bad, ":"),
        get("no name", bad, ": a"),
        get("a space as a name", bad, " : a"),
        get("a space in a name", bad, "X Y: a"),
        get("a parenthesis in a name", bad, "X(a): b"),
        get("a quoted name", bad, "\"X\": a"),
        get("a slash in a name", bad, "X/Y: a"),
        get("an at sign in a name", bad, "@X: a"),
        get("a bracket in a name", bad, "X[0]: a"),
        get("a brace in a name", bad, "{X}: a"),
        get("a comma in a name", bad, "X,Y: a"),
        get("an equals sign for the colon", bad, "X=a"),
        get("a name in UTF-8", bad, "\u{e4}: a"),
        get("0xff in a name", bad, b"X\xff: a"),
        get("a value folded with a space", bad, "X: a\r\n b"),
        get("a value folded with a tab", bad, "X: a\r\n\tb"),
        get("a fold that looks like a field", bad, "X: a\r\n Content-Length: 5"),
        get("a fold of nothing", bad, "X: a\r\n "),
        get("a fold of Content-Type", bad, "Content-Type: text/plain;\r\n charset=utf-8"),
        post("Transfer-Encoding folded", bad, "Transfer-Encoding:\r\n chunked", b"0\r\n\r\n"),
        post("Transfer-Encoding in a fold", bad, "X: a\r\n Transfer-Encoding: chunked", b"0\r\n\r\n"),
        post("Content-Length folded", bad, "Content-Length:\r\n 5", b"hello"),
        post("Content-Length with a space before the colon", bad, "Content-Length : 5", b"hello"),
        post(
            "Transfer-Encoding with a space before the colon",
            bad,
            "Transfer-Encoding : chunked",
            b"0\r\n\r\n",
        ),
        post(
            "Transfer-Encoding with a tab before the colon",
            bad,
            "Transfer-Encoding\t: chunked",
            b"0\r\n\r\n",
        ),
        post("NUL in Transfer-Encoding", bad, "Transfer-Encoding\0: chunked", b"0\r\n\r\n"),
        post("Content_Length", bad, "Content_Length: 5", b"hello"),
        post("Transfer_Encoding", bad, "Transfer_Encoding: chunked", b"0\r\n\r\n"),
        post("Content-Length with a byte more", bad, "Content-Length-: 5", b"hello"),
        post("Transfer-Encoding with another hyphen", bad, "Transfer*Encoding: chunked", b"0\r\n\r\n"),
        post("TransferEncoding", bad, "TransferEncoding: chunked", b"0\r\n\r\n"),
        get("101 fields", large, many_fields(100)),
        get("10,000 fields", large, many_fields(10_000)),
        get("a value of 40,000 bytes", large, format!("X: {}", "a".repeat(40_000))),
        get("a name of 40,000 bytes", large, format!("{}: a", "X".repeat(40_000))),
        get("a line of 40,000 bytes without a colon", large, "X".repeat(40_000)),
        get("100,000 bytes of blanks", large, format!("X:{}a", " ".repeat(100_000))),
    ]
}

fn many_fields(count: usize) -> String {
    let lines: Vec<String> = (0..count).map(|number| format!("X-{number}: a")).collect();
    lines.join("\r\n")
}

fn lengths() -> Vec<Row> {
    let bad = Refuse(400);
    let length = |name, value: &str| post(name, Refuse(400), format!("Content-Length: {value}"), b"hello");
    vec![
        length("a length with a plus", "+5"),
        length("a length with a minus", "-5"),
        length("a length in hex", "0x5"),
        length("a length in octal", "0o5"),
        length("a length with a fraction", "5.0"),
        length("a length with an exponent", "5e0"),
        length("a length with a comma", "5,"),
        length("two lengths in one", "5, 6"),
        length("the same length twice in one", "5, 5"),
        length("two lengths with a space", "5 5"),
        length("a length with a letter", "5a"),
        length("a length with a semicolon", "5;"),
        length("a quoted length", "\"5\""),
        length("a length of letters", "five"),
        length("no length", ""),
        length("blanks as a length", " \t"),
        length("a length with a vertical tab", "\u{b}5"),
        length("a length with NUL", "5\0"),
        length("a length with an underscore", "1_0"),
        length("Arabic digits", "\u{665}"),
        length("2^63", "9223372036854775808"),
        length("2^64", "18446744073709551616"),
        length("2^64 and 5", "18446744073709551621"),
        length("a length of 100 digits", &"9".repeat(100)),
        length("5 after 30 zeros", "0000000000000000000000000000005"),
        post("Content-Length twice", bad, "Content-Length: 5\r\nContent-Length: 5", b"hello"),
        post("two Content-Lengths", bad, "Content-Length: 5\r\nContent-Length: 6", b"hello!"),
        post("two Content-Lengths in two cases", bad, "Content-Length: 5\r\ncontent-length: 0", b"hello"),
        post("an empty second Content-Length", bad, "Content-Length: 5\r\nContent-Length:", b"hello"),
        post("length, then coding", bad, "Content-Length: 5\r\nTransfer-Encoding: chunked", b"0\r\n\r\n"),
        post("coding, then length", bad, "Transfer-Encoding: chunked\r\nContent-Length: 5", b"0\r\n\r\n"),
        post(
            "a length of 0 and a coding",
            bad,
            "Content-Length: 0\r\nTransfer-Encoding: chunked",
            b"0\r\n\r\n",
        ),
        post("length and identity", bad, "Content-Length: 5\r\nTransfer-Encoding: identity", b"hello"),
        post(
            "length and a coding in lower case",
            bad,
            "content-length: 5\r\ntransfer-encoding: Chunked",
            b"0\r\n\r\n",
        ),
        with(
            "GET with content",
            bad,
            b"GET / HTTP/1.1\r\nHost: localhost\r\n",
            "Content-Length: 5",
            b"hello",
        ),
        with(
            "HEAD with content",
            bad,
            b"HEAD / HTTP/1.1\r\nHost: localhost\r\n",
            "Content-Length: 5",
            b"hello",
        ),
        with(
            "GET with chunks",
            bad,
            b"GET / HTTP/1.1\r\nHost: localhost\r\n",
            "Transfer-Encoding: chunked",
            b"0\r\n\r\n",
        ),
    ]
}

fn codings() -> Vec<Row> {
    let bad = Refuse(400);
    let unknown = Refuse(501);
    let coding =
        |name, must, value: &str| post(name, must, format!("Transfer-Encoding: {value}"), b"0\r\n\r\n");
    vec![
        coding("gzip", bad, "gzip"),
        coding("identity", bad, "identity"),
        coding("an unknown coding", bad, "xchunked"),
        coding("chunked with a letter more", bad, "chunkedd"),
        coding("chunked with a letter less", bad, "chunke"),
        coding("chunked, then gzip", bad, "chunked, gzip"),
        coding("chunked, then identity", bad, "chunked, identity"),
        coding("chunked twice", bad, "chunked, chunked"),
        coding("chunked with a comma after it", bad, "chunked,"),
        coding("chunked with a comma before it", bad, ",chunked"),
        coding("chunked with a parameter", bad, "chunked;a=b"),
        coding("chunked with a semicolon", bad, "chunked;"),
        coding("chunked in quotes", bad, "\"chunked\""),
        coding("chunked in single quotes", bad, "'chunked'"),
        coding("chunked and a word", bad, "chunked x"),
        coding("chunked with a vertical tab before it", bad, "\u{b}chunked"),
        coding("chunked with a form feed after it", bad, "chunked\u{c}"),
        coding("chunked with NUL", bad, "chunked\0"),
        coding("chunked in long s and dotless i", bad, "chun\u{212a}ed"),
        coding("chunked with a no-break space", bad, "\u{a0}chunked"),
        coding("no coding", bad, ""),
        coding("a comma", bad, ","),
        coding("gzip, then chunked", unknown, "gzip, chunked"),
        coding("deflate, then chunked", unknown, "deflate, chunked"),
        coding("identity, then chunked", unknown, "identity, chunked"),
        coding("cow, then chunked", unknown, "cow, chunked"),
        post(
            "Transfer-Encoding twice",
            bad,
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            b"0\r\n\r\n",
        ),
        post(
            "chunked and identity",
            bad,
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
            b"0\r\n\r\n",
        ),
        post(
            "identity and chunked",
            unknown,
            "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
            b"0\r\n\r\n",
        ),
        post(
            "cow and chunked",
            unknown,
            "Transfer-Encoding: cow\r\nTransfer-Encoding: chunked",
            b"0\r\n\r\n",
        ),
        post(
            "an empty one and chunked",
            bad,
            "Transfer-Encoding:\r\nTransfer-Encoding: chunked",
            b"0\r\n\r\n",
        ),
        with(
            "chunked on 1.0",
            bad,
            b"POST / HTTP/1.0\r\nHost: localhost\r\n",
            "Transfer-Encoding: chunked",
            b"0\r\n\r\n",
        ),
        with(
            "chunked and kept on 1.0",
            bad,
            b"POST / HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n",
            "Transfer-Encoding: chunked",
            b"0\r\n\r\n",
        ),
    ]
}

fn connections() -> Vec<Row> {
    let bad = Refuse(400);
    let names = |name, value: &str| get(name, Refuse(400), format!("Connection: {value}"));
    vec![
        names("Connection names Host", "Host"),
        names("Connection names Host in a list", "close, host"),
        names("Connection names Content-Length", "Content-Length"),
        names("Connection names Transfer-Encoding", "Transfer-Encoding"),
        names("Connection names Cookie", "keep-alive, Cookie"),
        names("Connection names Authorization", "Authorization"),
        names("Connection names Cache-Control", "cache-control"),
        names("Connection names Range", "Range"),
        names("Connection names If-None-Match", "If-None-Match"),
        names("Connection names Via", "Via"),
        names("Connection names CDN-Loop", "CDN-Loop"),
        names("Connection names X-Forwarded-For", "X-Forwarded-For"),
        names("Connection names Accept-Encoding", "Accept-Encoding"),
        names("Connection names Content-Type", "Content-Type"),
        get("a second Connection names Cookie", bad, "Connection: close\r\nConnection: Cookie"),
        names("a space in Connection", "clo se"),
        names("a quote in Connection", "\"close\""),
        post("an unknown expectation", Refuse(417), "Content-Length: 5\r\nExpect: 200-ok", b"hello"),
        post(
            "an expectation with a parameter",
            Refuse(417),
            "Content-Length: 5\r\nExpect: 100-continue;a=b",
            b"hello",
        ),
        post("two expectations", Refuse(417), "Content-Length: 5\r\nExpect: 100-continue, x", b"hello"),
    ]
}

fn chunks() -> Vec<Row> {
    let bad = RefuseContent(400);
    let size = |name, size: &str| chunked(name, RefuseContent(400), format!("{size}\r\nhello\r\n0\r\n\r\n"));
    vec![
        size("a size with a plus", "+5"),
        size("a size with a minus", "-5"),
        size("a size with 0x", "0x5"),
        size("a size that is no number", "g"),
        size("a size with a letter after it", "5g"),
        size("a size with a dot", "5.0"),
        size("a size with an underscore", "5_"),
        size("a size in quotes", "\"5\""),
        size("a space before the size", " 5"),
        size("a space after the size", "5 "),
        size("a tab after the size", "5\t"),
        size("a comma after the size", "5,5"),
        size("NUL after the size", "5\0"),
        size("no size", ""),
        size("Arabic digits as a size", "\u{665}"),
        size("a size of 2^63", "8000000000000000"),
        size("a size of 2^64", "10000000000000000"),
        size("a size of 2^64 and 5", "10000000000000005"),
        size("a size of 40 digits", "fffffffffffffffffffffffffffffffffffffff5"),
        size("a size after 40 zeros", "00000000000000000000000000000000000000005"),
        size("an extension without a name", "5;"),
        size("two semicolons", "5;;a"),
        size("an extension without a value", "5;a="),
        size("an extension with an open quote", "5;a=\"b"),
        size("an extension with bytes after its quote", "5;a=\"b\"c"),
        size("an extension with a space in it", "5;a b"),
        size("an extension with a control byte", "5;a\u{1}"),
        size("an extension with CR", "5;a\rb"),
        size("an extension with NUL", "5;a=\"\0\""),
        chunked("an extension with LF", bad, "5;a\nhello\r\n0\r\n\r\n"),
        chunked("an extension of 2,000 bytes", bad, format!("5;{}\r\nhello\r\n0\r\n\r\n", "a".repeat(2000))),
        chunked("extensions of 100,000 bytes", bad, format!("1;{}\r\na\r\n", "a".repeat(900)).repeat(111)),
        chunked("LF after the size", bad, "5\nhello\r\n0\r\n\r\n"),
        chunked("LF after the data", bad, "5\r\nhello\n0\r\n\r\n"),
        chunked("LF after the last chunk", bad, "5\r\nhello\r\n0\n\r\n"),
        chunked("LF as the last line", bad, "5\r\nhello\r\n0\r\n\n"),
        chunked("CR CR LF after the size", bad, "5\r\r\nhello\r\n0\r\n\r\n"),
        chunked("nothing after the data", bad, "5\r\nhello0\r\n\r\n"),
        chunked("more data than said", bad, "5\r\nhello!\r\n0\r\n\r\n"),
        chunked("less data than said", bad, "6\r\nhello\r\n0\r\n\r\n"),
        chunked("a blank line between chunks", bad, "5\r\nhello\r\n\r\n0\r\n\r\n"),
        chunked(
            "a request for the last chunk",
            bad,
            "5\r\nhello\r\nGET /b HTTP/1.1\r\nHost: localhost\r\n\r\n",
        ),
        chunked("a trailer without a colon", bad, "0\r\nX\r\n\r\n"),
        chunked("a request as a trailer", bad, "0\r\nGET /b HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        chunked("a trailer with a space before the colon", bad, "0\r\nX : a\r\n\r\n"),
        chunked("a trailer folded", bad, "0\r\nX: a\r\n b\r\n\r\n"),
        chunked("a trailer with LF", bad, "0\r\nX: a\n\r\n"),
        chunked("a trailer with CR", bad, "0\r\nX: a\rb\r\n\r\n"),
        chunked("a trailer with NUL", bad, "0\r\nX: \0\r\n\r\n"),
        chunked("200 trailers", RefuseContent(431), format!("0\r\n{}\r\n\r\n", many_fields(200))),
        chunked(
            "a trailer of 40,000 bytes",
            RefuseContent(431),
            format!("0\r\nX: {}\r\n\r\n", "a".repeat(40_000)),
        ),
    ]
}

/// Odd but clear: accepted, and forwarded in Weir's own words.
fn taken() -> Vec<Row> {
    let one = Take(1);
    let two = Take(2);
    vec![
        get("a plain request", two, "X: a"),
        row("two empty lines first", two, "\r\n\r\nGET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        row("1.0 without Host", one, "GET / HTTP/1.0\r\n\r\n"),
        row("1.0 that is kept", two, "GET / HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n"),
        get("a connection that ends", one, "Connection: close"),
        get("a connection that ends all the same", one, "Connection: keep-alive, Close"),
        get("a connection that names a field of its own", two, "Connection: X-Mine\r\nX-Mine: a"),
        line("an absolute target", two, "GET http://localhost/?a HTTP/1.1"),
        line("an absolute target in capitals", two, "GET HTTP://LOCALHOST:80/ HTTP/1.1"),
        line("an absolute target of another host", two, "GET http://other/ HTTP/1.1"),
        line("an absolute target with another port", two, "GET http://localhost:81/ HTTP/1.1"),
        line("an absolute target with the other scheme's port", two, "GET https://localhost:80/ HTTP/1.1"),
        row("another Host on 1.0", one, "GET http://other/ HTTP/1.0\r\nHost: localhost\r\n\r\n"),
        line("odd but visible bytes", two, "GET /\"<>\\^`{|}%zz%00//../ HTTP/1.1"),
        line("an unknown method", two, "BREW / HTTP/1.1"),
        host("a host with a dot", two, "LocalHost."),
        host("a host with its default port", two, "localhost:80"),
        host("a host with an empty port", two, "localhost:"),
        host("an address with an empty port", two, "[::1]:"),
        line("an absolute target with an empty port", two, "GET http://localhost:/ HTTP/1.1"),
        host("a host with blanks around it", two, "\t localhost \t"),
        host("an address", two, "[::1]:8080"),
        get("obs-text", two, b"X: caf\xe9\xff"),
        get("an underscore in a name", two, "X_Y: a"),
        get("one Authorization, said twice", two, "Authorization: Basic YTph\r\nAuthorization: Basic YTph"),
        get("an empty value", two, "X:"),
        get("tabs within a value", two, "X: a\tb"),
        get("a length of 0 of GET", two, "Content-Length: 0"),
        post("a length with zeros", two, "Content-Length: 0005", b"hello"),
        post("a length with blanks", two, "Content-Length:\t 5 \t", b"hello"),
        post("a length of 0", two, "Content-Length: 0", b""),
        post("chunked in capitals", two, "TRANSFER-ENCODING: CHUNKED", b"5\r\nhello\r\n0\r\n\r\n"),
        chunked("sizes in hex with zeros", two, "0A\r\n0123456789\r\n000a\r\n0123456789\r\n00\r\n\r\n"),
        chunked("extensions", two, "5;a;b=c ; d=\"e;\\\"f\"\r\nhello\r\n0;g\r\n\r\n"),
        chunked(
            "forbidden trailers",
            two,
            "0\r\nContent-Length: 5\r\nTransfer-Encoding: x\r\nHost: b\r\n\r\n",
        ),
        get("100 fields", two, many_fields(99)),
    ]
}
