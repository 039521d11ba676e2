//! The names by which session ids tell origins apart (elsewhere: *route*, *jvmRoute*). It must not know a
//! session.

use weir_client::is_service;

use crate::settings::OriginSettings;

/// The name of an origin in session ids, if it has one: its `id`. Behind that of an address of a name stands
/// the address, with `-` for all but letters and digits (`app-10-0-0-7`), and of a service its port as well.
pub(crate) fn of(origin: &OriginSettings) -> Option<String> {
    let id = origin.node.as_ref()?;
    let Some(at) = origin.at else { return Some(id.clone()) };
    let is_service = origin.address.host().is_some_and(is_service);
    let here = if is_service { format!("{}-{}", at.ip(), at.port()) } else { at.ip().to_string() };
    Some(format!("{id}-{}", here.replace(['.', ':'], "-")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::affinity::suffix;

    #[test]
    fn each_address_of_a_name_has_a_name_in_session_ids() {
        let of = |url: &str, at: Option<&str>| {
            let address = url.parse().unwrap();
            let at = at.map(|at| at.parse().unwrap());
            let node = of(&OriginSettings { at, node: Some("app".into()), ..OriginSettings::new(address) });
            let node = node.unwrap();
            assert_eq!(suffix::node(format!("0A4F.{node}").as_bytes()), Some(&*node));
            node
        };
        assert_eq!(of("http://a.test", None), "app");
        assert_eq!(of("http://a.test", Some("10.0.0.7:8080")), "app-10-0-0-7");
        assert_eq!(of("http://a.test", Some("[2001:db8::7]:80")), "app-2001-db8--7");
        assert_eq!(of("http://_http._tcp.a.test", Some("10.0.0.7:8080")), "app-10-0-0-7-8080");
        let longest = OriginSettings {
            at: "[1111:2222:3333:4444:5555:6666:7777:8888]:65535".parse().ok(),
            node: Some("n".repeat(64)),
            ..OriginSettings::new("http://_http._tcp.a.test".parse().unwrap())
        };
        assert!(suffix::is_node(&super::of(&longest).unwrap()));
    }
}
