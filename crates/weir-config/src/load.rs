//! Reads a configuration: the file, what it includes, the environment, the checks; reports all mistakes at
//! once. Only `files` and `resolve` open files. Steps: parse → include → expand → check → model →
//! semantics → resolve.

use crate::{
    check::{Checker, io_words},
    files, from_tree, memory,
    mistake::{Mistake, Mistakes},
    model::{Config, Map},
    nearest::Bounded,
    resolve::{ResolvedSite, Resolver},
    semantics,
    shape::CONFIG,
    source::{Place, Source, Sources},
    tree::{self, Environment, Node, Value},
    upstreams::Upstreams,
    value::ListenAddress,
    warnings,
};
use std::{
    collections::{BTreeSet, HashSet},
    path::{Path, PathBuf},
};

/// A configuration that is complete and checked.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The model, as it was written.
    pub config: Config,
    pub(crate) sites: Vec<ResolvedSite>,
    pub(crate) tree: Node,
    pub(crate) sources: Sources,
}

impl Loaded {
    /// The sites, each with its routes after inheritance, in the order of the files.
    pub fn resolved(&self) -> &[ResolvedSite] {
        &self.sites
    }

    /// The files that were read, the main one first; empty for a configuration from flags.
    pub fn files(&self) -> Vec<PathBuf> {
        self.sources.0.iter().filter_map(|source| source.path.clone()).collect()
    }

    /// The ceiling of the memory for responses: `[cache] memory`, else the smaller of 256 MiB and a quarter
    /// of what this process may use after the fixed part.
    pub fn memory_bytes(&self) -> u64 {
        let cache = &self.config.cache;
        cache.memory.map_or_else(|| memory::default_bytes(&cache.volume), |size| size.0)
    }

    /// The memory that this process may use beside that ceiling and what it needs itself, if that is known.
    pub fn left_bytes(&self) -> Option<u64> {
        memory::left_bytes(self.memory_bytes(), &self.config.cache.volume)
    }

    /// Warnings: what may go wrong on this machine, a sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> =
            memory::warning(self.memory_bytes(), &self.config.cache.volume).into_iter().collect();
        warnings.extend(self.clear_tokens());
        warnings.extend(self.without_tls());
        warnings.extend(self.open_to_proxies());
        let tree = (&self.tree, &self.sources);
        warnings.extend(warnings::of_rules(&self.sites, &self.config, tree));
        warnings.extend(warnings::of_maps(tree.0, tree.1));
        warnings.extend(warnings::of_unused_maps(tree.0, tree.1));
        warnings.extend(warnings::of_unused_metrics(&self.config, tree.0, tree.1));
        warnings.extend(warnings::of_debug(&self.config, tree.0, tree.1));
        warnings.extend(warnings::of_warm(&self.sites, &self.config, tree));
        warnings
    }

    /// A warning where tokens of the API can be read on their way.
    fn clear_tokens(&self) -> Option<String> {
        let admin = &self.config.admin;
        let is_reached =
            matches!(&admin.listen, ListenAddress::Tcp(at) if !at.ip().to_canonical().is_loopback());
        (is_reached && !admin.tls).then(|| {
            format!(
                "[admin] listens on {} without TLS, where tokens of the API can be read on their way; set \
                 `tls = true` there, or listen on loopback",
                admin.listen
            )
        })
    }

    /// What sites ask of TLS although no listener has it.
    fn without_tls(&self) -> Vec<String> {
        if self.config.listen.iter().any(|listen| listen.tls) {
            return Vec::new();
        }
        // A proxy in front may have TLS, and say so.
        let has_proxies = self.tree.get("trusted_proxies").is_some();
        let asks = |site: &ResolvedSite| {
            let by_proxy = [("https", site.https.is_some()), ("hsts", site.hsts.is_some())];
            let by_proxy = by_proxy.into_iter().filter(|_| !has_proxies);
            let own = [
                ("client_certificate", site.client_certificate.is_some()),
                ("certificate", site.certificate.is_some()),
            ];
            by_proxy.chain(own).filter(|(_, is_set)| *is_set).map(|(key, _)| format!("`{key}`")).collect()
        };
        let asked = self.sites.iter().map(|site| (site, asks(site)));
        let asked = asked.filter(|(_, keys): &(_, Vec<String>)| !keys.is_empty());
        asked
            .map(|(site, keys)| {
                format!(
                    "{}: the site {} sets {}, and no `[[listen]]` has `tls = true`",
                    site.place,
                    site.name,
                    keys.join(", ")
                )
            })
            .collect()
    }

    /// A warning for each site where who comes through a trusted proxy may purge anything.
    fn open_to_proxies(&self) -> impl Iterator<Item = String> {
        let is_local = |site: &&ResolvedSite| site.routes.iter().any(|route| route.purge.is_local);
        self.sites.iter().filter(is_local).map(|site| {
            format!(
                "the site {} has `purge.local = true`: whatever a proxy in `trusted_proxies` passes on \
                 without \
                 naming its client may purge it; make sure that the proxy passes on no PURGE and BAN, or use \
                 `purge.key`",
                site.name
            )
        })
    }

    /// The place of `[upstream.NAME]`.
    pub fn upstream_place(&self, name: &str) -> Option<Place> {
        let entry = self.tree.get("upstream")?.as_table()?.entry(name)?;
        Some(self.sources.place(entry.key_span))
    }
}

