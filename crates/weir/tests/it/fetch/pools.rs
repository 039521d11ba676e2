//! A map chooses the upstream: what one answers never goes out to a request for another, and whatever is
//! asked for an object later is asked of the upstream that it came from.

use std::time::Duration;

use weir_testkit::{Origin, Resource, Weir, pattern, until};

use crate::server::server;

const CHOICE: &str = "[[site.route]]\nprefix = \"/\"\nupstream = \"{map.pool}\"\n";
const MAP: &str = "[map.pool]\nof = \"{cookie.pool}\"\nrules = [[\"~*^green$\", \"green\"]]\n\
                   default = \"main\"\n";
const GREEN: &[(&str, &str)] = &[("Cookie", "pool=green")];
const NEITHER: &[(&str, &str)] = &[];

/// A Weir in front of two upstreams; a cookie chooses.
fn weir(blue: &Origin, green: &Origin, rules: &str) -> Weir {
    let more = format!("[upstream.green]\norigins = [\"{}\"]\nhost = \"green.example\"\n{MAP}", green.url());
    server(&[blue]).site(&format!("{CHOICE}{rules}")).more(&more).start()
}

/// Answers with its name, the Host and the cookies that it was sent.
fn named(name: &'static str) -> Origin {
    let origin = Origin::start();
    origin.otherwise(move |exchange| {
        let (host, cookies) = (exchange.request.header("host"), exchange.request.header("cookie"));
        let text = format!("{name} at {} with {}", host.unwrap_or_default(), cookies.unwrap_or_default());
        exchange.reply(200, &[("Cache-Control", "max-age=600")], text);
    });
    origin
}

#[test]
fn no_request_has_one_pool_answer_for_another() {
    let (blue, green) = (named("blue"), named("green"));
    let weir = weir(&blue, &green, "");
    // Two cookies of the name: each origin may read another one of them.
    let odd: [&[(&str, &str)]; 6] = [
        &[("Cookie", "pool=green; pool=evil")],
        &[("Cookie", "pool=evil; pool=green")],
        &[("Cookie", "pool=green"), ("Cookie", "pool=evil")],
        &[("Cookie", "pool=evil"), ("Cookie", "pool=green")],
        &[("Cookie", "pool=GREEN")],
        &[("Cookie", "pool=\"green\"")],
    ];
    for fields in odd {
        weir.get_with("/a", fields);
    }
    for _ in 0..2 {
        let of_green = weir.get_with("/a", GREEN).text();
        assert!(of_green.starts_with("green at green.example"), "{of_green}");
        assert!(!of_green.contains("evil"), "{of_green}");
        let of_blue = weir.get_with("/b", NEITHER).text();
        assert!(of_blue.starts_with("blue at ") && !of_blue.contains("green"), "{of_blue}");
    }
    assert!(weir.get_with("/a", GREEN).is_hit());
    let before = (blue.total(), green.total());
    assert!(weir.get("/a").text().starts_with("blue"));
    assert!(weir.get_with("/a", &[("Cookie", "other=1")]).text().starts_with("blue"));
    assert!(weir.get_with("/b", GREEN).text().starts_with("green"));
    assert_eq!(green.total(), before.1 + 1);
    assert!(blue.total() <= before.0 + 1);
    // One purge takes both.
    assert_eq!(weir.command(&["purge", "http://localhost/b"]).code, Some(0));
    assert!(!weir.get("/b").is_hit() && !weir.get_with("/b", GREEN).is_hit());
}

#[test]
fn an_object_is_confirmed_and_completed_where_it_came_from() {
    let (blue, green) = (Origin::start(), Origin::start());
    for (origin, seed) in [(&blue, 1), (&green, 2)] {
        let tag = format!("\"{seed}\"");
        let large = Resource::new(pattern(seed, 3 << 20)).etag(&tag).header("Cache-Control", "max-age=600");
        origin.put("/large", large.ranges());
        let brief = Resource::new(format!("of {seed}")).etag(&tag);
        origin.put("/brief", brief.header("Cache-Control", "max-age=1"));
        let window = Resource::new(format!("of {seed}")).etag(&tag);
        origin.put("/window", window.header("Cache-Control", "max-age=1, stale-while-revalidate=600"));
    }
    let weir = weir(&blue, &green, "");
    let of = |target: &str, is_green: bool, range: &[(&str, &str)]| {
        let cookie = if is_green { GREEN } else { NEITHER };
        weir.get_with(target, &[cookie, range].concat())
    };
    for (is_green, seed) in [(true, 2), (false, 1)] {
        let body = pattern(seed, 3 << 20);
        assert!(
            of("/large", is_green, &[("Range", "bytes=1000000-1000009")]).body == body[1_000_000..1_000_010]
        );
        assert!(of("/large", is_green, &[]).body == body, "a part and its gaps are of one version");
        assert_eq!(of("/brief", is_green, &[]).text(), format!("of {seed}"));
        assert_eq!(of("/window", is_green, &[]).text(), format!("of {seed}"));
    }
    std::thread::sleep(Duration::from_millis(1_500));
    for (is_green, seed, origin) in [(true, 2, &green), (false, 1, &blue)] {
        assert_eq!(of("/brief", is_green, &[]).text(), format!("of {seed}"));
        assert_eq!(of("/window", is_green, &[]).text(), format!("of {seed}"), "goes out stale");
        until("the background asks", || origin.count("/window") == 2);
        let tag = format!("\"{seed}\"");
        for target in ["/brief", "/window"] {
            let asked = origin.requests(target);
            assert_eq!(asked.len(), 2, "{target}");
            assert_eq!(asked[1].header("if-none-match").as_deref(), Some(tag.as_str()), "{target}");
        }
    }
    let hosts = green.seen().into_iter().filter_map(|seen| seen.request.header("host"));
    assert!(hosts.into_iter().all(|host| host == "green.example"));
}

#[test]
fn a_pool_that_is_down_is_not_replaced_by_the_other() {
    let (blue, green) = (named("blue"), named("green"));
    let weir = weir(&blue, &green, "");
    assert!(weir.get_with("/a", GREEN).text().starts_with("green"));
    drop(green);
    assert!(weir.get_with("/a", GREEN).is_hit());
    assert_eq!(weir.get_with("/b", GREEN).status(), 502);
    assert!(weir.get("/b").text().starts_with("blue"));
    let said = weir.command(&["explain", &format!("http://{}/a", weir.addr()), "-H", "Cookie: pool=green"]);
    let said = said.stdout;
    assert!(said.contains("upstream     green") && said.contains("value map.pool=green"), "{said}");
}
