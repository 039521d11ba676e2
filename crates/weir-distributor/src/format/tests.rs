//! The format: golden vectors from `docs/format/distributor.md`, and what is refused.

use std::collections::HashMap;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::*;

const PAGE: &str = include_str!("../../../../docs/format/distributor.md");

/// The vectors of the page: each stands in a block whose first line is `NAME:`.
fn vectors() -> HashMap<String, Vec<u8>> {
    let mut found = HashMap::new();
    for block in PAGE.split("```").skip(1).step_by(2) {
        let text = block.trim_start_matches("text").trim();
        let Some((name, bytes)) = text.split_once(":\n") else { continue };
        let digits: Vec<u8> = bytes.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        if bytes.bytes().all(|byte| byte.is_ascii_hexdigit() || byte.is_ascii_whitespace()) {
            found.insert(name.to_owned(), digits.chunks(2).map(byte).collect());
        }
    }
    found
}

fn keys() -> Keys {
    Keys::read(b"# old and new\nthe-newer-key-of-two-with-32-bytes\nthe-older-key-of-two-with-32-bytes\n")
        .unwrap()
}

fn head() -> &'static [u8] {
    b"GET /cart?id=7 HTTP/1.1\r\nhost: shop.example\r\naccept-language: de\r\n\r\n"
}

fn of_a_client() -> Question<'static> {
    Question {
        id: 0x0123_4567_89ab_cdef,
        marks: Marks::HTTPS,
        policy: "least_cpu",
        client: Some("192.0.2.7:40112".parse().unwrap()),
        head: head(),
    }
}

fn of_a_fill() -> Question<'static> {
    let head = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    Question { id: 1, marks: Marks::FILL, policy: "p", client: None, head }
}

fn written(question: &Question<'_>, keys: &Keys) -> Vec<u8> {
    let mut out = Vec::new();
    question.write(keys, &mut out);
    out
}

fn answered(answer: &Answer, keys: &Keys) -> Vec<u8> {
    let mut out = Vec::new();
    answer.write(0x0123_4567_89ab_cdef, keys, &mut out);
    out
}

fn read(bytes: &[u8], keys: &Keys) -> Result<Answer, Bad> {
    AnswerHead::read(bytes)?.answer(bytes, keys)
}

