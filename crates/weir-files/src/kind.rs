//! The media type of a file by the ending of its name (RFC 9110 §8.3). Pure.

/// What the ending of a name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// The value of Content-Type.
    pub(crate) media_type: &'static str,
    /// Whether such content becomes much smaller by compression, so that siblings are worth a look.
    pub(crate) is_compressible: bool,
}

const UNKNOWN: &str = "application/octet-stream";
const TEXT: &str = "text/plain; charset=utf-8";

/// Names without an ending that tell of a text.
const TEXTS: [&[u8]; 16] = [
    b"README",
    b"LICENSE",
    b"LICENCE",
    b"COPYING",
    b"COPYRIGHT",
    b"NOTICE",
    b"AUTHORS",
    b"CONTRIBUTORS",
    b"CONTRIBUTING",
    b"CHANGELOG",
    b"CHANGES",
    b"NEWS",
    b"TODO",
    b"INSTALL",
    b"VERSION",
    b"Makefile",
];

/// The value of Content-Type for a file with this name, or for a path that ends with it.
pub fn media_type(name: &[u8]) -> &'static str {
    of(name).media_type
}

fn is_text(name: &[u8]) -> bool {
    TEXTS.iter().any(|text| text.eq_ignore_ascii_case(name))
}

/// The kind of a file with this name.
pub(crate) fn of(name: &[u8]) -> Kind {
    let name = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let ending = name.iter().rposition(|byte| *byte == b'.').map(|dot| &name[dot + 1..]).unwrap_or_default();
    let mut lower = [0; 12];
    let media_type = match lower.get_mut(..ending.len()) {
        _ if ending.is_empty() && is_text(name) => TEXT,
        Some(lower) => {
            lower.copy_from_slice(ending);
            lower.make_ascii_lowercase();
            by_ending(lower)
        }
        None => UNKNOWN,
    };
    Kind { media_type, is_compressible: is_compressible(media_type) }
}

fn is_compressible(media_type: &str) -> bool {
    const OTHERS: [&str; 9] = [
        "application/json",
        "application/ld+json",
        "application/manifest+json",
        "application/geo+json",
        "application/wasm",
        "application/rtf",
        "font/ttf",
        "font/otf",
        "image/bmp",
    ];
    media_type.starts_with("text/") || media_type.contains("xml") || OTHERS.contains(&media_type)
}

/// The types of IANA's registry; for JavaScript RFC 9239, for source maps ECMA-426.
const TYPES: &[(&str, &str)] = &[
    ("html", "text/html; charset=utf-8"),
    ("htm", "text/html; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("txt", "text/plain; charset=utf-8"),
    ("text", "text/plain; charset=utf-8"),
    ("log", "text/plain; charset=utf-8"),
    ("conf", "text/plain; charset=utf-8"),
    ("ini", "text/plain; charset=utf-8"),
    ("toml", "text/plain; charset=utf-8"),
    ("rst", "text/plain; charset=utf-8"),
    ("diff", "text/plain; charset=utf-8"),
    ("patch", "text/plain; charset=utf-8"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("md", "text/markdown; charset=utf-8"),
    ("markdown", "text/markdown; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("tsv", "text/tab-separated-values; charset=utf-8"),
    ("ics", "text/calendar; charset=utf-8"),
    ("vcf", "text/vcard; charset=utf-8"),
    ("vtt", "text/vtt; charset=utf-8"),
    ("xml", "text/xml; charset=utf-8"),
    ("xsl", "text/xml; charset=utf-8"),
    ("xsd", "text/xml; charset=utf-8"),
    ("json", "application/json"),
    ("map", "application/json"),
    ("jsonld", "application/ld+json"),
    ("geojson", "application/geo+json"),
    ("webmanifest", "application/manifest+json"),
    ("wasm", "application/wasm"),
    ("xhtml", "application/xhtml+xml"),
    ("rss", "application/rss+xml"),
    ("atom", "application/atom+xml"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("apng", "image/apng"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("avif", "image/avif"),
    ("heic", "image/heic"),
    ("jxl", "image/jxl"),
    ("ico", "image/x-icon"),
    ("bmp", "image/bmp"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("ttf", "font/ttf"),
    ("otf", "font/otf"),
    ("eot", "application/vnd.ms-fontobject"),
    ("mp3", "audio/mpeg"),
    ("m4a", "audio/mp4"),
    ("aac", "audio/aac"),
    ("ogg", "audio/ogg"),
    ("oga", "audio/ogg"),
    ("opus", "audio/ogg"),
    ("flac", "audio/flac"),
    ("wav", "audio/wav"),
    ("mid", "audio/midi"),
    ("midi", "audio/midi"),
    ("mp4", "video/mp4"),
    ("m4v", "video/mp4"),
    ("webm", "video/webm"),
    ("ogv", "video/ogg"),
    ("mov", "video/quicktime"),
    ("mpeg", "video/mpeg"),
    ("mpg", "video/mpeg"),
    ("avi", "video/x-msvideo"),
    ("mkv", "video/matroska"),
    ("ts", "video/mp2t"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("mpd", "application/dash+xml"),
    ("pdf", "application/pdf"),
    ("rtf", "application/rtf"),
    ("epub", "application/epub+zip"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("ppt", "application/vnd.ms-powerpoint"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("ods", "application/vnd.oasis.opendocument.spreadsheet"),
    ("odp", "application/vnd.oasis.opendocument.presentation"),
    ("zip", "application/zip"),
    ("gz", "application/gzip"),
    ("tgz", "application/gzip"),
    ("bz2", "application/x-bzip2"),
    ("xz", "application/x-xz"),
    ("zst", "application/zstd"),
    ("7z", "application/x-7z-compressed"),
    ("tar", "application/x-tar"),
    ("jar", "application/java-archive"),
];

fn by_ending(ending: &[u8]) -> &'static str {
    let found = TYPES.iter().find(|(known, _)| known.as_bytes() == ending);
    found.map_or(UNKNOWN, |(_, media_type)| media_type)
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn the_ending_tells_the_type() {
        for (name, media_type, is_compressible) in [
            (&b"index.html"[..], "text/html; charset=utf-8", true),
            (b"a/b.JS", "text/javascript; charset=utf-8", true),
            (b"logo.svg", "image/svg+xml", true),
            (b"a.tar.gz", "application/gzip", false),
            (b"photo.jpeg", "image/jpeg", false),
            (b"data.json", "application/json", true),
            (b"no-ending", "application/octet-stream", false),
            (b"folder.html/no-ending", "application/octet-stream", false),
            (b"a.quite-a-long-ending-that-is-none", "application/octet-stream", false),
            (b"ends.", "application/octet-stream", false),
            (b"docs/README", "text/plain; charset=utf-8", true),
            (b"License", "text/plain; charset=utf-8", true),
            (b"README/no-ending", "application/octet-stream", false),
            (b"README.x", "application/octet-stream", false),
            (b"README.", "application/octet-stream", false),
        ] {
            let kind = of(name);
            assert_eq!((kind.media_type, kind.is_compressible), (media_type, is_compressible), "{name:?}");
        }
    }
}
