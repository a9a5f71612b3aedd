//! Texts of calls: the path or address that an argument points to, and names for what a call creates.

use super::meaning::{Does, Meaning};
use crate::input::{Dump, UserStack};

/// The path or address that a call's argument points to, if it is in the copied stack.
pub(super) fn text_of(meaning: Meaning, arguments: &[u64; 6], user: &UserStack<'_>) -> Option<String> {
    let UserStack::Dump(_, dump) = user else { return None };
    match meaning.does {
        Does::Open(path) => {
            let bytes = dump_from(dump, arguments[path])?;
            let end = bytes.iter().position(|byte| *byte == 0)?;
            Some(String::from_utf8_lossy(&bytes[..end]).into_owned()).filter(|path| !path.is_empty())
        }
        Does::Connect => {
            let bytes = dump_from(dump, arguments[1])?;
            address_words(bytes.get(..usize::try_from(arguments[2]).ok()?)?)
        }
        _ => None,
    }
}

/// The copied bytes from an address onwards.
fn dump_from<'a>(dump: &Dump<'a>, address: u64) -> Option<&'a [u8]> {
    let at = usize::try_from(address.checked_sub(dump.sp)?).ok()?;
    dump.bytes.get(at..)
}

/// A socket address: `family: u16`, then a port and a number, or a path.
pub(super) fn address_words(bytes: &[u8]) -> Option<String> {
    let (family, rest) = bytes.split_first_chunk()?;
    match u16::from_ne_bytes(*family) {
        UNIX => {
            let path = rest.strip_prefix(&[0]).map_or_else(
                || String::from_utf8_lossy(rest.split(|byte| *byte == 0).next().unwrap_or(rest)).into_owned(),
                |name| format!("@{}", String::from_utf8_lossy(name)),
            );
            Some(path)
        }
        INET => {
            let (port, rest) = rest.split_first_chunk()?;
            let host: [u8; 4] = *rest.first_chunk()?;
            Some(format!("{}:{}", core::net::Ipv4Addr::from(host), u16::from_be_bytes(*port)))
        }
        INET6 => {
            let (port, rest) = rest.split_first_chunk()?;
            let host: [u8; 16] = *rest.get(4..)?.first_chunk()?;
            Some(format!("[{}]:{}", core::net::Ipv6Addr::from(host), u16::from_be_bytes(*port)))
        }
        _ => None,
    }
}

const UNIX: u16 = 1;
const INET: u16 = 2;
const INET6: u16 = 10;

/// The name of a socket of which only the creating call is known.
pub(super) fn socket_name([family, kind, ..]: [u64; 6]) -> &'static str {
    const STREAM: u64 = 1;
    const DATAGRAM: u64 = 2;
    match (u16::try_from(family), kind & 0xf) {
        (Ok(INET | INET6), STREAM) => "TCP socket",
        (Ok(INET | INET6), DATAGRAM) => "UDP socket",
        (Ok(UNIX), _) => "Unix socket",
        _ => "socket",
    }
}
