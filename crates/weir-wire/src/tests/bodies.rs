//! Content: chunked coding, declared lengths, ends.

use super::{Whole, read_body};
use crate::{BodyPart, BodyReader, DATA_BYTES_MAX, Framing, JOINED_BYTES_MAX, Limits, print};
use bytes::BytesMut;
use proptest::prelude::*;

fn show(whole: &Whole) -> String {
    let data = String::from_utf8_lossy(&whole.data).into_owned();
    match &whole.end {
        Ok(None) => format!("{data} more"),
        Ok(Some(trailers)) => {
            let mut line = format!("{data} end");
            for (name, value) in trailers.iter().flatten() {
                line.push_str(&format!(" {name}={}", value.to_str().unwrap()));
            }
            if !whole.rest.is_empty() {
                line.push_str(&format!(" rest={}", String::from_utf8_lossy(&whole.rest)));
            }
            line
        }
        Err(malformed) => format!("{data} {}", malformed.reason()),
    }
}

fn check(given: &str, expect: &str) {
    let whole = read_body(Framing::Chunked, &Limits::default(), [given.as_bytes()]);
    assert_eq!(show(&whole), expect, "given {given:?}");
}

#[test]
fn chunked_bodies_are_taken() {
    check("0\r\n\r\n", " end");
    check("5\r\nhello\r\n0\r\n\r\nGET", "hello end rest=GET");
    check("1\r\na\r\n0A\r\n0123456789\r\n00\r\n\r\n", "a0123456789 end");
    check("000000000000000f\r\n0123456789abcde\r\n0\r\n\r\n", "0123456789abcde end");
    check("5\r\nhel", "hel more");
    check("5\r\nhello\r", "hello more");
    check("5\r\nhello\r\n0\r\n", "hello more");
    check("5\r\nhello\r\n0\r\n\r", "hello more");
}

#[test]
fn chunk_lines_are_strict() {
    let bad = [
        "",
        " 5",
        "5 ",
        "5\t",
        "+5",
        "-5",
        "0x5",
        "x",
        "5x",
        "5h",
        "5.",
        "5,",
        "10000000000000000",
        "8000000000000000",
        "ffffffffffffffff",
        "\u{661}",
        "5\0",
        "_5",
        "5_",
    ];
    for size in bad {
        let whole =
            read_body(Framing::Chunked, &Limits::default(), [format!("{size}\r\nhello\r\n").as_bytes()]);
        let word = whole.end.unwrap_err().reason();
        assert!(matches!(word, "chunk-size" | "chunk-extension"), "{size:?} is {word}");
        assert!(whole.data.is_empty(), "{size:?}");
    }
    check("5\nhello\r\n0\r\n\r\n", " bare-lf");
    check("5\r\nhello\n0\r\n\r\n", "hello chunk-end");
    check("5\r\nhello0\r\n\r\n", "hello chunk-end");
    check("5\r\nhello!\r\n0\r\n\r\n", "hello chunk-end");
    check("5\r\nhello\r\r0\r\n\r\n", "hello chunk-end");
    check("5\r\r\nhello\r\n", " chunk-size");
    check("5\r\nhello\r\n\r\n0\r\n\r\n", "hello chunk-size");
}

#[test]
fn extensions_are_checked_and_dropped() {
    for extension in [";a", "; a = b", ";a=b;c=\"d;\\\"e\";f", " ;a", ";a=\"\""] {
        check(&format!("1{extension}\r\nx\r\n0{extension}\r\n\r\n"), "x end");
    }
    for extension in [
        ";",
        "; ",
        ";;a",
        ";a=",
        ";a=\"b",
        ";a=\"b\"c",
        ";a b",
        ";a\u{1}",
        ";a=\"\r\"",
        ";a ",
        ";a=b\r",
        ";=b",
    ] {
        check(&format!("1{extension}\r\nx\r\n0\r\n\r\n"), " chunk-extension");
    }
    check(&format!("1;{}\r\nx\r\n", "a".repeat(1020)), "x more");
    check(&format!("1;{}\r\nx\r\n", "a".repeat(1030)), " chunk-extensions-too-large");
    check(&"a".repeat(1030), " chunk-extensions-too-large");
    let many = format!("1;{}\r\nx\r\n", "a".repeat(999)).repeat(17);
    let whole = read_body(Framing::Chunked, &Limits::default(), [many.as_bytes()]);
    assert_eq!(whole.end.unwrap_err().reason(), "chunk-extensions-too-large");
    assert_eq!(whole.data.len(), 16);
}

