//! What a child notes right before its exec, in a page that it shares with whyslow: the time, and how much memory
//! of whyslow it still has. The fork before that moment is whyslow's work and not part of the program's time.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags};

/// The notes of a child. Children of the same page must not run at the same time.
#[derive(Debug, Clone)]
pub(crate) struct LastMoment(Arc<Page>);

#[derive(Debug)]
struct Page(NonNull<Notes>);

#[derive(Debug)]
#[repr(C)]
struct Notes {
    time_ns: AtomicU64,
    resident_bytes: AtomicU64,
}

impl LastMoment {
    /// Notes the moment, in a child. Makes system calls only.
    pub(crate) fn note(&self) {
        fail_to_execute();
        let resident = crate::host::own_usage().max_resident_bytes;
        self.notes().resident_bytes.store(resident, Ordering::Relaxed);
        self.notes().time_ns.store(whyslow_proc::now().raw(), Ordering::Relaxed);
    }

    /// When the last child executed its program.
    pub(crate) fn time(&self) -> ClockNs {
        ClockNs::new(self.notes().time_ns.load(Ordering::Relaxed))
    }

    /// The memory that the last child had until then.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.notes().resident_bytes.load(Ordering::Relaxed)
    }
}

use page::fail_to_execute;
use whyslow_numbers::ClockNs;

#[expect(unsafe_code, reason = "memory that a forked child shares")]
mod page {
    use super::{Arc, LastMoment, MapFlags, NonNull, Notes, Page, ProtFlags};
    use std::io;

    impl LastMoment {
        pub(crate) fn new() -> io::Result<Self> {
            // SAFETY: a new mapping that nothing else uses.
            let page = unsafe {
                rustix::mm::mmap_anonymous(
                    std::ptr::null_mut(),
                    size_of::<Notes>(),
                    ProtFlags::READ | ProtFlags::WRITE,
                    MapFlags::SHARED,
                )?
            };
            let page = NonNull::new(page.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
            Ok(Self(Arc::new(Page(page))))
        }

        pub(super) fn notes(&self) -> &Notes {
            // SAFETY: the mapping is page-aligned, zeroed, as large as the notes, and lives as long as the page. Both
            // processes access it only by atomic operations.
            unsafe { self.0.0.as_ref() }
        }
    }

    /// Executes a folder, which fails. It brings in the code that the exec needs: the first call of a function may map
    /// megabytes of its file, which would otherwise count as the program's memory.
    pub(super) fn fail_to_execute() {
        let nothing = [std::ptr::null()];
        // SAFETY: a path and two empty lists, all of which outlive the call.
        unsafe { libc::execvpe(c"/".as_ptr(), nothing.as_ptr(), nothing.as_ptr()) };
    }

    impl Drop for Page {
        fn drop(&mut self) {
            // SAFETY: this is the whole mapping, and no reference outlives the page.
            let _ = unsafe { rustix::mm::munmap(self.0.as_ptr().cast(), size_of::<Notes>()) };
        }
    }

    // SAFETY: the notes are atomic.
    unsafe impl Send for Page {}
    // SAFETY: the notes are atomic.
    unsafe impl Sync for Page {}
}
