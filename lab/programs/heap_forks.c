/* Threads that fork all the time while the others allocate: no process may hang.
 *
 * Run: `heap_forks [SECONDS=5] [THREADS=8]`. Each forked process allocates, starts a thread that allocates too, and exits.
 *
 * THE KNOWN ANSWER: it exits by itself, with code 0, and the numbers that it prints.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

#include "heap.h"

struct worker {
    struct tally tally;
    uint64_t forks;
};

static struct worker workers[64];
static struct timespec end;

NEVER_INLINED static void in_parent(struct tally *t, size_t i) {
    size_t size = 1 + i % 3000;
    void *one = count_alloc(t, malloc(size), size), *two = count_alloc(t, malloc(2 * size), 2 * size);
    free(count_free(t, one, size));
    free(count_free(t, two, 2 * size));
}

NEVER_INLINED static void *in_child(void *unused) {
    for (int i = 1; i <= 20; i++)
        free(hidden(realloc(hidden(malloc(i)), 100 * i)));
    return unused;
}

static void child(void) {
    pthread_t thread;
    alarm(60);
    in_child(NULL);
    if (pthread_create(&thread, NULL, in_child, NULL))
        _exit(2);
    pthread_join(thread, NULL);
    _exit(0);
}

static int is_over(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec >= end.tv_nsec);
}

static void *work(void *argument) {
    struct worker *w = argument;
    for (size_t round = 0; !is_over(); round++) {
        for (size_t i = 0; i < 200; i++)
            in_parent(&w->tally, i + round);
        pid_t pid = fork();
        if (pid == 0)
            child();
        int status = 0;
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        if (pid < 0 || status)
            fail("a forked process did not end well");
        w->forks++;
    }
    return NULL;
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 5;
    size_t threads = argc > 2 ? strtoul(argv[2], NULL, 10) : 8;
    if (threads < 1 || threads > 64)
        fail("heap_forks [SECONDS] [THREADS: 1 to 64]");
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += (time_t)seconds;
    end.tv_nsec += (long)((seconds - (time_t)seconds) * 1e9);
    end.tv_sec += end.tv_nsec / 1000000000, end.tv_nsec %= 1000000000;
    pthread_t others[64];
    for (size_t i = 0; i < threads; i++)
        if (pthread_create(&others[i], NULL, work, &workers[i]))
            fail("no thread");
    struct tally parent = {0};
    uintmax_t forks = 0;
    for (size_t i = 0; i < threads; i++) {
        pthread_join(others[i], NULL);
        add(&parent, &workers[i].tally);
        forks += workers[i].forks;
    }
    SAY("processes %ju\n", forks + 1);
    claim_site("in_parent", &parent);
    /* 20 blocks of 1 to 20 bytes, grown to a hundred times the size, in two threads. */
    SAY("site in_child allocations=%ju frees=%ju bytes_allocated=%ju live_at_exit_blocks=0\n", 80 * forks, 80 * forks,
        2 * 210 * 101 * forks);
}
