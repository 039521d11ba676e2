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

/// The kind of a file with this name.
pub(crate) fn of(name: &[u8]) -> Kind {
    let name = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let ending = name.iter().rposition(|byte| *byte == b'.').map(|dot| &name[dot + 1..]).unwrap_or_default();
    let mut lower = [0; 12];
    let media_type = match lower.get_mut(..ending.len()) {
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
fn by_ending(ending: &[u8]) -> &'static str {
    match ending {
        b"html" | b"htm" => "text/html; charset=utf-8",
        b"css" => "text/css; charset=utf-8",
        b"js" | b"mjs" => "text/javascript; charset=utf-8",
        b"txt" | b"text" | b"log" | b"conf" => "text/plain; charset=utf-8",
        b"md" | b"markdown" => "text/markdown; charset=utf-8",
        b"csv" => "text/csv; charset=utf-8",
        b"tsv" => "text/tab-separated-values; charset=utf-8",
        b"ics" => "text/calendar; charset=utf-8",
        b"vcf" => "text/vcard; charset=utf-8",
        b"vtt" => "text/vtt; charset=utf-8",
        b"xml" | b"xsl" | b"xsd" => "text/xml; charset=utf-8",
        b"json" | b"map" => "application/json",
        b"jsonld" => "application/ld+json",
        b"geojson" => "application/geo+json",
        b"webmanifest" => "application/manifest+json",
        b"wasm" => "application/wasm",
        b"xhtml" => "application/xhtml+xml",
        b"rss" => "application/rss+xml",
        b"atom" => "application/atom+xml",
        b"svg" => "image/svg+xml",
        b"png" => "image/png",
        b"apng" => "image/apng",
        b"jpg" | b"jpeg" => "image/jpeg",
        b"gif" => "image/gif",
        b"webp" => "image/webp",
        b"avif" => "image/avif",
        b"heic" => "image/heic",
        b"jxl" => "image/jxl",
        b"ico" => "image/x-icon",
        b"bmp" => "image/bmp",
        b"tif" | b"tiff" => "image/tiff",
        b"woff" => "font/woff",
        b"woff2" => "font/woff2",
        b"ttf" => "font/ttf",
        b"otf" => "font/otf",
        b"eot" => "application/vnd.ms-fontobject",
        b"mp3" => "audio/mpeg",
        b"m4a" => "audio/mp4",
        b"aac" => "audio/aac",
        b"ogg" | b"oga" => "audio/ogg",
        b"opus" => "audio/ogg",
        b"flac" => "audio/flac",
        b"wav" => "audio/wav",
        b"mid" | b"midi" => "audio/midi",
        b"mp4" | b"m4v" => "video/mp4",
        b"webm" => "video/webm",
        b"ogv" => "video/ogg",
        b"mov" => "video/quicktime",
        b"mpeg" | b"mpg" => "video/mpeg",
        b"avi" => "video/x-msvideo",
        b"mkv" => "video/matroska",
        b"ts" => "video/mp2t",
        b"m3u8" => "application/vnd.apple.mpegurl",
        b"mpd" => "application/dash+xml",
        b"pdf" => "application/pdf",
        b"rtf" => "application/rtf",
        b"epub" => "application/epub+zip",
        b"doc" => "application/msword",
        b"docx" => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        b"xls" => "application/vnd.ms-excel",
        b"xlsx" => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        b"ppt" => "application/vnd.ms-powerpoint",
        b"pptx" => "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        b"odt" => "application/vnd.oasis.opendocument.text",
        b"ods" => "application/vnd.oasis.opendocument.spreadsheet",
        b"odp" => "application/vnd.oasis.opendocument.presentation",
        b"zip" => "application/zip",
        b"gz" | b"tgz" => "application/gzip",
        b"bz2" => "application/x-bzip2",
        b"xz" => "application/x-xz",
        b"zst" => "application/zstd",
        b"7z" => "application/x-7z-compressed",
        b"tar" => "application/x-tar",
        b"jar" => "application/java-archive",
        _ => UNKNOWN,
    }
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
        ] {
            let kind = of(name);
            assert_eq!((kind.media_type, kind.is_compressible), (media_type, is_compressible), "{name:?}");
        }
    }
}
