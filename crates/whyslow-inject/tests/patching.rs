//! Real programs, planned and patched by an agent's stand-in that counts.
#![expect(missing_docs, unsafe_code, clippy::unwrap_used, reason = "tests")]

mod support;

use support::Bench;
use whyslow_heap_wire::handshake::hook;

const GROUP: usize = hook::PER_GROUP;

/// Uses every function of libc's once or more.
const CALLS: &str = r#"
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    void *volatile block = 0;
    for (int i = 0; i < 100; i++) { block = malloc(i); free(block); }
    for (int i = 0; i < 50; i++) { block = calloc(2, i); block = realloc(block, 1000); free(block); }
    posix_memalign((void **)&block, 64, 10); free(block);
    block = aligned_alloc(64, 64); free(block);
    block = memalign(64, 64); free(block);
    block = valloc(10); free(block);
    block = pvalloc(10); free(block);
    block = reallocarray(0, 3, 5); free(block);
    write(1, "done\n", 5);
    _exit(0);
}
"#;

#[test]
fn a_static_programs_libc_is_patched_completely() {
    let Some(bench) = Bench::new() else { return };
    for (name, options) in [("static", &["-static", "-w"][..]), ("static-pie", &["-static-pie", "-w"])] {
        let ran = bench.hooked(&bench.gcc(name, CALLS, options));
        assert_eq!(ran.output.stdout, b"done\n", "{name}");
        assert_eq!(ran.plan.notes, Vec::<String>::new(), "{name}");
        assert_eq!(ran.plan.allocators, ["static libc"], "{name}");
        let calls = |row: usize| ran.hooks.get(&row).map_or(0, |(calls, _)| *calls);
        assert_eq!(calls(GROUP + hook::MALLOC), 100, "{name}");
        assert_eq!(ran.hooks[&(GROUP + hook::MALLOC)].1, (0..100).sum::<u64>(), "{name}");
        assert_eq!(calls(GROUP + hook::CALLOC), 50, "{name}");
        assert_eq!(calls(GROUP + hook::REALLOC), 50, "{name}");
        assert_eq!(calls(GROUP + hook::FREE), 156, "{name}");
        assert_eq!(calls(GROUP + hook::POSIX_MEMALIGN), 1, "{name}");
        // One function or two, as libc likes.
        assert_eq!(calls(GROUP + hook::ALIGNED_ALLOC) + calls(GROUP + hook::MEMALIGN), 2, "{name}");
        assert_eq!(calls(GROUP + hook::VALLOC), 1, "{name}");
        assert_eq!(calls(GROUP + hook::PVALLOC), 1, "{name}");
        assert_eq!(calls(GROUP + hook::REALLOCARRAY), 1, "{name}");
        assert_eq!(calls(hook::EXIT), 1, "{name}");
    }
}

#[test]
fn a_dynamic_program_gets_its_exit_patched_and_nothing_else() {
    let Some(bench) = Bench::new() else { return };
    let ran = bench.hooked(&bench.gcc("dynamic", "int main(void) { return 0; }", &[]));
    assert_eq!(ran.plan.notes, Vec::<String>::new());
    assert_eq!(ran.plan.allocators, ["libc"]);
    assert_eq!((ran.plan.patches.len(), ran.plan.reals.len(), ran.plan.pages.len()), (1, 1, 1));
    assert_eq!(ran.hooks.keys().copied().collect::<Vec<_>>(), [hook::EXIT]);
}
