//! What a comparison of servers needs: modules that choose servers, fills and what is kept of them, what is
//! measured of a turn, drives, quick runs, files beside the scenario.

use super::liar::{Liar, Lie, free_port};
use super::{Folder, faults, figure, run_file, run_module, said, scenario};

const FILL: &str = "kind = \"fill\"\nobjects = 40\nsize = \"3 KB\"\nusers = 4\nsettle = 0.1";

#[test]
fn what_a_cache_has_kept_of_its_fills_is_asked() {
    let honest = run_module(Lie::Honest, FILL);
    assert!(honest.is_good(), "{honest}");
    assert_eq!((figure(&honest, "requests"), figure(&honest, "kept_percent")), (40.0, 100.0), "{honest}");
    // The fills alone, and not what was asked again.
    assert_eq!(figure(&honest, "origin_requests"), 40.0, "{honest}");
    let forgets = run_module(Lie::Forgets, FILL);
    assert_eq!(figure(&forgets, "kept_percent"), 0.0, "{forgets}");
    assert_eq!(figure(&forgets, "origin_requests"), 40.0, "{forgets}");
    let sampled = run_module(Lie::Honest, &format!("{FILL}\nsample = 10"));
    assert_eq!(figure(&sampled, "kept_percent"), 100.0, "{sampled}");
    let lies = run_module(Lie::Byte, FILL);
    assert!(faults(&lies).contains(&"content"), "{lies}");
    let foreign = format!("{FILL}\nrestart = \"told\"");
    let origin = free_port();
    let server = Liar::start(Lie::Honest, origin);
    let error = said(&scenario(origin, server, &foreign));
    assert!(error.contains("one with `command`"), "{error}");
}

#[test]
fn warming_is_not_what_is_measured_but_its_faults_count() {
    let module = |more: &str| {
        format!("kind = \"spread\"\nobjects = 30\nsize = \"2 KB\"\nrequests = 60\nusers = 2\n{more}")
    };
    let warmed = run_module(Lie::Honest, &module(""));
    assert_eq!(figure(&warmed, "origin_requests"), 0.0, "{warmed}");
    let unwarmed = run_module(Lie::Honest, &module("warm = false"));
    assert!(figure(&unwarmed, "origin_requests") > 0.0, "{unwarmed}");
    // Bodies that are thrown away unread were read when they were warmed.
    let discarded = run_module(Lie::Byte, &module("discard = true"));
    assert!(faults(&discarded).contains(&"content") && !discarded.is_good(), "{discarded}");
    let shorter = run_module(Lie::Shorter, &module("discard = true\nwarm = false"));
    assert!(faults(&shorter).contains(&"length"), "{shorter}");
    let error = said(&scenario(free_port(), free_port(), &module("warm = \"twice\"")));
    assert!(error.contains("\"once\""), "{error}");
}

#[test]
fn what_is_warmed_once_is_asked_for_in_all_turns() {
    for (warm, fetched) in [("\"once\"", 20), ("true", 60)] {
        let origin = free_port();
        let server = Liar::start(Lie::Honest, origin);
        let module = format!(
            "kind = \"spread\"\nobjects = 20\nsize = \"2 KB\"\nrequests = 40\nusers = 2\nrounds = 3\n\
             warm = {warm}"
        );
        let outcome = run_file(&scenario(origin, server, &module), &[]).unwrap();
        assert!(outcome.is_good(), "{outcome}");
        let rows = outcome.rows.iter().map(|row| row.origin_requests).sum::<u64>();
        assert_eq!(rows, fetched, "{warm}: {outcome}");
    }
}

#[test]
fn modules_choose_their_servers_and_others_are_not_started() {
    let origin = free_port();
    let (one, other) = (Liar::start(Lie::Honest, origin), Liar::start(Lie::Honest, origin));
    let module = "kind = \"simple\"\nurls = [{ path = \"/p/1\" }]\n\
                  [[module]]\nkind = \"spread\"\nrequests = 20\nobjects = 5\n\
                  servers = [\"other\", \"third\"]\n\
                  limits = [\"third: ratio_whole_p50 > 0\"]";
    // The first server has no `spread`, and so others are compared with the second.
    let text = scenario(origin, one, module).replace(
        "[[module]]\nkind = \"simple\"",
        &format!(
            "[[server]]\nname = \"other\"\nurl = \"http://{other}\"\n\
             [[server]]\nname = \"third\"\nurl = \"http://{other}\"\n[[module]]\nkind = \"simple\""
        ),
    );
    let outcome = run_file(&text, &[]).unwrap();
    assert!(outcome.is_good(), "{outcome}");
    let turns: Vec<usize> = outcome.modules[1].sides.iter().map(|side| side.turns.len()).collect();
    assert_eq!(turns, [0, 2, 2]);
    let json = outcome.json();
    assert_eq!(json["modules"][1]["sides"].as_array().unwrap().len(), 2, "{json}");
    assert!(outcome.html().contains("of other's"), "{outcome}");
    // A server that cannot start does no harm where nothing runs on it.
    let dead = text.replace(
        &format!("name = \"liar\"\nurl = \"http://{one}\""),
        "name = \"liar\"\nurl = \"http://127.0.0.1:1\"",
    );
    let outcome = run_file(&dead, &["--only", "spread"]).unwrap();
    assert!(outcome.is_good() && outcome.servers.len() == 2, "{outcome}");
    let error = said(&text.replace("\"third\"]", "\"fourth\"]"));
    assert!(error.contains("no server is called `fourth`"), "{error}");
    // One that is named by its URL is meant beside those that are named.
    let more = ["--only", "simple", "--servers", "liar", "--vs", &format!("http://{other}")];
    let outcome = run_file(&text, &more).unwrap();
    assert!(outcome.is_good() && outcome.servers.len() == 2, "{outcome}");
}

