/* An allocator that hands out consecutive memory and never reuses any, with functions that begin with PREFIX. A program can have several:
 * each has its own memory. */
#include <stdatomic.h>

#include "heap.h"

#define BUMP_ROOM (1 << 22)

/* A block's size lies in front of it. */
static void *bump(char *room, atomic_size_t *used, size_t size) {
    size_t need = 16 + (size + 15) / 16 * 16, at = atomic_fetch_add(used, need);
    if (at + need > BUMP_ROOM)
        return NULL;
    *(size_t *)(room + at) = size;
    return room + at + 16;
}

#define BUMP_ALLOCATOR(VISIBLE, PREFIX)                                                                                \
    static _Alignas(16) char PREFIX##room[BUMP_ROOM];                                                                  \
    static atomic_size_t PREFIX##used;                                                                                 \
    VISIBLE NEVER_INLINED void *PREFIX##malloc(size_t size) {                                                          \
        return bump(PREFIX##room, &PREFIX##used, size);                                                                \
    }                                                                                                                  \
    VISIBLE NEVER_INLINED void PREFIX##free(void *block) {                                                             \
        if (block)                                                                                                     \
            memset(block, 0xdd, ((size_t *)block)[-2]);                                                                \
    }                                                                                                                  \
    VISIBLE NEVER_INLINED void *PREFIX##calloc(size_t count, size_t size) {                                            \
        void *block = hidden(PREFIX##malloc(count * size)); /* gcc would make a calloc of both lines */                \
        return block ? memset(block, 0, count * size) : NULL;                                                          \
    }                                                                                                                  \
    VISIBLE NEVER_INLINED void *PREFIX##realloc(void *old, size_t size) {                                              \
        void *block = PREFIX##malloc(size);                                                                            \
        size_t had = old ? ((size_t *)old)[-2] : 0;                                                                    \
        if (block && old)                                                                                              \
            memcpy(block, old, had < size ? had : size);                                                               \
        PREFIX##free(old);                                                                                             \
        return block;                                                                                                  \
    }
