//! How scenarios lay content by hand.

use serde_json::Value;
use weir_testkit::{Address, Client, Output, Response, Weir};

/// Lays bytes over a URL with the command.
pub fn put(weir: &Weir, url: &str, bytes: impl AsRef<[u8]>, more: &[&str]) -> Output {
    static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let file = weir.folder().join(format!("by-hand-{number}"));
    std::fs::write(&file, bytes).unwrap();
    let put = weir.command(&[&["content", "put", url, file.to_str().unwrap()], more].concat());
    std::fs::remove_file(file).unwrap();
    put
}

/// The same, which must succeed.
pub fn lay(weir: &Weir, url: &str, bytes: impl AsRef<[u8]>) {
    let laid = put(weir, url, bytes, &[]);
    assert_eq!(laid.code, Some(0), "{url}: {laid:?}");
}

/// Resets a URL, which must succeed.
pub fn reset(weir: &Weir, url: &str) {
    let gone = weir.command(&["content", "reset", url]);
    assert_eq!(
        (gone.code, gone.stdout),
        (Some(0), format!("reset: {}\n", url.trim_start_matches("http://")))
    );
}

/// A page of what is laid.
pub fn list(weir: &Weir, args: &[&str]) -> Value {
    let listed = weir.command(&[&["content", "list", "--json"], args].concat());
    assert_eq!(listed.code, Some(0), "{listed:?}");
    serde_json::from_str(&listed.stdout).unwrap()
}

/// Sends a request with content to the API, and reads the answer.
pub fn ask(to: impl Into<Address>, line: &str, fields: &str, content: &[u8]) -> Response {
    let mut client = Client::connect(to);
    let length = content.len();
    let head = format!("{line} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{fields}\r\n");
    client.send([head.as_bytes(), content].concat());
    client.recv().unwrap_or_else(|why| panic!("{line}: {why:?}"))
}

/// The field that shows a token.
pub fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

/// The word of a refusal.
pub fn word(answer: &Response) -> (u16, String) {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    (answer.status(), body["error"].as_str().unwrap_or_default().to_owned())
}
