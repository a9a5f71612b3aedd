/* The first plug-in of heap_dlopen: its twin has other functions and frames at the same addresses. */
#include "heap.h"

NEVER_INLINED static void *a_allocates(size_t size) {
    volatile char frame[64];
    frame[0] = 1;
    void *block = hidden(malloc(size));
    frame[1] = frame[0];
    return block;
}

NEVER_INLINED void *plugin_entry(size_t size) { return hidden(a_allocates(size)); }

static void *at_start;

/* Allocates while it is being loaded and frees while it is being unloaded. */
__attribute__((constructor)) static void a_starts(void) { at_start = hidden(malloc(500)); }
__attribute__((destructor)) static void a_ends(void) { free(hidden(at_start)); }
