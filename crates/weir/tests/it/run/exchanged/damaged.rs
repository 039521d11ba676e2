//! Damages every file of the state folder and of a volume in every way, after an orderly end and after a
//! kill; then purges, sweeps if all cases run, and starts again. `WEIR_MATRIX=all` runs all cases, which
//! takes minutes; without it one of nine runs.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// How many cases run at once.
const AT_ONCE: usize = 4;
/// The time after which a sweep is over.
const SWEEP_TIME: Duration = Duration::from_secs(8);
/// One of this many cases runs unless all are wanted.
const SHARE: usize = 9;

#[derive(Debug, Clone, Copy)]
enum Harm {
    Empty,
    Half,
    AByteLess,
    GarbageBehind,
    Flipped,
    LastFlipped,
    Removed,
    Folder,
    OlderCopy,
    OfAnother,
}

const HARMS: [Harm; 10] = [
    Harm::Empty,
    Harm::Half,
    Harm::AByteLess,
    Harm::GarbageBehind,
    Harm::Flipped,
    Harm::LastFlipped,
    Harm::Removed,
    Harm::Folder,
    Harm::OlderCopy,
    Harm::OfAnother,
];

impl Harm {
    /// Damages a file, of which there is an older copy and another installation's. False if the file is
    /// unchanged.
    fn on(self, path: &Path, older: &Path, other: &Path) -> bool {
        let before = std::fs::read(path).unwrap();
        let mut bytes = before.clone();
        match self {
            Harm::Empty => bytes.clear(),
            Harm::Half => bytes.truncate(before.len() / 2),
            Harm::AByteLess => bytes.truncate(before.len().saturating_sub(1)),
            Harm::GarbageBehind => bytes.extend(weir_testkit::pattern(7, 100)),
            Harm::Flipped => {
                let at = before.len() / 2;
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 0x10);
            }
            Harm::LastFlipped => bytes.iter_mut().rev().take(1).for_each(|byte| *byte ^= 1),
            Harm::Removed | Harm::Folder => {
                std::fs::remove_file(path).unwrap();
                if matches!(self, Harm::Folder) {
                    std::fs::create_dir(path).unwrap();
                }
                return true;
            }
            Harm::OlderCopy | Harm::OfAnother => {
                match std::fs::read(if matches!(self, Harm::OlderCopy) { older } else { other }) {
                    Ok(another) => bytes = another,
                    Err(_) => return false,
                }
            }
        }
        if bytes != before {
            std::fs::write(path, &bytes).unwrap();
        }
        bytes != before
    }
}

/// A state folder and a volume at the end of a life, with copies from an earlier start, and the versions that
/// purges leave.
struct Template {
    weir: Weir,
    least: HashMap<usize, u64>,
    ending: Ending,
}

impl Template {
    fn make(ending: Ending) -> Template {
        let versions = Versions::start();
        let mut weir = start(&versions.origin);
        store(&weir);
        purge(&weir, &["http://localhost/none"]);
        end(&mut weir, Ending::Stop);
        for part in ["state", "volume"] {
            copy(&weir.folder().join(part), &weir.folder().join("older").join(part));
        }
        weir.start_again();
        versions.renew(COUNT - 1..COUNT);
        purge(&weir, &[&format!("http://localhost/{}", COUNT - 1)]);
        store(&weir);
        versions.renew(firsts());
        purge(&weir, &["--tag", "first"]);
        end(&mut weir, ending);
        Template { least: versions.least(), weir, ending }
    }

    /// The files of state and volume, by their paths below the folder.
    fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut left = vec![PathBuf::from("state"), PathBuf::from("volume")];
        while let Some(folder) = left.pop() {
            for path in entries(&self.weir.folder().join(&folder)) {
                let own = folder.join(path.file_name().unwrap());
                let kind = std::fs::metadata(&path).unwrap();
                match kind.is_dir() {
                    true => left.push(own),
                    false if kind.is_file() && !own.ends_with("lock") => found.push(own),
                    false => {}
                }
            }
        }
        found
    }

    /// Runs one case with an origin and folders of its own. Returns its result.
    fn run(&self, file: &Path, harm: Harm, another: &Template, is_swept: bool) -> &'static str {
        let versions = Versions::start();
        *versions.now.lock().unwrap() = self.least.clone();
        let setup = setup();
        for part in ["state", "volume"] {
            copy(&self.weir.folder().join(part), &setup.folder().join(part));
        }
        let older = self.weir.folder().join("older").join(file);
        let other = another.weir.folder().join(file);
        if !harm.on(&setup.folder().join(file), &older, &other) {
            return "nothing to do";
        }
        let when = format!("{harm:?} {} after {:?}", file.display(), self.ending);
        let mut weir = match setup.try_run_config(&text(&versions.origin, &["volume"])) {
            Ok(weir) => weir,
            Err(said) => {
                let is_sentence = said.contains("weir:") || said.contains("error") || said.contains("cannot");
                assert!(is_sentence && !said.contains("panicked"), "{when}: refused with\n{said}");
                return "refused";
            }
        };
        check(&weir, &self.least, &when);
        versions.renew(0..COUNT);
        let purged = weir.command(&["purge", "--all"]);
        let is_durable = purged.code == Some(0);
        if is_swept && is_durable {
            std::thread::sleep(SWEEP_TIME);
        }
        check(&weir, &versions.least(), &when);
        // A purge that was not acknowledged may be forgotten.
        let least = if is_durable { versions.least() } else { self.least.clone() };
        end(&mut weir, self.ending);
        weir.start_again();
        check(&weir, &least, &format!("{when}, after another start"));
        assert!(!weir.stderr().contains("panicked"), "{when}: {}", weir.stderr());
        if is_durable { "right" } else { "right, and purges refused" }
    }
}

#[test]
fn any_file_may_be_damaged_and_no_answer_is_one_that_a_purge_forbids() {
    let wants_all = std::env::var("WEIR_MATRIX").is_ok_and(|word| word == "all");
    let templates = [Ending::Stop, Ending::Kill].map(Template::make);
    let mut cases = Vec::new();
    for (template, another) in templates.iter().zip(templates.iter().rev()) {
        for file in template.files() {
            cases.extend(HARMS.map(|harm| (template, file.clone(), harm, another)));
        }
    }
    if !wants_all {
        // Coprime to the number of damages, so that each of them comes up.
        cases = cases.into_iter().step_by(SHARE).collect();
    }
    let next = AtomicUsize::new(0);
    let came_to: Mutex<HashMap<&str, usize>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..if wants_all { 4 * AT_ONCE } else { AT_ONCE } {
            scope.spawn(|| {
                while let Some((template, file, harm, another)) =
                    cases.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let came = template.run(file, *harm, another, wants_all);
                    if wants_all {
                        println!("{harm:?} {} after {:?}: {came}", file.display(), template.ending);
                    }
                    *came_to.lock().unwrap().entry(came).or_default() += 1;
                }
            });
        }
    });
    let came_to = came_to.into_inner().unwrap();
    println!("{} cases: {came_to:?}", cases.len());
    assert!(came_to.get("right").is_some_and(|count| *count > 0), "{came_to:?}");
}
