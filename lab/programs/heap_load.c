/* The load for measuring heap profilers: many small allocations below deep stacks.
 *
 * Run: `heap_load [deep|tree] [THREADS=1] [MALLOCS=1000000]`; MALLOCS is per thread.
 *
 * 64 functions allocate, below 20 to 27 calls of 16 functions with different frames, and about eight calls before those.
 * `deep` descends one of 128 paths before each malloc, chosen at random, and returns. `tree` walks a tree of 255 nodes
 * that allocate on the way, so that neighbours share most of their stack. Both have about 10,000 different stacks. Half
 * of the blocks are freed at once. The others go into one of 20,000 places, chosen at random. The previous block there is
 * freed, except one in a hundred, which is lost. For every eight mallocs, a block in one of the places is reallocated.
 *
 * THE KNOWN ANSWER: the numbers that it prints. `cpu_ns` is the CPU time of the process so far, by its own account.
 */
#include <pthread.h>
#include <sys/resource.h>

#include "heap.h"

#define WAYS 128
#define TREES 1
#define SHORTEST 20
#define LONGEST 27
#define PLACES 20000

struct load {
    struct tally tally;
    uint64_t random, mallocs, to_do;
    unsigned char ways[WAYS][LONGEST + 1], lengths[WAYS];
    const unsigned char *way;
    void *places[PLACES];
    uint32_t sizes[PLACES];
    int tree;
};

typedef uint64_t step(struct load *, unsigned left);

static inline uint64_t next_random(struct load *l) {
    uint64_t x = l->random;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return l->random = x;
}

/* Inlined into each of the 64 functions: their calls of malloc and realloc are 128 places in the code. */
__attribute__((always_inline)) static inline uint64_t operate(struct load *l) {
    struct tally *t = &l->tally;
    uint64_t random = next_random(l);
    size_t size = 16 + (random & 0xff) + (random % 61 ? 0 : 2000);
    char *block = count_alloc(t, malloc(size), size);
    block[0] = (char)size;
    size_t place = (random >> 20) % PLACES;
    if (l->mallocs % 2) {
        free(count_free(t, block, size));
    } else {
        if (l->places[place] && (random >> 40) % 50)
            free(count_free(t, l->places[place], l->sizes[place]));
        l->places[place] = block;
        l->sizes[place] = size;
    }
    if (++l->mallocs % 8 == 0) {
        place = (random >> 30) % PLACES;
        size_t old = l->sizes[place];
        size = old / 2 + 64;
        void *was = l->places[place];
        l->places[place] = was ? count_realloc(t, realloc(was, size), old, size) : count_alloc(t, realloc(NULL, size), size);
        l->sizes[place] = size;
    }
    return size;
}

#define LEAF(n) NEVER_INLINED static uint64_t leaf_##n(struct load *l) { return operate(l) + n; }
#define FOUR(X, n) X(n##0) X(n##1) X(n##2) X(n##3)
#define ALL(X) FOUR(X, 1) FOUR(X, 2) FOUR(X, 3) FOUR(X, 4) FOUR(X, 5) FOUR(X, 6) FOUR(X, 7) FOUR(X, 8)                 \
    FOUR(X, 11) FOUR(X, 12) FOUR(X, 13) FOUR(X, 14) FOUR(X, 15) FOUR(X, 16) FOUR(X, 17) FOUR(X, 18)
ALL(LEAF)
#define NAME(n) leaf_##n,
static uint64_t (*const leaves[64])(struct load *) = {ALL(NAME)};

static step *const steps[16];

static inline uint64_t at_leaf(struct load *l) { return leaves[next_random(l) >> 58](l); }

