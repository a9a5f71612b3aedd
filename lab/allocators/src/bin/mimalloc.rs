//! `mimalloc [THREADS=1] [TIMES=1000]`: the known work on this allocator.

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    lab_allocators::run("mimalloc");
}
