//! The query of a stream.

use super::{encode, fields};

/// What a stream is to tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveOrder {
    /// Only of this site.
    pub site: Option<String>,
    /// Only of these kinds; all where there are none.
    pub kinds: Vec<String>,
}

impl LiveOrder {
    pub(crate) fn has(&self, kind: &str) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|wanted| wanted == kind)
    }

    /// A path with the query.
    pub fn write(&self, path: &str) -> String {
        let mut text = path.to_owned();
        let kinds = Some(self.kinds.join(",")).filter(|kinds| !kinds.is_empty());
        let mut mark = '?';
        for (name, value) in [("site", &self.site), ("kind", &kinds)] {
            if let Some(value) = value {
                text += &format!("{mark}{name}=");
                encode(&mut text, value);
                mark = '&';
            }
        }
        text
    }
}

/// What a query asks for of a stream that tells these kinds.
///
/// # Errors
/// A sentence.
pub(crate) fn read_live(query: &str, kinds: &[&str]) -> Result<LiveOrder, String> {
    let mut order = LiveOrder::default();
    for field in fields(query) {
        let (name, value) = field?;
        match name {
            "site" => order.site = Some(value),
            "kind" => order.kinds = value.split(',').map(str::to_owned).collect(),
            _ => return Err(format!("{name} is not known; there are site and kind")),
        }
    }
    match order.kinds.iter().find(|kind| !kinds.contains(&kind.as_str())) {
        Some(unknown) => Err(format!("{unknown} is no kind; there are {}", kinds.join(", "))),
        None => Ok(order),
    }
}
