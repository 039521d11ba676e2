//! `weir certificates`: the certificates of the running Weir.

use std::process::ExitCode;

use clap::Args;
use http::Method;
use weir_control::CertificateUse;

use super::find::Find;

/// How many names of a certificate a line has.
const NAMES_MAX: usize = 3;

/// The command line of `weir certificates`.
#[derive(Debug, Args)]
pub(crate) struct ShowCertificates {
    #[command(flatten)]
    find: Find,
}

impl ShowCertificates {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let asked = self.find.ask(Method::GET, "/v1/certificates", Vec::new())?;
        self.find.answer(&asked, |all: &Vec<CertificateUse>| show(all))
    }
}

fn show(all: &[CertificateUse]) -> String {
    if all.is_empty() {
        return "there are no certificates: no `[[certificate]]`, and no site with one\n".to_owned();
    }
    let width = all.iter().map(|of| title(of).chars().count()).max().unwrap_or(0);
    all.iter().map(|of| lines(of, width)).collect()
}

/// Its names, or the file that none could be read from.
fn title(of: &CertificateUse) -> String {
    let more = of.names.len().saturating_sub(NAMES_MAX);
    match of.names.len() {
        0 => of.source.clone(),
        _ if more > 0 => format!("{} and {more} more", of.names[..NAMES_MAX].join(", ")),
        _ => of.names.join(", "),
    }
}

fn lines(of: &CertificateUse, width: usize) -> String {
    let CertificateUse { key, state, expires, expires_in_s, source, .. } = of;
    let mut text = format!("{:<width$}  {state:<8}", title(of));
    if let (Some(expires), Some(left)) = (expires, expires_in_s) {
        text += &format!("  {key:<7}  until {expires} ({} days)  {source}", left / 86_400);
    }
    if of.default {
        text += ", the default";
    }
    for (word, said) in [("next", &of.next), ("error", &of.error)] {
        if let Some(said) = said {
            text += &format!("\n  {word}: {said}");
        }
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_and_what_is_amiss() {
        let good = CertificateUse {
            names: vec!["www.example.com".to_owned(), "example.com".to_owned()],
            source: "/etc/a.pem".to_owned(),
            key: "ecdsa".to_owned(),
            state: "valid".to_owned(),
            expires: Some("2027-01-01T00:00:00Z".to_owned()),
            expires_in_s: Some(86_400 * 40 + 5),
            default: true,
            ..CertificateUse::default()
        };
        let bad = CertificateUse {
            source: "/etc/b.pem".to_owned(),
            state: "failed".to_owned(),
            error: Some("/etc/b.key: there is no key in it".to_owned()),
            ..CertificateUse::default()
        };
        let expect = "www.example.com, example.com  valid     ecdsa    until 2027-01-01T00:00:00Z (40 days)  \
                      /etc/a.pem, the default\n\
                      /etc/b.pem                    failed  \n  error: /etc/b.key: there is no key in it\n";
        assert_eq!(show(&[good.clone(), bad]), expect);
        let many = CertificateUse { names: vec!["a".to_owned(); 5], ..good };
        assert!(show(&[many]).starts_with("a, a, a and 2 more  "));
        assert!(show(&[]).starts_with("there are no certificates"));
    }
}
