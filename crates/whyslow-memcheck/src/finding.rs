//! Findings: the reports of all processes, equal ones grouped, with the lines of the user's code.

use std::collections::HashMap;

use whyslow_profile::{CodeKind, is_allocation_wrapper};
use whyslow_words::number_of;

use crate::address::{Address, bytes};
use crate::kind::Kind;
use crate::known;
use crate::report::{Crash, Frame, Leaked, Note, Process, Report, State};
use crate::title::{Title, open_descriptor, title};

/// Everything that memcheck says of a run.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Answer {
    /// The worst first, in each severity the earliest first, leaks by size.
    pub findings: Vec<Finding>,
    /// Which suppressions took effect.
    pub suppressed: Vec<Suppressed>,
    /// The processes.
    pub processes: Vec<Completeness>,
}

/// One cause.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// What kind of error it is.
    pub kind: Kind,
    /// What happened, in one sentence.
    pub title: String,
    /// How many bytes were accessed.
    pub size: Option<u64>,
    /// What the address is.
    pub address: Option<Address>,
    /// For leaks, how much.
    pub leaked: Option<Leaked>,
    /// Where it happened; for leaks, where the memory was allocated.
    pub at: Site,
    /// What else is known: the allocation of the block, where it was freed, where an uninitialised value is from.
    pub sites: Vec<Site>,
    /// How often it happened.
    pub times: u64,
    /// Whether it may have happened more often: the report ended before the count.
    pub is_at_least: bool,
    /// The signal that ended the process at this place.
    pub crash: Option<String>,
    /// Where it happened: processes and threads.
    pub occurrences: Vec<Occurrence>,
    /// How many different reports of memcheck it stands for.
    pub reports: usize,
    /// Suppressions that would hide it, as Valgrind writes them, without equal ones.
    pub suppressions: Vec<String>,
}

/// A stack and what it is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Site {
    /// `allocated`, `freed`, …; empty for the place of the error itself.
    pub role: String,
    /// Innermost first.
    pub stack: Vec<Place>,
    /// The frame of the user's code, or the nearest to it.
    pub own: Option<usize>,
}

/// A frame as whyslow shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// The frame in memcheck's words.
    pub frame: Frame,
    /// The display name.
    pub name: String,
    /// The kind of code.
    pub kind: CodeKind,
}

/// A process and thread in which something happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occurrence {
    /// The process.
    pub pid: u32,
    /// memcheck's number of the thread, 1 for the main thread; 0 if it is about none.
    pub thread: u32,
    /// The thread's name, if it has one.
    pub thread_name: String,
    /// How often.
    pub times: u64,
}

/// A suppression that took effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suppressed {
    /// Its name.
    pub name: String,
    /// How many reports it hid.
    pub count: u64,
    /// Why they are harmless, for those of whyslow's own list.
    pub why: Option<String>,
}

/// How much of a process was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completeness {
    /// The process.
    pub pid: u32,
    /// Its program and arguments.
    pub command: Vec<String>,
    /// Whether it was forked from another one without executing a program.
    pub is_forked: bool,
    /// How far memcheck came.
    pub state: State,
    /// The signal that ended it.
    pub crash: Option<String>,
}

impl Answer {
    /// The processes whose report ends early.
    pub fn cut(&self) -> impl Iterator<Item = &Completeness> {
        self.processes.iter().filter(|process| process.state == State::Cut)
    }
}

impl Site {
    /// The frame of the user's code, or the nearest to it.
    pub fn own_place(&self) -> Option<&Place> {
        self.own.and_then(|own| self.stack.get(own))
    }
}

impl Finding {
    /// What to do.
    pub fn advice(&self) -> &'static str {
        match (&self.address, self.kind) {
            (Some(Address::Null(_)), Kind::InvalidRead | Kind::InvalidWrite) => {
                "find out why the pointer is null there, or check it before"
            }
            _ => self.kind.advice(),
        }
    }
}

/// What the caller knows of code and of suppressions.
pub struct Judge<'a> {
    /// The display name of a frame, and its kind of code.
    pub describe: &'a dyn Fn(&Frame) -> (String, CodeKind),
    /// The name of a suppression that hides a report.
    pub hidden_by: &'a dyn Fn(&Report) -> Option<String>,
}

