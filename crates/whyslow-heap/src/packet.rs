//! Sockets that keep the borders of messages (`SOCK_SEQPACKET`), and passing a descriptor beside one.

#![expect(unsafe_code, reason = "the standard library has no sockets of this kind")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn address(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: plain data.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let path = path.as_os_str().as_bytes();
    if path.len() >= address.sun_path.len() || path.contains(&0) {
        return Err(io::Error::other("the path is too long for a socket"));
    }
    for (to, &from) in address.sun_path.iter_mut().zip(path) {
        *to = from.cast_signed();
    }
    Ok((address, size_of::<libc::sockaddr_un>() as libc::socklen_t))
}

fn socket() -> io::Result<OwnedFd> {
    // SAFETY: a plain system call; the descriptor is new and nobody else's.
    unsafe {
        let fd = check(libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// A socket that others connect to.
#[derive(Debug)]
pub(crate) struct Listener(OwnedFd);

impl Listener {
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        let socket = socket()?;
        let (address, len) = address(path)?;
        // SAFETY: the address is valid and as long as said.
        unsafe {
            check(libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len))?;
            check(libc::listen(socket.as_raw_fd(), 128))?;
        }
        Ok(Self(socket))
    }

    /// The next one that connects. An error after [`Self::close`].
    pub(crate) fn accept(&self) -> io::Result<Connection> {
        // SAFETY: no address is asked for; the descriptor is new and nobody else's.
        unsafe {
            let fd = check(libc::accept4(
                self.0.as_raw_fd(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                libc::SOCK_CLOEXEC,
            ))?;
            Ok(Connection(OwnedFd::from_raw_fd(fd)))
        }
    }

    /// Ends all waiting in [`Self::accept`], now and later.
    pub(crate) fn close(&self) {
        // SAFETY: a plain system call.
        unsafe { libc::shutdown(self.0.as_raw_fd(), libc::SHUT_RDWR) };
    }
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Connection(OwnedFd);

impl Connection {
    /// Connects to a listener.
    pub(crate) fn to(path: &Path) -> io::Result<Self> {
        let socket = socket()?;
        let (address, len) = address(path)?;
        // SAFETY: the address is valid and as long as said.
        check(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), len) })?;
        Ok(Self(socket))
    }

    /// Limits how long sending and receiving may take.
    pub(crate) fn limit(&self, time: Duration) -> io::Result<()> {
        let time =
            libc::timeval { tv_sec: time.as_secs() as libc::time_t, tv_usec: time.subsec_micros().into() };
        for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
            // SAFETY: the value is a `timeval` and as long as said.
            check(unsafe {
                libc::setsockopt(
                    self.0.as_raw_fd(),
                    libc::SOL_SOCKET,
                    option,
                    (&raw const time).cast(),
                    size_of::<libc::timeval>() as libc::socklen_t,
                )
            })?;
        }
        Ok(())
    }

    /// The process at the other end when it connected, as the kernel knows it.
    pub(crate) fn peer(&self) -> io::Result<u32> {
        let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut len = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the value is a `ucred` and as long as said.
        check(unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut peer).cast(),
                &raw mut len,
            )
        })?;
        u32::try_from(peer.pid).ok().filter(|&pid| pid > 0).ok_or_else(|| io::Error::other("no process"))
    }

    /// Receives one message if there is one, without waiting. 0: the other end is closed.
    pub(crate) fn try_receive(&self, room: &mut [u8]) -> io::Result<Option<usize>> {
        // SAFETY: the room is as long as said.
        let len = unsafe {
            libc::recv(self.0.as_raw_fd(), room.as_mut_ptr().cast(), room.len(), libc::MSG_DONTWAIT)
        };
        match usize::try_from(len) {
            Ok(len) => Ok(Some(len)),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                error => Err(error),
            },
        }
    }

    /// Sends one message with a descriptor beside it.
    pub(crate) fn send(&self, message: &[u8], file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        const FD_LEN: u32 = size_of::<libc::c_int>() as u32;
        // Room for one descriptor, aligned as its header must be.
        let mut beside = [0u64; 4];
        let mut part = libc::iovec { iov_base: message.as_ptr().cast_mut().cast(), iov_len: message.len() };
        // SAFETY: plain data; all parts outlive the call, and the control message fits its room.
        let sent = unsafe {
            let mut all: libc::msghdr = std::mem::zeroed();
            all.msg_iov = &raw mut part;
            all.msg_iovlen = 1;
            if let Some(file) = file {
                all.msg_control = beside.as_mut_ptr().cast();
                all.msg_controllen = libc::CMSG_SPACE(FD_LEN) as usize;
                let control = libc::CMSG_FIRSTHDR(&raw const all);
                (*control).cmsg_level = libc::SOL_SOCKET;
                (*control).cmsg_type = libc::SCM_RIGHTS;
                (*control).cmsg_len = libc::CMSG_LEN(FD_LEN) as usize;
                libc::CMSG_DATA(control).cast::<libc::c_int>().write_unaligned(file.as_raw_fd());
            }
            libc::sendmsg(self.0.as_raw_fd(), &raw const all, libc::MSG_NOSIGNAL)
        };
        if usize::try_from(sent) == Ok(message.len()) { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Receives one message and the descriptor beside it. A message that is longer than the room is cut.
    pub(crate) fn receive_with_file(&self, room: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
        let mut beside = [0u64; 4];
        let mut part = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        // SAFETY: plain data; all parts outlive the call. There is room for one descriptor with its header and for no other, so
        // that a message with rights has one in it; it is new and ours.
        unsafe {
            let mut all: libc::msghdr = std::mem::zeroed();
            all.msg_iov = &raw mut part;
            all.msg_iovlen = 1;
            all.msg_control = beside.as_mut_ptr().cast();
            all.msg_controllen = libc::CMSG_LEN(size_of::<libc::c_int>() as u32) as usize;
            let len = libc::recvmsg(self.0.as_raw_fd(), &raw mut all, libc::MSG_CMSG_CLOEXEC);
            let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
            let control = libc::CMSG_FIRSTHDR(&raw const all).as_ref();
            let rights = control.filter(|control| {
                control.cmsg_level == libc::SOL_SOCKET
                    && control.cmsg_type == libc::SCM_RIGHTS
                    && control.cmsg_len >= libc::CMSG_LEN(size_of::<libc::c_int>() as u32) as usize
            });
            let file = rights.map(|control| {
                OwnedFd::from_raw_fd(libc::CMSG_DATA(control).cast::<libc::c_int>().read_unaligned())
            });
            Ok((len, file))
        }
    }
}
