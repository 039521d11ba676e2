//! The text of a config, said in parts, and how what it describes is begun.

use crate::origin::Origin;
use crate::weir::Setup;

/// A config of one site for every host, with one upstream named `main`. What it starts is up to its maker:
/// the real binary, or the walk alone.
pub struct Server<W> {
    begin: fn(Setup, &str) -> W,
    binary: String,
    top: String,
    origins: String,
    upstream: String,
    site: String,
    more: String,
}

impl<W> Server<W> {
    /// A config in front of these origins, whose text is given to `begin` with a setup of this binary.
    pub fn new(binary: String, origins: &[&Origin], begin: fn(Setup, &str) -> W) -> Self {
        let list: Vec<String> = origins.iter().map(|origin| format!("\"{}\"", origin.url())).collect();
        Server {
            begin,
            binary,
            top: String::new(),
            origins: list.join(", "),
            upstream: String::new(),
            site: String::new(),
            more: String::new(),
        }
    }

    /// Lines before all tables.
    pub fn top(mut self, lines: &str) -> Self {
        self.top.push_str(lines);
        self.top.push('\n');
        self
    }

    /// The upstream's origins, as TOML.
    pub fn origins(mut self, list: &str) -> Self {
        self.origins = list.to_owned();
        self
    }

    /// Lines of the upstream.
    pub fn upstream(mut self, lines: &str) -> Self {
        self.upstream.push_str(lines);
        self.upstream.push('\n');
        self
    }

    /// Lines of the site, with its routes.
    pub fn site(mut self, lines: &str) -> Self {
        self.site.push_str(lines);
        self.site.push('\n');
        self
    }

    /// Whole tables after the site: other sites, limits, logs.
    pub fn more(mut self, lines: &str) -> Self {
        self.more.push_str(lines);
        self.more.push('\n');
        self
    }

    /// The text of the config; its addresses are filled in when it is started.
    pub fn text(&self) -> String {
        let Server { top, origins, upstream, site, more, .. } = self;
        format!(
            "{top}\n[admin]\nlisten = \"{{admin}}\"\n\n[[listen]]\naddress = \"{{listen}}\"\n\n\
             [upstream.main]\norigins = [{origins}]\n{upstream}\n\
             [[site]]\nhosts = [\"*\"]\nupstream = \"main\"\n{site}\n{more}\n"
        )
    }

    /// Starts it.
    pub fn start(&self) -> W {
        self.start_in(Setup::new(&self.binary))
    }

    /// Starts it in a folder that has been prepared.
    pub fn start_in(&self, setup: Setup) -> W {
        (self.begin)(setup, &self.text())
    }
}
