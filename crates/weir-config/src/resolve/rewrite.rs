//! `rewrite` and `back` as the edge uses them: rules compiled, each with the rule that reads it backwards.
//! Must not match a path.

use super::{Layers, ResolvedRoute};
use crate::tree::Node;
use crate::{
    mistake::Mistake,
    model::{Back, BackRule, BackWord, Rewrite},
    value::Capturing,
};
use weir_policy::value::{Part, Scope, Value, What};

/// A rule that gives the origin another path.
#[derive(Debug, Clone)]
pub struct ResolvedRewrite {
    /// For people: `/api/** → /{1}`.
    pub text: String,
    /// Which paths it is for.
    pub from: Capturing,
    /// Path and query for the origin; with captures of `from`.
    pub to: Value,
    /// The rule read backwards: what a path of the origin must be, and the client's path for it. None where
    /// it cannot be read so.
    pub back: Option<(Capturing, Value)>,
}

/// How what an origin says of its paths and names is mapped back.
#[derive(Debug, Clone, Default)]
pub struct ResolvedBack {
    /// URLs in `Location`, `Content-Location` and `Refresh`.
    pub location: BackBy,
    /// `Path` of cookies.
    pub cookie_path: BackBy,
    /// `Domain` of cookies.
    pub cookie_domain: BackBy,
}

/// How one thing is mapped back.
#[derive(Debug, Clone, Default)]
pub enum BackBy {
    /// By the rule of the request.
    #[default]
    Rewrite,
    /// Not at all.
    Off,
    /// By the first of these that fits.
    Rules(Vec<(Capturing, Value)>),
}

impl ResolvedRewrite {
    /// Compiles a rule; none where it has no pattern, or one that is too large.
    pub fn of(rule: &Rewrite) -> Option<ResolvedRewrite> {
        let from = match (&rule.from, &rule.regex) {
            (Some(glob), _) => Capturing::of_glob(&glob.0)?,
            (None, Some(regex)) => Capturing::of_regex(regex),
            (None, None) => return None,
        };
        let pattern = rule.from.as_ref().map(ToString::to_string);
        let pattern = pattern.or(rule.regex.as_ref().map(ToString::to_string)).unwrap_or_default();
        let to = rule.to.0.clone();
        let back = rule.from.as_ref().and_then(|glob| backwards(&glob.0, &to));
        Some(ResolvedRewrite { text: format!("{pattern} → {to}"), from, to, back })
    }
}

/// Compiles the rules of a route.
pub(super) fn rewrites(rules: &[Rewrite]) -> Vec<ResolvedRewrite> {
    rules.iter().filter_map(ResolvedRewrite::of).collect()
}

pub(super) fn back(back: Option<&Back>) -> ResolvedBack {
    let by = |rule: Option<&BackRule>| match rule {
        None | Some(BackRule::Word(BackWord::Rewrite)) => BackBy::Rewrite,
        Some(BackRule::Word(BackWord::Off)) => BackBy::Off,
        Some(BackRule::Rules(rules)) => {
            let one = |rule: &crate::model::BackPattern| {
                Some((Capturing::of_glob(&rule.from.0)?, rule.to.0.clone()))
            };
            BackBy::Rules(rules.iter().filter_map(one).collect())
        }
    };
    let Some(back) = back else { return ResolvedBack::default() };
    ResolvedBack {
        location: by(back.location.as_ref()),
        cookie_path: by(back.cookie_path.as_ref()),
        cookie_domain: by(back.cookie_domain.as_ref()),
    }
}

