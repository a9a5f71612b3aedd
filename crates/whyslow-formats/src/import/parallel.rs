//! Processes the parts of a file on several threads, and returns the results in the order of the parts.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// The maximum number of threads in addition to the calling one.
const MOST_THREADS: usize = 8;

/// Runs `work` on the parts in several threads, and passes each result to `take` on the calling thread.
pub(super) fn in_order<T: Sync, R: Send>(
    parts: &[T],
    work: impl Fn(&T) -> R + Sync,
    mut take: impl FnMut(R),
) {
    let helpers = thread::available_parallelism().map_or(1, usize::from).saturating_sub(1);
    let helpers = helpers.min(MOST_THREADS).min(parts.len().saturating_sub(1));
    if helpers == 0 {
        return parts.iter().for_each(|part| take(work(part)));
    }
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::channel();
    thread::scope(|scope| {
        let mut started = 0;
        for _ in 0..helpers {
            let (sender, next, work) = (sender.clone(), &next, &work);
            let helper = thread::Builder::new().spawn_scoped(scope, move || {
                while let at = next.fetch_add(1, Ordering::Relaxed)
                    && at < parts.len()
                {
                    // If the calling thread has panicked, there is no receiver.
                    let _ = sender.send((at, work(&parts[at])));
                }
            });
            started += usize::from(helper.is_ok());
        }
        drop(sender);
        // The limit of threads is reached, or a sandbox permits none.
        if started == 0 {
            return parts.iter().for_each(|part| take(work(part)));
        }
        let mut early: Vec<Option<R>> = parts.iter().map(|_| None).collect();
        let mut wanted = 0;
        for (at, result) in results {
            early[at] = Some(result);
            while let Some(result) = early.get_mut(wanted).and_then(Option::take) {
                take(result);
                wanted += 1;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_arrive_in_the_order_of_the_parts() {
        let parts: Vec<usize> = (0..100).collect();
        let mut taken = Vec::new();
        let work = |part: &usize| {
            // The first parts take longest.
            thread::sleep(std::time::Duration::from_micros(100 - *part as u64));
            part * 2
        };
        in_order(&parts, work, |result| taken.push(result));
        assert_eq!(taken, parts.iter().map(|part| part * 2).collect::<Vec<_>>());
        in_order(&[] as &[usize], |part| *part, |_| panic!("there is none"));
    }
}
