//! Promises of values with placeholders, for any text and any request: no panic; a value printed is the same
//! value; what is rendered keeps its place; two requests share the lines of a key only if their values agree.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use weir_policy::RequestView;
use weir_policy::value::{Known, Scope, Style, Value};

/// Reads any bytes as a value, a line each for a target and fields, and checks what it renders.
pub fn value(data: &[u8]) {
    let mut lines = data.split(|byte| *byte == b'\n');
    let text = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let target = lines.next().and_then(|line| std::str::from_utf8(line.trim_ascii()).ok());
    let is_target =
        |target: &&str| target.starts_with('/') && target.bytes().all(|byte| byte.is_ascii_graphic());
    let target = target.filter(is_target).unwrap_or("/");
    let headers = fields(lines);
    let view = RequestView {
        method: &Method::GET,
        scheme: "https",
        host: "example.com",
        path_and_query: target,
        headers: &headers,
        has_body: false,
        is_trusted: false,
    };
    for scope in Scope::ALL {
        if let Ok(value) = Value::parse(&text, scope) {
            assert_eq!(Value::parse(&value.to_string(), scope), Ok(value.clone()), "{text:?}");
            check(&value, &view);
        }
    }
}

fn fields<'a>(lines: impl Iterator<Item = &'a [u8]>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines.take(30) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(line[colon + 1..].trim_ascii())) {
            headers.append(name, value);
        }
    }
    headers
}

fn check(value: &Value, known: &RequestView<'_>) {
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    if !is_plain(&value.to_string()) {
        // Its literal text is checked where the configuration is loaded.
        value.render(known, Style::Log);
        return;
    }
    let field = value.render(known, Style::Plain);
    assert!(!field.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)), "{}", field.escape_ascii());
    let line = value.render(known, Style::Log);
    assert!(line.iter().all(|byte| (0x20..0x7f).contains(byte)), "{}", line.escape_ascii());
    if !value.to_string().contains(' ') {
        for style in [Style::Url, Style::Path] {
            let url = value.render(known, style);
            assert!(url.iter().all(u8::is_ascii_graphic), "{}", url.escape_ascii());
        }
    }
    let mut lines = Vec::new();
    let mut count = 0;
    for placeholder in value.placeholders() {
        let mut values = 0;
        known.each(&placeholder.what, &mut |_| values += 1);
        count += values.max(1);
        placeholder.write_key_lines(known, &mut lines);
    }
    // A line for each value, and none besides.
    assert_eq!(lines.iter().filter(|byte| **byte == b'\n').count(), count, "{}", lines.escape_ascii());
}
