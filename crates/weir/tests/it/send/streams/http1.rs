//! Clients of HTTP/1: one request after another, several at once, slow ones, and those that leave.

use std::time::Duration;

use weir_testkit::{Client, Response, Trouble};

use super::asks::{Ask, Asks, Expect};
use super::{Protocol, Ways};

/// Requests of a connection.
const REQUESTS_MAX: u64 = 12;

/// What becomes of the connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Next,
    Over,
}

/// A connection with random requests.
pub fn visit(ways: &Ways<'_>, protocol: Protocol, asks: &mut Asks) {
    let mut client = ways.http1(protocol);
    for _ in 0..=asks.random.below(REQUESTS_MAX) {
        let ask = asks.draw();
        let after = match ask.expect {
            Expect::Nothing => return tear(client, asks, &ask),
            Expect::Silence(..) => return leave(client, asks, &ask),
            // The connection ends without a word where an answer comes before the content.
            _ if ask.target.starts_with("/early") => continue,
            _ if ask.content.is_some() => upload(&mut client, asks, &ask),
            _ => match asks.random.below(8) {
                0 => return leave(client, asks, &ask),
                1 => slowly(&mut client, asks, &ask),
                2 => pipelined(&mut client, asks, ask),
                _ => {
                    client.send(head(&ask));
                    settle(&ask, receive(&mut client, &ask))
                }
            },
        };
        if after == After::Over {
            return;
        }
    }
}

/// The head of a request.
fn head(ask: &Ask) -> String {
    let lines: String = ask.fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let is_chunked = ask.content.is_some_and(|content| !content.is_declared);
    let chunked = if is_chunked { "Transfer-Encoding: chunked\r\n" } else { "" };
    format!("{} {} HTTP/1.1\r\nHost: {}\r\n{lines}{chunked}\r\n", ask.method, ask.target, ask.host)
}

fn receive(client: &mut Client, ask: &Ask) -> Result<Response, Trouble> {
    if ask.method == "HEAD" { client.recv_head() } else { client.recv() }
}

/// Checks an answer. What was cut has ended its connection.
fn settle(ask: &Ask, came: Result<Response, Trouble>) -> After {
    let closes = |answer: &Response| answer.header("connection").is_some_and(|said| said == "close");
    let after = if came.as_ref().is_ok_and(|answer| !closes(answer)) { After::Next } else { After::Over };
    ask.check(came);
    after
}

/// Reads a body with pauses.
fn slowly(client: &mut Client, asks: &mut Asks, ask: &Ask) -> After {
    client.send(head(ask));
    if ask.method == "HEAD" {
        return settle(ask, client.recv_head());
    }
    let (random, mut body, mut pauses) = (&mut asks.random, Vec::new(), 60);
    let came = client.recv_into(&mut |piece| {
        body.extend_from_slice(piece);
        if pauses > 0 {
            pauses -= 1;
            std::thread::sleep(Duration::from_millis(random.below(20)));
        }
    });
    let filled = |answer: Response| Response { body: body.clone(), ..answer };
    settle(
        ask,
        match came {
            Ok(answer) => Ok(filled(answer)),
            Err(Trouble::Cut(part)) => Err(Trouble::Cut(Box::new(filled(*part)))),
            Err(other) => Err(other),
        },
    )
}

/// Several requests in one write.
fn pipelined(client: &mut Client, asks: &mut Asks, first: Ask) -> After {
    let mut all = vec![first];
    for _ in 0..4 {
        let ask = asks.draw();
        if ask.content.is_none() && matches!(ask.expect, Expect::Whole(_) | Expect::Part(..)) {
            all.push(ask);
        }
    }
    // What is cut ends the connection, so it is the last one.
    all.rotate_left(1);
    client.send(all.iter().map(head).collect::<String>());
    for ask in &all {
        let came = receive(client, ask);
        if settle(ask, came) == After::Over {
            return After::Over;
        }
    }
    After::Next
}

/// Sends the content in random pieces, up to where it is torn. False if the peer takes no more.
fn send_content(client: &mut Client, asks: &mut Asks, ask: &Ask) -> bool {
    let Some(content) = ask.content else { return true };
    let mut left = &content.bytes[..content.torn_at.unwrap_or(content.bytes.len())];
    let most = left.len() as u64 / (1 + asks.random.below(20)) + 1;
    while !left.is_empty() {
        let (now, rest) = left.split_at(left.len().min(1 + asks.random.below(most) as usize));
        left = rest;
        let went = match content.is_declared {
            true => client.send(now),
            false => client.send([format!("{:x}\r\n", now.len()).as_bytes(), now, b"\r\n"].concat()),
        };
        if !went {
            return false;
        }
        if asks.random.below(8) == 0 {
            std::thread::sleep(Duration::from_millis(asks.random.below(5)));
        }
    }
    content.is_declared || content.torn_at.is_some() || client.send("0\r\n\r\n")
}

fn upload(client: &mut Client, asks: &mut Asks, ask: &Ask) -> After {
    assert!(client.send(head(ask)) && send_content(client, asks, ask), "{ask:?}: the content is not taken");
    settle(ask, client.recv())
}

/// Breaks off within the content: by a reset, by closing, or by an end of this side.
fn tear(mut client: Client, asks: &mut Asks, ask: &Ask) {
    if !client.send(head(ask)) || !send_content(&mut client, asks, ask) {
        return;
    }
    match asks.random.below(3) {
        0 => client.reset(),
        1 => drop(client),
        _ => {
            client.finish();
            if let Ok(answer) = client.recv() {
                assert!(answer.status() >= 400, "{ask:?}: {:?}", answer.head);
            }
        }
    }
}

/// Leaves in the middle of the answer.
fn leave(mut client: Client, asks: &mut Asks, ask: &Ask) {
    client.send(head(ask));
    let most = asks.random.below(ask.least() as u64 + 1) as usize;
    let is_chunked = |head: &weir_testkit::Head| head.header("transfer-encoding").is_some();
    // Of what hangs nothing may come before a byte of its body does.
    let head = if most > 0 && ask.method != "HEAD" { client.recv_head_only().ok() } else { None };
    if let Some(head) = head.filter(|head| !is_chunked(head)) {
        let came = client.read_at_least(most);
        ask.check_beginning(head.status, &came);
    }
    if asks.random.below(2) == 0 {
        client.reset();
    }
}
