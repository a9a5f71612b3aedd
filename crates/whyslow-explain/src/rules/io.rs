//! Reading and writing.

use crate::finding::Confidence;
use crate::rule::{Beneath, Frames, Rule, Signal};
use crate::rules::RuleId;

/// Kernel functions that show large transfers: their time grows with the number of bytes, since they copy, fetch and
/// add pages. The rest of a system call takes the same time for one byte. And those that show messages.
const LARGE_OR_MESSAGE: &[&str] = &[
    r"copy_(?:page|folio|user)|copy_(?:from|to)_(?:user|iter)|copyin|copyout|rep_movs|rep_stos|memcpy_erms|clear_(?:user|page)",
    r"submit_bio|readahead|page_cache_ra_|filemap_(?:read_folio|create_folio|add_folio)|folio_alloc|alloc_pages|create_empty_buffers|da_get_block_prep|shmem_(?:get|alloc)_folio",
    // Sockets, pipes, terminals and the like: whoever waits for a reply has to send at once, and reads no more than
    // there is.
    r"^(?:__)?sock_|^(?:tcp|udp|unix_stream|unix_dgram|inet6?)_(?:send|recv)|^(?:anon_)?pipe_(?:read|write)$|^tty_|^eventfd_|^n_tty_",
];

/// Of reads and writes of 4 KiB, these functions have a quarter of the time or more; of single bytes, a tenth.
const LARGE: f64 = 0.18;

pub(super) static UNBUFFERED_WRITES: Rule = Rule {
    id: RuleId::UnbufferedWrites,
    title: "unbuffered writes: each small write is a system call",
    rust: "wrap the file in a BufWriter, and flush it at the end",
    native: Some("write through stdio or a std::ofstream with a buffer (setvbuf, pubsetbuf) instead of write(2)"),
    signal: Signal::Frames(
        Frames::new(&[
            r"<&?std::fs::File as std::io::Write>::write(?:_all|_vectored)?$",
            r"^(?:__GI_|__libc_|__GI___libc_|__)*write$",
        ])
        .with(Beneath::All)
        .unless(&[r"BufWriter|LineWriter|std::io::stdio::|_IO_|fwrite|fputs|printf|std::basic_filebuf|std::basic_ostream"])
        .refuted_by(LARGE_OR_MESSAGE, LARGE)
        .in_kernel()
        .least(0.05)
        .at_most(Confidence::Medium)
        .or_by(super::calls::unbuffered_writes),
    ),
};

pub(super) static UNBUFFERED_READS: Rule = Rule {
    id: RuleId::UnbufferedReads,
    title: "unbuffered reads: each small read is a system call",
    rust: "wrap the file in a BufReader, or read the whole file with fs::read",
    native: Some("read through stdio or a std::ifstream with a buffer, or the whole file at once, instead of read(2)"),
    signal: Signal::Frames(
        Frames::new(&[
            r"<&?std::fs::File as std::io::Read>::read(?:_exact|_buf)?$",
            r"^(?:__GI_|__libc_|__GI___libc_|__)*read$",
        ])
        .with(Beneath::All)
        .unless(&[r"BufReader|read_to_end|read_to_string|std::fs::read|std::io::copy|_IO_|fread|std::basic_filebuf|std::basic_istream"])
        .refuted_by(LARGE_OR_MESSAGE, LARGE)
        .in_kernel()
        .least(0.05)
        .at_most(Confidence::Medium)
        .or_by(super::calls::unbuffered_reads),
    ),
};

pub(super) static PRINT_PER_LINE: Rule = Rule {
    id: RuleId::PrintPerLine,
    title: "each printed line locks stdout and is written separately",
    rust: "lock and buffer stdout once: let mut out = BufWriter::new(io::stdout().lock()); then writeln!(out, …)",
    native: Some("give stdout a large buffer (setvbuf), and use '\\n' instead of std::endl"),
    signal: Signal::Frames(
        Frames::new(&[r"std::io::stdio::_?e?print\b|LineWriter(?:Shim)?<.*> as std::io::Write>|std::io::buffered::linewriter", r"std::endl<"])
            .with(Beneath::All)
            .in_kernel()
            .unless(&[r"^<?std::io::buffered::bufwriter::BufWriter<"])
            .least(0.05),
    ),
};

pub(super) static LINES_ALLOCATE: Rule = Rule {
    id: RuleId::LinesAllocate,
    title: "lines() allocates a new String for every line",
    rust: "keep one String, clear() it and read_line() into it; use read_until() for bytes; or read the whole file and use str::lines(), which borrows",
    native: None,
    signal: Signal::Frames(
        Frames::new(&[r"<std::io::Lines<.*> as core::iter::traits::iterator::Iterator>::next$"])
            .with(Beneath::All)
            .absorbs(&[RuleId::AllocatorHeavy])
            .least(0.05),
    ),
};
