//! The macros.

/// Runs statements, and panics if they allocated anything on this thread; the message shows where. Unlike in the closure of the
/// function of the same name, `return` and `?` leave the function around it.
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
        let scope = $crate::Scope::with_stacks();
        let result = { $($work)* };
        scope.assert($crate::Budget::NOTHING);
        result
    }};
}

/// Runs statements, and panics unless they made so many allocations on this thread; the message shows where.
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
        let scope = $crate::Scope::with_stacks();
        let result = { $($work)* };
        scope.assert_allocations(
            concat!(stringify!($compare), " ", stringify!($limit)),
            |allocations| allocations $compare limit,
        );
        result
    }};
}

/// [`std::assert!`] for something about [`HeapStats`](crate::HeapStats): if it fails, the message shows the stacks that allocate
/// the most, and the running profiler's file is written.
#[macro_export]
macro_rules! assert {
    ($condition:expr $(,)?) => {
        if !$condition {
            $crate::assertion_failed(concat!("assertion failed: ", stringify!($condition)), None);
        }
    };
    ($condition:expr, $($detail:tt)+) => {
        if !$condition {
            $crate::assertion_failed(
                concat!("assertion failed: ", stringify!($condition)),
                Some(format_args!($($detail)+)),
            );
        }
    };
}

/// [`std::assert_eq!`] for something about [`HeapStats`](crate::HeapStats): see [`assert!`].
#[macro_export]
macro_rules! assert_eq {
    ($left:expr, $right:expr $(,)?) => {
        match (&$left, &$right) {
            (left, right) => if !(*left == *right) {
                $crate::assertion_failed(
                    concat!("assertion `", stringify!($left), " == ", stringify!($right), "` failed"),
                    Some(format_args!("{left:?} is not {right:?}")),
                );
            }
        }
    };
    ($left:expr, $right:expr, $($detail:tt)+) => {
        match (&$left, &$right) {
            (left, right) => if !(*left == *right) {
                $crate::assertion_failed(
                    concat!("assertion `", stringify!($left), " == ", stringify!($right), "` failed"),
                    Some(format_args!("{left:?} is not {right:?}: {}", format_args!($($detail)+))),
                );
            }
        }
    };
}

/// [`std::assert_ne!`] for something about [`HeapStats`](crate::HeapStats): see [`assert!`].
#[macro_export]
macro_rules! assert_ne {
    ($left:expr, $right:expr $(,)?) => {
        match (&$left, &$right) {
            (left, right) => if *left == *right {
                $crate::assertion_failed(
                    concat!("assertion `", stringify!($left), " != ", stringify!($right), "` failed"),
                    Some(format_args!("both are {left:?}")),
                );
            }
        }
    };
    ($left:expr, $right:expr, $($detail:tt)+) => {
        match (&$left, &$right) {
            (left, right) => if *left == *right {
                $crate::assertion_failed(
                    concat!("assertion `", stringify!($left), " != ", stringify!($right), "` failed"),
                    Some(format_args!("both are {left:?}: {}", format_args!($($detail)+))),
                );
            }
        }
    };
}
