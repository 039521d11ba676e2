//! Runs that cannot begin, or not go on: another process has the address, a server ends by itself, a program
//! does not start, a purge is refused. What was measured until then is told.

use std::net::TcpListener;

use clap::Parser;

use super::liar::{Liar, Lie, free_port};
use super::{Command, Folder, SIMPLE, faults, figure, run_file, run_module, said, scenario};

#[test]
fn what_listens_already_is_not_tested_in_place_of_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = |name: &str| {
        format!("[[server]]\nname = \"{name}\"\nurl = \"http://{address}\"\ncommand = \"sleep 5\"\n")
    };
    let module = "[[module]]\nkind = \"miss\"\n";
    let error = said(&format!("{}{module}", server("one")));
    assert!(error.contains(&format!("something else listens on {address} already")), "{error}");
    let error = said(&format!("{}{}{module}", server("one"), server("two")));
    assert!(error.contains(&format!("`one` and `two` cannot both listen on {address}")), "{error}");
}

/// A server that is gone behind the last response has not been well, whatever it answered.
#[test]
fn a_server_that_ends_by_itself_is_a_finding() {
    for (end, status) in [("os._exit(0)", "exit status: 0"), ("os.kill(os.getpid(), 9)", "signal: 9")] {
        let address = free_port();
        let program = format!(
            "import http.server, os, sys\n\
             class H(http.server.BaseHTTPRequestHandler):\n\
             \x20def do_GET(self):\n\
             \x20 self.send_response(200); self.send_header('Content-Length', '0'); self.end_headers()\n\
             \x20 self.wfile.flush()\n\
             \x20 if self.path == '/x': print('enough', file=sys.stderr, flush=True); {end}\n\
             \x20def log_message(self, *_): pass\n\
             http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), H).serve_forever()\n"
        );
        let later = "sleep 1; echo '{\"figure\": {\"name\": \"x\", \"value\": 1}}'";
        let text = format!(
            "[[server]]\nname = \"py\"\nurl = \"http://{address}\"\n\
             command = [\"python3\", \"-c\", {program:?}, \"{}\"]\n\
             [[module]]\nkind = \"simple\"\nurls = [{{ path = \"/x\" }}]\n\
             [[module]]\nkind = \"program\"\ncommand = [\"sh\", \"-c\", {later:?}]\n",
            address.port()
        );
        let outcome = run_file(&text, &[]).unwrap();
        assert_eq!(faults(&outcome), Vec::<&str>::new(), "{outcome}");
        assert!(!outcome.is_good(), "{outcome}");
        let found = &outcome.json()["servers"][0]["findings"][0];
        let title = found["title"].as_str().unwrap();
        assert!(title.contains(status) && title.contains("enough"), "{found}");
        assert!(outcome.to_string().contains(title) && outcome.html().contains(status), "{outcome}");
    }
}

/// The report of a run in which a module could not go on, and how the command ended.
#[test]
fn what_was_measured_before_a_module_gave_up_is_told() {
    let origin = free_port();
    let server = Liar::start(Lie::Honest, origin);
    let modules = format!(
        "{SIMPLE}\n[[module]]\nkind = \"statistics\"\ntests = [\"purge\"]\nobjects = 4\nwithin = 0.1\n\
         [[module]]\nkind = \"miss\"\nrequests = 5\n"
    );
    let text = scenario(origin, server, &modules)
        .replace("purge = { method = \"PURGE\" }", "purge = { command = \"false\" }");
    let folder = Folder::new();
    let (file, html) = (folder.0.join("stress.toml"), folder.0.join("report.html"));
    std::fs::write(&file, text).unwrap();
    let words = ["stress", file.to_str().unwrap(), "-q", "--html", html.to_str().unwrap()];
    let args = Command::try_parse_from(words).unwrap().args;
    let mut out = Vec::new();
    let error = crate::perform(&args, &mut out).unwrap_err().to_string();
    assert!(error.contains("purge of") && error.contains("`false` failed"), "{error}");
    let (table, page) = (String::from_utf8(out).unwrap(), std::fs::read_to_string(&html).unwrap());
    for report in [&table, &page] {
        assert!(report.contains("`false` failed") && report.contains("simple"), "{report}");
        assert!(
            report.contains("ended early") && !report.contains("origin_requests_per_request"),
            "{report}"
        );
    }
}

#[test]
fn a_program_that_cannot_start_or_says_too_much_is_a_fault() {
    let missing = run_module(Lie::Honest, "kind = \"program\"\ncommand = [\"no-such-program\"]");
    assert_eq!(faults(&missing), ["program"], "{missing}");
    assert!(
        missing.to_string().contains("cannot start `no-such-program`") && !missing.is_good(),
        "{missing}"
    );
    let talkative = "import json\n\
         for at in range(300): print(json.dumps({'figure': {'name': 'f%d' % at, 'value': 2}}))\n\
         print(json.dumps({'figure': {'name': 'f0', 'value': 1}}))";
    let module = format!("kind = \"program\"\ncommand = [\"python3\", \"-c\", {talkative:?}]");
    let outcome = run_module(Lie::Honest, &module);
    assert_eq!(faults(&outcome), ["program"], "{outcome}");
    assert_eq!((figure(&outcome, "faults"), figure(&outcome, "f0")), (100.0, 3.0), "{outcome}");
}
