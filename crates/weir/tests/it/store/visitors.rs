//! Small objects that a volume has while memory is full: what is asked for once pushes nothing out, and
//! stays what it was.

use weir_testkit::{Origin, Resource};

use crate::durable::settle;
use crate::server::server;

const LENGTH: usize = 14_000;
/// More than memory holds, and remembers as evicted.
const COUNT: usize = 3000;
/// The first ones are fresh for a second only.
const SHORT: usize = 10;

fn body(number: usize) -> Vec<u8> {
    format!("{number:08}").repeat(LENGTH / 8).into_bytes()
}

#[test]
fn what_is_asked_for_once_visits_memory_and_is_validated_purged_and_exact_as_ever() {
    let origin = Origin::start();
    for number in 0..COUNT {
        let lifetime = if number < SHORT { 1 } else { 6000 };
        let resource = Resource::fresh(body(number)).etag("\"1\"");
        let resource = resource.header("Cache-Control", &format!("max-age={lifetime}"));
        origin.put(&format!("/{number}"), resource);
    }
    let more = "[cache]\nmemory = \"16MiB\"\nadmission = \"always\"\n\
                [[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"256MiB\"";
    let weir = server(&[&origin]).more(more).start();
    let mut client = weir.client();
    let mut ask = |number: usize| client.get("here.test", &format!("/{number}"), &[]);
    (0..COUNT).for_each(|number| assert!(ask(number).body == body(number)));
    settle(&weir);
    let evicted = || weir.metric("weir_cache_evicted_total").unwrap();
    let before = evicted();
    assert!(before > 0.0, "memory is full");
    for number in SHORT..SHORT + 40 {
        let found = ask(number);
        assert!(found.is_hit() && found.body == body(number), "{number}: {}", found.cache_status());
    }
    assert!(evicted() - before < 10.0, "what comes once pushes nothing out: {}", evicted() - before);
    assert_eq!(origin.total(), COUNT);
    // What is stale is validated, not fetched again.
    for number in 0..SHORT {
        let found = ask(number);
        assert!(found.cache_status().contains("fwd=stale; fwd-status=304"), "{}", found.cache_status());
        assert!(found.body == body(number));
    }
    let asked = origin.requests("/9");
    assert_eq!(asked.last().and_then(|asked| asked.header("if-none-match")).as_deref(), Some("\"1\""));
    let said = weir.command(&["purge", "here.test/60"]);
    assert!(said.stdout.starts_with("purged: "), "{said:?}");
    let fetched = ask(60);
    assert!(
        fetched.cache_status().contains("fwd=") && fetched.body == body(60),
        "{}",
        fetched.cache_status()
    );
    assert_eq!(origin.total(), COUNT + SHORT + 1);
}
