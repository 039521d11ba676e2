//! The table of requests through HTTP/2: each row that can be said in frames is refused there as well, and
//! each that is taken reaches the origin in the same form.

use std::time::Duration;

use weir_testkit::h2::{Content, translated};
use weir_testkit::{End, H2Client, Trouble};

use super::table::rows;
use super::{Must, Witness};
use crate::arrive::http2;

/// What became of a row.
#[derive(Debug)]
enum Became {
    /// This status, or a reset of the stream or connection as `None`.
    Refused(Option<u16>),
    Answered(u16),
}

fn send(client: &mut H2Client, fields: &[(Vec<u8>, Vec<u8>)], content: Option<&[u8]>) -> Became {
    let end = if content.is_some() { End::Open } else { End::Stream };
    let stream = client.send_fields(fields, end);
    if let Some(content) = content
        && client.data(stream, content, End::Stream).is_err()
    {
        return Became::Refused(None);
    }
    match client.recv(stream) {
        Ok(response) if response.status() >= 400 => Became::Refused(Some(response.status())),
        Ok(response) => Became::Answered(response.status()),
        Err(Trouble::Reset(..) | Trouble::Closed | Trouble::Cut(_)) => Became::Refused(None),
        Err(other) => panic!("{other}"),
    }
}

/// Rows that mean something else in HTTP/2, or are refused there for another reason.
const EXCEPT: &[&str] = &[
    // The type of the crate's targets ends them at the `#`.
    "a fragment",
    "a fragment in the query",
    // It knows fewer bytes.
    "odd but visible bytes",
    // The first becomes `:authority`, and the second says the same.
    "Host twice",
    // Spaces around a value do not exist there.
    "100,000 bytes of blanks",
];

/// Whether a head is about nothing that only HTTP/1 has: its version, `Connection`, absolute targets.
fn is_alike(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let has = |word: &str| head.to_ascii_lowercase().windows(word.len()).any(|part| part == word.as_bytes());
    line.ends_with(b" HTTP/1.1")
        && head.get(line.len()..line.len() + 2).is_none_or(|end| end == b"\r\n")
        && !["connection:", "transfer-encoding", "://"].iter().any(|word| has(word))
}

#[test]
fn what_is_refused_in_http_1_is_refused_in_http_2() {
    let witness = Witness::new();
    let weir = http2::weir(&witness.origin, "");
    let (mut said, mut wrong) = (0, Vec::new());
    for (name, must, bytes) in rows() {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let Some(end) = end else { continue };
        let (head, content) = (&bytes[..end], &bytes[end + 4..]);
        if !is_alike(head) || EXCEPT.contains(&name) {
            continue;
        }
        let Some(row) = translated(head, "http") else { continue };
        let content = match row.content {
            Content::None => None,
            Content::Length(_) => Some(content),
            Content::Chunked => continue,
        };
        let before = witness.take().len();
        let mut client = http2::client(&weir).patience(Duration::from_secs(20));
        let became = send(&mut client, &row.fields, content);
        said += 1;
        assert_eq!(weir.metric("weir_panics_total"), Some(0.0), "{name}");
        match (must, &became) {
            (Must::Refuse(status), Became::Refused(said)) if said.is_none_or(|said| said == status) => {
                assert_eq!(witness.take().len(), before, "{name}: it reached the origin");
            }
            (Must::RefuseContent(_), Became::Refused(_)) | (Must::Take(_), Became::Answered(200)) => {}
            (must, became) => wrong.push(format!("{name}: {must:?} became {became:?}: {:?}", row.fields)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(said > 60, "only {said} rows were said");
}
