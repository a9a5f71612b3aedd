//! What only trying can tell: which perf events the kernel grants, limits, free space.

#![expect(unsafe_code, reason = "system calls without a safe wrapper")]

use std::ffi::CString;
use std::io;
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use perf_event_open_sys as sys;
use sys::bindings as perf;

/// An error number of the system.
pub(super) type Errno = i32;

/// What the kernel granted when asked.
#[derive(Debug, Clone)]
pub(super) struct Probe {
    /// A CPU clock that counts user mode: the least that recording needs.
    pub(super) user_clock: Result<(), Errno>,
    /// A CPU clock that counts the kernel, too.
    pub(super) kernel_clock: Result<(), Errno>,
    /// The hardware's cycle counter.
    pub(super) cycles: Result<(), Errno>,
    /// `RLIMIT_MEMLOCK` in bytes; `None` means no limit.
    pub(super) locked_memory: Option<u64>,
    /// Where symbols are kept, and the bytes that are free there if it can be written.
    pub(super) cache: Option<(PathBuf, Option<u64>)>,
}

impl Probe {
    /// Asks the kernel.
    pub(super) fn run() -> Self {
        let clock = (perf::PERF_TYPE_SOFTWARE, perf::PERF_COUNT_SW_CPU_CLOCK);
        let cycles = (perf::PERF_TYPE_HARDWARE, perf::PERF_COUNT_HW_CPU_CYCLES);
        let cache = whyslow_symbols::default_cache_folder();
        Self {
            user_clock: opens(clock, true),
            kernel_clock: opens(clock, false),
            cycles: opens(cycles, true),
            locked_memory: locked_memory(),
            cache: cache.map(|folder| {
                let free = free_space(&folder);
                (folder, free)
            }),
        }
    }
}

/// Whether the kernel grants an event on this process. It is closed at once and never enabled.
fn opens((kind, config): (u32, u32), user_only: bool) -> Result<(), Errno> {
    let mut attr = perf::perf_event_attr {
        type_: kind,
        size: mem::size_of::<perf::perf_event_attr>() as u32,
        config: u64::from(config),
        ..Default::default()
    };
    attr.__bindgen_anon_1.sample_freq = 997;
    attr.set_freq(1);
    attr.set_disabled(1);
    attr.set_exclude_kernel(u64::from(user_only));
    attr.set_exclude_hv(1);
    // SAFETY: `attr` is a valid structure of the size it names, and lives through the call.
    let fd = unsafe { sys::perf_event_open(&mut attr, 0, -1, -1, perf::PERF_FLAG_FD_CLOEXEC.into()) };
    if fd < 0 {
        return Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL));
    }
    // SAFETY: the descriptor was opened above and is not used again.
    unsafe { libc::close(fd) };
    Ok(())
}

fn locked_memory() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the answer.
    let answered = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) } == 0;
    match limit.rlim_cur {
        libc::RLIM_INFINITY if answered => None,
        bytes => Some(bytes),
    }
}

/// Bytes that this user may still write in a folder, or in the nearest one above it that exists; `None` when nothing.
fn free_space(folder: &Path) -> Option<u64> {
    let existing = folder.ancestors().find(|folder| folder.is_dir())?;
    let path = CString::new(existing.as_os_str().as_bytes()).ok()?;
    // SAFETY: the path ends with a zero byte.
    let writable = unsafe { libc::access(path.as_ptr(), libc::W_OK) } == 0;
    // SAFETY: all zeros is a valid value of this structure of integers.
    let mut stat: libc::statvfs64 = unsafe { mem::zeroed() };
    // SAFETY: the path ends with a zero byte and `stat` is a valid place for the answer.
    let answered = unsafe { libc::statvfs64(path.as_ptr(), &mut stat) } == 0;
    (writable && answered).then(|| stat.f_bavail.saturating_mul(stat.f_frsize))
}
