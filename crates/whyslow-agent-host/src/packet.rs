//! Sockets that preserve message boundaries (`SOCK_SEQPACKET`) and can pass a descriptor with a message.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::Timeout;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

fn address(path: &Path) -> io::Result<SocketAddrUnix> {
    SocketAddrUnix::new(path).map_err(|_| io::Error::other("the path is too long for a socket"))
}

fn socket() -> io::Result<OwnedFd> {
    Ok(net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener(OwnedFd);

impl Listener {
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        let socket = socket()?;
        net::bind(&socket, &address(path)?)?;
        net::listen(&socket, 128)?;
        Ok(Self(socket))
    }

    /// The next connection. An error after [`Self::close`].
    pub(crate) fn accept(&self) -> io::Result<Connection> {
        Ok(Connection(net::accept_with(&self.0, SocketFlags::CLOEXEC)?))
    }

    /// Ends all calls of [`Self::accept`], now and later.
    pub(crate) fn close(&self) {
        let _ = net::shutdown(&self.0, net::Shutdown::Both);
    }
}

/// One end of a connection.
#[derive(Debug)]
pub struct Connection(OwnedFd);

impl Connection {
    /// Connects to a listener.
    pub fn to(path: &Path) -> io::Result<Self> {
        let socket = socket()?;
        net::connect(&socket, &address(path)?)?;
        Ok(Self(socket))
    }

    /// Sets a time limit for sending and receiving.
    pub fn limit(&self, time: Duration) -> io::Result<()> {
        for timeout in [Timeout::Recv, Timeout::Send] {
            net::sockopt::set_socket_timeout(&self.0, timeout, Some(time))?;
        }
        Ok(())
    }

    /// The process at the other end when it connected, by the kernel's id. 0 for a process that is not
    /// visible here, which rustix cannot represent.
    #[expect(unsafe_code, reason = "rustix does not accept 0 as a process id")]
    pub fn peer(&self) -> io::Result<u32> {
        let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut len = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the value is a `ucred`, and the length is its size.
        let result = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut peer).cast(),
                &raw mut len,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        u32::try_from(peer.pid).ok().filter(|&pid| pid > 0).ok_or_else(|| io::Error::other("no process"))
    }

    /// Receives one message if there is one, without waiting. 0: the other end is closed.
    pub fn try_receive(&self, room: &mut [u8]) -> io::Result<Option<usize>> {
        match net::recv(&self.0, room, RecvFlags::DONTWAIT) {
            Ok((len, _)) => Ok(Some(len)),
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends one message, optionally with a descriptor.
    pub fn send(&self, message: &[u8], file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        let files = file.map(|file| [file]);
        if let Some(files) = &files {
            control.push(SendAncillaryMessage::ScmRights(files));
        }
        let sent = net::sendmsg(&self.0, &[IoSlice::new(message)], &mut control, SendFlags::NOSIGNAL)?;
        if sent == message.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    /// Receives one message and its descriptor. A message longer than the buffer is truncated.
    pub fn receive_with_file(&self, room: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received =
            net::recvmsg(&self.0, &mut [IoSliceMut::new(room)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        // The padding has room for a second descriptor; descriptors that are not taken are closed.
        let file = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        Ok((received.bytes, file))
    }
}
