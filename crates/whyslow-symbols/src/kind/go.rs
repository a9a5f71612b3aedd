//! Functions of Go programs: which package they are in, and whose that is.

use whyslow_profile::CodeKind;

/// The first parts of the paths of Go's own packages.
const STANDARD: [&str; 47] = [
    "archive",
    "bufio",
    "builtin",
    "bytes",
    "cmp",
    "compress",
    "container",
    "context",
    "crypto",
    "database",
    "debug",
    "embed",
    "encoding",
    "errors",
    "expvar",
    "flag",
    "fmt",
    "go",
    "hash",
    "html",
    "image",
    "index",
    "internal",
    "io",
    "iter",
    "log",
    "maps",
    "math",
    "mime",
    "net",
    "os",
    "path",
    "plugin",
    "reflect",
    "regexp",
    "runtime",
    "slices",
    "sort",
    "strconv",
    "strings",
    "structs",
    "sync",
    "syscall",
    "testing",
    "text",
    "time",
    "unicode",
];

/// Go's functions that make and grow blocks; the collector is not among them.
const ALLOCATOR: [&str; 11] = [
    "runtime.mallocgc",
    "runtime.newobject",
    "runtime.newarray",
    "runtime.makeslice",
    "runtime.growslice",
    "runtime.makemap",
    "runtime.makechan",
    "runtime.rawbyteslice",
    "runtime.rawstring",
    "runtime.(*mcache)",
    "runtime.(*mcentral)",
];

/// Whose a function of a Go program is, and its package. `None` for functions that are not Go's.
pub(super) fn classify(name: &str, file: Option<&str>) -> Option<(CodeKind, Option<String>)> {
    let package = package_of_name(name);
    let first = package.map(|package| package.split('/').next().unwrap_or(package));
    let owned = package.map(|package| package.replace("%2e", "."));
    let is_standard =
        first.is_some_and(|first| STANDARD.contains(&first) || matches!(first, "unique" | "weak" | "vendor"));
    if is_standard && !file.is_some_and(is_foreign) {
        let kind = match first {
            _ if ALLOCATOR.iter().any(|prefix| name.starts_with(prefix)) => CodeKind::Allocator,
            Some("runtime") => CodeKind::Runtime,
            _ if package.is_some_and(|package| package.starts_with("internal/runtime")) => CodeKind::Runtime,
            _ => CodeKind::Std,
        };
        return Some((kind, owned));
    }
    if let Some(module) = file.and_then(module_of_path) {
        return Some((CodeKind::Dependency, Some(module)));
    }
    if package.is_some_and(|package| package == "main" || package.contains('.') || package.contains('/')) {
        return Some((CodeKind::Yours, owned));
    }
    // Assembly of the runtime and what the linker makes: `memeqbody`, `gogo`, `type:.eq.main.T`.
    let of_runtime =
        file.is_some_and(|file| file.contains("/src/runtime/") || file.contains("/src/internal/"));
    if of_runtime
        || name.starts_with("type:")
        || name.starts_with("go:")
        || (file.is_none() && package.is_none())
    {
        return Some((CodeKind::Runtime, Some("runtime".to_owned())));
    }
    let is_go = file.is_some_and(|file| file.ends_with(".go") || file.ends_with(".s"));
    is_go.then_some((CodeKind::Yours, owned))
}

/// `net/http` of `net/http.(*conn).serve`, `example.com/app` of `example.com/app.run[go.shape.int]`.
fn package_of_name(name: &str) -> Option<&str> {
    if name.starts_with("type:") || name.starts_with("go:") {
        return None;
    }
    let path = &name[..name.find(['(', '[', ' ']).unwrap_or(name.len())];
    let last = path.rfind('/').map_or(0, |at| at + 1);
    let dot = path[last..].find('.')?;
    Some(&path[..last + dot]).filter(|package| !package.is_empty())
}

/// Whether a file cannot be of Go's own packages: the user may have one called `index`.
fn is_foreign(file: &str) -> bool {
    file.starts_with('/') && file.ends_with(".go") && !file.contains("/src/")
}

/// The module of a file in the cache of modules, or in a folder of copies.
fn module_of_path(file: &str) -> Option<String> {
    let inside = match file.split_once("/pkg/mod/") {
        Some((_, inside)) => inside,
        None => match file.split_once("/vendor/") {
            Some((_, inside)) => {
                return inside.rsplit_once('/').map(|(package, _)| package.to_owned());
            }
            // Without paths of the machine (-trimpath): `github.com/me/lib@v1.2.3/lib.go`.
            None if file.contains("@v") && !file.starts_with('/') => file,
            None => return None,
        },
    };
    let (module, _) = inside.split_once('@')?;
    Some(module.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use CodeKind::{Allocator, Dependency, Runtime, Std, Yours};

    #[test]
    fn the_runtime_and_the_library_are_not_the_users() {
        let goroot = "/usr/lib/go-1.24/src";
        for (name, file, kind, package) in [
            ("main.main", Some("/home/me/app/main.go"), Yours, Some("main")),
            ("main.main.func1", Some("/home/me/app/main.go"), Yours, Some("main")),
            (
                "example.com/app/db.(*Store).Get",
                Some("/home/me/app/db/db.go"),
                Yours,
                Some("example.com/app/db"),
            ),
            ("app/db.Get[go.shape.int]", Some("/home/me/app/db/db.go"), Yours, Some("app/db")),
            ("index.Build", Some("/home/me/app/index/index.go"), Yours, Some("index")),
            (
                "github.com/a/b.F",
                Some("/home/me/go/pkg/mod/github.com/a/b@v1.2.3/f.go"),
                Dependency,
                Some("github.com/a/b"),
            ),
            ("github.com/a/b.F", Some("github.com/a/b@v1.2.3/f.go"), Dependency, Some("github.com/a/b")),
            (
                "github.com/a/b.F",
                Some("/home/me/app/vendor/github.com/a/b/f.go"),
                Dependency,
                Some("github.com/a/b"),
            ),
            (
                "encoding/json.(*decodeState).object",
                Some("/encoding/json/decode.go"),
                Std,
                Some("encoding/json"),
            ),
            ("strings.Index", None, Std, Some("strings")),
            ("runtime.scanobject", None, Runtime, Some("runtime")),
            ("internal/runtime/maps.(*Map).Get", None, Runtime, Some("internal/runtime/maps")),
            ("runtime.mallocgc", None, Allocator, Some("runtime")),
            ("memeqbody", None, Runtime, Some("runtime")),
            ("type:.eq.main.Key", None, Runtime, Some("runtime")),
        ] {
            let file = file.map(|file| {
                if file.starts_with("/encoding") { format!("{goroot}{file}") } else { file.to_owned() }
            });
            let found = classify(name, file.as_deref()).unwrap();
            assert_eq!((found.0, found.1.as_deref()), (kind, package), "{name}");
        }
        assert_eq!(classify("deflate", Some("/home/me/zlib/deflate.c")), None, "C in a Go program");
    }
}
