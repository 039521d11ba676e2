//! The plain form, for simple programs: text without numbers and signatures.

use std::io::Write;
use std::net::SocketAddr;

use super::{Answer, Bad};

/// The client's line where there is none.
const NOBODY: &str = "-";

/// Writes a plain question: the policy's name, the client (`-` for none), then the head.
pub fn plain_question(policy: &str, client: Option<SocketAddr>, head: &[u8], out: &mut Vec<u8>) {
    // Writing to a vector does not fail.
    let _ = match client {
        Some(client) => write!(out, "{policy}\n{client}\n"),
        None => write!(out, "{policy}\n{NOBODY}\n"),
    };
    out.extend_from_slice(head);
}

/// Reads a plain question: policy, client, head. The client's line may be missing or empty: then the head
/// is empty too, or follows.
///
/// # Errors
/// It has another form.
pub fn read_plain_question(bytes: &[u8]) -> Result<(&str, Option<SocketAddr>, &[u8]), Bad> {
    let (policy, rest) = first_line(bytes);
    let (client, head) = first_line(rest);
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| Bad::Malformed);
    let policy = text(policy)?;
    if policy.is_empty() || policy.len() > 64 {
        return Err(Bad::Malformed);
    }
    let client = match text(client)? {
        "" | NOBODY => None,
        client => Some(client.parse().map_err(|_| Bad::Malformed)?),
    };
    Ok((policy, client, head))
}

/// The first line without its end, and what follows.
fn first_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (line, rest) = match bytes.iter().position(|byte| *byte == b'\n') {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[][..]),
    };
    (line.strip_suffix(b"\r").unwrap_or(line), rest)
}

/// Reads a plain answer: a bare `address:port`, perhaps with white space or a NUL behind it. An empty one
/// says nothing.
///
/// # Errors
/// It has another form.
pub fn plain_answer(bytes: &[u8]) -> Result<Answer, Bad> {
    if bytes.len() > 64 {
        return Err(Bad::Malformed);
    }
    let is_filling = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0;
    let end = bytes.iter().rposition(|byte| !is_filling(byte)).map_or(0, |last| last + 1);
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| Bad::Malformed)?;
    match text {
        "" => Ok(Answer::Nothing),
        text => text.parse().map(Answer::Address).map_err(|_| Bad::Malformed),
    }
}

/// A plain answer. A denial has no plain form: it says nothing.
pub fn plain_answer_text(answer: &Answer) -> String {
    match answer {
        Answer::Address(address) => address.to_string(),
        Answer::Nothing | Answer::Denial { .. } => String::new(),
    }
}
