//! `examples/wordpress.toml` before an origin that answers as WordPress with WooCommerce does.

use std::time::Duration;

use weir_testkit::{Exchange, Origin, Resource, Response, Weir, pattern};

use super::site::{ask, outdate, said, site};

const HOST: &str = "www.example.com";

/// `nocache_headers()` of WordPress: for logged-in users, the administration, and every 404.
const NO_CACHE: [(&str, &str); 2] = [
    ("Expires", "Wed, 11 Jan 1984 05:00:00 GMT"),
    ("Cache-Control", "no-cache, must-revalidate, max-age=0, no-store, private"),
];

/// What nginx or Apache sends of a file beside WordPress: validators, no lifetime.
fn file(body: &[u8]) -> Resource {
    Resource::new(body).etag("\"67a1-5f3\"").modified_ago(Duration::from_secs(86_400)).ranges()
}

fn wordpress() -> Origin {
    let origin = Origin::start();
    origin.otherwise(answer);
    for path in ["/wp-content/themes/x/style.css", "/wp-includes/js/jquery/jquery.min.js"] {
        origin.put(path, file(path.as_bytes()));
    }
    origin.put("/wp-content/uploads/2026/11/film.mp4", file(&pattern(7, 3_000_000)));
    origin
}

/// Each page says what it is of and whose it is.
fn answer(exchange: &mut Exchange<'_>) {
    let (path, own) = (exchange.request.path().to_owned(), exchange.request.header("cookie"));
    let own = own.unwrap_or_default();
    let text = format!("{} {} for [{own}]", exchange.request.method, exchange.request.target);
    let is_known = ["wordpress_logged_in_", "comment_author_", "wp-postpass_", "woocommerce_"]
        .iter()
        .any(|name| own.contains(name));
    match path.as_str() {
        "/wp-login.php" if exchange.request.method == "POST" => {
            let set = ("Set-Cookie", "wordpress_logged_in_4f=anna%7C1; path=/; secure; HttpOnly");
            exchange.body();
            exchange.reply(302, &[NO_CACHE[0], NO_CACHE[1], set, ("Location", "/wp-admin/")], text);
        }
        "/wp-comments-post.php" => {
            let set = ("Set-Cookie", "comment_author_4f=anna; path=/; secure");
            exchange.body();
            exchange.reply(302, &[NO_CACHE[1], set, ("Location", "/post/#comment-5")], text);
        }
        path if path.starts_with("/missing") => {
            exchange.reply(404, &NO_CACHE, text);
        }
        path if path.starts_with("/wp-admin/") || is_known => {
            exchange.reply(200, &NO_CACHE, text);
        }
        // A plugin that forgets to say whose its answer is: the rules must hold without it.
        _ => {
            let link = ("Link", "<https://www.example.com/wp-json/>; rel=\"https://api.w.org/\"");
            exchange.reply(200, &[("Content-Type", "text/html; charset=UTF-8"), link], text);
        }
    }
}

fn start(origin: &Origin) -> Weir {
    site("wordpress.toml", &[("http://127.0.0.1:8000", origin)])
}

fn get(weir: &Weir, target: &str, cookie: &str) -> Response {
    let field = [("Cookie", cookie)];
    ask(weir, HOST, &format!("GET {target}"), if cookie.is_empty() { &[] } else { &field }, b"")
}

const ANNA: &str = "wordpress_logged_in_4f=anna%7C1; _ga=1";
const BERT: &str = "wordpress_logged_in_4f=bert%7C2; _ga=1";

#[test]
fn a_page_is_made_once_for_all_visitors_who_are_nobody_yet() {
    let origin = wordpress();
    let weir = start(&origin);
    let first = ask(
        &weir,
        HOST,
        "GET /post/?p=1&utm_source=x",
        &[("Cookie", "_ga=GA1.2"), ("X-Forwarded-Proto", "https"), ("X-Forwarded-For", "192.0.2.9")],
        b"",
    );
    assert_eq!((first.text().as_str(), first.is_hit()), ("GET /post/?p=1 for []", false));
    let target = "/post/?p=1";
    for (name, value) in [
        ("host", Some(HOST)),
        ("x-forwarded-host", Some(HOST)),
        ("x-forwarded-proto", Some("https")),
        ("x-forwarded-for", Some("192.0.2.9")),
        ("cookie", None),
        ("via", None),
    ] {
        assert_eq!(said(&origin, target, name).as_deref(), value, "{name}");
    }
    let https = |cookie: &str, target: &str| {
        let fields = [("Cookie", cookie), ("X-Forwarded-Proto", "https")];
        ask(&weir, HOST, &format!("GET {target}"), &fields, b"")
    };
    for cookie in ["_ga=2", "_fbp=1; _ga_X=3", "wordpress_test_cookie=WP%20Cookie%20check", "lang=de"] {
        let answer = https(cookie, "/post/?p=1&fbclid=y");
        assert!(answer.is_hit(), "{cookie}: {:?}", answer.head);
    }
    assert_eq!(origin.total(), 1);
    assert!(!get(&weir, "/post/?p=2", "").is_hit(), "another post");
}

#[test]
fn what_belongs_to_one_visitor_is_stored_for_nobody() {
    let origin = wordpress();
    let weir = start(&origin);
    let own_pages = [
        "/wp-admin/admin-ajax.php?action=x",
        "/wp-login.php",
        "/wp-json/wp/v2/posts",
        "/cart/",
        "/checkout/order-received/7/?key=wc_order_1",
        "/my-account/orders/",
        "/?wc-ajax=get_refreshed_fragments",
        "/?add-to-cart=7",
        "/post/?preview=true&p=1",
        "/?download_file=7&order=wc_order_1&key=k",
        "/wp-content/uploads/woocommerce_uploads/2026/book.pdf",
    ];
    for page in own_pages {
        for cookie in ["", "", ANNA, BERT] {
            let answer = get(&weir, page, cookie);
            assert_eq!(answer.fwd().as_deref(), Some("bypass"), "{page} for {cookie}: {:?}", answer.head);
            let rest = cookie.trim_end_matches("; _ga=1");
            assert_eq!(answer.text(), format!("GET {page} for [{rest}]"));
        }
        assert_eq!(origin.count(page), 4, "{page}");
    }
}

