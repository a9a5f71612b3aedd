//! Builds the agent in a separate cargo run: it has another target kind, another profile and no standard
//! library.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let manifest = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let crates = manifest.parent().expect("this crate is next to the agent");
    let agent = crates.join("whyslow-agent");
    for part in ["whyslow-agent", "whyslow-agent-wire", "whyslow-selfwalk"] {
        for file in ["src", "Cargo.toml"] {
            println!("cargo::rerun-if-changed={}", crates.join(part).join(file).display());
        }
    }
    for file in ["Cargo.lock", "build.rs"] {
        println!("cargo::rerun-if-changed={}", agent.join(file).display());
    }
    let out = PathBuf::from(variable("OUT_DIR"));
    let target_dir = out.join("agent");
    let variants = [
        ("WHYSLOW_AGENT", &[][..]),
        ("WHYSLOW_SAMPLER", &["--no-default-features"]),
        ("WHYSLOW_CAUSAL", &["--no-default-features", "--features", "causal"]),
    ];
    for (name, features) in variants {
        build(&agent, &target_dir, features);
        let kept = out.join(name);
        std::fs::copy(target_dir.join(TARGET).join("release/libwhyslow_agent.so"), &kept)
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", kept.display()));
        println!("cargo::rustc-env={name}={}", kept.display());
    }
}

/// The agent works in dynamic and static programs with any libc. It is linked for the one target that can
/// build shared libraries everywhere.
const TARGET: &str = "x86_64-unknown-linux-gnu";

fn build(agent: &Path, target_dir: &Path, features: &[&str]) {
    let mut cargo = Command::new(variable("CARGO"));
    cargo
        .args(["build", "--release", "--locked", "--quiet", "--target", TARGET])
        .args(features)
        .arg("--manifest-path")
        .arg(agent.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target_dir);
    // Settings of the outer build (flags, static linking, wrappers, profiles) do not apply to this one.
    for (name, _) in env::vars_os() {
        let Some(text) = name.to_str() else { continue };
        let keep = ["CARGO_HOME", "CARGO_NET_OFFLINE", "CARGO_HTTP_PROXY", "CARGO_HTTP_CAINFO"]
            .contains(&text)
            || text.starts_with("CARGO_REGISTRIES_")
            || text.starts_with("CARGO_SOURCE_");
        let outer = text.starts_with("CARGO") || text.starts_with("RUSTC") || text.starts_with("RUSTFLAGS");
        if outer && !keep {
            cargo.env_remove(&name);
        }
    }
    // Unset variables would let settings from a configuration file back in. Empty ones do not.
    cargo.env("CARGO_ENCODED_RUSTFLAGS", "").env("RUSTC", variable("RUSTC"));
    let done = cargo.status().unwrap_or_else(|error| panic!("cannot start cargo: {error}"));
    assert!(done.success(), "building the agent failed: see the messages above");
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
