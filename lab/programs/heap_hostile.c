/* Checks the allocator's contract: zero and huge sizes, alignment, errno, contents.
 *
 * Run: `heap_hostile`. Exits with code 1 and names the violation if anything differs from the C library's manual.
 *
 * THE KNOWN ANSWER: code 0, "kept" and the numbers that it prints. Calls that fail do not count, empty blocks count as blocks.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>

#include "heap.h"

/* The compiler can see through the requests here. */
#pragma GCC diagnostic ignored "-Walloc-size-larger-than="
#pragma GCC diagnostic ignored "-Wuse-after-free"

static struct tally tally, pages, copies;
static const size_t too_large = (size_t)PTRDIFF_MAX + 1;

#define PROMISE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fail("broken: " #condition);                                                                               \
    } while (0)
/* A call that succeeds leaves errno alone. free always does. */
#define KEEPS_ERRNO(...)                                                                                               \
    do {                                                                                                               \
        errno = 4321;                                                                                                  \
        __VA_ARGS__;                                                                                                   \
        PROMISE(errno == 4321);                                                                                        \
    } while (0)
#define REFUSES(call)                                                                                                  \
    do {                                                                                                               \
        errno = 0;                                                                                                     \
        PROMISE(!hidden(call));                                                                                        \
        PROMISE(errno == ENOMEM);                                                                                      \
    } while (0)

static int is_aligned(void *block, size_t alignment) { return ((uintptr_t)block & (alignment - 1)) == 0; }

static int holds(const unsigned char *block, unsigned char value, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (block[i] != value)
            return 0;
    return 1;
}

static void let_go(void *block, size_t size) { KEEPS_ERRNO(free(count_free(&tally, block, size))); }

NEVER_INLINED static void sizes(void) {
    unsigned char *block, *more;
    for (size_t size = 0; size < 5000; size += 1 + size / 50) {
        KEEPS_ERRNO(block = count_alloc(&tally, malloc(size), size));
        PROMISE(block && is_aligned(block, 16) && malloc_usable_size(block) >= size);
        memset(block, 0xa5, size);
        let_go(block, size);
        KEEPS_ERRNO(block = count_alloc(&tally, calloc(size, 3), 3 * size));
        PROMISE(block && is_aligned(block, 16) && holds(block, 0, 3 * size));
        memset(block, 0x5a, 3 * size);
        if (size == 0) {
            let_go(block, 0);
            continue;
        }
        KEEPS_ERRNO(more = count_realloc(&tally, realloc(block, 10 * size), 3 * size, 10 * size));
        PROMISE(more && is_aligned(more, 16) && holds(more, 0x5a, 3 * size));
        KEEPS_ERRNO(more = count_realloc(&tally, reallocarray(more, size, 2), 10 * size, 2 * size));
        PROMISE(more && holds(more, 0x5a, 2 * size));
        let_go(more, 2 * size);
    }
    /* Two empty blocks are two blocks. */
    void *one = count_alloc(&tally, malloc(0), 0), *two = count_alloc(&tally, malloc(0), 0);
    PROMISE(one && two && one != two);
    let_go(one, 0);
    let_go(two, 0);
    KEEPS_ERRNO(free(hidden(NULL)));
    PROMISE(malloc_usable_size(hidden(NULL)) == 0);
    /* Code that asks for the usable size may write to all of it, and its contents are kept too. */
    for (size_t size = 1; size < 3000; size += 7) {
        KEEPS_ERRNO(block = count_alloc(&tally, malloc(size), size));
        size_t usable = malloc_usable_size(block);
        memset(block, 0x3c, usable);
        KEEPS_ERRNO(block = count_realloc(&tally, realloc(block, 2 * usable), size, 2 * usable));
        PROMISE(block && holds(block, 0x3c, usable));
        let_go(block, 2 * usable);
    }
    /* Large enough for a separate mapping, grown and shrunk again. */
    size_t large = 3 << 20;
    KEEPS_ERRNO(block = count_alloc(&tally, malloc(large), large));
    PROMISE(block && is_aligned(block, 16));
    memset(block, 7, large);
    KEEPS_ERRNO(block = count_realloc(&tally, realloc(block, 8 * large), large, 8 * large));
    PROMISE(block && holds(block, 7, large));
    KEEPS_ERRNO(block = count_realloc(&tally, realloc(block, 50), 8 * large, 50));
    PROMISE(block && holds(block, 7, 50));
    let_go(block, 50);
    KEEPS_ERRNO(block = count_alloc(&tally, calloc(1, large), large));
    PROMISE(block && holds(block, 0, large));
    let_go(block, large);
}

