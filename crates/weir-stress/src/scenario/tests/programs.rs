//! Servers that a run starts, and modules that are programs. They need Python.

use super::liar::{Liar, Lie, free_port};
use super::{Folder, faults, figure, run_file, run_module, said, scenario};
use crate::scenario::process::Usage;

#[test]
fn a_server_is_started_watched_and_stopped() {
    let port = free_port();
    let program = "import http.server, sys, os\n\
         class H(http.server.BaseHTTPRequestHandler):\n\
         \x20   protocol_version = 'HTTP/1.1'\n\
         \x20   def do_GET(self):\n\
         \x20       body = open(sys.argv[2]).read().encode()\n\
         \x20       self.send_response(200)\n\
         \x20       self.send_header('Content-Length', str(len(body)))\n\
         \x20       self.end_headers()\n\
         \x20       self.wfile.write(body)\n\
         \x20   def log_message(self, *a): pass\n\
         open(sys.argv[3], 'w').write(str(os.getpid()))\n\
         http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), H).serve_forever()\n";
    let folder = Folder::new();
    let pid = folder.0.join("pid");
    let text = format!(
        "[[server]]\nname = \"py\"\nurl = \"http://{port}\"\nversion = \"python3 --version\"\n\
         command = [\"python3\", \"-c\", {program:?}, \"{}\", \"{{scratch}}/body\", {:?}]\n\
         files = {{ body = \"origin {{origin}}\" }}\n\
         [[module]]\nkind = \"simple\"\ntimes = 20\nurls = [{{ path = \"/x\" }}]\n\
          limits = [\"resident_mb > 1\"]\n",
        port.port(),
        pid.display().to_string(),
    );
    let outcome = run_file(&text, &[]).unwrap();
    assert!(outcome.is_good(), "{outcome}");
    assert!(outcome.to_string().contains("Python 3"), "{outcome}");
    // `origin 127.0.0.1:` and a port.
    assert!(figure(&outcome, "bytes") > 20.0 * 20.0);
    let pid: u32 = std::fs::read_to_string(&pid).unwrap().parse().unwrap();
    assert_eq!(Usage::of(pid), None, "it has ended");
    let dies = text.replace("serve_forever()", "no_such_thing()").replace("20\nurls", "1\nurls");
    let error = said(&dies);
    assert!(error.contains("ended at once") && error.contains("no_such_thing"), "{error}");
}

#[test]
fn what_a_checker_says_fails_the_run() {
    let port = free_port();
    let folder = Folder::new();
    // It stands for valgrind: it says something of the memory, then runs the program.
    let checker = folder.0.join("checker");
    std::fs::write(
        &checker,
        "#!/bin/sh\necho '==7== Invalid read of size 8\n==7==    at 0x1: eat (eat.c:3)\n==7== ' > \
         \"$1/memcheck.7.log\"\nshift\nexec \"$@\"\n",
    )
    .unwrap();
    let text = format!(
        "[[server]]\nname = \"py\"\nurl = \"http://{port}\"\n\
         command = \"python3 -m http.server --bind 127.0.0.1 {}\"\n\
         wrap = [\"sh\", {:?}, \"{{scratch}}\"]\n\
         [[module]]\nkind = \"simple\"\nurls = [{{ path = \"/nothing\", status = 404 }}]\n",
        port.port(),
        checker.display().to_string(),
    );
    let outcome = run_file(&text, &[]).unwrap();
    assert!(!outcome.is_good(), "{outcome}");
    assert!(outcome.to_string().contains("Invalid read of size 8\n    at 0x1: eat (eat.c:3)"), "{outcome}");
    assert_eq!(outcome.json()["servers"][0]["findings"][0]["title"], "Invalid read of size 8");
    let without = text.lines().filter(|line| !line.starts_with("wrap")).collect::<Vec<_>>().join("\n");
    assert!(run_file(&without, &[]).unwrap().is_good());
}

