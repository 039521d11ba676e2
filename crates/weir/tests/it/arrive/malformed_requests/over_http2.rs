//! The same table as HTTP/2: every row that has a form there, with its names and values byte by byte. A row
//! that HTTP/1 refuses is refused, by the same status or by a reset, and reaches no origin.

use weir_testkit::h2::{Content, Translated, code, translated};
use weir_testkit::{End, H2Client, Trouble, Weir};

use super::table::{Row, rows};
use super::{Must, PATIENCE, Witness, expect_safe};
use crate::server::server;

/// The row as HTTP/2; `None` where it is about the form of HTTP/1.
fn form(bytes: &[u8]) -> Option<(Translated, &[u8])> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let (head, content) = (&bytes[..end], &bytes[end + 4..]);
    let text = String::from_utf8_lossy(head);
    let line = text.lines().next()?;
    let text = text.to_ascii_lowercase();
    // Versions, connections, codings, absolute targets and blanks around values. Of two equal Hosts one
    // becomes `:authority`, which is no field of those that are counted.
    let of_http1 = !line.ends_with(" HTTP/1.1")
        || line.contains("://")
        || text.contains("\r\nconnection:")
        || text.contains("transfer-encoding:")
        || text.contains(&" ".repeat(100))
        || text.matches("\r\nhost: localhost").count() > 1
        || text.matches("\r\n").count() == 101;
    if of_http1 { None } else { Some((translated(head, "http")?, content)) }
}

/// What the crate `h2` decides before Weir sees the request: it drops a fragment, and it refuses bytes of a
/// target that no URI has and that HTTP/1 clients send all the same.
const OF_THE_CRATE: [&str; 3] = ["a fragment", "a fragment in the query", "odd but visible bytes"];

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
enum Became {
    Answered(u16),
    /// By a reset or by the connection's end.
    Cut,
}

fn send(weir: &Weir, (request, content): &(Translated, &[u8])) -> Result<Became, String> {
    let mut client = H2Client::connect(weir.tls()).patience(PATIENCE);
    let fields: Vec<(&[u8], &[u8])> = request.fields.iter().map(|(n, v)| (&n[..], &v[..])).collect();
    let has_content = request.content != Content::None || !content.is_empty();
    let id = client.send_fields(&fields, if has_content { End::Open } else { End::Stream });
    if has_content {
        let _ = client.data(id, content, End::Stream);
    }
    match client.recv(id) {
        Ok(answer) => Ok(Became::Answered(answer.status())),
        Err(Trouble::Reset(code::INTERNAL_ERROR, _)) => Err("the server blames itself".to_owned()),
        // A refusal that came before all of the content ends with a reset of the rest.
        Err(Trouble::Reset(_, answer) | Trouble::Cut(answer)) if answer.status() != 0 => {
            Ok(Became::Answered(answer.status()))
        }
        Err(Trouble::Reset(..) | Trouble::Closed | Trouble::Cut(_)) => Ok(Became::Cut),
        Err(why) => Err(why.to_string()),
    }
}

fn judge(weir: &Weir, witness: &Witness, row: &Row) -> Result<(), String> {
    let Some(request) = form(&row.2).filter(|_| !OF_THE_CRATE.contains(&row.0)) else { return Ok(()) };
    let earlier = witness.take().len();
    let became = send(weir, &request)?;
    let received = witness.take().split_off(earlier);
    let fine = match row.1 {
        Must::Take(_) => became == Became::Answered(200) && received.len() == 1,
        Must::Refuse(status) | Must::RefuseContent(status) => {
            let refused = [Became::Cut, Became::Answered(400), Became::Answered(status)];
            refused.contains(&became) && received.iter().all(|one| !one.whole)
        }
    };
    if !fine {
        let heads: Vec<_> = received.iter().map(|one| one.head.escape_ascii().to_string()).collect();
        return Err(format!("{became:?}, and the origin received {heads:?}"));
    }
    expect_safe(&row.2, &received)
}

#[test]
fn malformed_requests_are_refused_over_http_2_and_clear_ones_taken() {
    let witness = Witness::new();
    let listen = "[[listen]]\naddress = \"{tls}\"\nprotocols = [\"h2\"]";
    let weir = server(&[&witness.origin]).more(listen).start();
    let rows = rows();
    let sent = rows.iter().filter(|row| form(&row.2).is_some()).count();
    assert!(sent >= 150, "{sent} rows have a form in HTTP/2");
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|row| {
            judge(&weir, &witness, row).err().map(|why| format!("{} ({:?}): {why}", row.0, row.1))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {sent} rows:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(weir.get("/after").status(), 200);
}
