//! `system [THREADS=1] [TIMES=1000]`: the known work on this allocator.

#[global_allocator]
static GLOBAL: std::alloc::System = std::alloc::System;

fn main() {
    lab_allocators::run("system");
}
