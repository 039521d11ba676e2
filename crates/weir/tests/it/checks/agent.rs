//! Agents beside origins: they drain, scale and stop them, and those that say nothing whole change nothing.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener};
use std::sync::{Arc, Mutex};

use weir_testkit::{Origin, Weir, until};

use super::shown::origin;
use crate::server::server;

/// An agent that says what it was told last, once it has read `send`. Its thread ends with the process.
fn agent(line: &Arc<Mutex<Vec<u8>>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let line = line.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut sent = [0; 4];
            if stream.read_exact(&mut sent).is_ok() && sent == *b"web\n" {
                let line = line.lock().unwrap().clone();
                // Weir may have left in the middle.
                let _ = stream.write_all(&line).and_then(|()| stream.shutdown(Shutdown::Write));
            }
        }
    });
    port
}

fn lines(weir: &Weir, result: &str) -> f64 {
    let name = origin(weir, 0)["name"].as_str().unwrap().to_owned();
    let labels = format!("{{upstream=\"main\",origin=\"{name}\",result=\"{result}\"}}");
    weir.metric(&format!("weir_origin_agent_lines_total{labels}")).unwrap()
}

#[test]
fn an_agent_drains_scales_and_stops_its_origin() {
    let origins = [Origin::start(), Origin::start()];
    for origin in &origins {
        origin.otherwise(|exchange| {
            exchange.reply(200, &[("Cache-Control", "no-store")], "x");
        });
    }
    // Both origins are at one address, so that one agent speaks for both.
    let line = Arc::new(Mutex::new(b"up ready 100%\n".to_vec()));
    let agent = format!("agent = {{ port = {}, send = \"web\\n\", every = \"100ms\" }}", agent(&line));
    let weir = server(&[&origins[0], &origins[1]]).upstream(&agent).start();
    let say = |text: &str| *line.lock().unwrap() = text.as_bytes().to_vec();
    let stands = |standing: &str| (0..2).all(|number| origin(&weir, number)["standing"] == standing);
    until("it was heard", || lines(&weir, "understood") > 0.0);
    assert!(stands("ready"));
    say("drain # a release\n");
    until("they drain", || stands("draining"));
    assert_eq!(origin(&weir, 0)["why"], "its agent says: a release");
    assert_eq!(weir.get("/x").status(), 503, "no new request goes to an origin that drains");
    say("ready 50% maxconn:7 wat\n");
    until("they are back", || stands("ready"));
    let agent = origin(&weir, 0)["agent"].clone();
    assert_eq!((agent["percent"].as_u64(), agent["connections"].as_u64()), (Some(50), Some(7)));
    assert!(lines(&weir, "partly") > 0.0);
    assert_eq!(weir.get("/x").status(), 200);
    say("0%\n");
    until("they get nothing", || stands("draining"));
    say("100% down # out of disk\r\n");
    until("they are down", || stands("down"));
    say(&"x".repeat(1 << 20));
    until("it never ends", || lines(&weir, "broken") > 1.0);
    say("-5% maxconn:-1 \u{fe0f}\n");
    let partly = lines(&weir, "partly");
    until("it is garbage", || lines(&weir, "partly") > partly + 1.0);
    assert!(stands("down"));
    say("UP\n");
    until("they are up", || stands("ready"));
}
