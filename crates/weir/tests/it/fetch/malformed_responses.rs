//! Malformed, truncated or contradictory responses of an origin: each row of the table has what the client
//! must see. Neither the store nor another client gets any of it.

mod table;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_testkit::{Client, Origin, Random, Trouble, Weir};

use crate::arrive::malformed_requests::change::{environment, mutate};
use crate::server::before;
use table::{Row, rows};

/// What the client must see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Must {
    /// 502 with `Proxy-Status`, and nothing of the response.
    BadGateway,
    /// The head and some of the content, then the connection ends before the content does.
    Cut,
    /// A whole response with this status and content: the oddity was clear, or lay behind the end.
    Take(u16, &'static str),
}

/// What the origin does behind the bytes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It closes the connection.
    Close,
    /// It keeps the connection, and would answer a further request.
    Keep,
}

const PATIENCE: Duration = Duration::from_secs(10);

/// An origin that answers the first request for a row with the row, and all later ones plainly.
fn scripted(row: &Row) -> (Origin, Arc<AtomicUsize>, Arc<Mutex<Option<usize>>>) {
    let origin = Origin::start();
    let asked = Arc::new(AtomicUsize::new(0));
    let spoilt = Arc::new(Mutex::new(None));
    let (_, method, _, then, bytes) = row.clone();
    let (count, connection) = (asked.clone(), spoilt.clone());
    origin.otherwise(move |exchange| {
        if exchange.request.path() != "/row" {
            exchange.reply(200, &[("Cache-Control", "no-store")], "plain");
            return;
        }
        if exchange.request.method != method || count.fetch_add(1, Ordering::SeqCst) > 0 {
            exchange.reply(200, &[("Cache-Control", "no-store")], "again");
            return;
        }
        *connection.lock().unwrap() = Some(exchange.request.connection);
        exchange.send(&bytes);
        if then == Then::Close {
            exchange.close();
        }
    });
    (origin, asked, spoilt)
}

fn judge(row: &Row) -> Result<(), String> {
    let (_, method, must, _, _) = row;
    let (origin, asked, spoilt) = scripted(row);
    let weir = before(&origin);
    let mut client = weir.client().patience(PATIENCE);
    client.send(format!("{method} /row HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let answer = if *method == "HEAD" { client.recv_head() } else { client.recv() };
    match (must, answer) {
        (Must::BadGateway, Ok(answer)) if answer.status() == 502 => {
            answer.header("proxy-status").ok_or("no Proxy-Status")?;
            if answer.text().contains("SECRET") {
                return Err(format!("the refusal shows the response: {}", answer.text()));
            }
        }
        (Must::Cut, Err(Trouble::Cut(part))) if part.head.status == 200 => {}
        (Must::Take(status, content), Ok(answer))
            if answer.status() == *status && answer.text() == *content => {}
        (_, Ok(answer)) => return Err(format!("{} with {:?}", answer.status(), answer.text())),
        (_, Err(why)) => return Err(why.to_string()),
    }
    expect_clean_afterwards(&weir, &origin, client, must, (&asked, &spoilt))
}

/// The next requests of the same client and of another get plain answers, over another connection than the
/// broken one. Nothing that was incomplete is served from the store.
fn expect_clean_afterwards(
    weir: &Weir,
    origin: &Origin,
    mut client: Client,
    must: &Must,
    (asked, spoilt): (&AtomicUsize, &Mutex<Option<usize>>),
) -> Result<(), String> {
    let spoilt = spoilt.lock().unwrap().ok_or("the origin was not asked")?;
    if *must != Must::Cut {
        client.send_get("localhost", "/plain", &[]);
        match client.recv() {
            Ok(answer) if answer.text() == "plain" => {}
            Err(Trouble::Closed) => {}
            Ok(answer) => return Err(format!("the next answer is {} {:?}", answer.status(), answer.text())),
            Err(why) => return Err(format!("the next answer: {why}")),
        }
    }
    let other = weir.get("/plain");
    if other.text() != "plain" {
        return Err(format!("another client got {} {:?}", other.status(), other.text()));
    }
    if let Some(late) = origin.requests("/plain").iter().find(|request| request.connection == spoilt) {
        return Err(format!("the connection was used again: {late:?}"));
    }
    if !matches!(must, Must::Take(..)) {
        let first = asked.load(Ordering::SeqCst);
        let again = weir.get("/row");
        let remembered = *must == Must::BadGateway && again.status() == 502 && first == 1;
        if again.text() != "again" && !remembered {
            return Err(format!("the next client got {} {:?}", again.status(), again.text()));
        }
    }
    Ok(())
}

#[test]
fn malformed_responses_do_not_pass() {
    let rows = rows();
    let malformed = rows.iter().filter(|row| !matches!(row.2, Must::Take(..))).count();
    assert!(malformed >= 40, "{malformed} malformed responses");
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..4)
            .map(|lane| {
                let rows = &rows;
                scope.spawn(move || {
                    let mine = rows.iter().skip(lane).step_by(4);
                    mine.filter_map(|row| {
                        judge(row).err().map(|why| format!("{} ({:?}): {why}", row.0, row.2))
                    })
                    .collect::<Vec<String>>()
                })
            })
            .collect();
        lanes.into_iter().flat_map(|lane| lane.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

/// Rows that were changed at random: whatever the origin sends, the client gets one well-formed response,
/// whole or cut. The next request of any client is answered as if nothing had happened. `WEIR_FUZZ_SEED` and
/// `WEIR_FUZZ_ROUNDS` widen it.
#[test]
fn changed_rows_reach_clients_well_formed_or_not_at_all() {
    let seed = environment("WEIR_FUZZ_SEED", 1);
    let mut random = Random::new(seed);
    let origin = Origin::start();
    let answer = Arc::new(Mutex::new(Vec::new()));
    let script = answer.clone();
    origin.on("/plain", |exchange| {
        exchange.reply(200, &[("Cache-Control", "no-store")], "plain");
    });
    origin.otherwise(move |exchange| {
        let bytes = script.lock().unwrap().clone();
        exchange.send(bytes);
        exchange.close();
    });
    let weir = before(&origin);
    let rows: Vec<Row> = rows().into_iter().filter(|row| row.4.len() < 1000).collect();
    for round in 0..environment("WEIR_FUZZ_ROUNDS", 1500) {
        let mut bytes = random.one_of(&rows).4.clone();
        for _ in 0..=random.below(3) {
            mutate(&mut bytes, &mut random);
        }
        answer.lock().unwrap().clone_from(&bytes);
        let what = || format!("seed {seed}, round {round}: {}", bytes.escape_ascii());
        let mut client = weir.client().patience(PATIENCE);
        client.send_get("localhost", &format!("/{round}"), &[]);
        match client.recv() {
            Ok(_) | Err(Trouble::Cut(_)) => {}
            Err(why) => panic!("{why}; {}", what()),
        }
        let plain = weir.get("/plain");
        assert_eq!((plain.status(), plain.text().as_str()), (200, "plain"), "{}", what());
    }
}
