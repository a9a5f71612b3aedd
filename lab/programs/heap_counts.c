/* Every allocating function, with counts that are exact to the byte.
 *
 * Run: `heap_counts [THREADS=1] [ROUNDS=1000]`. With one thread, only the program itself allocates.
 *
 * THE KNOWN ANSWER: the numbers that it prints. Each thread has its max bytes when it waits at the barrier, where all
 * meet, so the peak of the program is the sum. Half of the blocks are temporary. One in four is still live at the end.
 */
#include <malloc.h>
#include <pthread.h>

#include "heap.h"

struct worker {
    struct tally all, kept, temporary, resized;
    void **blocks;
    size_t *sizes, rounds;
};

static pthread_barrier_t peak;
static struct worker workers[64];

NEVER_INLINED static void *keep(struct worker *w, size_t i, size_t size) {
    struct tally *t = &w->kept;
    void *block = NULL;
    switch (i % 8) {
    case 0: return count_alloc(t, malloc(size), size);
    case 1: return count_alloc(t, calloc(size, 1), size);
    case 2: return count_alloc(t, realloc(NULL, size), size);
    case 3: return posix_memalign(&block, 64, size) ? NULL : count_alloc(t, block, size);
    case 4: return count_alloc(t, aligned_alloc(32, size), size);
    case 5: return count_alloc(t, memalign(256, size), size);
    case 6: return count_alloc(t, reallocarray(NULL, 4, size / 4), size / 4 * 4);
    default: return count_alloc(t, valloc(size), size);
    }
}

NEVER_INLINED static void use_briefly(struct worker *w, size_t i) {
    size_t size = 1 + i % 500;
    char *block = count_alloc(&w->temporary, malloc(size), size);
    block[0] = 1;
    free(count_free(&w->temporary, block, size));
}

/* Never larger than before: after the peak nothing may grow. */
NEVER_INLINED static void shrink(struct worker *w, size_t i) {
    size_t old = w->sizes[i], size = old / 2 + 1;
    w->blocks[i] = count_realloc(&w->resized, realloc(w->blocks[i], size), old, size);
    w->sizes[i] = size;
    /* `keep` allocated the block, which now belongs to the resizing site. */
    w->kept.frees++, w->kept.live_blocks--, w->kept.live_bytes -= old;
    w->resized.frees--, w->resized.live_blocks++, w->resized.live_bytes += old;
}

NEVER_INLINED static void drop(struct worker *w, size_t i) {
    free(count_free(&w->kept, w->blocks[i], w->sizes[i]));
    w->blocks[i] = NULL;
}

NEVER_INLINED static void work(struct worker *w) {
    size_t bytes = w->rounds * sizeof(void *);
    w->blocks = count_alloc(&w->kept, malloc(bytes), bytes);
    w->sizes = count_alloc(&w->kept, malloc(bytes), bytes);
    for (size_t i = 0; i < w->rounds; i++) {
        use_briefly(w, i);
        w->sizes[i] = 8 + i % 1000 / 4 * 4;
        w->blocks[i] = keep(w, i, w->sizes[i]);
        if (!w->blocks[i])
            fail("no memory");
        memset(w->blocks[i], 1, w->sizes[i]);
    }
    /* Larger than any temporary block, so that the peak is here. */
    void *last = count_alloc(&w->kept, malloc(1024), 1024);
    w->all.peak = w->kept.live_bytes;
    pthread_barrier_wait(&peak);
    free(count_free(&w->kept, last, 1024));
    for (size_t i = 0; i < w->rounds; i += 4) {
        drop(w, i);
        if (i + 1 < w->rounds)
            shrink(w, i + 1);
        use_briefly(w, i);
        if (i + 2 < w->rounds)
            drop(w, i + 2);
        if (i + 3 < w->rounds)
            drop(w, i + 3);
    }
    free(count_free(&w->kept, w->sizes, bytes));
}

static void *thread(void *worker) {
    work(worker);
    return NULL;
}

int main(int argc, char **argv) {
    size_t threads = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    size_t rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
    if (threads < 1 || threads > 64 || rounds < 8)
        fail("heap_counts [THREADS: 1 to 64] [ROUNDS: 8 or more]");
    pthread_barrier_init(&peak, NULL, threads);
    pthread_t others[64];
    for (size_t i = 0; i < threads; i++)
        workers[i].rounds = rounds;
    for (size_t i = 1; i < threads; i++)
        if (pthread_create(&others[i], NULL, thread, &workers[i]))
            fail("no thread");
    work(&workers[0]);
    struct tally all = {0}, kept = {0}, temporary = {0}, resized = {0};
    for (size_t i = 0; i < threads; i++) {
        if (i > 0)
            pthread_join(others[i], NULL);
        struct worker *w = &workers[i];
        add(&kept, &w->kept);
        add(&temporary, &w->temporary);
        add(&resized, &w->resized);
        all.peak += w->all.peak;
    }
    uint64_t sum_of_peaks = all.peak;
    add(&all, &kept);
    add(&all, &temporary);
    add(&all, &resized);
    all.peak = sum_of_peaks;
    SAY("threads %zu\n", threads);
    claim_heap(&all);
    claim_site("use_briefly", &temporary);
    claim_site("shrink", &resized);
}
