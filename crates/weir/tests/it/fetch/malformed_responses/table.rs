//! Responses of the origin with what the client must see. A row has the bytes as on the wire.

use super::Must::{self, BadGateway, Cut, Take};
use super::Then::{self, Close, Keep};

/// A name, the request's method, what the client must see, what the origin does then, and its bytes.
pub type Row = (&'static str, &'static str, Must, Then, Vec<u8>);

/// All rows.
pub fn rows() -> Vec<Row> {
    [status_lines(), fields(), framing(), chunks(), ends(), taken()].concat()
}

fn row(name: &'static str, must: Must, then: Then, bytes: impl AsRef<[u8]>) -> Row {
    (name, "GET", must, then, bytes.as_ref().to_vec())
}

/// A response that would be correct and storable but for its first line.
fn line(name: &'static str, line: impl AsRef<[u8]>) -> Row {
    let rest = b"\r\nCache-Control: max-age=60\r\nContent-Length: 6\r\n\r\nSECRET";
    row(name, BadGateway, Close, [line.as_ref(), rest].concat())
}

/// A response that would be correct and storable but for these field lines.
fn field(name: &'static str, fields: impl AsRef<[u8]>) -> Row {
    let start = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 6\r\n";
    row(name, BadGateway, Close, [start, fields.as_ref(), b"\r\n\r\nSECRET"].concat())
}

/// A storable response with these field lines for its framing, and this content.
fn framed(name: &'static str, must: Must, then: Then, fields: &str, content: impl AsRef<[u8]>) -> Row {
    let head = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n{fields}\r\n\r\n");
    row(name, must, then, [head.as_bytes(), content.as_ref()].concat())
}

/// Chunked content that begins correctly, so that its head is on the way to the client, and continues like
/// this.
fn chunked(name: &'static str, content: impl AsRef<[u8]>) -> Row {
    framed(name, Cut, Close, "Transfer-Encoding: chunked", [b"4\r\nfine\r\n", content.as_ref()].concat())
}

