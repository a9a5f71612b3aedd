//! The first line of a sample.

/// The fields of the line. Each can be missing. perf prints them in this order, whatever the order of `-F`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head<'a> {
    /// The thread's name, which may contain spaces.
    pub(super) comm: &'a str,
    pub(super) pid: Option<u32>,
    pub(super) tid: Option<u32>,
    pub(super) time_ns: Option<u64>,
    pub(super) period: Option<u64>,
    /// Empty if it is not printed.
    pub(super) event: &'a str,
    /// The text after the event.
    pub(super) rest: &'a str,
}

/// The confidence that a line is the head of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sureness {
    /// Possible: only frames below it can confirm it.
    Loose,
    /// Likely: it has an event, or a pair of process and thread.
    Likely,
    /// Certain: it has a time or a CPU in its usual place, which other lines never have.
    Sure,
}

impl<'a> Head<'a> {
    /// Reads `comm pid/tid misc [cpu] seconds: period event: rest`.
    pub(super) fn parse(line: &'a str) -> (Self, Sureness) {
        let mut head = Self::default();
        // The end of the first half has to be found from the right: names contain spaces and digits.
        let time = words(line).find_map(|(at, word)| Some((at, word, seconds(word)?)));
        let cpu = || words(line).find(|(at, word)| *at > 0 && is_cpu(word));
        let pair = || words(line).find(|(_, word)| pair(word).is_some());
        let (before, after) = if let Some((at, word, time)) = time {
            head.time_ns = Some(time);
            (&line[..at], &line[at + word.len()..])
        } else if let Some((at, cpu)) = cpu() {
            (&line[..at], &line[at + cpu.len()..])
        } else if let Some((at, pair)) = pair() {
            let (before, after) = line.split_at(at + pair.len());
            // Words between the numbers and the event belong to neither.
            let misc = words(after).next().filter(|(_, word)| is_misc(word));
            (before, misc.map_or(after, |(at, word)| &after[at + word.len()..]))
        } else {
            let event = words(line).find(|(_, word)| event(word).is_some());
            event.map_or((line, ""), |(at, _)| line.split_at(at))
        };
        let is_placed = head.time_ns.is_some() || words(line).any(|(at, word)| at > 0 && is_cpu(word));
        head.before(before);
        let has_event = head.after(line, after);
        let sureness = match (is_placed, has_event, head.tid.is_some()) {
            (true, true, _) | (true, _, true) => Sureness::Sure,
            (_, true, _) => Sureness::Likely,
            _ if head.pid.is_some() => Sureness::Likely,
            _ => Sureness::Loose,
        };
        (head, sureness)
    }

    /// Reads name and numbers.
    fn before(&mut self, text: &'a str) {
        let mut text = text.trim();
        let cut_last = |text: &'a str, what: fn(&str) -> bool| {
            let (rest, last) = text.rsplit_once(char::is_whitespace).unwrap_or(("", text));
            if what(last) { rest.trim_end() } else { text }
        };
        text = cut_last(text, is_cpu);
        text = cut_last(text, is_misc);
        let (comm, numbers) = text.rsplit_once(char::is_whitespace).unwrap_or(("", text));
        if let Some((pid, tid)) = pair(numbers) {
            (self.pid, self.tid) = (Some(pid), Some(tid));
            self.comm = comm.trim();
        } else if let Some(tid) = number(numbers) {
            self.tid = Some(tid);
            self.comm = comm.trim();
        } else {
            self.comm = text;
        }
    }

    /// Reads period, event and the rest. Returns whether there is an event.
    fn after(&mut self, line: &'a str, after: &'a str) -> bool {
        let mut left = after.trim_start();
        let mut fields = words(after);
        let mut first = fields.next();
        if let Some((_, word)) = first
            && let Ok(period) = word.parse()
        {
            let next = fields.next();
            if next.is_some_and(|(_, word)| event(word).is_some()) {
                self.period = Some(period);
                first = next;
            }
        }
        let found = first.and_then(|(at, word)| Some((at + word.len(), event(word)?)));
        if let Some((end, event)) = found {
            self.event = event;
            left = after[end..].trim_start();
        }
        self.rest = if left.is_empty() { "" } else { &line[line.len() - left.len()..] };
        found.is_some()
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

/// Whether a word is a CPU mode: kernel, user, hypervisor, guest kernel, guest user.
fn is_misc(word: &str) -> bool {
    matches!(word, "K" | "U" | "H" | "G" | "g")
}

/// The event's name of `cycles:` or `sched:sched_switch:`.
fn event(word: &str) -> Option<&str> {
    let event = word.strip_suffix(':')?;
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'(' | b')' | b';');
    (event.bytes().any(|byte| byte.is_ascii_alphabetic()) && event.bytes().all(plain)).then_some(event)
}

/// A process and its thread: `1234/1235`.
fn pair(word: &str) -> Option<(u32, u32)> {
    let (pid, tid) = word.split_once('/')?;
    Some((number(pid)?, number(tid)?))
}

/// A thread number. perf writes -1 for tasks that have exited.
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