/// Groups the reports of all processes. Parents stand before the processes that they forked.
pub fn findings(processes: &[Process], judge: &Judge<'_>) -> Answer {
    let mut answer = Answer::default();
    let mut groups = Groups::default();
    for process in processes {
        let crash = process.crash.as_ref().filter(|crash| FAULTS.contains(&crash.signal.as_str()));
        let crashed = crash.map(|crash| (crash, crash_report(process, crash)));
        for (at, report) in process.reports.iter().enumerate() {
            if let Some(name) = (judge.hidden_by)(report) {
                add_suppressed(&mut answer.suppressed, &name, 1);
                continue;
            }
            let ends_it = crashed.as_ref().filter(|(_, cause)| *cause == Some(at)).map(|(crash, _)| *crash);
            groups.add(process, report, ends_it, judge);
        }
        if let Some((crash, None)) = crashed {
            groups.add(process, &report_of(crash), Some(crash), judge);
        }
        for (name, count) in &process.suppressed {
            add_suppressed(&mut answer.suppressed, name, *count);
        }
        answer.processes.push(Completeness {
            pid: process.pid,
            command: process.command.clone(),
            is_forked: process.is_forked,
            state: process.state,
            crash: process.crash.as_ref().map(|crash| crash.signal.clone()),
        });
    }
    answer.findings = groups.finish();
    answer
}

/// Signals that say that something is wrong in the program. Others are from outside, as with Ctrl-C.
const FAULTS: [&str; 7] = ["SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGTRAP", "SIGSYS"];

fn add_suppressed(all: &mut Vec<Suppressed>, name: &str, count: u64) {
    match all.iter_mut().find(|known| known.name == name) {
        Some(known) => known.count = known.count.saturating_add(count),
        None => all.push(Suppressed { name: name.to_owned(), count, why: known::why(name) }),
    }
}

/// The report of the access that crashed: memcheck writes it first, then the signal with the same stack.
fn crash_report(process: &Process, crash: &Crash) -> Option<usize> {
    let last = process
        .reports
        .iter()
        .rposition(|report| !report.kind.starts_with("Leak_") && report.kind != "FdNotClosed")?;
    let stacks =
        [&process.reports[last].stack, &crash.stack].map(|stack| stack.first().map(|frame| frame.address));
    (stacks[0].is_some() && stacks[0] == stacks[1]).then_some(last)
}

/// A crash that no other report explains.
fn report_of(crash: &Crash) -> Report {
    Report {
        unique: u64::MAX,
        thread: crash.thread,
        kind: String::new(),
        what: crash.event.clone(),
        stack: crash.stack.clone(),
        ..Report::default()
    }
}

/// What reports of one cause have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    kind: Kind,
    /// The own lines of the stack and of what belongs to it.
    places: Vec<(String, String, u32)>,
}

#[derive(Default)]
struct Groups {
    all: Vec<Group>,
    of_key: HashMap<Key, usize>,
}

struct Group {
    finding: Finding,
    /// For leaks and descriptors: the amount in each process.
    amounts: Vec<(u32, Leaked)>,
    descriptors: Vec<(u64, String)>,
}

impl Groups {
    fn add(&mut self, process: &Process, report: &Report, ends_it: Option<&Crash>, judge: &Judge<'_>) {
        let title = title_of(report, ends_it);
        let at = site(String::new(), &report.stack, title.kind.is_leak(), judge);
        let sites = sites(report, title.address.as_ref(), judge);
        let key =
            Key { kind: title.kind, places: std::iter::once(&at).chain(&sites).map(identity).collect() };
        let times = if report.unique == u64::MAX {
            1
        } else {
            process.counts.get(&report.unique).copied().unwrap_or(1)
        };
        let is_counted =
            process.state == State::Finished || title.kind.is_leak() || report.unique == u64::MAX;
        let index = *self.of_key.entry(key).or_insert_with(|| {
            self.all.push(Group::new(&title, at, sites));
            self.all.len() - 1
        });
        let Some(group) = self.all.get_mut(index) else { return };
        group.add(process, report, times, is_counted);
        if let Some(crash) = ends_it {
            group.finding.crash = Some(crash.signal.clone());
        }
    }

