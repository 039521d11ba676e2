//! Cookies by name over sockets: what a route takes out is seen neither by the cache nor by the origin, over
//! HTTP/1 and HTTP/2, and no visitor gets what another's cookies made.

use std::time::Duration;

use weir_testkit::h2::Translator;
use weir_testkit::{Client, Origin};

use crate::server::server;

const SITE: &str = "cookies = { drop = [\"_ga*\", \"_fbp\"] }\nset_cookie = { strip = [\"_gid\"] }\n\
                    key = { cookies = [\"lang\"] }\nbypass = { cookies = [\"session\"] }\n";

/// Says which cookies it got, and that its response varies by them.
fn origin() -> Origin {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let own = exchange.request.header("cookie").unwrap_or_default();
        let fields = [("Cache-Control", "max-age=600"), ("Vary", "Cookie"), ("Set-Cookie", "_gid=1; Path=/")];
        std::thread::sleep(Duration::from_millis(1));
        exchange.reply(200, &fields, format!("[{own}]"));
    });
    origin
}

#[test]
fn a_page_with_tracking_cookies_is_stored_once() {
    let origin = origin();
    let listen = "[[listen]]\naddress = \"{tls}\"\nprotocols = [\"h2\"]";
    let weir = server(&[&origin]).site(SITE).more(listen).start();
    let translator = Translator::before(weir.tls());
    for (number, to) in [weir.addr(), translator.addr()].into_iter().cycle().take(8).enumerate() {
        let own = format!("_ga=GA1.{number}; _fbp={number}");
        let answer = Client::connect(to).get("localhost", "/", &[("Cookie", &own)]);
        assert_eq!(
            (answer.text().as_str(), answer.is_hit()),
            ("[]", number > 0),
            "{number}: {:?}",
            answer.head
        );
        assert_eq!(answer.header("set-cookie"), None);
    }
    assert_eq!(origin.total(), 1);
    // Several fields are one, and what is left of them decides.
    let two = "GET / HTTP/1.1\r\nHost: localhost\r\nCookie: _ga=1\r\nCookie: lang=de; _fbp=2\r\n\r\n";
    for is_hit in [false, true] {
        let mut client = weir.client();
        client.send(two);
        let answer = client.recv().unwrap();
        assert_eq!((answer.text().as_str(), answer.is_hit()), ("[lang=de]", is_hit));
    }
}

#[test]
fn visitors_stay_apart_while_many_ask_at_once() {
    let origin = origin();
    let weir = server(&[&origin]).site(SITE).start();
    let addr = weir.addr();
    let visit = move |number: usize| {
        let mut client = Client::connect(addr);
        for round in 0..40 {
            let path = format!("/{}", round % 5);
            let language = ["de", "en"][(number + round) % 2];
            let (sent, seen) = match (number + round) % 5 {
                0 => (String::new(), String::new()),
                1 => (format!("_ga={number}"), String::new()),
                2 => (format!("_ga={number}; lang={language}"), format!("lang={language}")),
                3 => (format!("lang={language}; own={number}"), format!("lang={language}; own={number}")),
                _ => (format!("session={number}; _ga=1"), format!("session={number}")),
            };
            let fields: &[(&str, &str)] = &[("Cookie", &sent)];
            let answer = client.get("localhost", &path, if sent.is_empty() { &[] } else { fields });
            assert_eq!(answer.text(), format!("[{seen}]"), "{path} with {sent}: {:?}", answer.head);
        }
    };
    let visitors: Vec<_> = (0..16).map(|number| std::thread::spawn(move || visit(number))).collect();
    for visitor in visitors {
        visitor.join().unwrap();
    }
}