fn hex(bytes: &[u8]) -> String {
    let rows = bytes.chunks(24).map(|row| row.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    rows.collect::<Vec<_>>().join("\n")
}

const V4: &str = "10.0.0.1:8080";
const V6: &str = "[2001:db8::1]:8080";

fn all() -> Vec<(&'static str, Vec<u8>)> {
    let (none, keys) = (Keys::default(), keys());
    let address = |text: &str| Answer::Address(text.parse().unwrap());
    let denial = Answer::Denial { status: 429, retry_after: Some(30) };
    vec![
        ("question", written(&of_a_client(), &none)),
        ("question of a fill", written(&of_a_fill(), &none)),
        ("signed question", written(&of_a_client(), &keys)),
        ("answer with an address", answered(&address(V4), &none)),
        ("answer with an IPv6 address", answered(&address(V6), &none)),
        ("answer with a denial", answered(&denial, &none)),
        ("answer that says nothing", answered(&Answer::Nothing, &none)),
        ("signed answer", answered(&address(V4), &keys)),
    ]
}

#[test]
fn the_page_has_the_bytes() {
    let vectors = vectors();
    for (name, bytes) in all() {
        assert_eq!(vectors.get(name), Some(&bytes), "{name}:\n{}", hex(&bytes));
    }
    assert_eq!(vectors.len(), all().len());
}

#[test]
fn what_is_written_is_read() {
    let longest = Question {
        policy: "0123456789012345678901234567890123456789012345678901234567890123",
        client: "[1111:2222:3333:4444:5555:6666:7777:8888]:65535".parse().ok(),
        marks: Marks::HTTPS.and(Marks::REDUCED).and(Marks::CUT),
        ..of_a_client()
    };
    for keys in [Keys::default(), keys()] {
        for question in [of_a_client(), of_a_fill(), longest] {
            let bytes = written(&question, &keys);
            assert_eq!(Question::read(&bytes, &keys), Ok(question));
            assert!(bytes.len() >= QUESTION_BYTES_MIN);
            assert!(
                bytes.len() - question.head.len() <= Question::bytes_around(question.policy, &keys).max(96)
            );
        }
        let longest = "[1111:2222:3333:4444:5555:6666:7777:8888]:65535".parse().unwrap();
        for answer in [
            Answer::Nothing,
            Answer::Address(longest),
            Answer::Denial { status: 599, retry_after: Some(999_999_999) },
            Answer::Denial { status: 400, retry_after: None },
        ] {
            let bytes = answered(&answer, &keys);
            assert_eq!(read(&bytes, &keys), Ok(answer));
            assert!(bytes.len() <= ANSWER_BYTES_MAX, "{answer}");
        }
    }
}

#[test]
fn a_byte_that_differs_is_forged() {
    let keys = keys();
    let (question, answer) =
        (written(&of_a_client(), &keys), answered(&Answer::Address(V4.parse().unwrap()), &keys));
    for at in 4..question.len() {
        let mut bytes = question.clone();
        bytes[at] ^= 1;
        assert_eq!(Question::read(&bytes, &keys), Err(Bad::Forged), "byte {at}");
    }
    for at in 4..answer.len() {
        let mut bytes = answer.clone();
        bytes[at] ^= 1;
        assert_eq!(read(&bytes, &keys), Err(Bad::Forged), "byte {at}");
    }
}

#[test]
fn every_key_is_accepted_and_the_first_signs() {
    let older = Keys::read(b"the-older-key-of-two-with-32-bytes").unwrap();
    let newer = Keys::read(b"the-newer-key-of-two-with-32-bytes\r\n").unwrap();
    let (by_older, by_both) = (written(&of_a_client(), &older), written(&of_a_client(), &keys()));
    assert!(Question::read(&by_older, &keys()).is_ok());
    assert!(Question::read(&by_both, &newer).is_ok());
    assert_eq!(Question::read(&by_both, &older), Err(Bad::Forged));
    assert_eq!(Question::read(&written(&of_a_client(), &Keys::default()), &keys()), Err(Bad::Forged));
    assert_eq!(Question::read(&by_both, &Keys::default()), Err(Bad::Forged));
    // A question is not an answer, however it is signed.
    assert_eq!(read(&by_both[..], &keys()), Err(Bad::Malformed));
}

#[test]
fn keys_are_lines() {
    assert_eq!(Keys::read(b"").err(), Some(KeysError::Empty));
    assert_eq!(Keys::read(b"# nothing\n\n").err(), Some(KeysError::Empty));
    assert_eq!(Keys::read(b"\nshort\n").err(), Some(KeysError::Short(2)));
    assert_eq!(
        Keys::read("0123456789abcdef0123456789abcdef\n".repeat(9).as_bytes()).err(),
        Some(KeysError::Many)
    );
}

#[test]
fn what_has_another_form_is_refused() {
    let none = Keys::default();
    let good = written(&of_a_client(), &none);
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        Question::read(&bytes, &none).map(|_| ())
    };
    assert_eq!(with(0, b'X'), Err(Bad::Malformed));
    assert_eq!(with(2, 2), Err(Bad::Version));
    assert_eq!(with(3, 0x40), Err(Bad::Malformed), "an unknown mark");
    assert_eq!(with(12, 0), Err(Bad::Malformed), "no policy");
    assert_eq!(with(12, 255), Err(Bad::Malformed), "a policy beyond the end");
    assert_eq!(with(13, 3), Err(Bad::Malformed), "half a client");
    assert_eq!(with(14, 255), Err(Bad::Malformed), "a head beyond the end");
    for end in 0..good.len() {
        assert!(Question::read(&good[..end], &none).is_err(), "the first {end} bytes");
    }
    let answer = |text: &str, kind: u8| {
        let mut bytes = b"WA\x01".to_vec();
        bytes.push(kind);
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(text.as_bytes());
        read(&bytes, &none)
    };
    for (text, kind) in [
        ("x", 0),
        ("", 1),
        ("10.0.0.1", 1),
        ("10.0.0.1:99999", 1),
        ("a.example:80", 1),
        ("10.0.0.1:80 ", 1),
        ("399", 2),
        ("600", 2),
        ("", 2),
        ("+403", 2),
        ("403 ", 2),
        ("403 -1", 2),
        ("403 9999999999", 2),
        ("", 3),
    ] {
        assert_eq!(answer(text, kind), Err(Bad::Malformed), "{text:?}");
    }
    assert_eq!(AnswerHead::read(b"WA\x02\x00\0\0\0\0\0\0\0\0").err(), Some(Bad::Version));
    assert_eq!(AnswerHead::read(&[b'W'; 97]).err(), Some(Bad::Malformed), "longer than any answer");
}