    fn finish(self) -> Vec<Finding> {
        let mut findings: Vec<Finding> = self.all.into_iter().map(Group::finish).collect();
        // The sort is stable: otherwise in the order of their first report.
        findings.sort_by_key(|finding| {
            let lost = finding.leaked.map_or(0, |leaked| leaked.bytes);
            (finding.kind.severity(), finding.kind.is_leak(), std::cmp::Reverse(lost))
        });
        findings
    }
}

fn title_of(report: &Report, ends_it: Option<&Crash>) -> Title {
    match ends_it {
        Some(crash) if report.kind.is_empty() => {
            let event = if crash.event.is_empty() { String::new() } else { format!(": {}", crash.event) };
            let text = format!("killed by {}{event}", crash.signal);
            Title { kind: Kind::Crash, text, size: None, address: None }
        }
        _ => title(report),
    }
}

impl Group {
    fn new(title: &Title, at: Site, sites: Vec<Site>) -> Self {
        let finding = Finding {
            kind: title.kind,
            title: title.text.clone(),
            size: title.size,
            address: title.address.clone(),
            leaked: None,
            at,
            sites,
            times: 0,
            is_at_least: false,
            crash: None,
            occurrences: Vec::new(),
            reports: 0,
            suppressions: Vec::new(),
        };
        Self { finding, amounts: Vec::new(), descriptors: Vec::new() }
    }

    fn add(&mut self, process: &Process, report: &Report, times: u64, is_counted: bool) {
        let finding = &mut self.finding;
        finding.reports += 1;
        finding.is_at_least |= !is_counted;
        let (pid, thread) = (process.pid, report.thread);
        match finding.occurrences.iter_mut().find(|known| known.pid == pid && known.thread == thread) {
            Some(known) => known.times = known.times.saturating_add(times),
            None => {
                let thread_name = report.thread_name.clone();
                finding.occurrences.push(Occurrence { pid, thread, thread_name, times });
            }
        }
        if !report.suppression.is_empty() && !finding.suppressions.contains(&report.suppression) {
            finding.suppressions.push(report.suppression.clone());
        }
        // A forked process starts with a copy of its parent's memory and descriptors: they count once.
        let is_copy =
            process.is_forked && finding.occurrences.iter().any(|other| other.pid == process.parent);
        if let Some(leaked) = report.leaked {
            let own = if is_copy {
                minus(leaked, self.amounts.iter().find(|(pid, _)| *pid == process.parent))
            } else {
                leaked
            };
            match self.amounts.iter_mut().find(|(pid, _)| *pid == process.pid) {
                Some((_, amount)) => *amount = plus(*amount, own),
                None => self.amounts.push((process.pid, own)),
            }
        }
        let descriptor = report.descriptor.clone().filter(|new| !is_copy || !self.descriptors.contains(new));
        if report.descriptor.is_none() || descriptor.is_some() {
            finding.times = finding.times.saturating_add(times);
        }
        self.descriptors.extend(descriptor);
    }

    fn finish(mut self) -> Finding {
        if self.finding.kind.is_leak() {
            let all = self.amounts.iter().fold(Leaked::default(), |sum, (_, amount)| plus(sum, *amount));
            self.finding.leaked = Some(all);
            self.finding.title = lost(self.finding.kind, all);
        }
        if let [(number, what), others @ ..] = &self.descriptors[..]
            && self.finding.kind == Kind::DescriptorOpen
        {
            let more = match others.len() {
                0 => String::new(),
                more => format!(", and {} opened here", number_of(more as u64, "other", "others")),
            };
            self.finding.title = format!("{}{more}", open_descriptor(*number, what));
        }
        self.finding
    }
}

fn plus(a: Leaked, b: Leaked) -> Leaked {
    Leaked {
        bytes: a.bytes.saturating_add(b.bytes),
        blocks: a.blocks.saturating_add(b.blocks),
        indirect: a.indirect.saturating_add(b.indirect),
    }
}

fn minus(leaked: Leaked, copied: Option<&(u32, Leaked)>) -> Leaked {
    let copied = copied.map_or(Leaked::default(), |(_, copied)| *copied);
    Leaked {
        bytes: leaked.bytes.saturating_sub(copied.bytes),
        blocks: leaked.blocks.saturating_sub(copied.blocks),
        indirect: leaked.indirect.saturating_sub(copied.indirect),
    }
}

