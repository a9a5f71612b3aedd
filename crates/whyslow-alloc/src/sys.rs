//! A few libc calls.

#![expect(unsafe_code, reason = "libc has no safe interface")]

/// Restores `errno` on drop, so that the program does not notice the counting.
pub(crate) struct Errno(libc::c_int);

impl Errno {
    pub(crate) fn keep() -> Self {
        // SAFETY: the location belongs to this thread and is always valid.
        Self(unsafe { *libc::__errno_location() })
    }
}

impl Drop for Errno {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

/// The calling thread's id.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::gettid() }.cast_unsigned()
}

/// The calling thread's name, as the kernel has it.
pub(crate) fn thread_name() -> String {
    let mut name = [0u8; 16];
    // SAFETY: the kernel writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let len = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..len]).into_owned()
}

/// Registers a function to call when the program exits.
pub(crate) fn at_exit(work: extern "C" fn()) {
    // SAFETY: the function lives as long as the program.
    unsafe { libc::atexit(work) };
}

/// Prints to standard error without the standard library's lock: another thread may hold it when the program
/// ends.
pub(crate) fn say(text: &str) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        // SAFETY: the text has this length.
        let written = unsafe { libc::write(libc::STDERR_FILENO, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(written) => rest = &rest[written.min(rest.len())..],
            Err(_) if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
