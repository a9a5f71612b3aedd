//! Links the agent against nothing: it must load into any program, whichever libc that program has, if any.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for argument in ["-nostdlib", "-nostartfiles", "-Wl,-z,now", "-Wl,--no-undefined-version"] {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
}
