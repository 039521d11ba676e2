//! The tables that a value may come from, the nearest first, and places in them. Must not know what a key
//! means.

use crate::{
    source::Span,
    tree::{Node, Table},
};

/// The tables that a value may come from, the nearest first.
#[derive(Clone, Copy)]
pub(crate) struct Layers<'a> {
    pub route: Option<&'a Node>,
    pub site: &'a Node,
    pub defaults: Option<&'a Node>,
}

/// Which of the layers a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    Route,
    Site,
    Defaults,
}

impl<'a> Layers<'a> {
    /// The existing layers, the nearest first.
    pub fn all(self) -> impl Iterator<Item = (Layer, &'a Table)> {
        [(Layer::Route, self.route), (Layer::Site, Some(self.site)), (Layer::Defaults, self.defaults)]
            .into_iter()
            .filter_map(|(layer, node)| Some((layer, node?.as_table()?)))
    }

    /// The nearest value under a path of keys.
    pub fn find(self, path: &[&str]) -> Option<&'a Node> {
        self.all().find_map(|(_, table)| {
            let (first, rest) = path.split_first()?;
            rest.iter().try_fold(table.get(first)?, |node, key| node.get(key))
        })
    }

    /// The place of the nearest key under a path of keys, or of the last of them that is there, with its
    /// layer; else of the route or site.
    pub fn key(self, path: &[&str]) -> (Layer, Span) {
        for length in (1..=path.len()).rev() {
            let found = self.all().find_map(|(layer, table)| {
                let (last, before) = path[..length].split_last()?;
                let table = before.iter().try_fold(table, |table, key| table.get(key)?.as_table())?;
                Some((layer, table.entry(last)?.key_span))
            });
            if let Some(found) = found {
                return found;
            }
        }
        let layer = if self.route.is_some() { Layer::Route } else { Layer::Site };
        (layer, self.route.unwrap_or(self.site).span)
    }

    /// The place of the nearest value under a path of keys, else of the route or site.
    pub fn span(self, path: &[&str]) -> Span {
        self.find(path).unwrap_or(self.route.unwrap_or(self.site)).span
    }
}
