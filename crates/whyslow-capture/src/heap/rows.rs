//! Hands the heap's results to the converter, next to the CPU samples.

use std::borrow::Borrow;

use whyslow_convert::{HeapMetrics, Input};
use whyslow_heap::{Outcome, Site};
use whyslow_numbers::ClockNs;
use whyslow_proc::process;
use whyslow_profile::batch::SiteEnd;
use whyslow_profile::heap::metric;
use whyslow_profile::{Builder, HeapNote, Metric, Origin, Unit};

use crate::HeapOptions;
use crate::source::LiveConverter;

/// Creates the metrics of a recording with these options.
pub(crate) fn metrics(rows: &mut Builder, options: &HeapOptions) -> HeapMetrics {
    let origin = if options.sample_bytes.is_some() { Origin::Estimated } else { Origin::Counted };
    let mut add = |name, unit| rows.metric(Metric::of_name(name, unit).with_origin(origin));
    HeapMetrics {
        bytes_allocated: add(metric::BYTES_ALLOCATED, Unit::Bytes),
        allocations: add(metric::ALLOCATIONS, Unit::Count),
        bytes_freed: add(metric::BYTES_FREED, Unit::Bytes),
        live_at_peak: add(metric::LIVE_AT_PEAK, Unit::Bytes),
        live_at_exit: add(metric::LIVE_AT_EXIT, Unit::Bytes),
        temporary: add(metric::TEMPORARY, Unit::Count),
        unused: options.unused.then(|| add(metric::UNUSED, Unit::Bytes)),
    }
}

/// Hands over what is only known at the end, and frees the sites one by one.
pub(crate) fn finish(
    converter: &mut LiveConverter,
    outcome: &Outcome,
    sites: impl Iterator<Item = impl Borrow<Site>>,
    end: ClockNs,
) {
    converter.take(&Input::Heap(&outcome.batch));
    let (mut sizes, mut lifetimes) = (Vec::new(), Vec::new());
    for site in sites {
        let site = site.borrow();
        sizes.clear();
        sizes.extend(site.sizes.bars());
        lifetimes.clear();
        lifetimes.extend(site.lifetimes.bars());
        converter.take(&Input::HeapSite(&SiteEnd {
            stack: site.stack,
            counts: site.counts,
            growth: site.growth,
            sizes: &sizes,
            lifetimes: &lifetimes,
            chains: &site.chains,
            peak: (outcome.facts.peak_ns, &site.peak_by_thread),
            exit: (end, &site.exit_by_thread),
        }));
    }
    for &transfer in &outcome.transfers {
        converter.take(&Input::HeapTransfer(transfer));
    }
}

/// The note about processes that outlive the program that started them.
pub(crate) fn outliving(converter: &LiveConverter) -> Option<HeapNote> {
    let mut living = converter.heap_processes();
    living.retain(|(pid, _)| process::runs(*pid));
    let more = living.len().saturating_sub(1) as u64;
    let (pid, name) = living.into_iter().next()?;
    Some(HeapNote::ProcessesWentOn { pid, name, more })
}

#[cfg(test)]
mod tests {
    use whyslow_convert::{Converter, Setup};
    use whyslow_heap::{Batch, ProcessRow, ProcessSeen};
    use whyslow_profile::Meta;

    use super::*;
    use crate::live::LiveWorld;

    #[test]
    fn a_process_that_executes_another_program_is_one_process_with_its_last_name() {
        let mut rows = Builder::new();
        let heap = Some(metrics(&mut rows, &HeapOptions::default()));
        let mut converter = Converter::new(LiveWorld::default(), rows, &Setup { heap, ..Setup::default() });
        let pid = std::process::id();
        let seen = |name: &str, start| {
            let start_ns = ClockNs::new(start);
            ProcessSeen { pid, parent: None, name: name.to_owned(), start_ns }
        };
        let processes = vec![seen("sh", 1), seen("app", 5)];
        let executed = Batch { processes, ended: vec![(ProcessRow(0), ClockNs::new(5))], ..Batch::default() };
        converter.take(&Input::Heap(&executed));
        assert_eq!(converter.heap_processes(), [(pid, "app".to_owned())]);
        assert!(outliving(&converter).is_some(), "it still runs");
        converter
            .take(&Input::Heap(&Batch { ended: vec![(ProcessRow(1), ClockNs::new(9))], ..Batch::default() }));
        assert!(outliving(&converter).is_none());
        let profile = converter.finish().rows.into_profile(Meta::default()).unwrap();
        assert_eq!(profile.processes.iter().map(|row| row.end_ns).collect::<Vec<_>>(), [Some(9)]);
    }
}
