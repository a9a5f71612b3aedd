//! The first line of a sample.

/// What it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head<'a> {
    /// The thread's name, which may have spaces in it.
    pub(super) comm: &'a str,
    pub(super) pid: Option<u32>,
    pub(super) tid: u32,
    pub(super) time_ns: Option<u64>,
    pub(super) period: Option<u64>,
    pub(super) event: &'a str,
    /// What stands behind the event.
    pub(super) rest: &'a str,
}

impl<'a> Head<'a> {
    /// Reads `comm pid/tid [cpu] seconds: period event: rest`.
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        // The time ends what can be told apart only from behind; without one, the CPU does.
        let time = words(line).find_map(|(at, word)| Some((at, word, seconds(word)?)));
        let (before, time_ns, after) = match time {
            Some((at, word, time)) => (&line[..at], Some(time), &line[at + word.len()..]),
            None => {
                let (at, cpu) = words(line).find(|(at, word)| *at > 0 && is_cpu(word))?;
                (&line[..at], None, &line[at + cpu.len()..])
            }
        };
        let mut before = before.trim_end();
        if let Some((rest, cpu)) = before.rsplit_once(char::is_whitespace)
            && is_cpu(cpu)
        {
            before = rest.trim_end();
        }
        let (comm, numbers) = before.rsplit_once(char::is_whitespace)?;
        let (pid, tid) = match numbers.split_once('/') {
            Some((pid, tid)) => (Some(number(pid)?), number(tid)?),
            None => (None, number(numbers)?),
        };
        let mut after = words(after).map(|(at, word)| (after.len() - at - word.len(), word));
        let (mut left, mut word) = after.next()?;
        let mut period = None;
        if let Ok(count) = word.parse() {
            period = Some(count);
            (left, word) = after.next()?;
        }
        let event = word.strip_suffix(':')?;
        let rest = line[line.len() - left..].trim_start();
        Some(Self { comm: comm.trim(), pid, tid, time_ns, period, event, rest })
    }

    /// Whether a line has the time that a frame never has.
    pub(super) fn is_likely(line: &str) -> bool {
        !line.starts_with('\t') && words(line).any(|(_, word)| seconds(word).is_some())
    }
}

/// The words of a line and where they start.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let start = line.as_ptr() as usize;
    line.split_whitespace().map(move |word| (word.as_ptr() as usize - start, word))
}

fn is_cpu(word: &str) -> bool {
    let inside = word.strip_prefix('[').and_then(|word| word.strip_suffix(']'));
    inside.is_some_and(|cpu| !cpu.is_empty() && cpu.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Thread numbers; perf writes -1 for tasks that are gone.
fn number(word: &str) -> Option<u32> {
    if word == "-1" { Some(u32::MAX) } else { word.parse().ok() }
}

/// Nanoseconds of `4747.902466:`.
fn seconds(word: &str) -> Option<u64> {
    let (whole, fraction) = word.strip_suffix(':')?.split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let scale = 10_u64.pow(9 - fraction.len() as u32);
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction.parse::<u64>().ok()? * scale)
}
