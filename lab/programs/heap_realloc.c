/* Bursts of realloc: growth chains, shrinking, the same size again, and realloc to size 0.
 *
 * Run: `heap_realloc [THREADS=1] [CHAINS=500]`. All threads meet before each burst,
 * each with its own chains. Then each continues with the chains of its neighbour.
 *
 * THE KNOWN ANSWER: the numbers that it prints. Every chain of `grow` starts at 16 bytes and is doubled
 * 10 times, to 16 KB: grown 10 times, one chain. How many bytes were copied depends on the allocator.
 */
#include <pthread.h>

#include "heap.h"

#define LIVE 8
#define FIRST 16
#define DOUBLINGS 10
#define LAST (FIRST << DOUBLINGS)

struct worker {
    struct tally tally;
    void *chains[LIVE];
};

static struct worker workers[64];
static size_t threads, storms;
static pthread_barrier_t meeting;

/* Chains that grow in turn, so that they get in each other's way. */
NEVER_INLINED static void grow(struct worker *w) {
    struct tally *t = &w->tally;
    for (size_t i = 0; i < LIVE; i++)
        w->chains[i] = count_alloc(t, malloc(FIRST), FIRST);
    for (size_t size = FIRST; size < LAST; size *= 2)
        for (size_t i = 0; i < LIVE; i++)
            w->chains[i] = count_realloc(t, realloc(w->chains[i], 2 * size), size, 2 * size);
}

/* Shrinks the neighbour's blocks step by step. */
NEVER_INLINED static void shrink(struct worker *w, struct worker *neighbour) {
    struct tally *t = &w->tally;
    for (size_t i = 0; i < LIVE; i++) {
        void *block = count_realloc(t, realloc(neighbour->chains[i], LAST / 2), LAST, LAST / 2);
        block = count_realloc(t, realloc(block, LAST / 2), LAST / 2, LAST / 2);
        block = count_realloc(t, realloc(block, 1), LAST / 2, 1);
        block = hidden(realloc(block, 0));
        /* A free for glibc; an empty block for musl. */
        if (block) {
            count_realloc(t, block, 1, 0);
            free(count_free(t, block, 0));
        } else {
            count_free(t, (void *)newest, 1);
        }
    }
}

static void *work(void *argument) {
    struct worker *w = argument, *neighbour = &workers[(w - workers + 1) % threads];
    for (size_t storm = 0; storm < storms; storm++) {
        grow(w);
        pthread_barrier_wait(&meeting);
        shrink(w, neighbour);
        pthread_barrier_wait(&meeting);
    }
    return NULL;
}

int main(int argc, char **argv) {
    threads = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    size_t chains = argc > 2 ? strtoul(argv[2], NULL, 10) : 500;
    storms = (chains + LIVE - 1) / LIVE;
    if (threads < 1 || threads > 64)
        fail("heap_realloc [THREADS: 1 to 64] [CHAINS]");
    pthread_barrier_init(&meeting, NULL, threads);
    pthread_t others[64];
    for (size_t i = 1; i < threads; i++)
        if (pthread_create(&others[i], NULL, work, &workers[i]))
            fail("no thread");
    work(&workers[0]);
    struct tally all = {0};
    for (size_t i = 0; i < threads; i++) {
        if (i > 0)
            pthread_join(others[i], NULL);
        add(&all, &workers[i].tally);
    }
    all.peak = threads * LIVE * LAST;
    uintmax_t blocks = threads * storms * LIVE;
    claim_heap(&all);
    SAY("site grow grown=%ju growth_chains=%ju\n", blocks * DOUBLINGS, blocks);
}
