//! The crate's macros.

/// Runs statements and panics if they allocated anything on this thread. The message shows where. Unlike in
/// the closure of the function with the same name, `return`, `?` and `break` leave the surrounding code,
/// after the same check. Other threads are not counted, as [there](crate::assert_no_alloc()).
///
/// ```
/// # #[global_allocator]
/// # static ALLOC: whyslow_alloc::Alloc = whyslow_alloc::Alloc::system();
/// let numbers = [1, 2, 3];
/// let sum = whyslow_alloc::assert_no_alloc! {
///     let twice = numbers.map(|number| number * 2);
///     twice.iter().sum::<i32>()
/// };
/// assert_eq!(sum, 12);
/// ```
#[macro_export]
macro_rules! assert_no_alloc {
    ($($work:tt)*) => {{
        let check = $crate::Check::nothing();
        let result = { $($work)* };
        #[allow(unreachable_code, reason = "the statements may leave in another way")]
        check.end();
        result
    }};
}

/// Runs statements and panics unless they made this many allocations on this thread, however the statements
/// are left. The message shows where.
///
/// ```
/// # #[global_allocator]
/// # static ALLOC: whyslow_alloc::Alloc = whyslow_alloc::Alloc::system();
/// let text = whyslow_alloc::assert_allocations!(== 1, "hello".to_owned());
/// whyslow_alloc::assert_allocations!(<= 2, {
///     let mut all = Vec::with_capacity(2);
///     all.extend([text, "world".to_owned()]);
/// });
/// ```
#[macro_export]
macro_rules! assert_allocations {
    ($compare:tt $limit:expr, $($work:tt)*) => {{
        let limit: u64 = $limit;
        let check = $crate::Check::new(|found| {
            let words = concat!(stringify!($compare), " ", stringify!($limit));
            found.unlike(words, |allocations| allocations $compare limit)
        });
        let result = { $($work)* };
        #[allow(unreachable_code, reason = "the statements may leave in another way")]
        check.end();
        result
    }};
}

/// [`std::assert!`] for conditions on [`HeapStats`](crate::HeapStats). If it fails, the message shows the
/// stacks that allocated the most, the running profiler ends, and its file is written. Allocations of the
/// condition itself are not counted.
///
/// # Panics
/// Panics if the condition is false, if no profiler is running in testing mode, or if an earlier assertion
/// failed.
#[macro_export]
macro_rules! assert {
    ($condition:expr $(,)?) => {{
        let asserting = $crate::Asserting::new();
        if !$condition {
            asserting.failed(concat!("assertion failed: ", stringify!($condition)), None);
        }
    }};
    ($condition:expr, $($detail:tt)+) => {{
        let asserting = $crate::Asserting::new();
        if !$condition {
            asserting.failed(
                concat!("assertion failed: ", stringify!($condition)),
                Some(format_args!($($detail)+)),
            );
        }
    }};
}

/// [`std::assert_eq!`] for [`HeapStats`](crate::HeapStats): see [`assert!`].
#[macro_export]
macro_rules! assert_eq {
    ($left:expr, $right:expr $(,)?) => {{
        let asserting = $crate::Asserting::new();
        match (&$left, &$right) {
            (left, right) => if !(*left == *right) {
                asserting.failed(
                    concat!("assertion `", stringify!($left), " == ", stringify!($right), "` failed"),
                    Some(format_args!("{left:?} is not {right:?}")),
                );
            }
        }
    }};
    ($left:expr, $right:expr, $($detail:tt)+) => {{
        let asserting = $crate::Asserting::new();
        match (&$left, &$right) {
            (left, right) => if !(*left == *right) {
                asserting.failed(
                    concat!("assertion `", stringify!($left), " == ", stringify!($right), "` failed"),
                    Some(format_args!("{left:?} is not {right:?}: {}", format_args!($($detail)+))),
                );
            }
        }
    }};
}

/// [`std::assert_ne!`] for [`HeapStats`](crate::HeapStats): see [`assert!`].
#[macro_export]
macro_rules! assert_ne {
    ($left:expr, $right:expr $(,)?) => {{
        let asserting = $crate::Asserting::new();
        match (&$left, &$right) {
            (left, right) => if *left == *right {
                asserting.failed(
                    concat!("assertion `", stringify!($left), " != ", stringify!($right), "` failed"),
                    Some(format_args!("both are {left:?}")),
                );
            }
        }
    }};
    ($left:expr, $right:expr, $($detail:tt)+) => {{
        let asserting = $crate::Asserting::new();
        match (&$left, &$right) {
            (left, right) => if *left == *right {
                asserting.failed(
                    concat!("assertion `", stringify!($left), " != ", stringify!($right), "` failed"),
                    Some(format_args!("both are {left:?}: {}", format_args!($($detail)+))),
                );
            }
        }
    }};
}
