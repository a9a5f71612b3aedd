/* Memory that the C library allocates for itself and keeps until the end, while threads still run.
 *
 * Run: `heap_library [none|waiting|busy]`. The word says what three more threads do when the program exits.
 *
 * THE KNOWN ANSWER: nothing below `uses_library` is live at the exit, since the library can free all of it
 * (`__libc_freeres`). `holds` has one block, which is reachable.
 */
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "heap.h"

enum { THREADS = 3 };

static struct tally held;
void *root;
static atomic_int arrived;
static int busy;

/* A locale, a time zone, a buffer of stdio. */
NEVER_INLINED static void uses_library(void) {
    if (!setlocale(LC_ALL, "C.UTF-8"))
        setlocale(LC_ALL, "POSIX");
    setenv("TZ", "WIN+1SUM", 1);
    tzset();
    fputs("buffered\n", stdout);
    fflush(stdout);
}

NEVER_INLINED static void holds(void) { root = count_alloc(&held, calloc(1, 100), 100); }

/* With `busy`, a thread is in the allocator most of the time. */
static void *runs(void *unused) {
    atomic_fetch_add(&arrived, 1);
    while (!busy)
        pause();
    for (;;)
        free(hidden(malloc(5000)));
    return unused;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "none";
    busy = !strcmp(what, "busy");
    uses_library();
    holds();
    pthread_t thread;
    for (int i = 0; i < THREADS && strcmp(what, "none"); i++) {
        if (pthread_create(&thread, NULL, runs, NULL))
            fail("no thread");
        while (atomic_load(&arrived) <= i)
            sched_yield();
    }
    SAY("site uses_library live_at_exit_blocks=0\n");
    SAY("site holds " TALLY " leaks.reachable.blocks=1\n", TALLIED(&held));
    exit(0);
}
