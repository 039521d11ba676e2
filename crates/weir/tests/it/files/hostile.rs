//! Nothing leads out of the root: encodings of dots and slashes, links, and what is no file.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::time::Instant;

use weir_testkit::Weir;

use super::kit::{Root, raw, www};

const SECRET: &str = "the secret beside the root";

/// How published lists of path traversal write their steps upwards: OWASP, DotDotPwn, SecLists, and the CVEs
/// of nginx, Apache httpd (CVE-2021-41773, CVE-2021-42013), Tomcat, IIS, Node's `send` and Rocket.
const UP: &[&str] = &[
    "../",
    "..%2f",
    "..%2F",
    "%2e%2e/",
    "%2e%2e%2f",
    "%2E%2E%2F",
    ".%2e/",
    "%2e./",
    ".%2e%2f",
    "%252e%252e%252f",
    "%252e%252e/",
    "..%252f",
    "%%32%65%%32%65/",
    ".%%32%65/",
    "..\\",
    "..%5c",
    "%2e%2e%5c",
    "%2e%2e\\",
    "%252e%252e%255c",
    "..%255c",
    "..;/",
    "..;a=b/",
    "%2e%2e;/",
    "..%3b/",
    "....//",
    "....\\/",
    "..../",
    ".../",
    "..//",
    "..///",
    "/../",
    "..%c0%af",
    "%c0%ae%c0%ae/",
    "%c0%ae%c0%ae%c0%af",
    "..%c1%9c",
    "..%e0%80%af",
    "%e0%80%ae%e0%80%ae/",
    "..%f0%80%80%af",
    "%uff0e%uff0e/",
    "%u002e%u002e%u2215",
    "..%u2215",
    "..%ef%bc%8f",
    "%ef%bc%8e%ef%bc%8e/",
    "..%00/",
    "..%0d/",
    "..%0a/",
    "..%20/",
    "..%09/",
    "./../",
    ".//../",
    "a/../../",
    "a/%2e%2e/%2e%2e/",
    "%2f..%2f",
    "..%2f%2f",
    "%5c..%5c",
    "..;%2f",
    "..%23/",
    "..%3f/",
    "..././",
    "...\\.\\",
    "%2e%2e%00/",
    "..\\/",
    "\\..\\",
    "/%5c../",
    "..%5c/",
];

fn targets() -> Vec<String> {
    let mut all = Vec::new();
    for up in UP {
        for depth in 1..=4 {
            let steps = up.repeat(depth);
            for file in ["secret", "etc/passwd"] {
                all.push(format!("/{steps}{file}"));
                all.push(format!("/sub/{steps}{file}"));
                all.push(format!("/sub/{steps}{}", file.replace('/', "%2f")));
                all.push(format!("/{steps}{file}%00.html"));
                all.push(format!("/{steps}{file}?a.html"));
                all.push(format!("/{steps}{file}/."));
            }
        }
    }
    for odd in [
        "//etc/passwd",
        "///etc/passwd",
        "/%2fetc/passwd",
        "/%2f%2fetc%2fpasswd",
        "/file:///etc/passwd",
        "/C:/secret",
        "/c:\\secret",
        "/sub/..",
        "/..",
        "/%2e%2e",
        "/.%00./secret",
        "/www/../../secret",
        "/proc/self/environ",
        "/proc/self/root/etc/passwd",
        "/dev/fd/0",
        "/sub/.../secret",
        "/secret.",
        "/secret%20",
        "/secret::$DATA",
        "/~root/secret",
        "/sub%00/secret",
        "/%",
        "/%2",
        "/%zz",
        "/%c0",
        "/%ff%fe",
        "/sub/deep/",
        "/sub/deep/../deep",
        "/out/secret",
        "/secret-link",
        "/chain",
        "/absolute",
        "/up/secret",
        "/up/up/secret",
        "/self/secret",
        "/root-link/etc/passwd",
        "/proc-link/self/environ",
        "/fd-link",
        "/fifo",
        "/fifo/",
        "/socket",
        "/zero",
        "/loop",
        "/loop/a",
    ] {
        all.push(odd.to_owned());
    }
    all
}

