/* Signal handlers that allocate.
 *
 * Run: `heap_signals [MS=200]`. Handlers run where the program raises a signal, at a faulting instruction in
 * the middle of a function, on a separate stack, inside another handler, and for MS milliseconds at any
 * instruction of a loop that does not allocate, while a second thread does. One of them leaves by siglongjmp.
 *
 * THE KNOWN ANSWER: the numbers that it prints. `in_handler` is above the signal frame, `raises`,
 * `faults`, `on_own_stack` and `spins` below it. The program counts how often the timer fires.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

#include "heap.h"

#define TIMES 100

static struct tally handled, kept, other;
static sigjmp_buf way_out;
static void *last_kept;
static char *guarded;

NEVER_INLINED static void in_handler(size_t size) {
    char *block = count_alloc(&handled, malloc(size), size);
    block[0] = 1;
    block = count_realloc(&handled, realloc(block, 2 * size), size, 2 * size);
    free(count_free(&handled, block, 2 * size));
}

static void on_raise(int signal) {
    in_handler(100);
    if (signal == SIGUSR1)
        raise(SIGUSR2);
}

static void on_timer(int signal) { in_handler(64 + signal); }

static void on_leave(int signal) {
    in_handler(300 + signal);
    siglongjmp(way_out, 1);
}

static void on_fault(int signal) {
    in_handler(200 + signal);
    mprotect(guarded, 4096, PROT_READ | PROT_WRITE);
}

NEVER_INLINED static void raises(void) {
    for (int i = 0; i < TIMES; i++) {
        last_kept = count_alloc(&kept, malloc(32), 32);
        raise(SIGUSR1);
        free(count_free(&kept, last_kept, 32));
    }
}

NEVER_INLINED static void faults(void) {
    for (int i = 0; i < TIMES; i++) {
        mprotect(guarded, 4096, PROT_NONE);
        *(volatile char *)(guarded + i) = 1;
    }
}

NEVER_INLINED static void leaves(void) {
    for (volatile int i = 0; i < TIMES; i++)
        if (!sigsetjmp(way_out, 1))
            raise(SIGHUP);
}

NEVER_INLINED static void on_own_stack(void) {
    for (int i = 0; i < TIMES; i++)
        raise(SIGURG);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

NEVER_INLINED static void spins(double duration) {
    struct itimerval every = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    double end = seconds() + duration;
    setitimer(ITIMER_REAL, &every, NULL);
    while (seconds() < end)
        ;
    setitimer(ITIMER_REAL, &never, NULL);
}

static atomic_int stop;

static void *allocates(void *unused) {
    while (!atomic_load(&stop)) {
        void *block = count_alloc(&other, malloc(500), 500);
        free(count_free(&other, block, 500));
        if (other.allocations % 50 == 0)
            usleep(50);
    }
    return unused;
}

static void on(int signal, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(signal, &action, NULL);
}

int main(int argc, char **argv) {
    double duration = (argc > 1 ? strtoul(argv[1], NULL, 10) : 200) / 1e3;
    static char own_stack[65536];
    stack_t stack = {.ss_sp = own_stack, .ss_size = sizeof own_stack};
    sigaltstack(&stack, NULL);
    guarded = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    on(SIGUSR1, on_raise, 0);
    on(SIGUSR2, on_raise, 0);
    on(SIGALRM, on_timer, SA_RESTART);
    on(SIGHUP, on_leave, 0);
    on(SIGURG, on_timer, SA_ONSTACK);
    on(SIGSEGV, on_fault, 0);
    raises();
    faults();
    leaves();
    on_own_stack();

    /* Only this thread gets the timer's signal: the other one may be inside the allocator. */
    sigset_t timer;
    sigemptyset(&timer);
    sigaddset(&timer, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &timer, NULL);
    pthread_t thread;
    if (pthread_create(&thread, NULL, allocates, NULL))
        fail("no thread");
    pthread_sigmask(SIG_UNBLOCK, &timer, NULL);
    spins(duration);
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);

    struct tally all = {0};
    add(&all, &handled);
    add(&all, &kept);
    add(&all, &other);
    claim_heap_without_peak(&all);
    claim_site("in_handler", &handled);
    claim_site("allocates", &other);
}
