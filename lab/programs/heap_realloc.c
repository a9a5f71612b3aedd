/* Storms of realloc: growth chains, shrinking, the same size again, and realloc to nothing.
 *
 * Run: `heap_realloc [THREADS=1] [CHAINS=500]`. All threads meet before each storm, each with its own chains; then each goes on with
 * the chains of its neighbour.
 *
 * THE KNOWN ANSWER: the numbers that it prints. Every chain of `grow` starts at 16 bytes and is doubled 10 times, to 16 KB: 10 times
 * grown, one chain. How many bytes were copied depends on the allocator.
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

/* Chains that grow in turn, so that they are in each other's way. */
NEVER_INLINED static void grow(struct worker *w) {
    struct tally *t = &w->tally;
    for (size_t i = 0; i < LIVE; i++)
        w->chains[i] = made(t, malloc(FIRST), FIRST);
    for (size_t size = FIRST; size < LAST; size *= 2)
        for (size_t i = 0; i < LIVE; i++)
            w->chains[i] = moved(t, realloc(w->chains[i], 2 * size), size, 2 * size);
}

/* What the neighbour made becomes less and less. */
NEVER_INLINED static void shrink(struct worker *w, struct worker *neighbour) {
    struct tally *t = &w->tally;
    for (size_t i = 0; i < LIVE; i++) {
        void *block = moved(t, realloc(neighbour->chains[i], LAST / 2), LAST, LAST / 2);
        block = moved(t, realloc(block, LAST / 2), LAST / 2, LAST / 2);
        block = moved(t, realloc(block, 1), LAST / 2, 1);
        block = hidden(realloc(block, 0));
        /* A free for glibc; an empty block for musl. */
        if (block) {
            moved(t, block, 1, 0);
            free(gone(t, block, 0));
        } else {
            gone(t, (void *)newest, 1);
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
