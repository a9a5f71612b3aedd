//! One line of a stack: `address symbol+0xoffset (module)`.

use whyslow_profile::{ModuleKind, SpecialFrame, is_bracketed};

/// A parsed frame line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameText<'a> {
    /// 0 if there is none.
    pub(super) address: u64,
    pub(super) symbol: &'a str,
    pub(super) module: &'a str,
    /// Whether it is inlined into the next frame.
    pub(super) inlined: bool,
    /// Everything except the address: equal texts mean the same frame.
    pub(super) text: &'a str,
}

impl<'a> FrameText<'a> {
    pub(super) fn parse(line: &'a str) -> Self {
        let line = line.trim();
        let (mut address, mut text) = split_address(line).unwrap_or((0, line));
        // `-F addr` puts another address in front; without it, `f0 (lib.so)` is a symbol and its module.
        if let Some((next, rest)) = split_address(text).filter(|(_, rest)| !split_module(rest).0.is_empty()) {
            (address, text) = (next, rest);
        }
        let (symbol, module) = split_module(text);
        let inlined = module == "inlined";
        let symbol = if symbol.is_empty() { SpecialFrame::Unknown.text() } else { without_offset(symbol) };
        Self { address, symbol, module, inlined, text }
    }

    /// Whether neither a function nor a module is known.
    pub(super) fn is_unknown(&self) -> bool {
        let unknown = SpecialFrame::Unknown;
        unknown.is_named(self.symbol) && (self.module.is_empty() || unknown.is_named(self.module))
    }
}

/// Whether a line starts like a frame with an address.
pub(super) fn starts_with_address(line: &str) -> bool {
    split_address(line.trim_start()).is_some()
}

/// The file and line of `  main.c:12`, which `-F srcline` puts below a frame.
pub(super) fn source_line(line: &str) -> Option<(&str, u32)> {
    let (file, line) = line.trim().rsplit_once(':')?;
    let line = line.split_whitespace().next()?.parse().ok()?;
    (!file.is_empty() && file != "??").then_some((file, line))
}

/// Splits off the address. A symbol of hexadecimal letters (`add (lib.so)`) is not an address.
fn split_address(line: &str) -> Option<(u64, &str)> {
    let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim_start();
    let address = u64::from_str_radix(first, 16).ok()?;
    let is_word = !first.bytes().any(|byte| byte.is_ascii_digit());
    let only_module = rest.is_empty() || rest.starts_with('(') && split_module(rest).0.is_empty();
    (!is_word || !only_module).then_some((address, rest))
}

/// Splits a frame into the symbol and the module in brackets after it. The module may itself have brackets:
/// `f(int) (/tmp/x (deleted))`. The symbol is empty if there is only a module.
fn split_module(text: &str) -> (&str, &str) {
    let Some(inside) = text.strip_suffix(')') else { return (text, "") };
    for (at, _) in inside.rmatch_indices(" (") {
        let module = &inside[at + 2..];
        if is_balanced(module) && module != "deleted" {
            return (text[..at].trim_end(), without_offset(module));
        }
    }
    match inside.strip_prefix('(').filter(|module| is_balanced(module)) {
        Some(module) => ("", without_offset(module)),
        None => (text, ""),
    }
}

/// Whether brackets are balanced. A symbol without a module ends in a bracket that was opened earlier:
/// `f(std::function<void ()>)`.
fn is_balanced(text: &str) -> bool {
    let depth = text.bytes().try_fold(0u32, |depth, byte| match byte {
        b'(' => Some(depth + 1),
        b')' => depth.checked_sub(1),
        _ => Some(depth),
    });
    depth == Some(0)
}

/// The functions that a Java agent joined into one name, `a->b`: the method and the methods inlined into it.
pub(super) fn joined(symbol: &str) -> impl Iterator<Item = &str> {
    symbol.split("->").filter(|part| !part.is_empty())
}

/// Removes `+0x1f` from the end.
fn without_offset(symbol: &str) -> &str {
    match symbol.rsplit_once("+0x") {
        Some((name, offset))
            if !name.is_empty()
                && !offset.is_empty()
                && offset.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
        {
            name
        }
        _ => symbol,
    }
}

/// The name of a module, and its kind.
pub(super) fn module_kind(path: &str) -> (&str, ModuleKind) {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_kernel = path.starts_with("[kernel") || path.starts_with("[guest.kernel") || path == "[k]";
    let is_kernel_module = name.ends_with(".ko") || name.contains(".ko.");
    let is_perf_map = name.starts_with("perf-") && name.ends_with(".map");
    if is_kernel || is_kernel_module || path.starts_with("bpf_prog_") {
        (SpecialFrame::Kernel.text(), ModuleKind::Kernel)
    } else if SpecialFrame::Vdso.is_named(path) {
        (path, ModuleKind::Vdso)
    } else if is_perf_map
        || name.starts_with("jitted-")
        || path.starts_with("[JIT]")
        || path.starts_with("//anon")
    {
        (path, ModuleKind::Jit)
    } else if !path.starts_with('/') && is_bracketed(path) {
        // The kernel's modules are names in brackets.
        (path, ModuleKind::Kernel)
    } else if path.starts_with('/') && !name.contains(".so") {
        (path, ModuleKind::Program)
    } else {
        (path, ModuleKind::Library)
    }
}
