//! How scenarios start a Weir.

use weir_testkit::{Origin, Setup, Weir};

/// A Weir of the binary under test, not yet started. `WEIR_BINARY` names another build, such as the release.
pub fn setup() -> Setup {
    Setup::new(binary())
}

/// The binary under test.
pub fn binary() -> String {
    std::env::var("WEIR_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_weir").to_owned())
}

/// `weir run` in front of one origin.
pub fn before(origin: &Origin) -> Weir {
    setup().run(&origin.url())
}

/// A config of one site for every host, with one upstream named `main`.
pub struct Server {
    top: String,
    origins: String,
    upstream: String,
    site: String,
    more: String,
}

/// A config in front of these origins.
pub fn server(origins: &[&Origin]) -> Server {
    let list: Vec<String> = origins.iter().map(|origin| format!("\"{}\"", origin.url())).collect();
    Server {
        top: String::new(),
        origins: list.join(", "),
        upstream: String::new(),
        site: String::new(),
        more: String::new(),
    }
}

impl Server {
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

    /// The text of the config; its addresses are filled in when Weir starts.
    pub fn text(&self) -> String {
        let Server { top, origins, upstream, site, more } = self;
        format!(
            "{top}\n[admin]\nlisten = \"{{admin}}\"\n\n[[listen]]\naddress = \"{{listen}}\"\n\n\
             [upstream.main]\norigins = [{origins}]\n{upstream}\n\
             [[site]]\nhosts = [\"*\"]\nupstream = \"main\"\n{site}\n{more}\n"
        )
    }

    /// Starts it.
    pub fn start(&self) -> Weir {
        self.start_in(setup())
    }

    /// Starts it in a folder that has been prepared.
    pub fn start_in(&self, setup: Setup) -> Weir {
        setup.run_config(&self.text())
    }
}
