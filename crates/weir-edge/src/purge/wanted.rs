//! From what a request asks for to marks: which sites and hosts it means, and where its client may do that.
//! It must not answer.

use std::collections::BTreeSet;

use http::{HeaderMap, Method};
use serde_json::{Value, json};
use weir_policy::RequestView;
use weir_policy::purge::{Asked, Everything, Hosts, What};
use weir_policy::tags::tag_hash;
use weir_store::{Force, Mark, Scope};
use weir_wire::{Host, without_dots};

use super::rights::of_site;
use super::{Name, Place, places, site_of};
use crate::plan::{Plan, Site};
use crate::route::{Purger, Rights, Unknown};

/// Beyond so many marks of tags, the sites are marked instead: each of their objects goes.
const TAG_MARKS_MAX: usize = 16_384 / 4;
/// The same for the hosts of a site.
const HOST_MARKS_MAX: usize = 64;
/// The same for the names of URLs in keys.
const NAME_MARKS_MAX: usize = 1024;
/// The same for the hosts that a request names.
const NAMED_MAX: usize = 1024;

/// What a purge by a client does.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) marks: Vec<Mark>,
    /// What was done: `exact`, `wildcard`, `tags` or `all`.
    pub(crate) result: &'static str,
    /// The only URL, as `places` reads it.
    pub(crate) url: Option<String>,
    /// What goes, for people.
    pub(crate) text: String,
    /// The same as JSON, as the API has it.
    pub(crate) scope: Value,
    /// The sites that are concerned.
    pub(crate) sites: Vec<String>,
    /// The same URL by the other scheme, where the client may not purge that.
    pub(crate) left: Vec<String>,
    /// Whether more goes than was asked for.
    pub(crate) is_wider: bool,
    /// Whether a whole site went, since the ledger has no room for so many marks.
    pub(crate) is_beyond: bool,
}

/// Why a client's purge is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The client may not purge there.
    NotAllowed,
    /// The client may purge one URL at a time there.
    OneUrl,
    /// No site has the host.
    NoSite,
}

/// The request, for its place in the plan.
#[derive(Clone, Copy)]
pub(crate) struct From<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) host: &'a Host,
    /// What its client may purge by the route of its own URL.
    pub(crate) own: Rights,
    pub(crate) purger: Purger<'a>,
}

/// A site that is meant, and the authority that is; none for all of the site.
type Target<'a> = (&'a Site, Option<String>);

