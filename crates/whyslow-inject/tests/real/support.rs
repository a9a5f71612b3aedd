//! Compiles small programs, and runs them with a collector that only plans.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use whyslow_agent_wire::handshake::{Hello, Page, Patch, Real, Welcome, hook};
use whyslow_agent_wire::purpose::{Purpose, Purposes};
use whyslow_agent_wire::{SOCKET_VARIABLE, VERSION};
use whyslow_inject::{Entry, InjectError, Injector, Plan, Planner, entry_of};
use whyslow_proc::Mapping;

/// A folder with programs.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
}

/// The result of a hooked program.
pub(crate) struct Ran {
    pub(crate) plan: Plan,
    pub(crate) output: Output,
    /// Calls and the sum of first arguments, by hook.
    pub(crate) hooks: BTreeMap<usize, (u64, u64)>,
}

impl Bench {
    /// `None`, with a message, if there is no compiler.
    pub(crate) fn new() -> Option<Self> {
        whyslow_lab_harness::is_installed("gcc").then(|| Self { folder: tempfile::tempdir().unwrap() })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles C.
    pub(crate) fn gcc(&self, name: &str, source: &str, options: &[&str]) -> PathBuf {
        let file = self.path(&format!("{name}.c"));
        std::fs::write(&file, source).unwrap();
        let path = self.path(name);
        run(Command::new("gcc").arg(file).arg("-o").arg(&path).args(options));
        path
    }

    /// Compiles Rust.
    pub(crate) fn rustc(&self, name: &str, source: &str, options: &[&str]) -> PathBuf {
        let file = self.path(&format!("{name}.rs"));
        std::fs::write(&file, source).unwrap();
        let path = self.path(name);
        run(Command::new("rustc").arg(file).arg("--edition=2024").arg("-o").arg(&path).args(options));
        path
    }

    /// The fake agent.
    pub(crate) fn agent(&self) -> PathBuf {
        let version = format!("-DVERSION={}", whyslow_agent_wire::VERSION);
        let rows = [
            ("ROWS", hook::COUNT),
            ("EXIT", hook::EXIT),
            ("ORDERLY_EXIT", hook::ORDERLY_EXIT),
            ("QUICK_EXIT", hook::QUICK_EXIT),
        ];
        let rows = rows.map(|(name, row)| format!("-D{name}={row}"));
        let mut options = vec!["-O1", "-shared", "-fPIC", "-nostdlib", "-fno-stack-protector", &version];
        options.extend(rows.iter().map(String::as_str));
        self.gcc("agent.so", include_str!("../programs/agent.c"), &options)
    }

    /// Runs a program with the fake agent, preloaded or injected as the program requires.
    pub(crate) fn hooked(&self, program: &Path) -> Ran {
        let agent = self.agent();
        let socket = self.path("socket");
        let _ = std::fs::remove_file(&socket);
        let listener = listen(&socket);
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let inject = match entry_of(program) {
            Entry::Preload => {
                command.env("LD_PRELOAD", &agent).env(SOCKET_VARIABLE, &socket);
                false
            }
            Entry::Inject => true,
            Entry::Impossible(why) => panic!("{why}"),
        };
        let collector = thread::spawn(move || collect(&listener));
        let output = if inject {
            let bytes = std::fs::read(agent).unwrap();
            let (output, result) = run_injected(program, &bytes, &socket);
            result.unwrap();
            output
        } else {
            command.output().unwrap()
        };
        let plan = collector.join().unwrap();
        let hooks = counts(&output);
        Ran { plan, output, hooks }
    }
}

/// Starts a program as a suspended child, injects the agent, and waits for the program to exit.
pub(crate) fn run_injected(program: &Path, agent: &[u8], socket: &Path) -> (Output, Result<(), InjectError>) {
    let (child, injector) = watched(program);
    let result = injector.inject(agent, socket);
    (child.wait_with_output().unwrap(), result)
}

/// A child that is about to execute a program, and its injector.
pub(crate) fn watched(program: &Path) -> (Child, Injector) {
    // `echo` shows that the shell's own exec is over, `read` waits until the injector has attached, and
    // `exec` turns the same process into the program.
    let mut child = Command::new("/bin/sh")
        .args([OsStr::new("-c"), OsStr::new("echo; read go; exec \"$0\""), program.as_os_str()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
    let injector = Injector::watch(child.id()).unwrap();
    io::Write::write_all(&mut child.stdin.take().unwrap(), b"go\n").unwrap();
    (child, injector)
}

/// Parses the lines that the fake agent wrote.
fn counts(output: &Output) -> BTreeMap<usize, (u64, u64)> {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines()
        .filter_map(|line| {
            let mut numbers = line.split(' ').map(|number| number.parse::<u64>().ok());
            Some((numbers.next()?? as usize, (numbers.next()??, numbers.next()??)))
        })
        .collect()
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn listen(path: &Path) -> OwnedFd {
    // SAFETY: the descriptor is checked and owned from here on; the address is filled before its use.
    unsafe {
        let fd = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0);
        assert!(fd >= 0);
        let fd = OwnedFd::from_raw_fd(fd);
        let mut address: libc::sockaddr_un = MaybeUninit::zeroed().assume_init();
        address.sun_family = libc::AF_UNIX as u16;
        for (to, from) in address.sun_path.iter_mut().zip(path.as_os_str().as_bytes()) {
            *to = *from as libc::c_char;
        }
        let len = size_of::<libc::sockaddr_un>() as u32;
        assert_eq!(libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len), 0);
        assert_eq!(libc::listen(fd.as_raw_fd(), 4), 0);
        fd
    }
}

/// Answers one agent.
fn collect(listener: &OwnedFd) -> Plan {
    // SAFETY: `Hello` is plain integers; the other buffers are read only.
    unsafe {
        let fd = libc::accept(listener.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut());
        assert!(fd >= 0);
        let fd = OwnedFd::from_raw_fd(fd);
        let mut hello = MaybeUninit::<Hello>::zeroed();
        let got = libc::recv(fd.as_raw_fd(), hello.as_mut_ptr().cast(), size_of::<Hello>(), 0);
        assert_eq!(got, size_of::<Hello>() as isize);
        let hello = hello.assume_init();
        assert_eq!(hello.version, VERSION);
        let planner = Planner::new(Purposes::NONE.and(Purpose::Heap));
        let plan = planner.plan(&hello, hello.pid, Mapping::all_of(hello.pid));
        let packet = packet(&plan);
        let sent = libc::send(fd.as_raw_fd(), packet.as_ptr().cast(), packet.len(), 0);
        assert_eq!(sent, packet.len() as isize);
        plan
    }
}

fn packet(plan: &Plan) -> Vec<u8> {
    let count = |len: usize| u32::try_from(len).unwrap();
    let mut packet = Vec::new();
    let welcome = Welcome {
        version: VERSION,
        pages: count(plan.pages.len()),
        reals: count(plan.reals.len()),
        patches: count(plan.patches.len()),
    };
    push(&mut packet, &welcome);
    for page in &plan.pages {
        push(&mut packet, &Page { at: page.at, len: count(page.bytes.len()), reserved: 0 });
        packet.extend(&page.bytes);
        packet.resize(packet.len().next_multiple_of(8), 0);
    }
    plan.reals.iter().for_each(|real| push::<Real>(&mut packet, real));
    plan.patches.iter().for_each(|patch| push::<Patch>(&mut packet, patch));
    packet
}

fn push<T: Copy>(packet: &mut Vec<u8>, value: &T) {
    // SAFETY: the wire's types are integers without gaps.
    packet.extend(unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>())
    });
}