/// A rule read backwards: the target's path as a glob, and the glob as a target. Each star must stand in the
/// target once, and nothing else may.
fn backwards(glob: &str, to: &Value) -> Option<(Capturing, Value)> {
    let pieces = pieces(glob);
    let stars: Vec<&str> = pieces.iter().copied().filter(|piece| piece.starts_with('*')).collect();
    let (mut pattern, mut order) = (String::new(), Vec::new());
    for part in to.parts() {
        match part {
            Part::Text(text) => {
                let path = text.split('?').next().unwrap_or_default();
                pattern.push_str(path);
                if path.len() < text.len() {
                    break;
                }
            }
            Part::Of(placeholder) => {
                let What::Capture(number) = placeholder.what else { return None };
                if placeholder.is_filtered() || order.contains(&number) {
                    return None;
                }
                pattern.push_str(stars.get(usize::from(number).checked_sub(1)?)?);
                order.push(number);
            }
        }
    }
    // Two stars that touch cannot be told apart again.
    if order.len() != stars.len() || pattern.contains("***") {
        return None;
    }
    let mut text = String::new();
    let mut star = 0;
    for piece in pieces {
        if piece.starts_with('*') {
            star += 1;
            let at = order.iter().position(|number| *number == star)?;
            text.push_str(&format!("{{{}}}", at + 1));
        } else {
            text.push_str(piece);
        }
    }
    Some((Capturing::of_glob(&pattern)?, Value::parse(&text, Scope::Rewrite).ok()?))
}

/// A glob as its texts and stars.
fn pieces(glob: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = glob;
    while !rest.is_empty() {
        let is_star = rest.starts_with('*');
        let end = rest.find(|c: char| (c == '*') != is_star).unwrap_or(rest.len());
        out.push(&rest[..end]);
        rest = &rest[end..];
    }
    out
}

/// Reports a key of rewritten paths where no path is rewritten: of a route, or of a site and all its routes.
pub(super) fn check_key(layers: Layers<'_>, mistakes: &mut Vec<Mistake>) {
    let near = layers.route.unwrap_or(layers.site);
    let said = near.get("key").and_then(|key| key.get("path"));
    let Some(node) = said.filter(|node| node.as_text() == Some("rewritten")) else { return };
    let routes = if layers.route.is_some() { &[] } else { layers.site.list_of("route") };
    let is_damaged = |node: &Node| node.as_table().is_some_and(|table| table.is_damaged);
    let has_rules = |node: &Node| node.get("rewrite").is_some() || is_damaged(node);
    if layers.find(&["rewrite"]).is_none() && !is_damaged(near) && !routes.iter().any(has_rules) {
        let mistake = Mistake::at(node.span, "`key.path` is `rewritten`, and no path is rewritten here");
        mistakes.push(mistake.help("add rules: rewrite = [{ from = \"/api/**\", to = \"/{1}\" }]"));
    }
}

/// Reports captures that a rule does not have, and parts of a request that would choose the path without
/// being in the key.
pub(super) fn check(route: &ResolvedRoute, layers: Layers<'_>, mistakes: &mut Vec<Mistake>) {
    let Some(list) = layers.find(&["rewrite"]) else { return };
    let nodes = match &list.value {
        crate::tree::Value::List(nodes) => nodes.as_slice(),
        _ => return,
    };
    for (rule, node) in route.rewrite.iter().zip(nodes) {
        let span = node.get("to").unwrap_or(node).span;
        let (number, count) = (rule.to.capture_max(), rule.from.count());
        if usize::from(number) > count {
            let title =
                format!("`{{{number}}}` stands for nothing here: the rule has {count} stars or groups");
            mistakes.push(Mistake::at(span, title));
        }
        let keyed = |placeholder: &&weir_policy::value::Placeholder| route.cache.key.has(placeholder);
        if route.key_path_rewritten {
            continue;
        }
        if let Some(placeholder) = rule.to.placeholders().find(|placeholder| !keyed(placeholder)) {
            let title =
                format!("`{placeholder}` chooses what the origin is asked for, and is not in the key");
            let help = format!("add it: key = {{ values = ['{placeholder}'] }}");
            mistakes.push(Mistake::at(span, title).help(help));
        }
    }
}