/// Reads the configuration in `path` and what it includes.
///
/// # Errors
/// All its mistakes at once.
pub fn load(path: &Path) -> Result<Loaded, Mistakes> {
    load_with(path, &|name| std::env::var(name).ok())
}

/// [`load`] with a given environment, for tests.
///
/// # Errors
/// Everything that is wrong with it, at once.
pub fn load_with(path: &Path, environment: &dyn Fn(&str) -> Option<String>) -> Result<Loaded, Mistakes> {
    let mut reader = Reader {
        environment,
        sources: Sources::default(),
        mistakes: Vec::new(),
        seen: HashSet::new(),
        globs: HashSet::new(),
        depth: 0,
    };
    let Some(tree) = reader.read(path) else {
        return Err(Mistakes::new(reader.mistakes, reader.sources));
    };
    finish(tree, reader.sources, environment, reader.mistakes)
}

/// Checks a tree and makes the model of it.
pub(crate) fn finish(
    mut tree: Node,
    sources: Sources,
    environment: Environment<'_>,
    mut mistakes: Vec<Mistake>,
) -> Result<Loaded, Mistakes> {
    let _bounded = Bounded::begin();
    let is_broken = mistakes.iter().any(|mistake| mistake.is_syntax);
    let upstreams = Upstreams { names: names(&tree, "upstream"), is_complete: mistakes.is_empty() };
    tree::expand(&mut tree, environment, &mut mistakes);
    semantics::maps::rules(&tree, &mut mistakes);
    let maps = names(&tree, "map");
    Checker { sources: &sources, mistakes: &mut mistakes, is_whole: !is_broken, path: Vec::new() }
        .check(&mut tree, &CONFIG, "");
    if is_broken {
        return Err(Mistakes::new(mistakes, sources));
    }
    let mut config: Config = match from_tree::read(&tree) {
        Ok(config) => config,
        Err(error) => {
            if mistakes.is_empty() {
                mistakes.push(Mistake::nowhere(format!("the configuration does not fit its model: {error}")));
            }
            return Err(Mistakes::new(mistakes, sources));
        }
    };
    for name in maps {
        config.map.entry(name).or_insert_with(Map::with_mistakes);
    }
    semantics::check(&config, &tree, &upstreams, &mut mistakes);
    let mut resolver = Resolver::new(&config, &tree, &sources, &mut mistakes);
    let sites = resolver.sites();
    if !mistakes.is_empty() {
        return Err(Mistakes::new(mistakes, sources));
    }
    Ok(Loaded { config, sites, tree, sources })
}

/// The names that were written in a table of named tables.
fn names(tree: &Node, key: &str) -> BTreeSet<String> {
    let table = tree.get(key).and_then(Node::as_table);
    table.into_iter().flat_map(|table| &table.entries).map(|entry| entry.key.clone()).collect()
}

/// The largest file of a configuration.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// The most files of one.
const FILES_MAX: usize = 20_000;
/// The most files on the way from the first one to one that is included.
const DEPTH_MAX: usize = 16;

struct Reader<'a> {
    environment: Environment<'a>,
    sources: Sources,
    mistakes: Vec<Mistake>,
    /// The files that were read.
    seen: HashSet<PathBuf>,
    /// The folders and patterns that were looked up, so that what fits is included.
    globs: HashSet<(PathBuf, String)>,
    /// How many files include each other on the way here.
    depth: usize,
}

