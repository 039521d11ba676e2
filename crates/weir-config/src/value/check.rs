//! Values of `check`: what is asked, of whom, and which statuses pass. Must not know what a check does with
//! them.

use super::address::host_and_port;
use super::text_value;
use std::{fmt, ops::RangeInclusive, str::FromStr};

/// A path with its query, as it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SentPath(pub String);

text_value!(SentPath, "weir-sent-path", "a path with its query, sent as it is: `/up?deep=1`");

impl FromStr for SentPath {
    type Err = String;

    fn from_str(text: &str) -> Result<SentPath, String> {
        if !text.starts_with('/') {
            return Err(format!("a path begins with `/`: did you mean `/{text}`?"));
        }
        match text.chars().find(|c| !c.is_ascii_graphic() || *c == '#') {
            Some('#') => Err("what follows a `#` is never sent".into()),
            Some(bad) => Err(format!("{bad:?} cannot be sent in a path: write its `%` escape")),
            None => Ok(SentPath(text.to_owned())),
        }
    }
}

impl fmt::Display for SentPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// A host, and a port where it is not the scheme's own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Authority(pub String);

text_value!(Authority, "weir-authority", "a host, with a port where it has one: `app.internal:8080`");

impl FromStr for Authority {
    type Err = String;

    fn from_str(text: &str) -> Result<Authority, String> {
        if let Some((_, rest)) = text.split_once("://") {
            let host = rest.split(['/', '?']).next().unwrap_or_default();
            return Err(format!("a host has no scheme: did you mean `{host}`?"));
        }
        let (host, port) = host_and_port(text)?;
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        Ok(Authority(port.map_or(host.clone(), |port| format!("{host}:{port}"))))
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Ranges of statuses, with commas between them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StatusRanges(pub Vec<RangeInclusive<u16>>);

text_value!(StatusRanges, "weir-status-ranges", "statuses and ranges of them: `200-399`, `200,204,301-308`");

impl FromStr for StatusRanges {
    type Err = String;

    fn from_str(text: &str) -> Result<StatusRanges, String> {
        text.split(',').map(|member| range(member.trim())).collect::<Result<_, _>>().map(StatusRanges)
    }
}

fn range(member: &str) -> Result<RangeInclusive<u16>, String> {
    if member.is_empty() {
        return Err("a status is missing: write one or a range, such as `200` or `200-399`".into());
    }
    if let Some(digit @ b'2'..=b'5') = member.strip_suffix("xx").and_then(|digit| digit.bytes().next())
        && member.len() == 3
    {
        let class = char::from(digit);
        return Err(format!("`{member}` is no range here: did you mean `{class}00-{class}99`?"));
    }
    let (first, last) = member.split_once('-').unwrap_or((member, member));
    let (first, last) = (status(first.trim())?, status(last.trim())?);
    if first > last {
        return Err(format!("`{member}` is no range: did you mean `{last}-{first}`?"));
    }
    Ok(first..=last)
}

fn status(text: &str) -> Result<u16, String> {
    let is_number = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|status| is_number && (200..600).contains(status));
    number.ok_or_else(|| format!("`{text}` is not a final status: use 200 to 599"))
}

impl fmt::Display for StatusRanges {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, range) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(out, "{comma}{}", range.start())?;
            if range.start() != range.end() {
                write!(out, "-{}", range.end())?;
            }
        }
        Ok(())
    }
}