fn lost(kind: Kind, leaked: Leaked) -> String {
    let how = match kind {
        Kind::LeakDefinite => "definitely lost",
        Kind::LeakPossible => "possibly lost",
        Kind::LeakIndirect => "indirectly lost",
        _ => "still reachable at exit",
    };
    let blocks = number_of(leaked.blocks, "block", "blocks");
    let with = match (leaked.indirect, leaked.blocks) {
        (0, _) => String::new(),
        (indirect, 1) => format!(", and {} that only it points to", bytes(indirect)),
        (indirect, _) => format!(", and {} that only these point to", bytes(indirect)),
    };
    // Those of indirectly lost blocks are in memcheck's number, too.
    let direct = leaked.bytes.saturating_sub(leaked.indirect);
    format!("{} {how} in {blocks}{with}", bytes(direct))
}

/// `allocates`: it is where a block is from, so functions that allocate for others are not the place.
fn site(role: String, stack: &[Frame], allocates: bool, judge: &Judge<'_>) -> Site {
    let place = |frame: &Frame| {
        let (name, kind) = (judge.describe)(frame);
        Place { frame: frame.clone(), name, kind }
    };
    let stack: Vec<Place> = stack.iter().map(place).collect();
    let own = own(&stack, allocates);
    Site { role, stack, own }
}

/// The innermost frame of the user's code. Without one, the innermost of the program, then of a dependency, then
/// any that is not the allocator's.
fn own(stack: &[Place], allocates: bool) -> Option<usize> {
    let is_wrapper = |place: &Place| allocates && is_allocation_wrapper(&place.name, place.kind);
    // After a jump to a wrong address, the stack is a guess.
    let is_known = |place: &Place| !place.frame.object.is_empty() || !place.frame.function.is_empty();
    let first = |of: &dyn Fn(&Place) -> bool| stack.iter().position(|place| is_known(place) && of(place));
    let is = |kind: CodeKind, place: &Place| place.kind == kind && !is_wrapper(place);
    first(&|place| is(CodeKind::Yours, place))
        .or_else(|| first(&|place| is(CodeKind::Unknown, place) && !place.frame.object.contains(".so")))
        .or_else(|| first(&|place| is(CodeKind::Dependency, place)))
        .or_else(|| {
            let is_valgrinds = |place: &Place| place.frame.object.contains("vgpreload");
            first(&|place| place.kind != CodeKind::Allocator && !is_wrapper(place) && !is_valgrinds(place))
        })
        .or_else(|| first(&is_known))
}

/// What a report says besides its own place.
fn sites(report: &Report, address: Option<&Address>, judge: &Judge<'_>) -> Vec<Site> {
    let is_freed = matches!(address, Some(Address::Block(block)) if block.is_freed);
    let mut found: Vec<Site> = Vec::new();
    for Note { text, stack } in &report.notes {
        let role = if Address::parse(text).is_some() {
            // The address itself is in the title.
            match stack.is_empty() {
                true => continue,
                false if is_freed => "freed".to_owned(),
                false => "allocated".to_owned(),
            }
        } else if text.starts_with("Block was alloc'd") {
            "allocated".to_owned()
        } else if let Some(from) = text.strip_prefix("Uninitialised value was created by a ") {
            match from {
                "heap allocation" => "allocated and never written".to_owned(),
                "stack allocation" => "a local variable, never written,".to_owned(),
                other => format!("made by a {other}"),
            }
        } else {
            text.clone()
        };
        let allocates = role.starts_with("allocated");
        let site = site(role, stack, allocates, judge);
        // The origin of a block's bytes is often where the block was allocated.
        match found.iter_mut().find(|known| !site.stack.is_empty() && identity(known) == identity(&site)) {
            Some(known) if known.role == "allocated" => known.role = site.role,
            Some(_) => {}
            None => found.push(site),
        }
    }
    found
}

/// Where a site is, for comparing: the line if known, else the function, else the address.
fn identity(site: &Site) -> (String, String, u32) {
    let Some(Place { frame, .. }) = site.own_place() else { return (site.role.clone(), String::new(), 0) };
    match (frame.line, frame.function.as_str()) {
        (line, _) if line > 0 => (frame.path().unwrap_or_default(), String::new(), line),
        (_, "") => (frame.object.clone(), format!("{:#x}", frame.address), 0),
        // Without lines, two calls in one function differ by their addresses.
        (_, function) => (frame.object.clone(), format!("{function} {:#x}", frame.address), 0),
    }
}

#[cfg(test)]
mod tests;