impl Reader<'_> {
    /// The main file with all that it includes.
    fn read(&mut self, path: &Path) -> Option<Node> {
        let text = match files::read_text(path, FILE_BYTES_MAX) {
            Ok(text) => text,
            Err(error) => {
                let title = format!("cannot read the configuration {}: {}", path.display(), io_words(&error));
                self.mistakes.push(Mistake::nowhere(title));
                return None;
            }
        };
        let name = path.to_string_lossy();
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Some(self.parse(&name, path, text))
    }

    fn parse(&mut self, name: &str, path: PathBuf, text: String) -> Node {
        self.seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone()));
        let source = Source::new(name, Some(path), text);
        let file = self.sources.0.len() as u32;
        let mut tree = tree::parse(&source, file, &mut self.mistakes);
        self.sources.0.push(source);
        let wanted: Vec<Node> = tree.list_of("include").to_vec();
        for include in wanted {
            self.include(&include, &mut tree);
        }
        tree
    }

    /// Joins the files of one entry of `include`. `check` reports mistakes of the entry itself.
    fn include(&mut self, include: &Node, tree: &mut Node) {
        let mut include = include.clone();
        tree::expand(&mut include, self.environment, &mut Vec::new());
        let Some(pattern) = include.as_text() else { return };
        let source = self.sources.get(include.span.file);
        let (folder, shown) =
            (source.folder().to_owned(), Path::new(&*source.name).parent().map(Path::to_owned));
        let is_glob = pattern.contains('*');
        if is_glob && !self.globs.insert((folder.clone(), pattern.to_owned())) {
            return;
        }
        if self.depth >= DEPTH_MAX {
            let title = format!("files include each other more than {DEPTH_MAX} deep");
            self.mistakes.push(Mistake::at(include.span, title));
            return;
        }
        let found = if is_glob { matching_files(&folder, pattern) } else { vec![PathBuf::from(pattern)] };
        for relative in found {
            let path = folder.join(&relative);
            if self.seen.contains(&path.canonicalize().unwrap_or_else(|_| path.clone())) {
                if !is_glob {
                    let title = format!("the file `{}` is included twice", relative.display());
                    self.mistakes.push(Mistake::at(include.span, title));
                }
                continue;
            }
            let text = match files::read_text(&path, FILE_BYTES_MAX) {
                Ok(text) => text,
                Err(error) => {
                    let title = format!("cannot read the file `{}`", relative.display());
                    self.mistakes.push(Mistake::at(include.span, title).label(io_words(&error)));
                    continue;
                }
            };
            if self.sources.0.len() >= FILES_MAX {
                let title = format!("more than {FILES_MAX} files are included");
                self.mistakes.push(Mistake::at(include.span, title));
                return;
            }
            let name = shown.as_ref().map_or(relative.clone(), |shown| shown.join(&relative));
            self.depth += 1;
            let included = self.parse(&name.to_string_lossy(), path, text);
            self.depth -= 1;
            if let (Value::Table(base), Value::Table(more)) = (&mut tree.value, included.value) {
                tree::join(base, more, &mut self.mistakes);
            }
        }
    }
}

/// The files below `folder` that match a pattern whose `*` is any text within one name, in order.
fn matching_files(folder: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    if pattern.starts_with('/') {
        found = vec![PathBuf::from("/")];
    }
    for part in pattern.split('/').filter(|part| !part.is_empty() && *part != ".") {
        let mut next = Vec::new();
        for base in found {
            if !part.contains('*') {
                next.push(base.join(part));
                continue;
            }
            let Ok(entries) = std::fs::read_dir(folder.join(&base)) else { continue };
            let mut names: Vec<_> =
                entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
            names.retain(|name| !name.starts_with('.') && name_fits(part, name));
            names.sort();
            next.extend(names.into_iter().map(|name| base.join(name)));
        }
        found = next;
    }
    found.retain(|path| folder.join(path).is_file());
    found
}

/// Whether `name` matches `pattern`, where `*` is any text.
fn name_fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(last) = pattern.rsplit('*').next().filter(|_| pattern.contains('*')) else {
        return rest.is_empty();
    };
    let Some(body) = rest.strip_suffix(last) else { return false };
    rest = body;
    let middle: Vec<&str> = parts.collect();
    for part in &middle[..middle.len() - 1] {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests;