/* One call deeper. In a tree, a node below the shortest path has two children, and allocates itself. */
__attribute__((always_inline)) static inline uint64_t go_on(struct load *l, unsigned left) {
    if (!l->tree)
        return left ? steps[l->way[left]](l, left - 1) : at_leaf(l);
    uint64_t sum = 0;
    if (left <= LONGEST - SHORTEST)
        sum = at_leaf(l);
    if (left == 0 || l->mallocs >= l->to_do)
        return sum;
    sum += steps[l->way[left]](l, left - 1);
    if (left <= LONGEST - SHORTEST)
        sum += steps[(l->way[left] + 1) % 16](l, left - 1);
    return sum;
}

/* Frames of different sizes, with more or fewer saved registers. */
#define STEP(n, size)                                                                                                  \
    NEVER_INLINED static uint64_t step_##n(struct load *l, unsigned left) {                                            \
        volatile char frame[size];                                                                                     \
        frame[0] = n;                                                                                                  \
        uint64_t below = go_on(l, left);                                                                               \
        return below ^ frame[0] ^ left;                                                                                \
    }
STEP(0, 8) STEP(1, 16) STEP(2, 24) STEP(3, 40) STEP(4, 8) STEP(5, 56) STEP(6, 72) STEP(7, 16)
STEP(8, 104) STEP(9, 8) STEP(10, 120) STEP(11, 24) STEP(12, 152) STEP(13, 40) STEP(14, 8) STEP(15, 200)
static step *const steps[16] = {step_0, step_1, step_2,  step_3,  step_4,  step_5,  step_6,  step_7,
                                step_8, step_9, step_10, step_11, step_12, step_13, step_14, step_15};

NEVER_INLINED static uint64_t rounds(struct load *l) {
    uint64_t sum = 0;
    while (l->mallocs < l->to_do) {
        unsigned way = next_random(l) % (l->tree ? TREES : WAYS);
        l->way = l->ways[way];
        unsigned length = l->tree ? LONGEST : l->lengths[way];
        sum += steps[l->way[length]](l, length - 1);
    }
    return sum;
}

/* The frames that every program has between main and its work. */
#define OUTER(n, next)                                                                                                 \
    NEVER_INLINED static uint64_t outer_##n(struct load *l) {                                                          \
        volatile char frame[16 * n];                                                                                   \
        frame[0] = n;                                                                                                  \
        return next(l) ^ frame[0];                                                                                     \
    }
OUTER(1, rounds) OUTER(2, outer_1)

static void *thread(void *load) {
    volatile uint64_t sum = outer_2(load);
    (void)sum;
    return NULL;
}

static struct load loads[64];

int main(int argc, char **argv) {
    int tree = argc > 1 && !strcmp(argv[1], "tree");
    size_t threads = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
    uint64_t mallocs = argc > 3 ? strtoull(argv[3], NULL, 10) : 1000000;
    if (threads < 1 || threads > 64)
        fail("heap_load [deep|tree] [THREADS: 1 to 64] [MALLOCS]");
    pthread_t others[64];
    for (size_t i = 0; i < threads; i++) {
        struct load *l = &loads[i];
        l->random = 0x9e3779b97f4a7c15;
        l->tree = tree;
        l->to_do = mallocs;
        /* The same paths in every thread. */
        for (size_t way = 0; way < WAYS; way++) {
            l->lengths[way] = SHORTEST + next_random(l) % (LONGEST - SHORTEST + 1);
            for (size_t at = 0; at <= LONGEST; at++)
                l->ways[way][at] = next_random(l) >> 60;
        }
        l->random += i;
        if (i > 0 && pthread_create(&others[i], NULL, thread, l))
            fail("no thread");
    }
    thread(&loads[0]);
    struct tally all = {0};
    for (size_t i = 0; i < threads; i++) {
        if (i > 0)
            pthread_join(others[i], NULL);
        add(&all, &loads[i].tally);
    }
    if (threads == 1)
        claim_heap(&all);
    else
        claim_heap_without_peak(&all);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    SAY("allocations %ju\ncpu_ns %ju\n", (uintmax_t)all.allocations,
        (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * (uintmax_t)1000000000 +
            (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * (uintmax_t)1000);
}
