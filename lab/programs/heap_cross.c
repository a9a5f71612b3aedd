/* Blocks that one thread allocates and another frees.
 *
 * Run: `heap_cross [THREADS=2] [ROUNDS=50]`. Threads form a ring. First, in each round, all
 * pass a batch to their neighbour at a barrier. Then each passes single blocks on through a
 * small queue, as fast as possible, so that other threads reuse addresses at once.
 *
 * THE KNOWN ANSWER: the numbers that it prints. The peak is at the barrier of any round: the queues
 * hold less later. With two or more threads nothing is temporary, and another thread frees every block.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "heap.h"

#define BATCH 100
#define QUEUE 16
#define BATCH_BYTES 2000
#define QUEUE_BYTES 64

struct worker {
    struct tally made, freed;
    void *batch[BATCH];
    /* Filled by this worker, emptied by the next one. */
    _Atomic(void *) queue[QUEUE];
};

static struct worker workers[64];
static size_t threads, rounds;
static pthread_barrier_t meeting;

NEVER_INLINED static void make_batch(struct worker *w) {
    for (size_t i = 0; i < BATCH; i++)
        w->batch[i] = count_alloc(&w->made, malloc(BATCH_BYTES), BATCH_BYTES);
}

/* The block belongs to another thread, even if this thread had its address before. */
static void free_anothers(struct worker *w, void *block, size_t size) {
    newest = 0;
    free(count_free(&w->freed, block, size));
}

NEVER_INLINED static void *make_one(struct worker *w) { return count_alloc(&w->made, malloc(QUEUE_BYTES), QUEUE_BYTES); }

static void *work(void *argument) {
    struct worker *w = argument, *before = &workers[(w - workers + threads - 1) % threads];
    for (size_t round = 0; round < rounds; round++) {
        make_batch(w);
        pthread_barrier_wait(&meeting);
        for (size_t i = 0; i < BATCH; i++)
            free_anothers(w, before->batch[i], BATCH_BYTES);
        pthread_barrier_wait(&meeting);
    }
    size_t to_make = rounds * BATCH, to_free = to_make;
    for (size_t in = 0, out = 0; to_make || to_free;) {
        if (to_make && !atomic_load(&w->queue[in % QUEUE])) {
            atomic_store(&w->queue[in++ % QUEUE], make_one(w));
            to_make--;
        }
        void *block = atomic_load(&before->queue[out % QUEUE]);
        if (block) {
            atomic_store(&before->queue[out++ % QUEUE], NULL);
            free_anothers(w, block, QUEUE_BYTES);
            to_free--;
        } else {
            sched_yield();
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    threads = argc > 1 ? strtoul(argv[1], NULL, 10) : 2;
    rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 50;
    if (threads < 2 || threads > 64)
        fail("heap_cross [THREADS: 2 to 64] [ROUNDS]");
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
        add(&all, &workers[i].made);
        add(&all, &workers[i].freed);
    }
    all.peak = threads * BATCH * BATCH_BYTES;
    if (all.live_blocks || all.temporary)
        fail("the tallies do not meet");
    SAY("threads %zu\nfreed_elsewhere %ju\n", threads, (uintmax_t)all.frees);
    claim_heap(&all);
}
