/* Allocations that go through the program's own function.
 *
 * Run: `heap_wrapper shared|alone [ROUNDS=100]`.
 *
 * THE KNOWN ANSWER: shared: six functions allocate through `room`, which does not show what needs the memory; `cells` has most
 * of it. alone: `hoard` allocates everything in a loop. Only `fill` calls it, so it is the function to report, not a wrapper.
 */
#include "heap.h"

#define MOST 100000

static struct tally all, of_cells, of_hoard;
static void *blocks[MOST];
static size_t count;

static void keep(void *block) {
    if (count == MOST)
        fail("too many blocks");
    blocks[count++] = block;
}

NEVER_INLINED static void *room(size_t size) {
    void *block = count_alloc(&all, malloc(size), size);
    memset(block, 1, size);
    return block;
}

NEVER_INLINED static void names(void) { keep(room(16)); }
NEVER_INLINED static void rows(void) { keep(room(48)); }
NEVER_INLINED static void edges(void) { keep(room(24)); }
NEVER_INLINED static void notes(void) { keep(room(100)); }
NEVER_INLINED static void order(void) { keep(room(8)); }

NEVER_INLINED static void cells(void) {
    void *block = room(1000);
    count_alloc(&of_cells, block, 1000);
    keep(block);
}

NEVER_INLINED static void hoard(size_t rounds) {
    for (size_t round = 0; round < rounds; round++) {
        void *block = count_alloc(&all, malloc(500), 500);
        memset(block, 1, 500);
        count_alloc(&of_hoard, block, 500);
        keep(block);
    }
}

NEVER_INLINED static void fill(size_t rounds) {
    hoard(rounds);
    hidden(blocks);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "shared";
    size_t rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 100;
    if (!strcmp(how, "shared")) {
        for (size_t round = 0; round < rounds; round++) {
            names();
            rows();
            edges();
            notes();
            order();
            cells();
        }
        claim_site("cells", &of_cells);
        claim_site("room", &all);
    } else if (!strcmp(how, "alone")) {
        fill(rounds);
        claim_site("hoard", &of_hoard);
    } else {
        fail("heap_wrapper shared|alone [ROUNDS]");
    }
    claim_heap(&all);
}
