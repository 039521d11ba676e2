//! The mistakes of a configuration: all at once, each with its place, as compilers show it. Must not decide
//! what is wrong.

use crate::source::{Place, Sources, Span};
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet, renderer::DecorStyle};
use std::{fmt, path::PathBuf};

/// So many are shown with their text. Each is looked for in the whole file, so that thousands of them in a
/// large one would take minutes.
const SHOWN_MAX: usize = 100;

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mistake {
    pub span: Option<Span>,
    /// What is wrong, in one sentence.
    pub title: String,
    /// The text at the caret.
    pub label: String,
    /// What to do.
    pub help: Option<String>,
    /// A related place.
    pub other: Option<(Span, String)>,
    /// The part of the text at `span` that is wrong: the text, and the part's first byte and end in it.
    pub part: Option<(String, usize, usize)>,
    /// Whether the file could not be parsed here, so that what follows may be missing.
    pub is_syntax: bool,
}

impl Mistake {
    pub fn at(span: Span, title: impl Into<String>) -> Mistake {
        Mistake {
            span: Some(span),
            title: title.into(),
            label: String::new(),
            help: None,
            other: None,
            part: None,
            is_syntax: false,
        }
    }

    pub fn nowhere(title: impl Into<String>) -> Mistake {
        Mistake {
            span: None,
            title: title.into(),
            label: String::new(),
            help: None,
            other: None,
            part: None,
            is_syntax: false,
        }
    }

    pub fn syntax(span: Span, title: impl Into<String>) -> Mistake {
        Mistake { is_syntax: true, ..Mistake::at(span, title) }
    }

    pub fn label(mut self, label: impl Into<String>) -> Mistake {
        self.label = label.into();
        self
    }

    pub fn help(mut self, help: impl Into<String>) -> Mistake {
        self.help = Some(help.into());
        self
    }

    /// Narrows it to a part of the text that stands there.
    pub fn part(mut self, text: &str, part: Option<std::ops::Range<usize>>) -> Mistake {
        self.part = part.map(|part| (text.to_owned(), part.start, part.end));
        self
    }

    pub fn other(mut self, span: Span, label: impl Into<String>) -> Mistake {
        self.other = Some((span, label.into()));
        self
    }
}

/// All mistakes of a configuration. Its `Display` is what `weir check` prints, without colours.
#[derive(Debug, Clone)]
pub struct Mistakes {
    pub(crate) list: Vec<Mistake>,
    pub(crate) sources: Sources,
}

impl std::error::Error for Mistakes {}

impl Mistakes {
    pub(crate) fn new(mut list: Vec<Mistake>, sources: Sources) -> Mistakes {
        for mistake in &mut list {
            if let (Some(span), Some((text, start, end))) = (&mut mistake.span, mistake.part.take()) {
                *span = sources.part(*span, &text, start..end);
            }
        }
        list.sort();
        list.dedup();
        Mistakes { list, sources }
    }

    /// How many mistakes there are.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// The files that were read before the mistakes were found.
    pub fn files(&self) -> Vec<PathBuf> {
        self.sources.0.iter().filter_map(|source| source.path.clone()).collect()
    }

    /// Each mistake as its place and sentence, for machines.
    pub fn sentences(&self) -> Vec<(Option<Place>, String)> {
        let place = |mistake: &Mistake| mistake.span.map(|span| self.sources.place(span));
        self.list.iter().map(|mistake| (place(mistake), mistake.title.clone())).collect()
    }

    /// All mistakes for machines: a list of objects with `file`, `line`, `column`, `mistake`, and `hint`
    /// where there is one.
    pub fn to_json(&self) -> serde_json::Value {
        let one = |mistake: &Mistake| {
            let mut object = serde_json::Map::new();
            if let Some(place) = mistake.span.map(|span| self.sources.place(span)) {
                object.insert("file".into(), (&*place.file).into());
                object.insert("line".into(), place.line.into());
                object.insert("column".into(), place.column.into());
            }
            object.insert("mistake".into(), mistake.title.as_str().into());
            let label = Some(mistake.label.as_str()).filter(|label| !label.is_empty());
            if let Some(hint) = label.or(mistake.help.as_deref()) {
                object.insert("hint".into(), hint.into());
            }
            serde_json::Value::Object(object)
        };
        self.list.iter().map(one).collect()
    }

    /// The whole report with the colours of a terminal.
    pub fn render_coloured(&self) -> String {
        self.render(Renderer::styled())
    }

    fn render(&self, renderer: Renderer) -> String {
        let renderer = renderer.decor_style(DecorStyle::Ascii);
        let mut out = String::new();
        for mistake in self.list.iter().take(SHOWN_MAX) {
            out.push_str(&renderer.render(&[self.group(mistake)]));
            out.push_str("\n\n");
        }
        let count = self.list.len();
        out.push_str(&format!("{count} mistake{}", if count == 1 { "" } else { "s" }));
        if count > SHOWN_MAX {
            out.push_str(&format!(", of which the first {SHOWN_MAX} are shown"));
        }
        out.push('\n');
        out
    }

    fn group<'a>(&'a self, mistake: &'a Mistake) -> Group<'a> {
        let title = Level::ERROR.primary_title(mistake.title.as_str());
        let Some(span) = mistake.span else {
            return match &mistake.help {
                Some(help) => title.element(Level::HELP.message(help.as_str())),
                None => Group::with_title(title),
            };
        };
        let mut snippet = self.snippet(span);
        let mut primary = AnnotationKind::Primary.span(range(span));
        if !mistake.label.is_empty() {
            primary = primary.label(mistake.label.as_str());
        }
        snippet = snippet.annotation(primary);
        let mut elsewhere = None;
        if let Some((other, label)) = &mistake.other {
            let context = AnnotationKind::Context.span(range(*other)).label(label.as_str());
            if other.file == span.file {
                snippet = snippet.annotation(context);
            } else {
                elsewhere = Some(self.snippet(*other).annotation(context));
            }
        }
        let mut group = title.element(snippet);
        if let Some(elsewhere) = elsewhere {
            group = group.element(elsewhere);
        }
        match &mistake.help {
            Some(help) => group.element(Level::HELP.message(help.as_str())),
            None => group,
        }
    }

    fn snippet<T: Clone>(&self, span: Span) -> Snippet<'_, T> {
        let source = self.sources.get(span.file);
        Snippet::source(source.text.as_str()).path(&*source.name).fold(true)
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.render(Renderer::plain()))
    }
}

fn range(span: Span) -> std::ops::Range<usize> {
    span.start as usize..span.end as usize
}