#[test]
fn a_visitor_with_a_basket_or_a_name_gets_their_own_pages_and_leaves_none_behind() {
    let origin = wordpress();
    let weir = start(&origin);
    let names = [
        ANNA,
        BERT,
        "comment_author_4f=anna",
        "wp-postpass_4f=x",
        "woocommerce_cart_hash=7; woocommerce_items_in_cart=1",
    ];
    // Before and after the page of all others is stored, and a plugin's PHP among the files.
    for page in ["/", "/post/", "/wp-content/plugins/x/ajax.php?a=1"] {
        for round in 0..2 {
            for name in names {
                let rest = name.trim_end_matches("; _ga=1");
                assert_eq!(get(&weir, page, name).text(), format!("GET {page} for [{rest}]"), "{page}");
            }
            let answer = get(&weir, page, "");
            assert_eq!(answer.text(), format!("GET {page} for []"));
            assert_eq!(answer.is_hit(), round == 1, "{page}: {:?}", answer.head);
        }
    }
}

#[test]
fn files_are_stored_for_everybody_and_no_cookie_makes_one() {
    let origin = wordpress();
    let weir = start(&origin);
    for path in ["/wp-content/themes/x/style.css?ver=6.4", "/wp-includes/js/jquery/jquery.min.js"] {
        let first = get(&weir, path, ANNA);
        assert_eq!((first.status(), first.is_hit()), (200, false), "{:?}", first.head);
        assert_eq!(said(&origin, path, "cookie"), None);
        assert!(get(&weir, path, "").is_hit() && get(&weir, path, BERT).is_hit());
        let same = ask(&weir, HOST, &format!("GET {path}"), &[("If-None-Match", "\"67a1-5f3\"")], b"");
        assert_eq!((same.status(), same.is_hit()), (304, true));
        assert_eq!(origin.count(path), 1);
    }
    let film = "GET /wp-content/uploads/2026/11/film.mp4";
    for is_hit in [false, true] {
        let part = ask(&weir, HOST, film, &[("Range", "bytes=1000000-1099999")], b"");
        assert_eq!((part.status(), part.is_hit()), (206, is_hit), "{:?}", part.head);
        assert!(part.body == pattern(7, 3_000_000)[1_000_000..1_100_000]);
    }
}

#[test]
fn a_missing_page_is_asked_for_once_a_minute_and_searches_are_not_kept() {
    let origin = wordpress();
    let weir = start(&origin);
    for number in 0..3 {
        let answer = get(&weir, "/missing.php", "_ga=7");
        assert_eq!((answer.status(), answer.is_hit()), (404, number > 0), "{:?}", answer.head);
        assert!(!get(&weir, "/?s=shoes", "").is_hit());
    }
    assert_eq!((origin.count("/missing.php"), origin.count("/?s=shoes")), (1, 3));
    assert_eq!(get(&weir, "/missing.php", ANNA).fwd().as_deref(), Some("bypass"));
}

#[test]
fn a_login_and_a_comment_pass_and_the_comments_page_is_made_again() {
    let origin = wordpress();
    let weir = start(&origin);
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    for _ in 0..2 {
        let answer = ask(&weir, HOST, "POST /wp-login.php", &form, b"log=anna&pwd=x");
        assert_eq!(answer.status(), 302);
        assert!(answer.header("set-cookie").unwrap().starts_with("wordpress_logged_in_4f=anna"));
    }
    get(&weir, "/post/", "");
    assert!(get(&weir, "/post/", "").is_hit());
    let answer = ask(&weir, HOST, "POST /wp-comments-post.php", &form, b"comment=hello");
    assert_eq!(answer.header("location").as_deref(), Some("/post/#comment-5"));
    assert!(!get(&weir, "/post/", "").is_hit(), "RFC 9111 §4.4: its Location");
    assert_eq!(origin.count("/post/"), 2);
}

#[test]
fn a_plugin_purges_and_visitors_cannot() {
    let origin = wordpress();
    let weir = start(&origin);
    get(&weir, "/post/", "");
    assert_eq!(ask(&weir, HOST, "PURGE /post/", &[("X-Forwarded-For", "192.0.2.9")], b"").status(), 405);
    assert!(get(&weir, "/post/", "").is_hit());
    assert_eq!(ask(&weir, HOST, "PURGE /post/", &[("X-Forwarded-For", "10.0.0.8")], b"").status(), 200);
    assert!(!get(&weir, "/post/", "").is_hit());
}

#[test]
fn while_wordpress_is_down_visitors_read_on_and_logged_in_ones_are_told() {
    let origin = wordpress();
    let weir = start(&origin);
    for page in ["/", "/wp-content/themes/x/style.css"] {
        get(&weir, page, "");
    }
    outdate(&weir);
    drop(origin);
    for page in ["/", "/wp-content/themes/x/style.css"] {
        let answer = get(&weir, page, "");
        assert_eq!((answer.status(), answer.is_hit()), (200, true), "{page}: {:?}", answer.head);
    }
    let own = get(&weir, "/", ANNA);
    assert_eq!(own.status(), 502, "no page of others in place of their own: {}", own.text());
}
