//! Roots whose devices do not answer: what needs them hears so, and nothing else waits.

use weir_testkit::{Hung, until};

use super::kit::{Root, raw, write, www};

/// A root that hangs, beside one that does not.
const SITE: &str = "files = { listing = true }\n\
                    [[site.route]]\nprefix = \"/hung\"\nroot = \"hung\"\nfiles = { listing = true }\n";

#[test]
fn a_root_that_hangs_keeps_no_other_root_waiting() {
    let root = Root::new().with("a/first.txt", "first");
    std::fs::create_dir(root.setup.folder().join("hung")).unwrap();
    let weir = root.start(SITE);
    let Some(hung) = Hung::over(&weir.folder().join("hung")) else { return };
    // Many more than there are threads for files.
    let waiting: Vec<_> = (0..64)
        .map(|number| {
            let mut client = weir.client();
            client.send(format!("GET /hung/{number}.txt HTTP/1.1\r\nHost: www.example.com\r\n\r\n"));
            client
        })
        .collect();
    // Each of these needs a thread: a file that nobody has read, and a list.
    for number in 0..40 {
        let name = format!("a/{number}.txt");
        write(&www(&weir), &name, &name);
        assert_eq!(raw(&weir, "GET", &format!("/{name}"), "").text(), name);
        let list = raw(&weir, "GET", "/a/", "");
        assert_eq!(list.status(), 200);
        assert!(list.text().contains(&format!("{number}.txt")));
    }
    for mut client in waiting {
        let answer = client.recv().unwrap();
        assert_eq!(answer.status(), 503, "{:?}", answer.head);
        assert!(answer.cache_status().contains("file-hangs"), "{:?}", answer.head);
        assert!(answer.header("retry-after").is_some());
    }
    // By now it is known, and no thread is lost to further requests.
    for _ in 0..50 {
        assert_eq!(raw(&weir, "GET", "/hung/again.txt", "").status(), 503);
    }
    drop(hung);
    write(&weir.folder().join("hung"), "hung/back.txt", "back");
    until("it answers again", || raw(&weir, "GET", "/hung/back.txt", "").status() == 200);
}