#[test]
fn a_module_may_be_any_program_that_speaks_lines_of_json() {
    let origin = free_port();
    let server = Liar::start(Lie::Honest, origin);
    let program = |body: &str| {
        let text = format!("import json, sys\njob = json.loads(sys.stdin.readline())\n{body}");
        format!(
            "kind = \"program\"\nseconds = 2.0\ncommand = [\"python3\", \"-c\", {text:?}]\n\
             settings = {{ deep = [1, 2] }}"
        )
    };
    let right = program(
        "assert job['protocol'] == 1 and job['settings']['deep'] == [1, 2], job\n\
         assert job['server'].startswith('http://') and job['origin'].startswith('http://')\n\
         say = lambda line: print(json.dumps(line), flush=True)\n\
         say({'response': {'status': 200, 'bytes': 7, 'connect_us': 90, \
         'first_byte_us': 1000, 'whole_us': 2000}})\n\
         say({'figure': {'name': 'likes', 'value': 3}})\n\
         say({'note': 'as ' + job['module']})\n",
    );
    let run = |module: &str| run_file(&scenario(origin, server, module), &[]).unwrap();
    let outcome = run(&right);
    assert!(outcome.is_good(), "{outcome}");
    assert_eq!((figure(&outcome, "requests"), figure(&outcome, "bytes")), (1.0, 7.0));
    assert_eq!(figure(&outcome, "likes"), 3.0);
    assert!((figure(&outcome, "whole_p50_ms") - 2.0).abs() < 0.05);
    assert!(outcome.to_string().contains("as program"), "{outcome}");
    for (body, part) in [
        ("print('{\"fault\": {\"kind\": \"content\", \"detail\": \"it is blue\"}}')", "it is blue"),
        ("print('hello')", "no line of the protocol"),
        ("sys.exit(3)", "it failed"),
    ] {
        let outcome = run(&program(body));
        assert!(!outcome.is_good() && outcome.to_string().contains(part), "{body}: {outcome}");
    }
}

/// A turn may be worse than the others: that one counts, on whichever side of the limit.
#[test]
fn of_several_turns_the_worst_is_held_against_a_limit() {
    let (origin, folder) = (free_port(), Folder::new());
    let server = Liar::start(Lie::Honest, origin);
    let turns = folder.0.join("turns").display().to_string();
    let text = format!(
        "import json\nturns = open({turns:?}, 'a+')\nturns.seek(0)\n\
         at = len(turns.read())\nturns.write('x')\n\
         say = lambda line: print(json.dumps(line), flush=True)\n\
         say({{'response': {{'status': 200, 'bytes': 7, 'first_byte_us': 1000, 'whole_us': 2000}}}})\n\
         say({{'figure': {{'name': 'good', 'value': 100 if at % 2 == 0 else 1}}}})\n"
    );
    let run = |limit: &str| {
        let module = format!(
            "kind = \"program\"\nrounds = 2\nseconds = 2.0\ncommand = [\"python3\", \"-c\", {text:?}]\n\
             limits = [\"{limit}\"]"
        );
        let outcome = run_file(&scenario(origin, server, &module), &[]).unwrap();
        assert_eq!(outcome.modules[0].sides[0].turns.len(), 2, "{outcome}");
        outcome.is_good()
    };
    assert!(run("good >= 1") && run("good <= 100"));
    assert!(!run("good >= 50") && !run("good > 1") && !run("good <= 50"));
}

/// The module in Python that is shipped.
#[test]
fn the_program_that_is_shipped_crawls_and_tells_lies_apart() {
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        eprintln!("left out: there is no python3");
        return;
    }
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/stress/crawl.py");
    let module = format!(
        "kind = \"program\"\ncommand = [\"python3\", {program:?}]\nseconds = 1.5\n\
         settings = {{ path = \"/p/\", pages = 5 }}\nlimits = [\"pages > 5\"]"
    );
    let honest = run_module(Lie::Honest, &module);
    assert!(honest.is_good() && figure(&honest, "requests") > 5.0, "{honest}");
    assert_eq!(
        (figure(&honest, "requests"), figure(&honest, "origin_requests")),
        (figure(&honest, "pages"), 5.0)
    );
    let cut = run_module(Lie::Cut, &module);
    assert!(faults(&cut).contains(&"closed"), "{cut}");
}
