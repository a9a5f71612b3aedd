/* Allocations below frames that are hard to walk.
 *
 * Run: `heap_unwind [ROUNDS=1000]`. Frames with alloca, realigned frames, frames that longjmp discards, calls of
 * functions that never return as the last instruction, tail calls, calls through pointers, and a frame of 100 KB.
 *
 * THE KNOWN ANSWER: the numbers that it prints, and its lines `path`, outermost function
 * first: the complete stack of every allocation in the last function of the line, up to main.
 */
#include <alloca.h>
#include <setjmp.h>

#include "heap.h"

static struct tally tallies[8];
static jmp_buf way_out;
static size_t round_number;

#define LEAF(name, number)                                                                                             \
    NEVER_INLINED static void name(void) {                                                                             \
        struct tally *t = &tallies[number];                                                                            \
        size_t size = 16 + round_number % 100;                                                                         \
        void *block = count_alloc(t, malloc(size), size);                                                                     \
        block = count_realloc(t, realloc(block, 3 * size), size, 3 * size);                                                    \
        free(count_free(t, block, 3 * size));                                                                                \
    }
LEAF(below_alloca, 0)
LEAF(below_aligned, 1)
LEAF(below_jump, 2)
LEAF(below_noreturn, 3)
LEAF(below_tail, 4)
LEAF(below_pointer, 5)
LEAF(below_large, 6)
LEAF(below_all, 7)

NEVER_INLINED static void with_alloca(size_t size, void (*next)(void)) {
    volatile char *space = alloca(size);
    space[0] = 1;
    next();
    space[size - 1] = space[0];
}

/* An alignment that the stack does not have, and an unknown size: the frame is found through a saved pointer. */
NEVER_INLINED static void realigned(size_t size, void (*next)(void)) {
    volatile char aligned[64] __attribute__((aligned(64)));
    volatile char varying[size];
    aligned[0] = varying[0] = 1;
    next();
    hidden((void *)(aligned + varying[0]));
}

NEVER_INLINED static void jumps_out(void) {
    below_jump();
    longjmp(way_out, 1);
}

NEVER_INLINED static void jumped_from(void) {
    if (!setjmp(way_out)) {
        jumps_out();
        fail("longjmp returned");
    }
}

__attribute__((noreturn, noinline, noclone)) static void never_returns(int code) {
    below_noreturn();
    longjmp(way_out, code);
}

/* The call is the last instruction: its return address belongs to the next function. */
NEVER_INLINED static void ends_in_call(int code) { never_returns(code + 1); }

NEVER_INLINED static void calls_noreturn(void) {
    if (!setjmp(way_out))
        ends_in_call(1);
}

/* Not on the stack when its callee runs. */
NEVER_INLINED static void tail_called(void) {
    round_number += 0;
    below_tail();
}

static void (*volatile through)(void) = below_pointer;

NEVER_INLINED static void calls_pointer(void) {
    through();
    hidden(NULL);
}

NEVER_INLINED static void large_frame(void) {
    volatile char large[100000];
    large[round_number % sizeof large] = 1;
    below_large();
    large[0] = large[1];
}

NEVER_INLINED static void all_of_it(void) {
    with_alloca(10 + round_number % 1000, below_all);
    hidden(NULL);
}

NEVER_INLINED static void once(void) {
    with_alloca(10 + round_number % 3000, below_alloca);
    realigned(10 + round_number % 3000, below_aligned);
    jumped_from();
    calls_noreturn();
    tail_called();
    calls_pointer();
    large_frame();
    realigned(10 + round_number % 500, all_of_it);
    hidden(NULL);
}

int main(int argc, char **argv) {
    size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
    for (round_number = 0; round_number < rounds; round_number++)
        once();
    const char *paths[] = {
        "with_alloca below_alloca",
        "realigned below_aligned",
        "jumped_from jumps_out below_jump",
        "calls_noreturn ends_in_call never_returns below_noreturn",
        "below_tail",
        "calls_pointer below_pointer",
        "large_frame below_large",
        "realigned all_of_it with_alloca below_all",
    };
    struct tally all = {0};
    for (int i = 0; i < 8; i++) {
        SAY("path main once %s\n", paths[i]);
        claim_site(strrchr(paths[i], ' ') ? strrchr(paths[i], ' ') + 1 : paths[i], &tallies[i]);
        add(&all, &tallies[i]);
    }
    claim_heap_without_peak(&all);
}