fn fields() -> HeaderMap {
    let mut fields = HeaderMap::new();
    let mut add = |name: &'static str, value: &'static str| {
        fields.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    };
    add("host", "other.example");
    add("cookie", "a=1");
    add("cookie", "b=2");
    add("authorization", "Basic eDp5");
    add("proxy-authorization", "Basic eDp5");
    add("content-length", "12");
    add("x-tenant", "t1");
    fields
}

fn printed(send: &[&'static str], fields: &HeaderMap, target: &[u8], max: usize) -> (String, Printed) {
    let send: Vec<HeaderName> = send.iter().map(|name| HeaderName::from_static(name)).collect();
    let head = Head { method: "GET", target, host: "shop.example", fields };
    let mut out = b"before".to_vec();
    let printed = head.print(&send, max, &mut out);
    assert!(out.len() - 6 <= max, "{printed:?}");
    (String::from_utf8(out.split_off(6)).unwrap(), printed)
}

#[test]
fn secrets_stay_here_unless_they_are_named() {
    let (head, all) = printed(&[], &fields(), b"/a?b", 1024);
    assert_eq!(head, "GET /a?b HTTP/1.1\r\nhost: shop.example\r\nx-tenant: t1\r\n\r\n");
    assert_eq!(all, Printed::Whole);
    let (head, _) = printed(&["cookie"], &fields(), b"/a?b", 1024);
    assert_eq!(
        head,
        "GET /a?b HTTP/1.1\r\nhost: shop.example\r\ncookie: a=1\r\ncookie: b=2\r\nx-tenant: t1\r\n\r\n"
    );
}

#[test]
fn a_head_that_does_not_fit_is_reduced_to_what_is_named() {
    let mut fields = fields();
    fields.append("x-long", HeaderValue::from_str(&"y".repeat(2000)).unwrap());
    let (head, reduced) = printed(&["x-tenant"], &fields, b"/a", 1024);
    assert_eq!(head, "GET /a HTTP/1.1\r\nhost: shop.example\r\nx-tenant: t1\r\n\r\n");
    assert_eq!(reduced, Printed::Reduced);
    let (head, reduced) = printed(&["x-long"], &fields, b"/a", 1024);
    assert_eq!(head, "GET /a HTTP/1.1\r\nhost: shop.example\r\n\r\n");
    assert_eq!(reduced, Printed::Reduced);
    let long = [b"/".to_vec(), vec![b'z'; 5000]].concat();
    let (head, cut) = printed(&["x-tenant"], &fields, &long, 1024);
    assert!(head.starts_with("GET /zzzz") && head.ends_with("z HTTP/1.1\r\nhost: shop.example\r\n\r\n"));
    assert_eq!((cut, head.len()), (Printed::Cut, 1024));
}

#[test]
fn the_plain_form_is_text() {
    let mut out = Vec::new();
    plain_question("least_cpu", "192.0.2.7:40112".parse().ok(), head(), &mut out);
    let text = "least_cpu\n192.0.2.7:40112\nGET /cart?id=7 HTTP/1.1\r\nhost: shop.example\r\n";
    assert!(out.starts_with(text.as_bytes()));
    assert_eq!(read_plain_question(&out), Ok(("least_cpu", "192.0.2.7:40112".parse().ok(), head())));
    out.clear();
    plain_question("p", None, b"", &mut out);
    assert_eq!(out, b"p\n-\n");
    assert_eq!(read_plain_question(b"p"), Ok(("p", None, &b""[..])));
    assert_eq!(read_plain_question(b"p\r\n\r\nGET / HTTP/1.1\r\n\r\n").unwrap().2, b"GET / HTTP/1.1\r\n\r\n");
    for bad in [&b""[..], b"\n", b"\xff\n", b"p\nnobody\n", b"p\n10.0.0.1\n"] {
        assert_eq!(read_plain_question(bad), Err(Bad::Malformed));
    }
    let address = Ok(Answer::Address(V4.parse().unwrap()));
    for good in ["10.0.0.1:8080", "10.0.0.1:8080\n", "10.0.0.1:8080\r\n\0\0"] {
        assert_eq!(plain_answer(good.as_bytes()), address);
    }
    assert_eq!(plain_answer(b" \n"), Ok(Answer::Nothing));
    for bad in ["10.0.0.1", " 10.0.0.1:80", "10.0.0.1:80 x", "localhost:80", "\u{fffd}"] {
        assert_eq!(plain_answer(bad.as_bytes()), Err(Bad::Malformed), "{bad:?}");
    }
    assert_eq!(plain_answer(&[b' '; 65]), Err(Bad::Malformed));
}
