//! What a configuration needs of the program that a build may lack. Must not know what a build has.

use crate::{Loaded, Mistakes, mistake::Mistake, tree::Node};

/// A part of the program that a build may lack and a configuration may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// DNS lookups of its own: `resolve = "each"`.
    Dns,
    /// Picks by script: `[pick.NAME] script = …`.
    Scripts,
}

impl Loaded {
    /// Whether a program can run it that lacks some parts, each with the sentence that says so.
    ///
    /// # Errors
    /// A mistake at each place that needs one of them.
    pub fn fits(&self, lacked: &[(Part, String)]) -> Result<(), Mistakes> {
        let at = |(part, sentence): &(Part, String)| {
            let of = |node: &&Node| Mistake::at(node.span, sentence);
            needing(&self.tree, *part).iter().map(of).collect::<Vec<_>>()
        };
        let mistakes: Vec<Mistake> = lacked.iter().flat_map(at).collect();
        match mistakes.is_empty() {
            true => Ok(()),
            false => Err(Mistakes::new(mistakes, self.sources.clone())),
        }
    }
}

/// The values that need a part.
fn needing(tree: &Node, part: Part) -> Vec<&Node> {
    let (table, key) = match part {
        Part::Dns => ("upstream", "resolve"),
        Part::Scripts => ("pick", "script"),
    };
    let tables = tree.get(table).and_then(Node::as_table).into_iter().flat_map(|table| &table.entries);
    let values = tables.filter_map(|entry| entry.node.get(key));
    values.filter(|value| part != Part::Dns || value.as_text() == Some("each")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::good;

    const TEXT: &str = "\
[upstream.one]
origins = [\"http://one.test\"]
resolve = \"one\"
[upstream.each]
origins = [\"http://each.test\"]
resolve = \"each\"
pick = \"mine\"
[pick.mine]
script = \"Cargo.toml\"
[pick.others]
distributor = [\"udp://127.0.0.1:10010\"]
[[site]]
hosts = [\"*\"]
upstream = \"each\"
";

    /// What is wrong with the text for a program that lacks these.
    fn lacking(lacked: &[(Part, &str)]) -> Vec<(u32, u32, String)> {
        let lacked: Vec<_> = lacked.iter().map(|(part, why)| (*part, (*why).to_owned())).collect();
        let Err(mistakes) = good(TEXT).fits(&lacked) else { return Vec::new() };
        let all = mistakes.sentences().into_iter();
        all.filter_map(|(place, why)| place.map(|place| (place.line, place.column, why))).collect()
    }

    #[test]
    fn each_place_that_needs_what_is_lacked_is_named() {
        assert!(lacking(&[]).is_empty());
        assert_eq!(lacking(&[(Part::Dns, "no DNS")]), [(6, 11, "no DNS".to_owned())]);
        assert_eq!(lacking(&[(Part::Scripts, "no scripts")]), [(9, 10, "no scripts".to_owned())]);
        assert_eq!(lacking(&[(Part::Scripts, "no scripts"), (Part::Dns, "no DNS")]).len(), 2);
    }

    #[test]
    fn it_is_shown_with_its_line() {
        let mistakes = good(TEXT).fits(&[(Part::Dns, "no DNS".to_owned())]).unwrap_err().to_string();
        assert!(mistakes.contains("error: no DNS") && mistakes.contains("weir.toml:6:11"), "{mistakes}");
        assert!(mistakes.contains("resolve = \"each\"") && mistakes.contains("^^^^^^"), "{mistakes}");
    }
}
