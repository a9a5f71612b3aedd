//! Compiles lab programs into `<target>/lab`, once per source and set of arguments.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::Variant;

/// A tool that a build needs is not installed. Tests may skip and report it; see [`build_or_skip`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompilerMissing {
    /// The command that was not found.
    pub compiler: String,
}

impl std::fmt::Display for CompilerMissing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is not installed", self.compiler)
    }
}

impl std::error::Error for CompilerMissing {}

/// The folder `lab` of the checkout.
pub(crate) fn lab() -> &'static Path {
    let harness = Path::new(env!("CARGO_MANIFEST_DIR"));
    harness.parent().unwrap_or(harness)
}

/// The folder of the built programs: `<target>/lab`.
pub fn lab_folder() -> PathBuf {
    let workspace = lab().parent().unwrap_or(lab());
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    workspace.join(target).join("lab")
}

fn sources() -> PathBuf {
    lab().join("programs")
}

/// The names of all programs, sorted, without libraries that belong to one of them.
pub fn programs() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(sources())? {
        let path = entry?.path();
        let is_source = path.extension().is_some_and(|e| e == "rs" || e == "c");
        if let (true, Some(name)) = (is_source, path.file_stem().and_then(OsStr::to_str))
            && !LIBRARIES.iter().any(|(_, library)| *library == name)
        {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Programs that need a shared library from the same folder: (program, library).
const LIBRARIES: [(&str, &str); 7] = [
    ("dlopen_host", "plugin"),
    ("plt", "pltlib"),
    ("heap_dlopen", "heap_plugin_a"),
    ("heap_dlopen", "heap_plugin_b"),
    ("heap_late", "heap_late_named"),
    ("heap_late", "heap_late_own"),
    ("heap_bound", "heap_bound_library"),
];

/// Compiles `lab/programs/NAME.rs` or `.c` and returns the path of the executable,
/// `<target>/lab/NAME-VARIANT`.
///
/// Compiles only if the source or the arguments changed. Several processes may request the same program at
/// once. The error is a [`CompilerMissing`] if a compiler is not installed.
pub fn build(name: &str, variant: Variant) -> Result<PathBuf> {
    let folder = lab_folder();
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut link_with = None;
    for (_, library) in LIBRARIES.iter().filter(|(program, _)| *program == name) {
        // A static program cannot load a plug-in that loads a second C library.
        ensure!(
            !variant.is_static(),
            "{name} needs a shared library, so there is no {} build of it",
            variant.name()
        );
        let output = folder.join(format!("lib{library}-{}.so", variant.name()));
        Build { source: source(library)?, output: output.clone(), variant, library: true, link_with: None }
            .when_needed()?;
        link_with = (name == "plt").then_some(output);
    }
    let output = folder.join(format!("{name}-{}", variant.name()));
    Build { source: source(name)?, output: output.clone(), variant, library: false, link_with }
        .when_needed()?;
    Ok(output)
}

/// [`build`] for tests: [`skip`](crate::skip)s and returns `None` if a tool is missing; panics on other
/// errors.
pub fn build_or_skip(name: &str, variant: Variant) -> Option<PathBuf> {
    match build(name, variant) {
        Ok(path) => Some(path),
        Err(error) => match error.downcast_ref::<CompilerMissing>() {
            Some(missing) => {
                crate::skip(&missing.to_string());
                None
            }
            None => panic!("cannot build {name} ({}): {error:#}", variant.name()),
        },
    }
}

fn source(name: &str) -> Result<PathBuf> {
    ["rs", "c"]
        .map(|extension| sources().join(format!("{name}.{extension}")))
        .into_iter()
        .find(|path| path.exists())
        .with_context(|| format!("there is no lab program {name:?}"))
}

struct Build {
    source: PathBuf,
    output: PathBuf,
    variant: Variant,
    library: bool,
    link_with: Option<PathBuf>,
}

impl Build {
    fn when_needed(&self) -> Result<()> {
        let commands = self.commands();
        let description = format!("{commands:?}\n");
        if self.is_fresh(&description) {
            return Ok(());
        }
        let _lock = Lock::wait_for(&self.output)?;
        if self.is_fresh(&description) {
            return Ok(());
        }
        // The stamp is written last, so an interrupted build does not count.
        let stamp = self.stamp();
        let _ = std::fs::remove_file(&stamp);
        if self.is_rust() && self.variant == Variant::Musl {
            require_musl_for_rust()?;
        }
        for command in commands {
            execute(&command)?;
        }
        std::fs::write(&stamp, description).with_context(|| format!("cannot write {}", stamp.display()))
    }

    /// Whether the output exists, was built by these commands, and is not older than the sources.
    fn is_fresh(&self, description: &str) -> bool {
        let changed = |path: &Path| std::fs::metadata(path).and_then(|m| m.modified());
        self.output.exists()
            && std::fs::read_to_string(self.stamp()).is_ok_and(|stamp| stamp == description)
            && changed(&self.stamp()).is_ok_and(|built| {
                self.sources().iter().all(|source| changed(source).is_ok_and(|written| built >= written))
            })
    }

    /// The source, the headers that it includes, and every source next to a file that it includes by `#[path
    /// = "…"]`.
    fn sources(&self) -> Vec<PathBuf> {
        let mut sources = vec![self.source.clone()];
        let text = std::fs::read_to_string(&self.source).unwrap_or_default();
        let included = text.lines().filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"'));
        sources.extend(included.map(|name| self.source.with_file_name(name)));
        let taken_in = text.lines().filter_map(|line| line.strip_prefix("#[path = \"")?.strip_suffix("\"]"));
        for path in taken_in {
            let folder = self.source.with_file_name(path).parent().map(std::fs::read_dir);
            let entries = folder.and_then(Result::ok).into_iter().flatten().filter_map(Result::ok);
            sources.extend(entries.map(|entry| entry.path()).filter(|path| path.is_file()));
        }
        sources
    }

    fn stamp(&self) -> PathBuf {
        with_suffix(&self.output, "stamp")
    }

    /// The commands that build the output, each as words.
    fn commands(&self) -> Vec<Vec<String>> {
        let rust = self.is_rust();
        let path = |p: &Path| p.to_string_lossy().into_owned();
        let mut words = if rust { self.rustc() } else { self.cc() };
        words.extend([path(&self.source), "-o".into(), path(&self.output)]);
        // The library comes after the program that needs it.
        if let Some(library) = &self.link_with {
            words.push(path(library));
        }
        let mut commands = vec![words];
        let line = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        let output = path(&self.output);
        if self.variant == Variant::DebugLink {
            let debug = path(&with_suffix(&self.output, "debug"));
            let link = format!("--add-gnu-debuglink={debug}");
            commands.push(line(&["objcopy", "--only-keep-debug", &output, &debug]));
            commands.push(line(&["objcopy", "--strip-all", &link, &output]));
        }
        if self.variant == Variant::FramePointers && !rust {
            commands.push(line(&["objcopy", "--remove-section=.debug_frame", &output]));
        }
        if self.variant == Variant::SplitPacked && !rust {
            commands.push(line(&["dwp", "-e", &output, "-o", &format!("{output}.dwp")]));
        }
        commands
    }

    fn is_rust(&self) -> bool {
        self.source.extension().is_some_and(|e| e == "rs")
    }

    fn rustc(&self) -> Vec<String> {
        let mut words = vec![rustc()];
        words.extend(["--edition", "2024"].map(str::to_owned));
        words.extend(self.variant.rustc_arguments().split(' ').map(str::to_owned));
        if self.library {
            words.extend(["--crate-type", "cdylib"].map(str::to_owned));
        }
        words
    }

    fn cc(&self) -> Vec<String> {
        let compiler = if self.variant == Variant::Musl {
            "musl-gcc".into()
        } else {
            std::env::var("CC").unwrap_or_else(|_| "cc".into())
        };
        let mut words = vec![compiler, "-Wall".into(), "-pthread".into()];
        words.extend(self.variant.cc_arguments().split(' ').map(str::to_owned));
        if self.library {
            words.extend(["-shared", "-fPIC"].map(str::to_owned));
        }
        if self.link_with.is_some() {
            words.extend(["-Wl,-z,lazy", "-Wl,-rpath,$ORIGIN"].map(str::to_owned));
        }
        words
    }
}

fn rustc() -> String {
    std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into())
}

/// Fails with [`CompilerMissing`] if rustc has no standard library for musl.
fn require_musl_for_rust() -> Result<()> {
    let arguments = ["--print", "target-libdir", "--target", "x86_64-unknown-linux-musl"];
    let folder = Command::new(rustc()).args(arguments).output().context("cannot run rustc")?.stdout;
    if Path::new(String::from_utf8_lossy(&folder).trim()).is_dir() {
        return Ok(());
    }
    Err(CompilerMissing { compiler: "rustc for x86_64-unknown-linux-musl".into() }.into())
}

/// `path` with `.extension` appended to its full name.
fn with_suffix(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

fn execute(words: &[String]) -> Result<()> {
    let [compiler, arguments @ ..] = words else { bail!("an empty command") };
    let output = Command::new(compiler).args(arguments).current_dir(lab_folder()).output();
    let output = match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(CompilerMissing { compiler: compiler.clone() }.into());
        }
        other => other.with_context(|| format!("cannot run {compiler}"))?,
    };
    ensure!(output.status.success(), "{}\n{}", words.join(" "), String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Only one process and thread at a time holds the lock of an output. It is the name of an abstract socket,
/// which the kernel releases when its holder exits in any way.
struct Lock(#[expect(dead_code, reason = "held, not read")] UnixListener);

impl Lock {
    fn wait_for(output: &Path) -> Result<Self> {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        output.hash(&mut hasher);
        let name = format!("whyslow-lab-{:016x}", hasher.finish());
        let address = SocketAddr::from_abstract_name(&name)?;
        loop {
            match UnixListener::bind_addr(&address) {
                Ok(listener) => return Ok(Self(listener)),
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(error) => return Err(error).context("cannot create the lock of a lab build"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_a_missing_compiler_from_a_failed_build() {
        std::fs::create_dir_all(lab_folder()).unwrap();
        let missing = execute(&["whyslow-no-such-compiler".into()]).unwrap_err();
        assert_eq!(missing.to_string(), "whyslow-no-such-compiler is not installed");
        assert!(missing.downcast_ref::<CompilerMissing>().is_some());
        let failed = execute(&["false".into()]).unwrap_err();
        assert!(failed.downcast_ref::<CompilerMissing>().is_none());
    }

    #[test]
    fn an_unknown_program_is_named() {
        let error = build("nothing-of-the-kind", Variant::Release).unwrap_err();
        assert!(error.to_string().contains("nothing-of-the-kind"), "{error}");
    }

    #[test]
    fn concurrent_builds_give_one_complete_program_and_the_next_is_a_no_op() {
        let paths: Vec<PathBuf> = std::thread::scope(|scope| {
            let builds: Vec<_> =
                (0..4).map(|_| scope.spawn(|| build("exits", Variant::NoDebugInfo).unwrap())).collect();
            builds.into_iter().map(|b| b.join().unwrap()).collect()
        });
        let made = || std::fs::metadata(&paths[0]).unwrap().modified().unwrap();
        let first = made();
        assert!(paths.iter().all(|p| *p == paths[0]));
        let status = Command::new(&paths[0]).args(["code", "7"]).status().unwrap();
        assert_eq!(status.code(), Some(7));
        build("exits", Variant::NoDebugInfo).unwrap();
        assert_eq!(made(), first);
    }

    #[test]
    fn variants_have_different_names() {
        let names: std::collections::HashSet<_> = Variant::ALL.iter().map(|v| v.name()).collect();
        assert_eq!(names.len(), Variant::ALL.len());
    }
}
