//! Links the agent against nothing: it must load into any program, with whatever libc that has or none.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for argument in ["-nostdlib", "-nostartfiles", "-Wl,-z,now", "-Wl,--no-undefined-version"] {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
}