fn root() -> Root {
    let root = Root::new().with("sub/deep", "deep").with("index.html", "index");
    root.setup.file("secret", SECRET);
    let path = &root.path;
    symlink("../secret", path.join("secret-link")).unwrap();
    symlink("secret-link", path.join("chain")).unwrap();
    symlink("/etc/passwd", path.join("absolute")).unwrap();
    symlink("..", path.join("up")).unwrap();
    symlink("../..", path.join("sub/upper")).unwrap();
    symlink(".", path.join("self")).unwrap();
    symlink("/", path.join("root-link")).unwrap();
    symlink("/proc", path.join("proc-link")).unwrap();
    symlink("/proc/self/fd/0", path.join("fd-link")).unwrap();
    symlink("/dev/zero", path.join("zero")).unwrap();
    symlink("loop", path.join("loop")).unwrap();
    symlink("sub/deep", path.join("inside")).unwrap();
    let made = Command::new("mkfifo").arg(path.join("fifo")).status().unwrap();
    assert!(made.success());
    root
}

fn check(weir: &Weir, status_max: u16) {
    let began = Instant::now();
    for target in targets() {
        let answer = raw(weir, "GET", &target.replace(' ', "%20"), "");
        let text = answer.text();
        assert!(!text.contains(SECRET) && !text.contains("root:"), "{target}: {text}");
        // A step that the URL itself resolves may lead to what is there.
        let is_refused = (301..=status_max).contains(&answer.status());
        assert!(is_refused || matches!(&*text, "deep" | "index"), "{target}: {}", answer.status());
    }
    assert!(began.elapsed().as_secs() < 120);
}

#[test]
fn published_traversals_links_and_what_is_no_file_lead_to_nothing() {
    let root = root();
    let _socket = UnixListener::bind(root.path.join("socket")).unwrap();
    let weir = root.start("");
    check(&weir, 404);
    assert_eq!(weir.get("/inside").text(), "deep", "a link below the root is followed");
    assert_eq!(weir.get("/self/sub/deep").text(), "deep");
    for path in ["/fifo", "/socket", "/zero", "/absolute", "/up/secret", "/sub/upper/secret", "/fd-link"] {
        assert_eq!(weir.get(path).status(), 404, "{path}");
    }
}

#[test]
fn no_traversal_works_where_hidden_names_lists_and_folders_are_shown() {
    let weir = root().start("files = { hidden = true, listing = true }");
    for target in targets() {
        let text = raw(&weir, "GET", &target, "").text();
        assert!(!text.contains(SECRET) && !text.contains("root:"), "{target}: {text}");
        assert!(!text.contains("weir.toml"), "{target} lists what is beside the root");
    }
}

#[test]
fn links_can_be_refused() {
    let weir = root().start("files = { symlinks = \"refuse\" }");
    check(&weir, 404);
    for path in ["/inside", "/self/sub/deep", "/chain"] {
        assert_eq!(weir.get(path).status(), 404, "{path}");
    }
    assert_eq!(weir.get("/sub/deep").text(), "deep");
}

#[test]
fn a_link_that_turns_outwards_while_it_is_asked_for_leads_to_nothing() {
    let weir = root().start("");
    let www = www(&weir);
    std::fs::create_dir(www.join("good")).unwrap();
    std::fs::write(www.join("good/secret"), "good").unwrap();
    symlink("good", www.join("turn")).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut is_out = false;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                is_out = !is_out;
                let _ = std::fs::remove_file(www.join("turning"));
                symlink(if is_out { ".." } else { "good" }, www.join("turning")).unwrap();
                std::fs::rename(www.join("turning"), www.join("turn")).unwrap();
            }
        });
        for number in 0..400 {
            // Each path is another one for what is held in memory.
            let path = format!("/{}turn/secret", "self/".repeat(number % 20));
            let answer = weir.get(&path);
            assert!(
                matches!((answer.status(), &*answer.text()), (200, "good") | (404, _)),
                "{}",
                answer.text()
            );
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
