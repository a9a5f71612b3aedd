/* Processes that fork, from the first thread and from others, and processes that start another program.
 *
 * Run: `heap_fork [THREADS=1] [FORKS=5]`. Each thread forks FORKS times. A forked process frees half of the blocks that its
 * thread had, allocates its own, frees half of them, and exits with _exit. The first thread also starts this program again, once.
 *
 * THE KNOWN ANSWER: the numbers that it prints, over all processes. A block belongs to the process that allocated
 * it: frees of its parent's blocks are counted separately, and its parent's remaining blocks are not its leak.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>

#include "heap.h"

#define BLOCKS 100

static size_t threads, forks;
static pthread_barrier_t meeting;
static char *program;

struct worker {
    struct tally tally;
    uint64_t children, inherited;
};

static struct worker workers[64];

NEVER_INLINED static void *before_fork(struct tally *t, size_t i) { return count_alloc(t, malloc(100 + i), 100 + i); }

NEVER_INLINED static void *after_fork(struct tally *t, size_t i) { return count_alloc(t, malloc(1000 + i), 1000 + i); }

static void child_work(struct tally *t) {
    void *own[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++)
        own[i] = after_fork(t, i);
    for (size_t i = 0; i < BLOCKS; i += 2)
        free(count_free(t, own[i], 1000 + i));
}

static void wait_for(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            fail("no child to wait for");
    if (status)
        fail("a child failed");
}

static void *work(void *argument) {
    struct worker *w = argument;
    void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = before_fork(&w->tally, i);
    for (size_t n = 0; n < forks; n++) {
        pthread_barrier_wait(&meeting);
        pid_t child = fork();
        if (child == 0) {
            struct tally unheard = {0};
            for (size_t i = 0; i < BLOCKS; i += 2)
                free(hidden(blocks[i]));
            child_work(&unheard);
            _exit(0);
        }
        wait_for(child);
        w->children++;
        w->inherited += BLOCKS / 2;
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(count_free(&w->tally, blocks[i], 100 + i));
    return NULL;
}

static void start_anew(struct worker *w) {
    pid_t child = fork();
    if (child == 0) {
        execl(program, program, "started", (char *)NULL);
        _exit(1);
    }
    wait_for(child);
    w->children++;
}

int main(int argc, char **argv) {
    program = argv[0];
    struct tally all = {0}, child = {0};
    if (argc > 1 && !strcmp(argv[1], "started")) {
        child_work(&child);
        return 0;
    }
    threads = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    forks = argc > 2 ? strtoul(argv[2], NULL, 10) : 5;
    if (threads < 1 || threads > 64)
        fail("heap_fork [THREADS: 1 to 64] [FORKS]");
    pthread_barrier_init(&meeting, NULL, threads);
    pthread_t others[64];
    for (size_t i = 1; i < threads; i++)
        if (pthread_create(&others[i], NULL, work, &workers[i]))
            fail("no thread");
    work(&workers[0]);
    uint64_t children = 0, inherited = 0;
    for (size_t i = 0; i < threads; i++) {
        if (i > 0)
            pthread_join(others[i], NULL);
        if (i == 0)
            start_anew(&workers[0]);
        add(&all, &workers[i].tally);
        children += workers[i].children;
        inherited += workers[i].inherited;
    }
    /* Totals of every child: half of the blocks are left. */
    child.allocations = BLOCKS;
    child.frees = child.live_blocks = BLOCKS / 2;
    for (size_t i = 0; i < BLOCKS; i++) {
        child.bytes += 1000 + i;
        child.live_bytes += i % 2 ? 1000 + i : 0;
    }
    struct tally grown = {0};
    for (uint64_t i = 0; i < children; i++)
        add(&grown, &child);
    add(&all, &grown);
    SAY("processes %ju\ninherited_frees %ju\n", (uintmax_t)(children + 1), (uintmax_t)inherited);
    claim_heap_without_peak(&all);
    claim_site("after_fork", &grown);
}
