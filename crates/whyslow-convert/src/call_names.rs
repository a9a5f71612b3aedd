//! The names of the kernel's system calls, by number.

use whyslow_processor::Processor;

use crate::{aarch64, x86_64};

/// The name of a processor's call; `None` for an unassigned number.
pub(crate) fn call_name(processor: Processor, number: i64) -> Option<&'static str> {
    let first: &[&str] = match processor {
        Processor::X86_64 => &x86_64::CALLS,
        Processor::Aarch64 => &aarch64::CALLS,
    };
    let number = usize::try_from(number).ok()?;
    let later = || LATER.get(number.checked_sub(FIRST_OF_LATER)?);
    first.get(number).or_else(later).copied().filter(|name| !name.is_empty())
}

/// The names of all calls of a processor.
pub fn call_names(processor: Processor) -> impl Iterator<Item = &'static str> {
    let most = (FIRST_OF_LATER + LATER.len()) as i64;
    (0..most).filter_map(move |number| call_name(processor, number))
}

/// From here on, a call has the same number on all architectures.
const FIRST_OF_LATER: usize = 424;

/// Calls from `FIRST_OF_LATER` on.
const LATER: [&str; 46] = [
    "pidfd_send_signal",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "open_tree",
    "move_mount",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "pidfd_open",
    "clone3",
    "close_range",
    "openat2",
    "pidfd_getfd",
    "faccessat2",
    "process_madvise",
    "epoll_pwait2",
    "mount_setattr",
    "quotactl_fd",
    "landlock_create_ruleset",
    "landlock_add_rule",
    "landlock_restrict_self",
    "memfd_secret",
    "process_mrelease",
    "futex_waitv",
    "set_mempolicy_home_node",
    "cachestat",
    "fchmodat2",
    "map_shadow_stack",
    "futex_wake",
    "futex_wait",
    "futex_requeue",
    "statmount",
    "listmount",
    "lsm_get_self_attr",
    "lsm_set_self_attr",
    "lsm_list_modules",
    "mseal",
    "setxattrat",
    "getxattrat",
    "listxattrat",
    "removexattrat",
    "open_tree_attr",
    "file_getattr",
    "file_setattr",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_names() {
        let names =
            [(0, "read"), (1, "write"), (59, "execve"), (202, "futex"), (231, "exit_group"), (257, "openat")];
        for (number, name) in names.into_iter().chain([(334, "rseq"), (435, "clone3"), (449, "futex_waitv")])
        {
            assert_eq!(call_name(Processor::X86_64, number), Some(name));
        }
        let unassigned =
            |processor, numbers: &[i64]| numbers.iter().all(|number| call_name(processor, *number).is_none());
        assert!(unassigned(Processor::X86_64, &[-1, 336, 423, 100_000]));
        let names = [(63, "read"), (64, "write"), (221, "execve"), (98, "futex"), (94, "exit_group")];
        for (number, name) in names.into_iter().chain([(56, "openat"), (293, "rseq"), (435, "clone3")]) {
            assert_eq!(call_name(Processor::Aarch64, number), Some(name));
        }
        assert!(unassigned(Processor::Aarch64, &[-1, 250, 295, 423, 100_000]));
    }
}
