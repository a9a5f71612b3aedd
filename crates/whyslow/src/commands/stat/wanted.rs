//! Chooses the events to count.

use whyslow_capture::WantedEvent;
use whyslow_events::{Event, Machine};

use crate::events::{explain, read};
use crate::failure::Result;

/// The events of a run: those that are always counted, then those that the user named.
#[derive(Debug)]
pub(super) struct Events {
    pub(super) wanted: Vec<WantedEvent>,
    /// The index of the first event that the user named.
    pub(super) asked: usize,
}

/// Events that the kernel counts without privileges, at almost no cost.
const ALWAYS: [&str; 5] =
    ["task-clock", "minor-faults", "major-faults", "context-switches", "cpu-migrations"];

/// CPU events that are counted by default. Few enough that most CPUs count them at the same time, or in two
/// turns.
const OF_CPU: [&str; 8] = [
    "cycles",
    "instructions",
    "branch-misses",
    "cache-misses",
    "L1-dcache-load-misses",
    "dTLB-load-misses",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
];

/// Top-down events by the CPU's own names: where its pipeline slots went. If the flag is set, the first event
/// must lead the group.
const TOP_DOWN: [(bool, [&str; 5]); 2] = [
    (true, ["slots", "topdown-retiring", "topdown-bad-spec", "topdown-fe-bound", "topdown-be-bound"]),
    (
        false,
        [
            "topdown-total-slots",
            "topdown-slots-issued",
            "topdown-slots-retired",
            "topdown-fetch-bubbles",
            "topdown-recovery-bubbles",
        ],
    ),
];

impl Events {
    /// The default events, or those of `lists`.
    pub(super) fn choose(machine: &Machine, lists: &[String]) -> Result<Self> {
        let plain = |name: &str| machine.event(name).map(WantedEvent::from);
        let mut wanted: Vec<WantedEvent> = ALWAYS.iter().filter_map(|name| plain(name)).collect();
        if lists.is_empty() {
            wanted.extend(OF_CPU.iter().filter_map(|name| plain(name)));
            let all = |names: &[&str; 5]| names.iter().map(|name| plain(name)).collect::<Option<Vec<_>>>();
            if let Some((leads, events)) =
                TOP_DOWN.iter().find_map(|(leads, names)| Some((*leads, all(names)?)))
            {
                let leader = leads.then_some(wanted.len());
                for (at, event) in events.into_iter().enumerate() {
                    wanted.push(WantedEvent { leader: leader.filter(|_| at > 0), ..event });
                }
            }
            return Ok(Self { asked: wanted.len(), wanted });
        }
        let asked = wanted.len();
        for list in lists {
            for spec in read(list)? {
                wanted.push(match machine.resolve(&spec) {
                    Ok(event) => event.into(),
                    // The name may be right. The answer says why it is not counted, as a recording does.
                    Err(error) => {
                        let why = error.refusal().ok_or_else(|| explain(&error))?;
                        WantedEvent { refused: Some(why), ..Event::unlisted(&spec.text).into() }
                    }
                });
            }
        }
        Ok(Self { wanted, asked })
    }
}

/// Whether this user may count events of their own programs.
pub(super) fn own_is_allowed() -> bool {
    let clock = Machine::this().event("task-clock");
    clock.is_some_and(|clock| whyslow_capture::try_events(&[clock])[0].is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_events::WhyNot;

    fn names(events: &Events) -> Vec<(&str, Option<usize>)> {
        events.wanted.iter().map(|wanted| (wanted.event.name.as_str(), wanted.leader)).collect()
    }

    /// A machine whose CPU has these events.
    fn machine(events: &[&str]) -> (Machine, tempfile::TempDir) {
        let root = tempfile::tempdir().unwrap();
        let unit = root.path().join("sys/bus/event_source/devices/cpu");
        for folder in ["events", "format"] {
            std::fs::create_dir_all(unit.join(folder)).unwrap();
        }
        std::fs::write(unit.join("type"), "4\n").unwrap();
        std::fs::write(unit.join("format/event"), "config:0-7\n").unwrap();
        for event in events {
            std::fs::write(unit.join("events").join(event), "event=0x01\n").unwrap();
        }
        (Machine::under(root.path()), root)
    }

    #[test]
    fn top_down_events_are_counted_where_the_cpu_has_them() {
        let (newer, _root) = machine(&TOP_DOWN[0].1);
        let events = Events::choose(&newer, &[]).unwrap();
        let names = names(&events);
        let slots = names.iter().position(|(name, _)| *name == "slots").unwrap();
        assert_eq!(
            names[slots + 1..],
            TOP_DOWN[0].1[1..].iter().map(|name| (*name, Some(slots))).collect::<Vec<_>>()
        );
        assert_eq!(events.asked, names.len(), "the user named none");
        let (part, _root) = machine(&TOP_DOWN[0].1[..3]);
        assert!(Events::choose(&part, &[]).unwrap().wanted.iter().all(|wanted| wanted.event.name != "slots"));
    }

    #[test]
    fn named_events_replace_the_default_cpu_events() {
        let (machine, _root) = machine(&[]);
        let lists = ["cycles:u,page-faults".to_owned(), "cpu/event=0x3c/".to_owned()];
        let events = Events::choose(&machine, &lists).unwrap();
        let names: Vec<&str> = names(&events).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names[..events.asked], ALWAYS);
        assert_eq!(names[events.asked..], ["cycles:u", "page-faults", "cpu/event=0x3c/"]);
        let hidden = Events::choose(&machine, &["sched:sched_switch,page-faults".to_owned()]).unwrap();
        let refused: Vec<_> = hidden.wanted[hidden.asked..].iter().map(|wanted| wanted.refused).collect();
        assert_eq!(refused, [Some(WhyNot::NoTracefs), None], "the others are counted");
        let error = Events::choose(&machine, &["cylces".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("similar: cycles") && error.contains("whyslow list"), "{error}");
    }
}
