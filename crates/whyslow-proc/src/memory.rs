//! Memory of other processes.

use std::io;

/// Reads memory of another process, which any of its thread ids can name. Returns how much of `into` was
/// filled.
#[expect(unsafe_code, reason = "rustix has no process_vm_readv")]
pub fn read_memory(pid: u32, address: u64, into: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: the kernel writes at most `into.len()` bytes into `into`, which we hold exclusively; the other address is only
    // meaningful in the other process.
    let read =
        unsafe { libc::process_vm_readv(pid.cast_signed(), &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_can_be_read_like_another_process() {
        let secret = [7u8; 16];
        let mut copy = [0; 16];
        let read = read_memory(std::process::id(), secret.as_ptr() as u64, &mut copy).unwrap();
        assert_eq!((read, copy), (16, secret));
        assert!(read_memory(std::process::id(), 8, &mut copy).is_err());
    }
}