NEVER_INLINED static void alignments(void) {
    void *block;
    for (size_t alignment = sizeof(void *); alignment <= 1 << 16; alignment *= 2) {
        size_t size = alignment + 24;
        PROMISE(posix_memalign(&block, alignment, size) == 0);
        PROMISE(is_aligned(count_alloc(&tally, block, size), alignment) && malloc_usable_size(block) >= size);
        memset(block, 1, size);
        let_go(block, size);
        KEEPS_ERRNO(block = count_alloc(&tally, aligned_alloc(alignment, 2 * alignment), 2 * alignment));
        PROMISE(block && is_aligned(block, alignment));
        memset(block, 1, 2 * alignment);
        let_go(block, 2 * alignment);
        KEEPS_ERRNO(block = count_alloc(&tally, memalign(alignment, size), size));
        PROMISE(block && is_aligned(block, alignment));
        memset(block, 1, size);
        /* Aligned blocks can be reallocated. They keep their contents, but not necessarily their alignment. */
        KEEPS_ERRNO(block = count_realloc(&tally, realloc(block, 2 * size), size, 2 * size));
        PROMISE(block && holds(block, 1, size));
        let_go(block, 2 * size);
    }
}

NEVER_INLINED static void whole_pages(void) {
    size_t page = sysconf(_SC_PAGESIZE);
    void *block;
    KEEPS_ERRNO(block = count_alloc(&pages, valloc(100), 100));
    PROMISE(block && is_aligned(block, page));
    KEEPS_ERRNO(free(count_free(&pages, block, 100)));
#ifdef __GLIBC__
    KEEPS_ERRNO(block = count_alloc(&pages, pvalloc(100), 100));
    PROMISE(block && is_aligned(block, page) && malloc_usable_size(block) >= page);
    memset(block, 1, page);
    KEEPS_ERRNO(free(count_free(&pages, block, 100)));
#endif
}

NEVER_INLINED static void failures(void) {
    unsigned char *block = count_alloc(&tally, malloc(64), 64);
    memset(block, 9, 64);
    REFUSES(malloc(too_large));
    REFUSES(malloc(SIZE_MAX));
    REFUSES(malloc(SIZE_MAX - 4096));
    REFUSES(calloc(SIZE_MAX / 2, 3));
    REFUSES(calloc(1, too_large));
    REFUSES(realloc(NULL, too_large));
    REFUSES(realloc(block, SIZE_MAX - 100));
    REFUSES(reallocarray(block, SIZE_MAX / 2, 4));
    REFUSES(memalign(64, SIZE_MAX - 100));
    REFUSES(aligned_alloc(4096, SIZE_MAX - 8191));
    REFUSES(valloc(SIZE_MAX - 100));
    PROMISE(holds(block, 9, 64));
    /* posix_memalign reports errors only by its result. */
    void *untouched = &tally;
    KEEPS_ERRNO(PROMISE(posix_memalign(&untouched, 3, 100) == EINVAL));
    KEEPS_ERRNO(PROMISE(posix_memalign(&untouched, 4, 100) == EINVAL));
    KEEPS_ERRNO(PROMISE(posix_memalign(&untouched, 0, 100) == EINVAL));
    PROMISE(posix_memalign(&untouched, 64, SIZE_MAX - 100) == ENOMEM);
    PROMISE(untouched == &tally);
    let_go(block, 64);
}

/* Blocks that the C library allocates and the program frees. */
NEVER_INLINED static void copied(void) {
    for (size_t i = 1; i <= 10; i++) {
        char *copy = count_alloc(&copies, strndup("0123456789", i), i + 1);
        PROMISE(strlen(copy) == i);
        free(count_free(&copies, copy, i + 1));
    }
}

int main(void) {
    sizes();
    alignments();
    whole_pages();
    failures();
    copied();
    struct tally all = {0};
    add(&all, &tally);
    add(&all, &pages);
    add(&all, &copies);
    claim_heap_without_peak(&all);
    claim_site("whole_pages", &pages);
    claim_site("copied", &copies);
    SAY("kept\n");
}