impl<'a> From<'a> {
    /// The site that the request's host names. A bare address or a name without a dot that only a site for
    /// all hosts takes is the cache's own.
    fn site(&self) -> Option<&'a Site> {
        let site = self.plan.site(self.host.name())?;
        let is_own = self.host.name().parse::<std::net::IpAddr>().is_ok()
            || self.host.name().starts_with('[')
            || !self.host.name().contains('.');
        (!is_own || self.plan.names(self.host.name())).then_some(site)
    }

    /// Whether the client may purge anything anywhere.
    pub(crate) fn may_something(&self) -> bool {
        self.own != Rights::Nothing
            || self.plan.sites().iter().any(|site| of_site(&self.purger, site) != Rights::Nothing)
    }

    /// The marks for what is asked.
    ///
    /// # Errors
    /// [`Refused`].
    pub(crate) fn wanted(&self, asked: &Asked) -> Result<Wanted, Refused> {
        if let (What::Url(path), Hosts::Own) = (&asked.what, &asked.hosts) {
            return self.one_url(path);
        }
        let named = self.targets(asked)?;
        let rights = |(site, _): &Target<'_>| self.rights(site, &asked.what);
        let may: Vec<Target<'_>> =
            named.iter().filter(|target| rights(target) == Rights::Anything).cloned().collect();
        if may.is_empty() {
            let is_own = asked.hosts == Hosts::Own && self.own != Rights::Nothing;
            let is_some = is_own || named.iter().any(|target| rights(target) > Rights::Nothing);
            return Err(if is_some { Refused::OneUrl } else { Refused::NotAllowed });
        }
        let mut wanted = Wanted { is_wider: asked.unread.is_some(), ..Wanted::default() };
        // A host may be named twice.
        let sites: BTreeSet<u64> = may.iter().map(|(site, _)| site.mark).collect();
        let is_everywhere = sites.len() > 1 && sites.len() == self.plan.sites().len();
        match &asked.what {
            What::Url(path) => {
                wanted.result = "exact";
                wanted.add_paths(self.plan, &may, path, |place| place.names());
            }
            What::Prefix(path) => {
                wanted.result = "wildcard";
                wanted.add_paths(self.plan, &may, path, |place| place.names_below());
            }
            What::Tags { hard, soft } => {
                wanted.add_tags(&may, is_everywhere, hard, Force::Hard);
                wanted.add_tags(&may, is_everywhere, soft, Force::Soft);
            }
            What::Everything(all) => {
                let force = if *all == Everything::Hard { Force::Hard } else { Force::Soft };
                wanted.add_sites(&may, is_everywhere, force);
            }
        }
        (wanted.text, wanted.scope) = (described(asked, &may), scope(asked, &self.host_text(asked)));
        let mut sites: Vec<String> = may.iter().map(|(site, _)| site.name.to_string()).collect();
        sites.dedup();
        wanted.sites = sites;
        Ok(wanted)
    }

    /// What the client may of a site. Where a path is named, its route must allow that as well: a route's own
    /// `purge` takes the place of the site's.
    fn rights(&self, site: &Site, what: &What) -> Rights {
        let of_site = of_site(&self.purger, site);
        let (What::Url(path) | What::Prefix(path)) = what else { return of_site };
        let target = without_dots(path);
        let headers = HeaderMap::new();
        let of_routes = |(method, scheme): (&Method, &str)| {
            let view = RequestView {
                method,
                scheme,
                host: "",
                path_and_query: &target,
                headers: &headers,
                has_body: false,
                is_trusted: false,
            };
            // Whatever its host is, and by whichever port of ours its objects came to be.
            let routes = site.candidates(&view, Unknown::HostAndPort);
            let rights = routes.iter().map(|route| route.purgers.rights(&self.purger));
            rights.min().unwrap_or(Rights::Nothing)
        };
        let asked = [Method::GET, Method::HEAD];
        let asked = asked.iter().flat_map(|method| ["http", "https"].map(|scheme| (method, scheme)));
        asked.map(of_routes).fold(of_site, Rights::min)
    }

    /// One URL, under each scheme where the client may purge it.
    fn one_url(&self, path: &str) -> Result<Wanted, Refused> {
        let site = self.plan.site(self.host.name()).ok_or(Refused::NoSite)?;
        if self.own == Rights::Nothing {
            return Err(Refused::NotAllowed);
        }
        let url = format!("{}{path}", self.host.as_str());
        let places = places(self.plan, &url).map_err(|_| Refused::NoSite)?;
        let is_allowed = |place: &Place<'_>| place.rights(&self.purger) != Rights::Nothing;
        let (may, left): (Vec<_>, Vec<_>) = places.into_iter().partition(is_allowed);
        let url = match may.as_slice() {
            [] => return Err(Refused::NotAllowed),
            [one] => one.text(),
            _ => url,
        };
        let names: Vec<Name> = may.iter().flat_map(Place::names).collect();
        let is_wider = names.iter().any(|name| name.is_wider);
        if is_wider && self.rights(site, &What::Prefix(path.to_owned())) != Rights::Anything {
            return Err(Refused::OneUrl);
        }
        Ok(Wanted {
            marks: names.iter().map(Name::scope).map(Mark::hard).collect(),
            result: if is_wider { "wildcard" } else { "exact" },
            text: url.clone(),
            scope: json!({ "url": url }),
            sites: vec![site.name.to_string()],
            url: Some(url),
            left: left.iter().map(Place::text).collect(),
            is_wider,
            is_beyond: false,
        })
    }

    /// The hosts that are named, for the history.
    fn host_text(&self, asked: &Asked) -> String {
        match &asked.hosts {
            Hosts::Own => self.host.as_str().to_owned(),
            Hosts::Named(names) => names.join("|"),
            Hosts::All => "*".to_owned(),
        }
    }

    /// The sites that are meant.
    fn targets(&self, asked: &Asked) -> Result<Vec<Target<'a>>, Refused> {
        let all = || self.plan.sites().iter().map(|site| (&**site, None)).collect();
        Ok(match &asked.hosts {
            Hosts::All => all(),
            Hosts::Own => match (self.site(), &asked.what) {
                (Some(site), _) => vec![(site, Some(self.host.as_str().to_owned()))],
                (None, What::Tags { .. } | What::Everything(_)) => all(),
                (None, What::Url(_) | What::Prefix(_)) => return Err(Refused::NoSite),
            },
            Hosts::Named(names) => {
                let mut named: Vec<Target<'_>> = Vec::new();
                for name in names {
                    if let Some(site) = site_of(self.plan, name) {
                        named.push((site, Some(name.to_ascii_lowercase())));
                    }
                }
                if named.is_empty() {
                    return Err(Refused::NoSite);
                }
                named
            }
        })
    }
}

impl Wanted {
    fn mark(&mut self, scope: Scope, force: Force) {
        let mark = Mark { scope, force };
        if !self.marks.contains(&mark) {
            self.marks.push(mark);
        }
    }

    /// Marks a whole site, where less was asked for.
    fn widen(&mut self, site: &Site) {
        (self.is_wider, self.result) = (true, "all");
        self.mark(Scope::Site(site.mark), Force::Hard);
    }

