/* Allocations at the bottom of very deep recursion.
 *
 * Run: `heap_deep [DEPTH=10000] [BLOCKS=100]`. Descends DEPTH calls, allocates,
 * and returns. Then once more, allocating on every thousandth step down and up.
 *
 * THE KNOWN ANSWER: the numbers that it prints. `bottom` is called by
 * exactly DEPTH frames of `down`, `step` for 1,000 by DEPTH - 999 of `walk`.
 */
#include "heap.h"

static struct tally bottom_tally, step_tally;

NEVER_INLINED static void *bottom(size_t size) { return count_alloc(&bottom_tally, malloc(size), size); }

NEVER_INLINED static void *step(size_t depth) { return count_alloc(&step_tally, malloc(depth), depth); }

/* The compiler must not see through this, or it would turn the calls into a loop. */
static inline size_t plain(size_t number) { return (size_t)hidden((void *)number); }

NEVER_INLINED static size_t down(size_t left, size_t blocks) {
    if (left > 1)
        return plain(down(left - 1, blocks)) + left;
    for (size_t i = 0; i < blocks; i++)
        free(count_free(&bottom_tally, bottom(100), 100));
    hidden(bottom(1000));
    return 1;
}

NEVER_INLINED static size_t walk(size_t left) {
    void *block = left % 1000 ? NULL : step(left);
    size_t sum = left > 1 ? plain(walk(left - 1)) + left : 1;
    if (block) {
        free(count_free(&step_tally, block, left));
        free(count_free(&step_tally, step(left), left));
    }
    return sum;
}

int main(int argc, char **argv) {
    size_t depth = argc > 1 ? strtoul(argv[1], NULL, 10) : 10000;
    size_t blocks = argc > 2 ? strtoul(argv[2], NULL, 10) : 100;
    size_t sum = down(depth, blocks);
    sum -= walk(depth);
    if (sum)
        fail("not all the way");
    struct tally all = {0};
    add(&all, &bottom_tally);
    add(&all, &step_tally);
    SAY("depth %zu\n", depth);
    claim_heap_without_peak(&all);
    claim_site("bottom", &bottom_tally);
    claim_site("step", &step_tally);
}
