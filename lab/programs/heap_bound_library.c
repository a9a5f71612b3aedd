/* The library of heap_bound: all of libc's ways to allocate, called as libc's own functions. */
#include <malloc.h>

#include "heap.h"

NEVER_INLINED static void *library_allocates(int how, size_t size) {
    void *block = NULL;
    switch (how) {
    case 0: block = malloc(size); break;
    case 1: block = calloc(1, size); break;
    case 2: block = realloc(NULL, size); break;
    case 3: block = reallocarray(NULL, 1, size); break;
    case 4: block = aligned_alloc(64, size); break;
    case 5: block = memalign(64, size); break;
    case 6: block = valloc(size); break;
    default:
        if (posix_memalign(&block, 64, size))
            fail("no memory");
    }
    return hidden(block);
}

NEVER_INLINED static void *library_grows(void *block, size_t size) { return hidden(realloc(block, size)); }

/* Frees a block of the caller and returns one of 80 bytes. */
void *swap_block(void *block) {
    free(block);
    return library_allocates(0, 80);
}

/* Fills two tallies. Every thread keeps one block. */
void use_library(struct tally *t) {
    newest = 0; /* the C library allocates room for it at its first use */
    for (int how = 0; how < 8; how++) {
        void *block = count_alloc(&t[0], library_allocates(how, 100 + how), 100 + how);
        free(count_free(&t[0], block, 100 + how));
    }
    count_alloc(&t[0], library_allocates(0, 40), 40);
    void *block = count_alloc(&t[1], library_grows(NULL, 10), 10);
    block = count_realloc(&t[1], library_grows(block, 3000), 10, 3000);
    free(count_free(&t[1], block, 3000));
}