    /// Marks a path on each host that is meant; where that is all of a site with hosts that are not written
    /// out, or has too many names, the site.
    fn add_paths(
        &mut self,
        plan: &Plan,
        targets: &[Target<'_>],
        path: &str,
        names: impl Fn(&Place<'_>) -> Vec<Name>,
    ) {
        if targets.len() > NAMED_MAX {
            return targets.iter().for_each(|(site, _)| self.widen(site));
        }
        for (site, authority) in targets {
            let authorities = match authority {
                Some(authority) => Some(vec![authority.clone()]),
                None => site.authorities.clone().filter(|all| all.len() <= HOST_MARKS_MAX),
            };
            let mut of_site = Vec::new();
            for authority in authorities.into_iter().flatten() {
                let found = places(plan, &format!("{authority}{path}")).unwrap_or_default();
                if found.is_empty() || of_site.len() > NAME_MARKS_MAX {
                    of_site.clear();
                    break;
                }
                of_site.extend(found.iter().flat_map(&names));
            }
            if of_site.is_empty() || of_site.len() > NAME_MARKS_MAX {
                self.widen(site);
                continue;
            }
            if of_site.iter().any(|name| name.is_wider) {
                (self.is_wider, self.result) = (true, "wildcard");
            }
            of_site.iter().for_each(|name| self.mark(name.scope(), Force::Hard));
        }
    }

    fn add_tags(&mut self, targets: &[Target<'_>], is_everywhere: bool, tags: &[Vec<u8>], force: Force) {
        if tags.is_empty() {
            return;
        }
        if !is_everywhere && tags.len().saturating_mul(targets.len()) > TAG_MARKS_MAX {
            self.is_wider = true;
            return self.add_sites(targets, false, force);
        }
        self.result = if self.result.is_empty() { "tags" } else { self.result };
        let sites: Vec<u64> = match is_everywhere {
            true => vec![0],
            false => targets.iter().map(|(site, _)| site.mark).collect(),
        };
        for site in sites {
            let scope = |tag: &Vec<u8>| Scope::Tag { site, hash: tag_hash(tag) };
            self.marks.extend(tags.iter().map(|tag| Mark { scope: scope(tag), force }));
        }
    }

    fn add_sites(&mut self, targets: &[Target<'_>], is_everywhere: bool, force: Force) {
        self.result = "all";
        match is_everywhere {
            true => self.mark(Scope::All, force),
            false => {
                let mark = |(site, _): &Target<'_>| Mark { scope: Scope::Site(site.mark), force };
                self.marks.extend(targets.iter().map(mark));
            }
        }
    }
}

/// What goes as JSON, with the hosts that the request names.
fn scope(asked: &Asked, hosts: &str) -> Value {
    let shown = |tags: &[Vec<u8>]| tags.iter().map(|tag| tag.escape_ascii().to_string()).collect::<Vec<_>>();
    let mut scope = match &asked.what {
        What::Url(path) => json!({ "url": format!("{hosts}{path}") }),
        What::Prefix(path) => json!({ "prefix": format!("{hosts}{path}") }),
        What::Tags { hard, soft } if soft.is_empty() => json!({ "host": hosts, "tags": shown(hard) }),
        What::Tags { hard, soft } => json!({ "host": hosts, "tags": shown(hard), "soft-tags": shown(soft) }),
        What::Everything(Everything::Hard) => json!({ "host": hosts, "all": true }),
        What::Everything(Everything::Soft) => json!({ "host": hosts, "all": true, "soft": true }),
    };
    if let Some(unread) = &asked.unread {
        scope["unread"] = Value::from(unread.chars().take(TEXT_CHARS_MAX).collect::<String>());
    }
    scope
}

/// The most characters of a description, and the most names in it.
const TEXT_CHARS_MAX: usize = 1000;
const NAMES_MAX: usize = 20;

/// What goes, for people. Bytes that are not ASCII are escaped.
fn described(asked: &Asked, targets: &[Target<'_>]) -> String {
    let mut sites: Vec<&str> = targets.iter().map(|(site, _)| &*site.name).collect();
    sites.dedup();
    let listed = |names: &[&str]| match names.len() {
        ..=NAMES_MAX => names.join(", "),
        more => format!("{} and {} more", names[..NAMES_MAX].join(", "), more - NAMES_MAX),
    };
    let what = match &asked.what {
        What::Url(path) => path.clone(),
        What::Prefix(path) => format!("all that begins with {path}"),
        What::Tags { hard, soft } => {
            let shown = |tag: &Vec<u8>| tag.escape_ascii().to_string();
            let tags: Vec<String> = hard.iter().chain(soft).take(NAMES_MAX + 1).map(shown).collect();
            let mut tags: Vec<&str> = tags.iter().map(String::as_str).collect();
            tags.resize(hard.len() + soft.len(), "");
            format!("the tags {}", listed(&tags))
        }
        What::Everything(_) => "everything".to_owned(),
    };
    let unread = asked.unread.as_ref().map(|text| format!(", for {text}")).unwrap_or_default();
    let text = format!("{what} of {}{unread}", listed(&sites));
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
