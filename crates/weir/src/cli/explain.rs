//! `weir explain URL`: what the running Weir would do with a request, and why.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use http::Method;
use weir_control::{Explained, Question, StoredVariant};

use super::find::Find;

/// The command line of `weir explain`.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The URL; its host chooses the site.
    #[arg(value_name = "URL")]
    url: String,
    /// The method.
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "GET")]
    method: String,
    /// A field of the request, any number of times.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    #[command(flatten)]
    find: Find,
}

impl Explain {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        if self.url.starts_with('/') {
            anyhow::bail!("the URL needs its host, which chooses the site: http://HOST{}", self.url);
        }
        let url = if self.url.contains("://") { self.url } else { format!("http://{}", self.url) };
        let question = Question { method: self.method, url, headers: self.headers };
        let asked = self.find.ask(Method::POST, "/explain", serde_json::to_vec(&question)?)?;
        self.find.answer(&asked, |explained| show(&question, explained))
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write it as `Name: value`")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn show(question: &Question, explained: &Explained) -> String {
    let mut out = format!("{} {}\n", question.method, question.url);
    let mut line = |name: &str, value: &str| {
        // Invariant: writing to a String cannot fail.
        let _ = writeln!(out, "  {name:<12} {value}");
    };
    let mut line_if = |name: &str, value: &Option<String>| {
        if let Some(value) = value {
            line(name, value);
        }
    };
    line_if("site", &explained.site);
    let route = match (&explained.route, &explained.defined_at) {
        (Some(route), Some(place)) => Some(format!("{route}  ({place})")),
        (route, place) => route.clone().or(place.clone()),
    };
    line_if("route", &route);
    line_if("upstream", &explained.upstream);
    line_if("key", &explained.key);
    for (name, value) in &explained.facts {
        line(name, value);
    }
    for variant in &explained.stored {
        line("stored", &variant_text(variant));
    }
    let verdict = match explained.reason.as_str() {
        "" => explained.verdict.clone(),
        reason => format!("{}: {reason}", explained.verdict),
    };
    line("verdict", &verdict);
    out
}

fn variant_text(variant: &StoredVariant) -> String {
    let mut text = format!(
        "{}, age {} s of {} s ({}), ",
        variant.status, variant.age_s, variant.lifetime_s, variant.source
    );
    if variant.left_s > 0 {
        let _ = write!(text, "{} s left", variant.left_s);
    } else {
        let _ = write!(text, "stale for {} s", -variant.left_s);
    }
    match variant.length {
        Some(length) if length == variant.held => {
            let _ = write!(text, ", {length} bytes");
        }
        Some(length) => {
            let _ = write!(text, ", {} of {length} bytes", variant.held);
        }
        None => {
            let _ = write!(text, ", {} bytes so far", variant.held);
        }
    }
    if let Some(etag) = &variant.etag {
        let _ = write!(text, ", {etag}");
    }
    if variant.selected {
        text.push_str("  <- fits");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_shows_what_applies_and_no_more() {
        let question = Question { method: "GET".into(), url: "http://a/".into(), headers: Vec::new() };
        let variant = StoredVariant {
            selected: true,
            status: 200,
            age_s: 2,
            lifetime_s: 60,
            source: "max-age".into(),
            left_s: 58,
            length: Some(10),
            held: 10,
            etag: Some("\"x\"".into()),
        };
        let explained = Explained {
            site: Some("a".into()),
            route: Some("/*".into()),
            defined_at: Some("weir.toml:3".into()),
            verdict: "hit".into(),
            reason: "58 s left".into(),
            stored: vec![variant],
            ..Explained::default()
        };
        let expect = "\
GET http://a/
  site         a
  route        /*  (weir.toml:3)
  stored       200, age 2 s of 60 s (max-age), 58 s left, 10 bytes, \"x\"  <- fits
  verdict      hit: 58 s left
";
        assert_eq!(show(&question, &explained), expect);
    }

    #[test]
    fn fields_are_split_at_the_first_colon() {
        assert_eq!(header("X-A:  b:c "), Ok(("X-A".into(), "b:c".into())));
        assert!(header("X-A").is_err());
    }
}
