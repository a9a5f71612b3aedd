/* Counts a program's calls of the allocator, where it makes them.
 *
 *   p = count_alloc(&t, malloc(n), n);             a new block
 *   free(count_free(&t, p, n));                    a block is freed
 *   p = count_realloc(&t, realloc(p, n), m, n);    a block of m bytes becomes one of n bytes
 *
 * The rules are memcheck's: a realloc is one allocation, and one free unless the old pointer was NULL. A block is temporary when
 * the thread that allocated it frees it before it allocates again. A tally belongs to one thread.
 *
 * `claim_heap` prints the totals of the whole program, `claim_site` those with a function on the stack:
 *
 *   heap allocations=3 frees=2 ...
 *   site FUNCTION allocations=3 frees=2 ...
 */
#ifndef HEAP_H
#define HEAP_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NEVER_INLINED __attribute__((noinline, noclone))

struct tally {
    uint64_t allocations, frees, bytes, temporary, live_blocks, live_bytes, peak;
};

/* What this thread allocated last. */
static __thread uintptr_t newest;

/* Hides a pointer from the compiler, which would otherwise remove blocks that are never read. */
static inline void *hidden(void *pointer) {
    __asm__ volatile("" : "+r"(pointer) : : "memory");
    return pointer;
}

static inline void *count_alloc(struct tally *t, void *pointer, size_t size) {
    pointer = hidden(pointer);
    t->allocations++;
    t->bytes += size;
    t->live_blocks++;
    t->live_bytes += size;
    if (t->live_bytes > t->peak)
        t->peak = t->live_bytes;
    newest = (uintptr_t)pointer;
    return pointer;
}

static inline void *count_free(struct tally *t, void *pointer, size_t size) {
    pointer = hidden(pointer);
    t->frees++;
    t->live_blocks--;
    t->live_bytes -= size;
    t->temporary += newest == (uintptr_t)pointer;
    return pointer;
}

static inline void *count_realloc(struct tally *t, void *pointer, size_t old, size_t size) {
    t->frees++;
    t->live_blocks--;
    t->live_bytes -= old;
    return count_alloc(t, pointer, size);
}

static inline void add(struct tally *sum, const struct tally *part) {
    sum->allocations += part->allocations;
    sum->frees += part->frees;
    sum->bytes += part->bytes;
    sum->temporary += part->temporary;
    sum->live_blocks += part->live_blocks;
    sum->live_bytes += part->live_bytes;
    sum->peak += part->peak;
}

#define TALLY "allocations=%ju frees=%ju bytes_allocated=%ju temporary=%ju live_at_exit_blocks=%ju live_at_exit_bytes=%ju"
#define TALLIED(t)                                                                                                     \
    (uintmax_t)(t)->allocations, (uintmax_t)(t)->frees, (uintmax_t)(t)->bytes, (uintmax_t)(t)->temporary,              \
        (uintmax_t)(t)->live_blocks, (uintmax_t)(t)->live_bytes

/* Prints without stdio, which would allocate. Overwrites old values on the stack: for a leak check, an old address in the unused part of a
 * line would hold a block. */
#define SAY(...)                                                                                                       \
    do {                                                                                                               \
        char line_[1024] = {0};                                                                                        \
        int length_ = snprintf(line_, sizeof line_, __VA_ARGS__);                                                      \
        if (write(1, line_, length_) != length_)                                                                       \
            _exit(1);                                                                                                  \
    } while (0)

static inline void claim_heap(const struct tally *t) {
    SAY("heap " TALLY " peak_bytes=%ju\n", TALLIED(t), (uintmax_t)t->peak);
}

/* For programs whose threads or processes have no common peak. */
static inline void claim_heap_without_peak(const struct tally *t) { SAY("heap " TALLY "\n", TALLIED(t)); }

static inline void claim_site(const char *function, const struct tally *t) {
    SAY("site %s " TALLY "\n", function, TALLIED(t));
}

static inline void fail(const char *what) {
    if (write(2, what, strlen(what)) < 0 || write(2, "\n", 1) < 0)
        _exit(2);
    _exit(1);
}

#endif