fn status_lines() -> Vec<Row> {
    vec![
        line("no status", "HTTP/1.1"),
        line("an empty status", "HTTP/1.1 "),
        line("two spaces before the status", "HTTP/1.1  200 OK"),
        line("a tab before the status", "HTTP/1.1\t200 OK"),
        line("a space first", " HTTP/1.1 200 OK"),
        line("an empty line first", "\r\nHTTP/1.1 200 OK"),
        line("LF first", "\nHTTP/1.1 200 OK"),
        line("a status of two digits", "HTTP/1.1 20 OK"),
        line("a status of four digits", "HTTP/1.1 2000 OK"),
        line("a status of letters", "HTTP/1.1 abc OK"),
        line("a status with a sign", "HTTP/1.1 +20 OK"),
        line("a status with a dot", "HTTP/1.1 2.0 OK"),
        line("status 000", "HTTP/1.1 000 OK"),
        line("status 099", "HTTP/1.1 099 OK"),
        line("status 600", "HTTP/1.1 600 OK"),
        line("status 999", "HTTP/1.1 999 OK"),
        line("no space behind the status", "HTTP/1.1 200OK"),
        line("HTTP/2.0", "HTTP/2.0 200 OK"),
        line("HTTP/1.2", "HTTP/1.2 200 OK"),
        line("HTTP/0.9", "HTTP/0.9 200 OK"),
        line("a lower-case version", "http/1.1 200 OK"),
        line("another protocol", "ICY 200 OK"),
        line("HTTP/1.10", "HTTP/1.10 200 OK"),
        line("NUL in the reason", "HTTP/1.1 200 O\0K"),
        line("CR in the reason", "HTTP/1.1 200 O\rK"),
        line("a control byte in the reason", "HTTP/1.1 200 O\u{1}K"),
        line("LF behind the status line", "HTTP/1.1 200 OK\nX: a"),
        line("a status line of 10,000 bytes", format!("HTTP/1.1 200 {}", "a".repeat(10_000))),
        row("no head at all", BadGateway, Close, "<html>SECRET</html>\r\n\r\n"),
        row("a request", BadGateway, Close, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        row("a TLS alert", BadGateway, Close, b"\x15\x03\x01\x00\x02\x02\x46"),
        row("nothing: asked again", Take(200, "again"), Close, ""),
        row("half a status line", BadGateway, Close, "HTTP/1.1 20"),
        row("half a head", BadGateway, Close, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n"),
        row("an interim head alone", BadGateway, Close, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
        row(
            "101 that nobody asked for",
            BadGateway,
            Close,
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nSECRET",
        ),
    ]
}

fn fields() -> Vec<Row> {
    vec![
        field("LF behind a field", "X: a\nY: b"),
        field("LF behind the name", "X\n: a"),
        field("CR in a value", "X: a\rb"),
        field("CR in a value that starts a field", "X: a\rSet-Cookie: b"),
        field("CR CR LF behind a field", "X: a\r"),
        field("NUL in a value", "X: a\0b"),
        field("NUL in a name", "X\0: a"),
        field("a control byte in a value", "X: \u{8}"),
        field("DEL in a value", "X: \u{7f}"),
        field("a value folded with a space", "X: a\r\n b"),
        field("a value folded with a tab", "X: a\r\n\tb"),
        field("a fold that looks like a field", "X: a\r\n Transfer-Encoding: chunked"),
        field("a space before the colon", "X : a"),
        field("a tab before the colon", "X\t: a"),
        field("no colon", "X"),
        field("no name", ": a"),
        field("a space in a name", "X Y: a"),
        field("a parenthesis in a name", "X(a): b"),
        field("a name beyond ASCII", "\u{e4}: a"),
        field("Content_Length", "Content_Length: 5"),
        field("Transfer_Encoding", "Transfer_Encoding: chunked"),
        field("Connection names Content-Length", "Connection: Content-Length"),
        field("Connection names Cache-Control", "Connection: close, Cache-Control"),
        field("Connection names Set-Cookie", "Connection: Set-Cookie\r\nSet-Cookie: a=b"),
        field("a space in Connection", "Connection: clo se"),
        field("201 fields", vec!["X: a"; 200].join("\r\n")),
        field("a field of 70,000 bytes", format!("X: {}", "a".repeat(70_000))),
        row("LF as the empty line", BadGateway, Close, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\nSECRET"),
        row("LF behind every line", BadGateway, Close, "HTTP/1.1 200 OK\nContent-Length: 6\n\nSECRET"),
        row(
            "an indented first field",
            BadGateway,
            Close,
            "HTTP/1.1 200 OK\r\n Content-Length: 6\r\n\r\nSECRET",
        ),
    ]
}

fn framing() -> Vec<Row> {
    let length =
        |name, value: &str| framed(name, BadGateway, Close, &format!("Content-Length: {value}"), "SECRET");
    let coding = |name, value: &str| {
        framed(name, BadGateway, Close, &format!("Transfer-Encoding: {value}"), "6\r\nSECRET\r\n0\r\n\r\n")
    };
    vec![
        length("a length with a plus", "+6"),
        length("a length with a minus", "-6"),
        length("a length in hex", "0x6"),
        length("a length with a comma", "6,"),
        length("two lengths in one", "6, 7"),
        length("the same length twice in one", "6, 6"),
        length("a length of letters", "six"),
        length("no length", ""),
        length("2^64", "18446744073709551616"),
        length("a length with a fraction", "6.0"),
        framed("Content-Length twice", BadGateway, Close, "Content-Length: 6\r\nContent-Length: 6", "SECRET"),
        framed("two Content-Lengths", BadGateway, Close, "Content-Length: 6\r\nContent-Length: 5", "SECRET"),
        framed(
            "length and coding",
            BadGateway,
            Close,
            "Content-Length: 6\r\nTransfer-Encoding: chunked",
            "6\r\nSECRET\r\n0\r\n\r\n",
        ),
        framed(
            "coding and length",
            BadGateway,
            Keep,
            "Transfer-Encoding: chunked\r\nContent-Length: 6",
            "6\r\nSECRET\r\n0\r\n\r\n",
        ),
        coding("gzip", "gzip"),
        coding("identity", "identity"),
        coding("gzip, then chunked", "gzip, chunked"),
        coding("chunked, then gzip", "chunked, gzip"),
        coding("chunked twice", "chunked, chunked"),
        coding("chunked with a letter more", "xchunked"),
        coding("chunked with a parameter", "chunked;a=b"),
        coding("chunked with a vertical tab", "\u{b}chunked"),
        coding("no coding", ""),
        row(
            "chunked on 1.0",
            BadGateway,
            Close,
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nSECRET\r\n0\r\n\r\n",
        ),
        row(
            "an interim response with content",
            BadGateway,
            Close,
            "HTTP/1.1 103 Early Hints\r\nContent-Length: 6\r\n\r\nSECRETHTTP/1.1 200 OK\r\n\
            Content-Length: 0\r\n\r\n",
        ),
    ]
}

fn chunks() -> Vec<Row> {
    vec![
        chunked("a size that is no number", "g\r\nSECRET\r\n0\r\n\r\n"),
        chunked("a size with a plus", "+6\r\nSECRET\r\n0\r\n\r\n"),
        chunked("a size with 0x", "0x6\r\nSECRET\r\n0\r\n\r\n"),
        chunked("no size", "\r\nSECRET\r\n0\r\n\r\n"),
        chunked("a size of 2^64 and 6", "10000000000000006\r\nSECRET\r\n0\r\n\r\n"),
        chunked("a space behind the size", "6 \r\nSECRET\r\n0\r\n\r\n"),
        chunked("an extension without a name", "6;\r\nSECRET\r\n0\r\n\r\n"),
        chunked("extensions of 100,000 bytes", format!("1;{}\r\na\r\n", "a".repeat(900)).repeat(111)),
        chunked("LF behind the size", "6\nSECRET\r\n0\r\n\r\n"),
        chunked("LF behind the data", "6\r\nSECRET\n0\r\n\r\n"),
        chunked("nothing behind the data", "6\r\nSECRET0\r\n\r\n"),
        chunked("more data than said", "6\r\nSECRETS\r\n0\r\n\r\n"),
        chunked("LF as the last line", "0\r\n\n"),
        chunked("a trailer without a colon", "0\r\nX\r\n\r\n"),
        chunked("a trailer folded", "0\r\nX: a\r\n b\r\n\r\n"),
        chunked("a trailer with NUL", "0\r\nX: \0\r\n\r\n"),
    ]
}

/// Bodies that end too early.
fn ends() -> Vec<Row> {
    vec![
        framed("half of a length", Cut, Close, "Content-Length: 6", "SEC"),
        framed("nothing of a large length", Cut, Close, "Content-Length: 1000000", "SECRET"),
        chunked("an end within a size", "6"),
        chunked("an end behind a size", "6\r\n"),
        chunked("an end within the data", "6\r\nSEC"),
        chunked("an end behind the data", "6\r\nSECRET"),
        chunked("an end between chunks", "6\r\nSECRET\r\n"),
        chunked("an end within the last chunk", "0\r\n"),
        chunked("an end within the trailers", "0\r\nX: a\r\n"),
        chunked("another response for a chunk", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ]
}

/// Odd but clear, or odd only behind the end: accepted, and the connection is not used again.
fn taken() -> Vec<Row> {
    let ok = Take(200, "fine");
    vec![
        row("no reason", ok, Close, "HTTP/1.1 200\r\nContent-Length: 4\r\n\r\nfine"),
        row("an empty reason", ok, Close, "HTTP/1.1 200 \r\nContent-Length: 4\r\n\r\nfine"),
        row("a reason beyond ASCII", ok, Close, b"HTTP/1.1 200 \xc9t\xe9\r\nContent-Length: 4\r\n\r\nfine"),
        row("a response of 1.0", ok, Close, "HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nfine"),
        row("a response that ends with the connection", ok, Close, "HTTP/1.1 200 OK\r\n\r\nfine"),
        framed("more content than said", ok, Keep, "Content-Length: 4", "fineSECRET"),
        framed(
            "a second response behind the first",
            ok,
            Keep,
            "Content-Length: 4",
            "fineHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nSECRET",
        ),
        framed(
            "bytes behind the last chunk",
            ok,
            Keep,
            "Transfer-Encoding: chunked",
            "4\r\nfine\r\n0\r\n\r\nSECRET",
        ),
        framed("an empty line behind the content", ok, Keep, "Content-Length: 4", "fine\r\n"),
        row(
            "content of 204",
            Take(204, ""),
            Keep,
            "HTTP/1.1 204 No Content\r\nContent-Length: 6\r\n\r\nSECRET",
        ),
        row(
            "chunks of 204",
            Take(204, ""),
            Keep,
            "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "content for HEAD",
            "HEAD",
            Take(200, ""),
            Keep,
            b"HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 6\r\n\r\nSECRET".to_vec(),
        ),
        framed("extensions", ok, Close, "Transfer-Encoding: chunked", "4;a=b\r\nfine\r\n0;c\r\n\r\n"),
        framed(
            "forbidden trailers",
            ok,
            Close,
            "Transfer-Encoding: chunked",
            "4\r\nfine\r\n0\r\nContent-Length: 9\r\n\r\n",
        ),
        framed(
            "Connection names Transfer-Encoding",
            ok,
            Close,
            "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked",
            "4\r\nfine\r\n0\r\n\r\n",
        ),
    ]
}
