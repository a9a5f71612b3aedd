//! `jemalloc [THREADS=1] [TIMES=1000]`: the known work on this allocator.

#[global_allocator]
static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    lab_allocators::run("jemalloc");
}
