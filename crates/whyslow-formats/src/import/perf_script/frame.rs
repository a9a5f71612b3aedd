//! One line of a stack: `address symbol+0xoffset (module)`.

use whyslow_profile::ModuleKind;

/// What it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameText<'a> {
    /// 0 when there is none.
    pub(super) address: u64,
    pub(super) symbol: &'a str,
    pub(super) module: &'a str,
    /// Whether it is inlined into the frame that comes next.
    pub(super) inlined: bool,
    /// Everything but the address: equal texts mean the same.
    pub(super) text: &'a str,
}

impl<'a> FrameText<'a> {
    pub(super) fn parse(line: &'a str) -> Self {
        let line = line.trim();
        let (address, text) = match split_address(line) {
            Some((address, rest)) => (address, rest),
            None => (0, line),
        };
        let (symbol, module) = split_module(text);
        let inlined = module == "inlined";
        Self { address, symbol: without_offset(symbol), module, inlined, text }
    }

    /// Whether neither a function nor a module is known.
    pub(super) fn is_unknown(&self) -> bool {
        self.symbol == "[unknown]" && matches!(self.module, "" | "[unknown]")
    }
}

/// Whether a line starts like a frame with an address.
pub(super) fn starts_with_address(line: &str) -> bool {
    split_address(line.trim_start()).is_some()
}

/// The address and what follows it. A symbol of hexadecimal letters (`add (lib.so)`) is no address.
fn split_address(line: &str) -> Option<(u64, &str)> {
    let (first, rest) = line.split_once(char::is_whitespace)?;
    let rest = rest.trim_start();
    let address = u64::from_str_radix(first, 16).ok()?;
    (!rest.starts_with('(') && !rest.is_empty()).then_some((address, rest))
}

/// The symbol and the module in brackets behind it, which may itself have brackets: `f(int) (/tmp/x (deleted))`.
fn split_module(text: &str) -> (&str, &str) {
    let Some(inside) = text.strip_suffix(')') else { return (text, "") };
    let inside_end = inside.strip_suffix(" (deleted)").map_or(inside.len(), str::len);
    match inside[..inside_end].rfind(" (") {
        Some(at) => {
            let module = &inside[at + 2..];
            (text[..at].trim_end(), without_offset(module))
        }
        // Without a symbol there is only the module.
        None => match text.strip_prefix('(') {
            Some(module) => ("[unknown]", module.strip_suffix(')').unwrap_or(module)),
            None => (text, ""),
        },
    }
}

/// Cuts `+0x1f` from the end.
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

/// The name to keep of a module, and what it is.
pub(super) fn module_kind(path: &str) -> (&str, ModuleKind) {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_kernel = path.starts_with("[kernel") || path.starts_with("[guest.kernel") || path == "[k]";
    let is_kernel_module = name.ends_with(".ko") || name.contains(".ko.");
    let is_perf_map = name.starts_with("perf-") && name.ends_with(".map");
    if is_kernel || is_kernel_module || path.starts_with("bpf_prog_") {
        ("[kernel]", ModuleKind::Kernel)
    } else if path == "[vdso]" {
        (path, ModuleKind::Vdso)
    } else if is_perf_map
        || name.starts_with("jitted-")
        || path.starts_with("[JIT]")
        || path.starts_with("//anon")
    {
        (path, ModuleKind::Jit)
    } else if !path.starts_with('/') && path.starts_with('[') {
        // The kernel's modules are names in brackets.
        (path, ModuleKind::Kernel)
    } else if path.starts_with('/') && !name.contains(".so") {
        (path, ModuleKind::Program)
    } else {
        (path, ModuleKind::Library)
    }
}
