//! `bump [THREADS=1] [TIMES=1000]`: the known work on this allocator.

#[global_allocator]
static GLOBAL: lab_allocators::Bump = lab_allocators::Bump;

fn main() {
    lab_allocators::run("bump");
}
