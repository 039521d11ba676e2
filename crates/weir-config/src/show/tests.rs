//! What `show` must do, by example.

use crate::sample::good;

const TEXT: &str = "[upstream.app]
origins = [\"http://a\"]
[defaults]
stale = { while_revalidate = \"1m\", if_error = \"1h\" }
[[site]]
hosts = [\"a.example\", \"*.b.example\"]
upstream = \"app\"
request_headers = { set = { Authorization = \"Bearer ${TOKEN}\" } }
[[site.route]]
path = \"/img/**\"
method = [\"GET\", \"HEAD\"]
stale = { if_error = \"2h\" }
ttl = \"5m\"
[[site.route]]
path = \"/old\"
redirect = \"/new\"
";

#[test]
fn each_route_with_what_it_inherits() {
    let expected = "\
site a.example, *.b.example                                                 weir.toml:5
  route 1  path /img/**, method GET HEAD                                    weir.toml:9
    stale.if_error = \"2h\"                                         route     weir.toml:12
    ttl = \"5m\"                                                    route     weir.toml:13
    upstream = \"app\"                                              site      weir.toml:7
    request_headers.set.Authorization = \"Bearer ${TOKEN}\"         site      weir.toml:8
    stale.while_revalidate = \"1m\"                                 defaults  weir.toml:4
  route 2  path /old                                                        weir.toml:14
    redirect = \"/new\"                                             route     weir.toml:16
    request_headers.set.Authorization = \"Bearer ${TOKEN}\"         site      weir.toml:8
    stale.while_revalidate = \"1m\"                                 defaults  weir.toml:4
    stale.if_error = \"1h\"                                         defaults  weir.toml:4
  otherwise                                                                 weir.toml:5
    upstream = \"app\"                                              site      weir.toml:7
    request_headers.set.Authorization = \"Bearer ${TOKEN}\"         site      weir.toml:8
    stale.while_revalidate = \"1m\"                                 defaults  weir.toml:4
    stale.if_error = \"1h\"                                         defaults  weir.toml:4

";
    let found = super::show(&good(TEXT));
    assert!(found == expected, "{found}");
    assert!(!found.contains("secret"));
}

#[test]
fn what_is_undone_or_long_is_not_shown_as_it_stands() {
    let long = "x".repeat(100);
    let shown = super::show(&good(&format!(
        "[upstream.app]\norigins = [\"http://a\"]\n[defaults]\n\
         response_headers = {{ set = {{ X-A = \"1\", X-B = \"2\" }} }}\n
[[site]]\nhosts = [\"*\"]\nupstream = \"app\"\nresponse_headers = {{ remove = [\"x-a\"] }}\n\
error_pages = {{ \"*\" = \"{long}\" }}\n"
    )));
    assert!(!shown.contains("X-A") && shown.contains("set.X-B"), "{shown}");
    assert!(shown.contains(&format!("\"{}…", "x".repeat(59))) && !shown.contains(&long), "{shown}");
}

#[test]
fn the_same_as_json() {
    let json = super::show_json(&good(TEXT));
    let setting = &json[0]["routes"][0]["settings"][0];
    assert_eq!(setting["key"], "stale.if_error");
    assert_eq!(setting["value"], "\"2h\"");
    assert_eq!((setting["from"].as_str(), setting["place"].as_str()), (Some("route"), Some("weir.toml:12")));
    assert_eq!(json[0]["routes"][2]["conditions"], "every request");
}

#[test]
fn what_is_set_of_tls_is_shown_without_secrets() {
    let text = "[[listen]]\naddress = \"0.0.0.0:80\"\n[[listen]]\naddress = \"0.0.0.0:443\"\ntls = true\n\
                [acme]\ncontact = [\"a@b.example\"]\neab = { key_id = \"1\", hmac_key = \"c2VjcmV0\" }\n\
                [upstream.app]\norigins = [\"http://a\"]\n\
                [[site]]\nhosts = [\"a.example.com\"]\nupstream = \"app\"\nhttps = \"redirect\"\n";
    let loaded = good(text);
    let shown = crate::show(&loaded);
    for expected in
        ["listen  ", "  tls = true  ", "acme  ", "  eab = (not shown)  ", "  https = \"redirect\"  "]
    {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    assert!(!shown.contains("0.0.0.0:80\"") && !shown.contains("c2VjcmV0"), "{shown}");
    let json = crate::show_json(&loaded);
    assert_eq!(json[0]["settings"][0]["key"], "https", "{json:#}");
    assert!(loaded.warnings().is_empty(), "{:?}", loaded.warnings());
}

#[test]
fn what_sites_ask_of_tls_without_a_listener_that_has_it_is_warned_of() {
    let text = "[upstream.app]\norigins = [\"http://a\"]\n[[site]]\nhosts = [\"a.example\"]\n\
                upstream = \"app\"\nhttps = \"redirect\"\nhsts = { max_age = \"1d\" }\n";
    let warned = good(text).warnings();
    let expect = "the site a.example sets `https`, `hsts`, and no `[[listen]]` has `tls = true`";
    assert!(warned.iter().any(|warning| warning.ends_with(expect)), "{warned:?}");
    // A proxy in front may have TLS.
    let behind = format!("trusted_proxies = [\"10.0.0.0/8\"]\n{text}");
    assert!(!good(&behind).warnings().iter().any(|warning| warning.contains("tls = true")));
    let own = format!("{behind}certificate = \"self\"\n");
    let warned = good(&own).warnings();
    assert!(warned.iter().any(|warning| warning.contains("sets `certificate`, and no")), "{warned:?}");
}

#[test]
fn tokens_in_the_clear_are_warned_of() {
    let warned = |admin: &str| {
        let text = format!(
            "[admin]\n{admin}\n[upstream.app]\norigins = [\"http://a\"]\n[[site]]\n\
             hosts = [\"a.example\"]\nupstream = \"app\"\ncertificate = \"self\"\n"
        );
        let all = good(&text).warnings();
        all.iter().any(|warning| warning.contains("tokens of the API can be read on their way"))
    };
    for clear in ["0.0.0.0:9180", "[::]:9180", "192.0.2.7:9180", "[2001:db8::1]:9180"] {
        assert!(warned(&format!("listen = \"{clear}\"")), "{clear}");
        assert!(!warned(&format!("listen = \"{clear}\"\ntls = true")), "{clear}");
    }
    for own in ["127.0.0.1:9180", "127.9.9.9:9180", "[::1]:9180", "[::ffff:127.0.0.1]:9180"] {
        assert!(!warned(&format!("listen = \"{own}\"")), "{own}");
    }
    assert!(!warned(""));
}
