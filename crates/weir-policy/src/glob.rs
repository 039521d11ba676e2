//! Patterns with `*`, as routes write them for cookies, field values, parameters and paths.

/// Whether `text` matches `pattern`, in which `*` stands for any run of bytes.
pub fn fits(pattern: &str, text: &[u8]) -> bool {
    run(pattern.as_bytes(), text, false, |byte| byte)
}

/// As [`fits`], where bytes are compared by what `fold` makes of them.
pub(crate) fn fits_as(pattern: &str, text: &[u8], fold: impl Fn(u8) -> u8) -> bool {
    run(pattern.as_bytes(), text, false, fold)
}

/// Whether a path matches `pattern`, in which `*` stands for any run without `/`, and `**` for any run.
pub(crate) fn path_fits(pattern: &str, path: &str) -> bool {
    run(pattern.as_bytes(), path.as_bytes(), true, |byte| byte)
}

/// Whether some text matches both patterns, in which `*` stands for any run of bytes.
pub fn overlap(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    // For each beginning of `other`, whether it overlaps with the beginning of `one` so far.
    let mut reached: Vec<bool> = vec![false; other.len() + 1];
    for at in 0..=one.len() {
        let before = std::mem::replace(&mut reached, vec![false; other.len() + 1]);
        for to in 0..=other.len() {
            let (byte, against) =
                (at.checked_sub(1).map(|at| one[at]), to.checked_sub(1).map(|to| other[to]));
            reached[to] = match (byte, against) {
                (None, None) => true,
                (Some(b'*'), _) => before[to] || (to > 0 && reached[to - 1]),
                (_, Some(b'*')) => reached[to - 1] || (at > 0 && before[to]),
                (Some(byte), Some(against)) => byte == against && before[to - 1],
                _ => false,
            };
        }
    }
    reached[other.len()]
}

/// A star of the pattern: where the pattern continues behind it, where its run ends in the text now, and
/// whether the run may have a `/`.
#[derive(Clone, Copy)]
struct Star {
    pattern_next: usize,
    text_next: usize,
    takes_slash: bool,
}

impl Star {
    /// Extends the star's run by one byte. False if it may not have it.
    fn grow(&mut self, text: &[u8]) -> bool {
        match text.get(self.text_next) {
            Some(b'/') if !self.takes_slash => false,
            Some(_) => {
                self.text_next += 1;
                true
            }
            None => false,
        }
    }
}

/// The star with a run that is one byte longer, if it may be.
fn grown(star: &mut Option<Star>, text: &[u8]) -> Option<Star> {
    let star = star.as_mut()?;
    star.grow(text).then_some(*star)
}

/// Backtracks to the last `*` first, and if that cannot grow, to the last `**`. A run of a later star can
/// always be given to an earlier `**`, so no other star needs another try. The work is bounded by the product
/// of the lengths.
fn run(pattern: &[u8], text: &[u8], is_path: bool, fold: impl Fn(u8) -> u8) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut last: Option<Star> = None;
    let mut wide: Option<Star> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            let mut next = p;
            while pattern.get(next) == Some(&b'*') {
                next += 1;
            }
            let star = Star { pattern_next: next, text_next: t, takes_slash: !is_path || next - p > 1 };
            if star.takes_slash {
                (wide, last) = (Some(star), None);
            } else {
                last = Some(star);
            }
            p = next;
            continue;
        }
        match (pattern.get(p), text.get(t)) {
            (None, None) => return true,
            (Some(a), Some(b)) if a == b || fold(*a) == fold(*b) => {
                (p, t) = (p + 1, t + 1);
                continue;
            }
            _ => {}
        }
        let Some(star) = grown(&mut last, text).or_else(|| grown(&mut wide, text)) else {
            return false;
        };
        if star.takes_slash {
            last = None;
        }
        (p, t) = (star.pattern_next, star.text_next);
    }
}

#[cfg(test)]
mod tests;
