/* A library of heap_late with two allocators under known names: mimalloc's and jemalloc's. */
#include "heap_bump.h"

BUMP_ALLOCATOR(, mi_)
BUMP_ALLOCATOR(, je_)

static void *at_start, *kept[2];
static struct tally *tallies;

/* Before any other code can call the library. */
__attribute__((constructor)) NEVER_INLINED static void named_starts(void) { at_start = hidden(mi_malloc(500)); }

__attribute__((destructor)) static void named_ends(void) {
    mi_free(hidden(at_start));
    mi_free(count_free(&tallies[0], kept[0], 100));
    je_free(count_free(&tallies[1], kept[1], 70));
}

NEVER_INLINED static void named_uses_mi(struct tally *t) {
    kept[0] = count_alloc(t, mi_calloc(10, 10), 100);
    void *block = count_alloc(t, mi_malloc(40), 40);
    block = count_realloc(t, mi_realloc(block, 80), 40, 80);
    mi_free(count_free(t, block, 80));
}

NEVER_INLINED static void named_uses_je(struct tally *t) {
    kept[1] = count_alloc(t, je_calloc(10, 7), 70);
    je_free(count_free(t, count_alloc(t, je_realloc(NULL, 30), 30), 30));
}

/* Fills two tallies. */
void use_library(struct tally *t) {
    newest = 0; /* the C library allocates room for it at its first use */
    tallies = t;
    named_uses_mi(&t[0]);
    named_uses_je(&t[1]);
}
