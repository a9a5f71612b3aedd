/* Results of threads: taken, not yet taken, and lost.
 *
 * Run: `heap_results [alone|together]`. With `together` one more thread still runs when the program exits.
 *
 * THE KNOWN ANSWER: a result that `pthread_join` returned and the program keeps is reachable, and so is one that it
 * could still take. A result is lost if the thread was joined without taking it, or detached: only the stack that libc
 * keeps for the next thread still points to it. memcheck agrees.
 */
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>

#include "heap.h"

enum { SIZE = 200 };

static struct tally lost, kept;
void *root;

NEVER_INLINED static void *lost_result(void *unused) {
    (void)unused;
    return count_alloc(&lost, calloc(1, SIZE), SIZE);
}

NEVER_INLINED static void *kept_result(void *unused) {
    (void)unused;
    return count_alloc(&kept, calloc(1, SIZE), SIZE);
}

static void *waits(void *unused) {
    for (;;)
        pause();
    return unused;
}

static pthread_t start(void *(*function)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, function, NULL))
        fail("no thread");
    return thread;
}

/* The folder has two links, and one for each thread. */
static void await_threads(nlink_t count) {
    struct stat tasks;
    while (!stat("/proc/self/task", &tasks) && tasks.st_nlink != count + 2)
        sched_yield();
}

NEVER_INLINED static void all(int others) {
    if (others)
        start(waits);
    /* One thread after the other: they share the tally. */
    pthread_join(start(kept_result), &root);
    start(kept_result);
    await_threads(1 + others);
    pthread_t first = start(lost_result);
    await_threads(1 + others);
    pthread_t second = start(lost_result);
    await_threads(1 + others);
    pthread_t third = start(lost_result);
    await_threads(1 + others);
    pthread_join(first, NULL);
    pthread_join(second, NULL);
    pthread_detach(third);
}

NEVER_INLINED static void forget(void) {
    newest = 0;
    volatile char dead[32768];
    for (size_t i = 0; i < sizeof dead; i++)
        dead[i] = 0;
}

int main(int argc, char **argv) {
    all(argc > 1 && !strcmp(argv[1], "together"));
    SAY("site lost_result " TALLY " leaks.definitely.blocks=%ju\n", TALLIED(&lost), lost.live_blocks);
    SAY("site kept_result " TALLY " leaks.reachable.blocks=%ju\n", TALLIED(&kept), kept.live_blocks);
    SAY("heap leaks.definitely.blocks=%ju leaks.definitely.bytes=%ju leaks.indirectly.blocks=0 leaks.indirectly.bytes=0 "
        "leaks.possibly.blocks=0 leaks.possibly.bytes=0 leaks.reachable.blocks=%ju leaks.reachable.bytes=%ju\n",
        lost.live_blocks, lost.live_bytes, kept.live_blocks, kept.live_bytes);
    forget();
    exit(0);
}
