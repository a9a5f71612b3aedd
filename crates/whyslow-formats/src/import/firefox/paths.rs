//! Converts the Firefox Profiler's special source paths to those that compilers write.

use std::borrow::Cow;

/// | special path | becomes |
/// |---|---|
/// | `git:github.com/rust-lang/rust:library/core/src/a.rs:HASH` | `/rustc/HASH/library/core/src/a.rs` |
/// | `cargo:github.com-1ecc6299db9ec823:serde-1.0.1:src/de.rs` | `/registry/src/github.com-1ecc6299db9ec823/serde-1.0.1/src/de.rs` |
/// | `git:`, `hg:`, `s3:` and other ones | the path in the repository |
pub(super) fn plain_path(path: &str) -> Cow<'_, str> {
    let parts: Vec<&str> = path.splitn(5, ':').collect();
    match parts.as_slice() {
        ["git", "github.com/rust-lang/rust", path, revision] => format!("/rustc/{revision}/{path}").into(),
        ["cargo", registry, package, path] => format!("/registry/src/{registry}/{package}/{path}").into(),
        ["git" | "hg" | "s3", _, path, _] => (*path).into(),
        _ => path.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::plain_path;

    #[test]
    fn special_paths_become_those_of_compilers() {
        assert_eq!(
            plain_path("git:github.com/rust-lang/rust:library/core/src/a.rs:5f3a"),
            "/rustc/5f3a/library/core/src/a.rs"
        );
        assert_eq!(plain_path("hg:hg.mozilla.org/mozilla-central:js/src/a.cpp:12"), "js/src/a.cpp");
        assert_eq!(
            plain_path("cargo:github.com-1ecc:serde-1.0.1:src/de.rs"),
            "/registry/src/github.com-1ecc/serde-1.0.1/src/de.rs"
        );
        for plain in ["/home/me/a.rs", "C:\\src\\a.rs", "", "a:b:c:d:e:f"] {
            assert_eq!(plain_path(plain), plain);
        }
    }
}