#[test]
fn trailers_obey_the_rules_of_heads() {
    check("0\r\nX: 1\r\nDigest: \t2 \r\n\r\nrest", " end x=1 digest=2 rest=rest");
    check("0\r\nContent-Length: 5\r\nHost: b\r\nSet-Cookie: c\r\nX: 1\r\n\r\n", " end x=1");
    check("0\r\nTransfer-Encoding: chunked\r\n\r\n", " end");
    check("0\r\nX : 1\r\n\r\n", " space-before-colon");
    check("0\r\nX: 1\n\r\n", " bare-lf");
    check("0\r\n\n", " bare-lf");
    check("0\r\nX: 1\r\n y\r\n\r\n", " obs-fold");
    check("0\r\nX\r\n\r\n", " no-colon");
    check("0\r\nX: \0\r\n\r\n", " nul");
    check("0\r\nGET / HTTP/1.1\r\n\r\n", " no-colon");
    check(&format!("0\r\n{}\r\n", "X: y\r\n".repeat(101)), " too-many-fields");
    check(&format!("0\r\nX: {}\r\n\r\n", "y".repeat(32_768)), " head-too-large");
}

#[test]
fn a_declared_length_takes_no_byte_more() {
    let read = |given: &[u8]| show(&read_body(Framing::Length(5), &Limits::default(), [given]));
    assert_eq!(read(b"hello"), "hello end");
    assert_eq!(read(b"hello!"), "hello end rest=!");
    assert_eq!(read(b"hell"), "hell more");
    let none = read_body(Framing::None, &Limits::default(), [b"x".as_slice()]);
    assert_eq!(show(&none), " end rest=x");
    assert_eq!(show(&read_body(Framing::Length(0), &Limits::default(), [b"x".as_slice()])), " end rest=x");
}

#[test]
fn the_end_of_input_is_clean_only_for_a_whole_body() {
    let end = |framing, given: &str| {
        let mut reader = BodyReader::new(framing, &Limits::default());
        let mut buf = BytesMut::from(given);
        while !matches!(reader.read(&mut buf).unwrap(), BodyPart::More | BodyPart::End(_)) {}
        let end = reader.end_of_input().map_err(|malformed| malformed.reason());
        assert_eq!(end.is_ok(), reader.is_done());
        end
    };
    assert_eq!(end(Framing::None, ""), Ok(()));
    assert_eq!(end(Framing::Close, "hello"), Ok(()));
    assert_eq!(end(Framing::Length(5), "hello"), Ok(()));
    assert_eq!(end(Framing::Length(5), "hell"), Err("truncated"));
    assert_eq!(end(Framing::Length(5), ""), Err("truncated"));
    assert_eq!(end(Framing::Chunked, "0\r\n\r\n"), Ok(()));
    for given in ["", "5", "5\r\nhe", "5\r\nhello", "5\r\nhello\r\n", "5\r\nhello\r\n0\r\n", "0\r\nX: y\r\n"]
    {
        assert_eq!(end(Framing::Chunked, given), Err("truncated"), "given {given:?}");
    }
}

#[test]
fn data_comes_in_bounded_parts() {
    let mut reader = BodyReader::new(Framing::Close, &Limits::origin());
    let mut buf = BytesMut::zeroed(DATA_BYTES_MAX + 1);
    let BodyPart::Data(first) = reader.read(&mut buf).unwrap() else { panic!("data") };
    let BodyPart::Data(second) = reader.read(&mut buf).unwrap() else { panic!("data") };
    assert_eq!((first.len(), second.len()), (DATA_BYTES_MAX, 1));
    assert_eq!(reader.read(&mut buf).unwrap(), BodyPart::More);
    assert_eq!(BodyReader::new(Framing::Length(7), &Limits::origin()).left(), Some(7));
}

