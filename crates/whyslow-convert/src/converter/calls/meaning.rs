//! The effects of system calls, as far as rows depend on them: which take a descriptor, move bytes, or create
//! and close descriptors.

/// The effects of one kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Meaning {
    /// Whether its first argument is a descriptor.
    pub(super) descriptor: bool,
    /// Whether its result is the number of bytes that it read or wrote.
    pub(super) moves: bool,
    /// Its effect on the descriptors of its process.
    pub(super) does: Does,
}

/// The effect of a call on the descriptors of its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    Nothing,
    /// Returns a descriptor of the path that the argument of this number points to. The argument before it is
    /// a descriptor of the folder for relative paths, unless the path is the first argument.
    Open(usize),
    /// Stores two descriptors of a pipe where the first argument points to.
    Pipe,
    /// Closes the first argument.
    Close,
    /// Closes all from the first argument to the second.
    CloseRange,
    /// Returns another descriptor of the first argument's file.
    Dup,
    /// Makes the second argument a descriptor of the first one's file.
    DupTo,
    /// Like `Dup`, if the second argument says so.
    Fcntl,
    /// Returns a socket.
    Socket,
    /// Sets the socket's peer: the second argument points to an address.
    Connect,
    /// The thread exits in it.
    Exit,
}

/// The effects of the call with this name.
pub(super) fn meaning(name: &str) -> Meaning {
    let moves = MOVES.contains(&name);
    let does = match name {
        "open" | "creat" => Does::Open(0),
        "openat" | "openat2" => Does::Open(1),
        "pipe" | "pipe2" => Does::Pipe,
        "close" => Does::Close,
        "close_range" => Does::CloseRange,
        "dup" => Does::Dup,
        "dup2" | "dup3" => Does::DupTo,
        "fcntl" => Does::Fcntl,
        "socket" => Does::Socket,
        "connect" => Does::Connect,
        "exit" | "exit_group" => Does::Exit,
        _ => Does::Nothing,
    };
    Meaning { descriptor: moves || WITH_DESCRIPTOR.contains(&name), moves, does }
}

/// Calls that return how many bytes they have moved, to or from their first argument.
const MOVES: [&str; 20] = [
    "read",
    "write",
    "pread64",
    "pwrite64",
    "readv",
    "writev",
    "preadv",
    "pwritev",
    "preadv2",
    "pwritev2",
    "sendto",
    "recvfrom",
    "sendmsg",
    "recvmsg",
    "sendfile",
    "splice",
    "tee",
    "vmsplice",
    "copy_file_range",
    "getdents64",
];

/// Other calls whose first argument is a descriptor.
const WITH_DESCRIPTOR: [&str; 52] = [
    "accept",
    "accept4",
    "bind",
    "close",
    "connect",
    "dup",
    "dup2",
    "dup3",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "fadvise64",
    "fallocate",
    "fchdir",
    "fchmod",
    "fchown",
    "fcntl",
    "fdatasync",
    "fgetxattr",
    "flock",
    "fremovexattr",
    "fsetxattr",
    "fstat",
    "fstatfs",
    "fsync",
    "ftruncate",
    "getdents",
    "getpeername",
    "getsockname",
    "getsockopt",
    "inotify_add_watch",
    "inotify_rm_watch",
    "io_uring_enter",
    "io_uring_register",
    "ioctl",
    "listen",
    "lseek",
    "pidfd_send_signal",
    "readahead",
    "recvmmsg",
    "sendmmsg",
    "setns",
    "setsockopt",
    "shutdown",
    "signalfd4",
    "sync_file_range",
    "syncfs",
    "timerfd_gettime",
    "timerfd_settime",
    "flistxattr",
    "quotactl_fd",
];

/// The name of an error that a call returned.
pub(super) fn error_name(number: u16) -> String {
    let known = ERRORS.iter().find(|(known, _)| *known == number);
    known.map_or_else(|| format!("error {number}"), |(_, name)| (*name).to_owned())
}

/// Errors by the kernel's numbers. Those from 512 on are of calls that a signal interrupted and that restart.
const ERRORS: [(u16, &str); 63] = [
    (1, "EPERM"),
    (2, "ENOENT"),
    (3, "ESRCH"),
    (4, "EINTR"),
    (5, "EIO"),
    (6, "ENXIO"),
    (7, "E2BIG"),
    (8, "ENOEXEC"),
    (9, "EBADF"),
    (10, "ECHILD"),
    (11, "EAGAIN"),
    (12, "ENOMEM"),
    (13, "EACCES"),
    (14, "EFAULT"),
    (16, "EBUSY"),
    (17, "EEXIST"),
    (18, "EXDEV"),
    (19, "ENODEV"),
    (20, "ENOTDIR"),
    (21, "EISDIR"),
    (22, "EINVAL"),
    (23, "ENFILE"),
    (24, "EMFILE"),
    (25, "ENOTTY"),
    (26, "ETXTBSY"),
    (27, "EFBIG"),
    (28, "ENOSPC"),
    (29, "ESPIPE"),
    (30, "EROFS"),
    (31, "EMLINK"),
    (32, "EPIPE"),
    (33, "EDOM"),
    (34, "ERANGE"),
    (35, "EDEADLK"),
    (36, "ENAMETOOLONG"),
    (37, "ENOLCK"),
    (38, "ENOSYS"),
    (39, "ENOTEMPTY"),
    (40, "ELOOP"),
    (61, "ENODATA"),
    (75, "EOVERFLOW"),
    (88, "ENOTSOCK"),
    (90, "EMSGSIZE"),
    (93, "EPROTONOSUPPORT"),
    (95, "EOPNOTSUPP"),
    (97, "EAFNOSUPPORT"),
    (98, "EADDRINUSE"),
    (99, "EADDRNOTAVAIL"),
    (101, "ENETUNREACH"),
    (103, "ECONNABORTED"),
    (104, "ECONNRESET"),
    (105, "ENOBUFS"),
    (106, "EISCONN"),
    (107, "ENOTCONN"),
    (110, "ETIMEDOUT"),
    (111, "ECONNREFUSED"),
    (113, "EHOSTUNREACH"),
    (114, "EALREADY"),
    (115, "EINPROGRESS"),
    (512, "ERESTARTSYS"),
    (513, "ERESTARTNOINTR"),
    (514, "ERESTARTNOHAND"),
    (516, "ERESTART_RESTARTBLOCK"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_a_descriptor_move_bytes_or_change_descriptors() {
        let of = |name| meaning(name);
        assert_eq!(of("write"), Meaning { descriptor: true, moves: true, does: Does::Nothing });
        assert_eq!(of("openat"), Meaning { descriptor: false, moves: false, does: Does::Open(1) });
        assert_eq!(of("close"), Meaning { descriptor: true, moves: false, does: Does::Close });
        assert_eq!(of("futex"), Meaning { descriptor: false, moves: false, does: Does::Nothing });
    }

    #[test]
    fn errors_have_names_or_their_number() {
        assert_eq!(
            (error_name(2), error_name(514), error_name(77)),
            ("ENOENT".into(), "ERESTARTNOHAND".into(), "error 77".into())
        );
    }
}
