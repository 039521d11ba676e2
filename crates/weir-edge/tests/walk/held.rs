//! The same bytes, held in each way that there is: as a stored response, as a file below the root, as content
//! laid by hand. What is decided once for all of them is asked of each.

use std::time::{Duration, UNIX_EPOCH};

use weir_testkit::{Origin, Resource, Response};

use crate::kit::{Weir, message, server, setup};

/// How long ago the bytes changed.
const DAY: Duration = Duration::from_secs(86_400);

/// What holds a representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A generation in the store.
    Stored,
    /// A file below the root.
    File,
    /// Content by hand.
    ByHand,
}

impl Kind {
    pub fn target(self) -> &'static str {
        match self {
            Kind::Stored => "/stored.css",
            Kind::File => "/file.css",
            Kind::ByHand => "/laid.css",
        }
    }
}

/// A Weir that holds the same bytes in each way.
pub struct Holding {
    pub weir: Weir,
    pub origin: Origin,
    body: Vec<u8>,
}

/// The bytes, as one of the kinds holds them.
#[derive(Clone)]
pub struct Held<'h> {
    pub kind: Kind,
    pub weir: &'h Weir,
    pub body: &'h [u8],
    pub tag: String,
    pub modified: String,
}

/// The type that each of them has.
pub const TYPE: &str = "text/css; charset=utf-8";

impl Holding {
    /// These bytes, and more lines of the site.
    pub fn new(body: &[u8], site: &str) -> Holding {
        let origin = Origin::start();
        let resource = Resource::fresh(body).etag("\"1\"").modified_ago(DAY);
        origin.put(Kind::Stored.target(), resource.header("Content-Type", TYPE));
        let setup = setup();
        let root = setup.folder().join("www");
        std::fs::create_dir(&root).unwrap();
        let file = std::fs::File::create(root.join(&Kind::File.target()[1..])).unwrap();
        std::io::Write::write_all(&mut &file, body).unwrap();
        file.set_modified(UNIX_EPOCH + 10_000 * DAY).unwrap();
        let site = format!("root = \"www\"\nfallback = \"upstream\"\n{site}");
        let weir = server(&[&origin]).site(&site).start_in(setup);
        // A file that changed a moment ago may still be written, and has a weak tag.
        let now = weir.inside(|_| weir_edge::simulated::now());
        weir.set_wall(now.wall + Duration::from_secs(5));
        weir.lay(&format!("localhost{}", Kind::ByHand.target()), body);
        Holding { weir, origin, body: body.to_owned() }
    }

    /// All kinds.
    pub fn each(&self) -> [Held<'_>; 3] {
        [Kind::Stored, Kind::File, Kind::ByHand].map(|kind| {
            let first = self.weir.get(kind.target());
            assert!(first.status() == 200 && first.body == self.body, "{kind:?}: {:?}", first.head);
            let [tag, modified] = ["etag", "last-modified"].map(|name| first.header(name).unwrap());
            Held { kind, weir: &self.weir, body: &self.body, tag, modified }
        })
    }
}

impl Held<'_> {
    /// A GET with these fields. `{tag}` and `{modified}` are those of the representation, `{earlier}` and
    /// `{later}` dates beside that one.
    pub fn get(&self, fields: &[(&str, &str)]) -> Response {
        self.send("GET", fields)
    }

    pub fn send(&self, method: &str, fields: &[(&str, &str)]) -> Response {
        let modified = httpdate::parse_http_date(&self.modified).unwrap();
        let [earlier, later] = [modified - Duration::from_secs(1), modified + Duration::from_secs(1)]
            .map(httpdate::fmt_http_date);
        let filled = |value: &str| {
            let value = value.replace("{tag}", &self.tag).replace("{modified}", &self.modified);
            value.replace("{earlier}", &earlier).replace("{later}", &later)
        };
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, filled(value))).collect();
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, &**value)).collect();
        let found = self.weir.send(&message(method, "localhost", self.kind.target(), &fields));
        let how = found.cache_status();
        let is_of_kind = match self.kind {
            Kind::Stored => found.is_hit() || matches!(found.status(), 412 | 416),
            Kind::File => how.ends_with("file") || matches!(found.status(), 412 | 416),
            Kind::ByHand => how.ends_with("by-hand") || matches!(found.status(), 412 | 416),
        };
        assert!(is_of_kind, "{:?} {fields:?}: {:?}", self.kind, found.head);
        found
    }
}
