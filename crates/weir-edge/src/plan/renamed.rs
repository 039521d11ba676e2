//! What a reload marks (ADR 0094). Marks name what is held as the plan in force does, so that a purge under
//! one plan misses what lies under names of another: what a reload changes of names is marked at the reload.
//! It must not know what is held.

use std::collections::BTreeSet;

use weir_store::{Mark, Scope};

use super::{Plan, Site};

/// Beyond so many hosts of a site that have gone elsewhere, all of the site is marked.
const HOSTS_MAX: usize = 8;

/// What is marked where one plan takes the place of another: all that lies under names which the new one does
/// not give.
pub(crate) fn renamed(before: &Plan, now: &Plan) -> Vec<Mark> {
    let of = |plan: &Plan, mark: u64| plan.sites.iter().position(|site| site.mark == mark);
    let mut gone: BTreeSet<u64> = BTreeSet::new();
    for site in &before.sites {
        let same = of(now, site.mark).map(|at| &now.sites[at]);
        if same.is_none_or(|same| same.naming != site.naming) {
            gone.insert(site.mark);
        }
    }
    let mut moved: Vec<(u64, &str)> = Vec::new();
    for (pattern, is_one) in before.patterns().chain(now.patterns()) {
        let Some(had) = before.owner(pattern, is_one).map(|site| site.mark) else { continue };
        if now.owner(pattern, is_one).is_some_and(|site| site.mark == had) {
            continue;
        }
        match is_one {
            true if !moved.contains(&(had, pattern)) => moved.push((had, pattern)),
            true => {}
            // Its hosts cannot be written as prefixes.
            false => drop(gone.insert(had)),
        }
    }
    for site in &before.sites {
        if moved.iter().filter(|(of, _)| *of == site.mark).count() > HOSTS_MAX {
            gone.insert(site.mark);
        }
    }
    let whole = gone.iter().map(|mark| Mark::hard(Scope::Site(*mark)));
    let hosts = moved.iter().filter(|(of, _)| !gone.contains(of));
    let hosts = hosts.flat_map(|(site, host)| {
        // With each port that clients may write.
        let begins = ["http", "https"].map(|scheme| ["/", ":"].map(|end| format!("{scheme}://{host}{end}")));
        begins.into_iter().flatten().map(|text| Mark::hard(Scope::prefix(*site, &text)))
    });
    whole.chain(hosts).collect()
}

impl Plan {
    /// All patterns of hosts, and whether each is one host. What follows the `*` stands for a wildcard, an
    /// empty text for all hosts.
    fn patterns(&self) -> impl Iterator<Item = (&str, bool)> {
        let exact = self.exact.keys().map(|name| (&**name, true));
        let below = self.below.keys().map(|suffix| (&**suffix, false));
        exact.chain(below).chain(self.default.map(|_| ("", false)))
    }

    /// The site of a pattern's hosts, but for those that a narrower pattern takes.
    fn owner(&self, pattern: &str, is_one: bool) -> Option<&Site> {
        match is_one {
            true => self.site(pattern).map(|site| &**site),
            false => {
                let found = if pattern.is_empty() { None } else { self.wildcard(&format!("*{pattern}")) };
                found.or(self.default).map(|position| &*self.sites[position])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_observe::SiteId;

    use super::*;
    use crate::plan::tests::load;

    fn plan(sites: &str) -> Plan {
        let text = format!("[upstream.a]\norigins = [\"http://a:1\"]\n{sites}");
        Plan::compile(&load(&text), &|_| SiteId::NONE)
    }

    fn site(hosts: &str, more: &str) -> String {
        format!("[[site]]\nhosts = [{hosts}]\nupstream = \"a\"\n{more}\n")
    }

    fn marks(before: &str, now: &str) -> BTreeSet<String> {
        let sites = ["a.test", "b.test", "*.test", "*"].map(weir_policy::site_hash);
        let shown = |mark: &Mark| match mark.scope {
            Scope::Site(site) => ["a.test", "b.test", "*.test", "*"]
                .into_iter()
                .find(|name| weir_policy::site_hash(name) == site)
                .map(|name| format!("site {name}"))
                .unwrap(),
            scope => {
                let is_it = |text: &String| {
                    matches!(scope, Scope::Prefix { length, .. } if length as usize == text.len())
                        && sites.iter().any(|site| {
                            let key = weir_policy::CacheKey::new(text.clone().into());
                            scope.concerns(&key.of_site(*site), &weir_policy::Tags::default())
                        })
                };
                let hosts = ["a.test", "b.test", "c.test"].into_iter();
                let texts = hosts.flat_map(|host| {
                    ["http", "https"].map(|s| ["/", ":"].map(|e| format!("{s}://{host}{e}")))
                });
                texts.flatten().find(is_it).unwrap()
            }
        };
        renamed(&plan(before), &plan(now)).iter().map(shown).collect()
    }

    fn check(before: &str, now: &str, expect: &[&str]) {
        let expect: BTreeSet<String> = expect.iter().map(ToString::to_string).collect();
        assert_eq!(marks(before, now), expect, "{before} → {now}");
    }

    #[test]
    fn hosts_that_go_elsewhere() {
        let (one, two) = (site("\"a.test\"", ""), site("\"a.test\", \"b.test\"", ""));
        check(&one, &two, &[]);
        let of_b = ["http://b.test/", "http://b.test:", "https://b.test/", "https://b.test:"];
        check(&two, &one, &of_b);
        check(&two, &site("\"b.test\", \"a.test\"", ""), &["site a.test"]);
        check(&two, &format!("{one}{}", site("\"b.test\"", "")), &of_b);
        let wide = site("\"*.test\"", "");
        check(
            &wide,
            &format!("{wide}{one}"),
            &["http://a.test/", "http://a.test:", "https://a.test/", "https://a.test:"],
        );
        check(&format!("{wide}{one}"), &wide, &["site a.test"]);
        check(&site("\"a.test\", \"*\"", ""), &one, &["site a.test"]);
        check(&site("\"*\"", ""), &format!("{}{wide}", site("\"*\"", "")), &["site *"]);
    }

    #[test]
    fn keys_that_name_otherwise() {
        let of = |more: &str| site("\"a.test\"", more);
        let drop = "key = { query = { drop = [\"utm_*\"] } }";
        let route = "[[site.route]]\nprefix = \"/x/\"\n";
        check(&of(""), &of(drop), &["site a.test"]);
        check(&of(drop), &of(&format!("{drop}\n{route}ttl = \"1h\"")), &[]);
        check(&of(drop), &of(&format!("{drop}\n{route}key = {{ query = \"none\" }}")), &["site a.test"]);
        check(&of(""), &of("key = { headers = [\"X-A\"] }"), &[]);
        let redirect = "[[site.route]]\nprefix = \"/old/\"\nredirect = \"/\"\n";
        let mixed = format!("{route}key = {{ query = \"none\" }}\n");
        check(&of(&mixed), &of(&format!("{redirect}{mixed}")), &[]);
        check(&of(&mixed), &of(&mixed.replace("/x/", "/y/")), &["site a.test"]);
    }
}
