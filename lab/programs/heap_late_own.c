/* A library of heap_late with its own malloc that it calls itself, whatever other code calls. */
#include "heap_bump.h"

BUMP_ALLOCATOR(__attribute__((visibility("protected"))), )

static void *kept;
static struct tally *tally;

__attribute__((destructor)) static void own_ends(void) { free(count_free(tally, kept, 150)); }

NEVER_INLINED static void own_uses(struct tally *t) {
    kept = count_alloc(t, calloc(3, 50), 150);
    void *block = count_alloc(t, malloc(60), 60);
    block = count_realloc(t, realloc(block, 20), 60, 20);
    free(count_free(t, block, 20));
}

/* Fills one tally. */
void use_library(struct tally *t) {
    newest = 0; /* the C library allocates room for it at its first use */
    tally = t;
    own_uses(t);
}