#[test]
fn a_quick_run_is_a_tenth_in_one_round() {
    let (origin, module) = (free_port(), "kind = \"spread\"\nrequests = 500\nobjects = 1000\nrounds = 4");
    let server = Liar::start(Lie::Honest, origin);
    let outcome = run_file(&scenario(origin, server, module), &["--quick"]).unwrap();
    assert!(outcome.is_good() && outcome.modules[0].sides[0].turns.len() == 1, "{outcome}");
    assert_eq!(figure(&outcome, "requests"), 50.0, "{outcome}");
    assert_eq!(outcome.rows.iter().map(|row| row.origin_requests).sum::<u64>(), 100, "{outcome}");
    let module = "kind = \"spread\"\nseconds = 4\nobjects = 10";
    let outcome = run_file(&scenario(origin, server, module), &["--quick"]).unwrap();
    assert!(outcome.modules[0].sides[0].tally().seconds < 2.0, "{outcome}");
}

/// A server that this run starts has files that lie beside the scenario, and a folder whose pages are
/// dropped.
#[test]
fn files_beside_the_scenario_are_filled_in_and_pages_are_dropped() {
    let (folder, address) = (Folder::new(), free_port());
    std::fs::write(folder.0.join("body"), "{greeting} at {listen}").unwrap();
    let program = "import http.server, sys\n\
         body = open(sys.argv[2], 'rb').read()\n\
         class H(http.server.BaseHTTPRequestHandler):\n\
         \x20def do_GET(self):\n\
         \x20 self.send_response(200); self.send_header('Content-Length', str(len(body)))\n\
         \x20 self.end_headers(); self.wfile.write(body)\n\
         \x20def log_message(self, *_): pass\n\
         http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), H).serve_forever()\n";
    let text = format!(
        "[[server]]\nname = \"py\"\nurl = \"http://{address}\"\nvalues = {{ greeting = \"hello\" }}\n\
         command = [\"python3\", \"-c\", {program:?}, \"{}\", \"{{scratch}}/body\"]\n\
         files = {{ body = {{ from = \"body\" }} }}\n\
         [[module]]\nkind = \"spread\"\npath = \"/x\"\nrequests = 10\nusers = 1\ncold = true\n\
         limits = [\"drive_reads >= 0\"]\n",
        address.port()
    );
    let file = folder.0.join("stress.toml");
    std::fs::write(&file, &text).unwrap();
    let outcome = super::run_path(&file, &[]).unwrap();
    assert!(outcome.is_good(), "{outcome}");
    assert_eq!(figure(&outcome, "bytes"), 10.0 * format!("hello at {address}").len() as f64, "{outcome}");
    std::fs::remove_file(folder.0.join("body")).unwrap();
    let error = super::run_path(&file, &[]).unwrap_err().to_string();
    assert!(error.contains("body cannot be read"), "{error}");
}

/// The floor before an origin sends what that has, once it has asked for it.
#[test]
fn the_floor_before_an_origin_passes_every_check() {
    let origin = free_port();
    let floor = crate::floor::Floor::bind(([127, 0, 0, 1], 0).into()).unwrap().before(origin);
    let address = floor.address();
    std::thread::spawn(move || floor.run());
    let module = "kind = \"spread\"\nobjects = 10\nsize = \"1 KB..90 KB\"\nrequests = 100\nusers = 3";
    let outcome = run_file(&scenario(origin, address, module), &[]).unwrap();
    assert!(outcome.is_good() && figure(&outcome, "requests") == 100.0, "{outcome}");
    assert_eq!(figure(&outcome, "origin_requests"), 0.0, "{outcome}");
}
