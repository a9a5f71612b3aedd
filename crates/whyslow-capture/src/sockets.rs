//! The names of sockets: their kind and their peer, from the tables of the kernel.
//!
//! ```text
//! TCP socket 127.0.0.1:6379 from 127.0.0.1   a client's connection to a port that something listens on
//! TCP socket to 127.0.0.1:5432               any other connection
//! TCP socket listening on 127.0.0.1:6379
//! UDP socket at 0.0.0.0:53, UDP socket to 127.0.0.1:53
//! Unix socket /run/app.sock
//! ```

use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use whyslow_numbers::ClockNs;

/// The tables are read again for an unknown socket, but not more often than this.
const OFTEN_NS: u64 = 100_000_000;
/// The state of a listening TCP socket.
const LISTENS: u8 = 10;

/// The sockets of the network namespaces of processes, as read last.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    names: HashMap<u64, String>,
    read_ns: Option<ClockNs>,
}

impl Sockets {
    /// The name of the socket with this inode, which a process has.
    pub(crate) fn name(&mut self, pid: u32, inode: u64, now: ClockNs) -> Option<String> {
        let is_due = self.read_ns.is_none_or(|read_ns| now.since(read_ns) >= OFTEN_NS);
        if !self.names.contains_key(&inode) && is_due {
            self.read_ns = Some(now);
            self.names = read(pid);
        }
        self.names.get(&inode).cloned()
    }
}

fn read(pid: u32) -> HashMap<u64, String> {
    let table = |name: &str| fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
    let mut names = HashMap::new();
    for (kind, tables) in [("TCP", ["tcp", "tcp6"]), ("UDP", ["udp", "udp6"])] {
        let rows: Vec<Inet> = tables.iter().flat_map(|name| inet(&table(name))).collect();
        let listening: HashSet<u16> = rows
            .iter()
            .filter(|row| kind == "TCP" && row.state == LISTENS)
            .map(|row| row.local.port())
            .collect();
        names.extend(rows.iter().map(|row| (row.inode, row.name(kind, &listening))));
    }
    names.extend(unix(&table("unix")));
    names
}

/// A row of the tables of TCP and UDP.
#[derive(Debug, PartialEq, Eq)]
struct Inet {
    local: SocketAddr,
    peer: SocketAddr,
    state: u8,
    inode: u64,
}

impl Inet {
    fn name(&self, kind: &str, listening: &HashSet<u16>) -> String {
        let Self { local, peer, state, .. } = self;
        match peer.port() {
            _ if kind == "TCP" && *state == LISTENS => format!("{kind} socket listening on {local}"),
            0 if local.port() == 0 => format!("{kind} socket"),
            0 => format!("{kind} socket at {local}"),
            // A client's port says nothing.
            _ if listening.contains(&local.port()) => format!("{kind} socket {local} from {}", peer.ip()),
            _ => format!("{kind} socket to {peer}"),
        }
    }
}

/// Parses `SL LOCAL:PORT PEER:PORT STATE QUEUES TIMER RETRANSMITS UID TIMEOUT INODE …`.
fn inet(table: &str) -> Vec<Inet> {
    let row = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (local, peer) = (address(words.next()?)?, address(words.next()?)?);
        let state = u8::from_str_radix(words.next()?, 16).ok()?;
        let inode = words.nth(5)?.parse().ok().filter(|inode| *inode > 0)?;
        Some(Inet { local, peer, state, inode })
    };
    table.lines().skip(1).filter_map(row).collect()
}

/// Parses `0100007F:1CDE`: the address in words of this machine's byte order, the port as a number.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let digits = ip.get(at * 8..at * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (at, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(at)?);
            }
            Ipv6Addr::from(bytes).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// Parses `NUM: REFS PROTOCOL FLAGS TYPE STATE INODE [PATH]`.
fn unix(table: &str) -> Vec<(u64, String)> {
    let row = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(6);
        let inode = words.next()?.parse().ok()?;
        let path = words.next().map_or(String::new(), |path| format!(" {path}"));
        Some((inode, format!("Unix socket{path}")))
    };
    table.lines().skip(1).filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn tables_of_the_kernel_name_both_ends() {
        let tcp =
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 100 1 0
   1: 0100007F:18EB 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 101 1 0
   2: 0100007F:D431 0100007F:18EB 01 00000000:00000000 00:00000000 00000000     0        0 102 1 0
   3: 0000000000000000FFFF00000100007F:D432 00000000000000000000000001000000:0050 01 0:0 0:0 0 0 0 103 1 0
   4: nonsense";
        let rows = inet(tcp);
        let listening = HashSet::from([6379]);
        let names: Vec<_> = rows.iter().map(|row| (row.inode, row.name("TCP", &listening))).collect();
        let named = |inode: u64, name: &str| (inode, name.to_owned());
        assert_eq!(
            names,
            [
                named(100, "TCP socket listening on 127.0.0.1:6379"),
                named(101, "TCP socket 127.0.0.1:6379 from 127.0.0.1"),
                named(102, "TCP socket to 127.0.0.1:6379"),
                named(103, "TCP socket to [::1]:80"),
            ]
        );
        let table = "Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 55 /run/app.sock
0000000000000000: 00000003 00000000 00000000 0001 03 56";
        assert_eq!(unix(table), [named(55, "Unix socket /run/app.sock"), named(56, "Unix socket")]);
    }

    #[test]
    fn own_connection_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        let link = fs::read_link(format!("/proc/self/fd/{}", client.as_raw_fd())).unwrap();
        let inode =
            link.to_string_lossy().trim_matches(|letter: char| !letter.is_ascii_digit()).parse().unwrap();
        let name = Sockets::default().name(std::process::id(), inode, ClockNs::MIN);
        assert_eq!(name, Some(format!("TCP socket to {address}")));
    }
}
