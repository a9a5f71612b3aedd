/* Exits in every way a program can, with blocks still allocated.
 *
 * Run: `heap_exits return|exit|_exit|quick_exit|group|abort|kill|term|int|fault|thread|last|wait|exec`. `group` makes the system
 * call through libc's `syscall`. `thread` leaves main by pthread_exit while another thread continues and ends the program,
 * `last` ends with its last thread. `wait` runs on for four seconds. `exec` executes this program again, with `return`.
 *
 * THE KNOWN ANSWER: `allocates` allocates 1,000 blocks and frees 400 of them, half of these at once;
 * `exec` has another 1,000 and 400. The exit code is 3, or that of the signal, or 0 with `last`.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>

#include "heap.h"

static struct tally tally;
static void *blocks[1000];

NEVER_INLINED static void allocates(void) {
    for (size_t i = 0; i < 1000; i++) {
        blocks[i] = count_alloc(&tally, malloc(16 + i), 16 + i);
        if (i % 5 == 0)
            free(count_free(&tally, blocks[i], 16 + i));
    }
    for (size_t i = 1; i < 1000; i += 5)
        free(count_free(&tally, blocks[i], 16 + i));
}

static void *last_thread(void *first) {
    pthread_join(*(pthread_t *)first, NULL);
    exit(3);
}

static void *returns(void *first) {
    pthread_join(*(pthread_t *)first, NULL);
    return NULL;
}

int main(int argc, char **argv) {
    static pthread_t first;
    const char *way = argc > 1 ? argv[1] : "return";
    int again = !strcmp(way, "exec");
    allocates();
    if (again) {
        execl(argv[0], argv[0], "exec-return", (char *)NULL);
        fail("cannot start itself");
    }
    struct tally all = {0};
    add(&all, &tally);
    if (!strcmp(way, "exec-return")) {
        /* The exec has removed the blocks of the first program. */
        uint64_t blocks = tally.live_blocks, bytes = tally.live_bytes;
        add(&all, &tally);
        all.live_blocks = blocks, all.live_bytes = bytes;
    }
    claim_site("allocates", &all);
    if (!strcmp(way, "exit"))
        exit(3);
    if (!strcmp(way, "_exit"))
        _exit(3);
    if (!strcmp(way, "quick_exit"))
        quick_exit(3);
    if (!strcmp(way, "abort"))
        abort();
    if (!strcmp(way, "kill"))
        raise(SIGKILL);
    if (!strcmp(way, "term"))
        raise(SIGTERM);
    if (!strcmp(way, "int"))
        raise(SIGINT);
    if (!strcmp(way, "group"))
        syscall(SYS_exit_group, 3);
    if (!strcmp(way, "wait"))
        sleep(4);
    if (!strcmp(way, "fault"))
        *(volatile int *)hidden(NULL) = 1;
    int last = !strcmp(way, "last");
    if (last || !strcmp(way, "thread")) {
        pthread_t thread;
        first = pthread_self();
        if (pthread_create(&thread, NULL, last ? returns : last_thread, &first))
            fail("no thread");
        pthread_exit(NULL);
    }
    return 3;
}