#[test]
fn a_failed_body_stays_failed() {
    for given in ["x\r\n", "1\r\nab", "0\r\nX\r\n\r\n", "0\r\nX: a\n"] {
        let mut reader = BodyReader::new(Framing::Chunked, &Limits::default());
        let mut buf = BytesMut::from(given);
        let failure = loop {
            match reader.read(&mut buf) {
                Ok(BodyPart::Data(_)) => {}
                other => break other.unwrap_err(),
            }
        };
        let mut more = BytesMut::from("0\r\n\r\n");
        assert_eq!(reader.read(&mut more), Err(failure));
        assert_eq!(reader.read(&mut BytesMut::new()), Err(failure));
        assert_eq!(reader.end_of_input(), Err(failure));
        assert!(!reader.is_done());
    }
}

/// Chunks of these lengths, whose content tells its place.
fn chunks(lengths: &[usize]) -> (Vec<u8>, Vec<u8>) {
    let (mut coded, mut content) = (Vec::new(), Vec::new());
    for length in lengths {
        let bytes = (content.len()..content.len() + length).map(|at| at as u8);
        let begun = content.len();
        content.extend(bytes);
        print::chunk_head(&mut coded, *length);
        coded.extend_from_slice(&content[begun..]);
        coded.extend_from_slice(print::CHUNK_END);
    }
    (coded, content)
}

#[test]
fn what_has_arrived_of_a_body_in_tiny_chunks_is_one_part() {
    let (mut coded, content) = chunks(&[1; 1000]);
    coded.extend_from_slice(b"0\r\n\r\nGET");
    let mut reader = BodyReader::new(Framing::Chunked, &Limits::origin());
    let mut buf = BytesMut::from(&coded[..]);
    assert_eq!(reader.read(&mut buf).unwrap(), BodyPart::Data(content.into()));
    assert_eq!(reader.read(&mut buf).unwrap(), BodyPart::End(None));
    assert_eq!(&buf[..], b"GET");
}

#[test]
fn what_arrived_before_a_fault_is_not_lost_with_it() {
    for (behind, fault) in
        [("x\r\n", "chunk-size"), ("1\r\nbb", "chunk-end"), ("1\nb", "bare-lf"), (";", "chunk-size")]
    {
        let (coded, content) = chunks(&[2, 1, 3]);
        let mut reader = BodyReader::new(Framing::Chunked, &Limits::origin());
        let mut buf = BytesMut::from(&[&coded, behind.as_bytes()].concat()[..]);
        let BodyPart::Data(data) = reader.read(&mut buf).unwrap() else { panic!("data before {behind:?}") };
        let found = loop {
            match reader.read(&mut buf) {
                Ok(BodyPart::More) => buf.extend_from_slice(b"\r\n"),
                Ok(_) => {}
                Err(malformed) => break malformed.reason(),
            }
        };
        assert_eq!((&data[..6], found), (&content[..], fault), "{behind:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// However a body is cut into chunks, its parts are as many as its arrivals, and one for each 64 KiB.
    #[test]
    fn the_parts_of_a_body_are_as_many_as_its_arrivals(
        lengths in prop::collection::vec(
            prop_oneof![8 => 1_usize..4, 3 => 1_usize..3000, 1 => 1_usize..200_000], 1..200,
        ),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let (coded, content) = chunks(&lengths);
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(coded.len() + 1)).collect();
        places.extend([0, coded.len()]);
        places.sort_unstable();
        let mut reader = BodyReader::new(Framing::Chunked, &Limits::origin());
        let (mut buf, mut got, mut parts) = (BytesMut::new(), Vec::new(), 0);
        for pair in places.windows(2) {
            buf.extend_from_slice(&coded[pair[0]..pair[1]]);
            while let BodyPart::Data(data) = reader.read(&mut buf).unwrap() {
                prop_assert!(!data.is_empty() && data.len() <= DATA_BYTES_MAX);
                got.extend_from_slice(&data);
                parts += 1;
            }
            // Nothing that has arrived is held back.
            prop_assert!(buf.len() <= 8, "{} bytes are held back", buf.len());
        }
        prop_assert_eq!(&got, &content);
        prop_assert!(parts <= places.len() + content.len() / JOINED_BYTES_MAX, "{} parts", parts);
    }
}
