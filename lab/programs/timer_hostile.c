// Programs that use signals in unusual ways, and work at the same time.
//
// Run: timer_hostile [WHAT=masked] [MS=300]
//
//   masked     all signals are blocked
//   handlers   every signal has a handler, and raised ones arrive
//   prof       has its own SIGPROF by setitimer, and gets it
//   waiting    a thread waits for signals with sigwait, another reads them from a signalfd; each gets all of its signals
//   altstack   handlers run on a separate small stack
//   cancel     cancels threads while they work; each of them exits as cancelled
//   confined   forbids itself most system calls half-way; the kernel kills it for any of those
//   storm      four threads that fork, create threads and send signals all the time; it prints how many, and each signal arrives once
//   everything one after the other, without confined
//
// THE KNOWN ANSWER: busy has all of the CPU time except for start-up (storm: at least half), and the exit code is 0: all of the above
// held.

#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void check(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "not so: %s\n", what);
        _exit(1);
    }
}

static double cpu_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static unsigned long sink;

// Works for this much CPU time of the calling thread. Reading the clock is a small part of it.
__attribute__((noinline)) static void busy(double ms) {
    unsigned long x = 88172645463325252;
    for (double end = cpu_ms() + ms; cpu_ms() < end;)
        for (int i = 0; i < 200000; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
    __atomic_fetch_add(&sink, x, __ATOMIC_RELAXED);
}

static volatile sig_atomic_t came[65];
static void count(int signal) { came[signal]++; }

static void masked(double ms) {
    sigset_t all, before;
    sigfillset(&all);
    check(pthread_sigmask(SIG_BLOCK, &all, &before) == 0, "signals can be blocked");
    busy(ms);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void handlers(double ms) {
    for (int signal = 1; signal <= 64; signal++) {
        struct sigaction action = {.sa_handler = count};
        sigfillset(&action.sa_mask);
        sigaction(signal, &action, NULL);
    }
    busy(ms / 2);
    int raised[] = {SIGUSR1, SIGPROF, SIGALRM, SIGRTMIN, SIGRTMAX};
    for (unsigned i = 0; i < sizeof raised / sizeof *raised; i++) {
        int before = came[raised[i]];
        raise(raised[i]);
        check(came[raised[i]] == before + 1, "a signal that is raised comes once");
    }
    busy(ms / 2);
    for (int signal = 1; signal <= 64; signal++) {
        struct sigaction action = {.sa_handler = SIG_DFL};
        sigaction(signal, &action, NULL);
    }
}

static void prof(double ms) {
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
    sigaction(SIGPROF, &action, NULL);
    int before = came[SIGPROF];
    struct itimerval every = {{0, 10000}, {0, 10000}}, none = {{0, 0}, {0, 0}};
    setitimer(ITIMER_PROF, &every, NULL);
    busy(ms);
    setitimer(ITIMER_PROF, &none, NULL);
    // They arrive at clock ticks, and a busy host has few of those.
    check(came[SIGPROF] - before >= ms / 10 / 20, "the program's own timer comes");
    action.sa_handler = SIG_IGN;
    sigaction(SIGPROF, &action, NULL);
}

enum { SENT = 200 };

static void *waits(void *unused) {
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGRTMIN + 1);
    for (int i = 0; i < SENT; i++) {
        int signal = 0;
        check(sigwait(&wanted, &signal) == 0 && signal == SIGRTMIN + 1, "sigwait gives what it waits for");
    }
    return unused;
}

static void *reads(void *file) {
    for (int i = 0; i < SENT; i++) {
        struct signalfd_siginfo info;
        check(read(*(int *)file, &info, sizeof info) == sizeof info, "a signalfd is read whole");
        check(info.ssi_signo == (unsigned)SIGRTMIN + 2, "a signalfd gives its own signals");
    }
    return NULL;
}

static void waiting(double ms) {
    sigset_t theirs;
    sigemptyset(&theirs);
    sigaddset(&theirs, SIGRTMIN + 1);
    sigaddset(&theirs, SIGRTMIN + 2);
    pthread_sigmask(SIG_BLOCK, &theirs, NULL);
    sigset_t read_ones;
    sigemptyset(&read_ones);
    sigaddset(&read_ones, SIGRTMIN + 2);
    int file = signalfd(-1, &read_ones, SFD_CLOEXEC);
    pthread_t waiter, reader;
    pthread_create(&waiter, NULL, waits, NULL);
    pthread_create(&reader, NULL, reads, &file);
    for (int i = 0; i < SENT; i++) {
        kill(getpid(), SIGRTMIN + 1);
        kill(getpid(), SIGRTMIN + 2);
        if (i % 10 == 0)
            busy(ms * 10 / SENT);
    }
    pthread_join(waiter, NULL);
    pthread_join(reader, NULL);
    close(file);
}

static sigjmp_buf back;
static void jump_back(int signal) {
    count(signal);
    siglongjmp(back, 1);
}

static void altstack(double ms) {
    stack_t small = {.ss_sp = malloc(16384), .ss_size = 16384};
    sigaltstack(&small, NULL);
    struct sigaction action = {.sa_handler = jump_back, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    for (int i = 0; i < 20; i++) {
        int before = came[SIGSEGV];
        int *volatile nowhere = (int *)8;
        if (sigsetjmp(back, 1) == 0)
            *(volatile int *)nowhere = 1;
        check(came[SIGSEGV] == before + 1, "a fault is handled on the small stack");
        busy(ms / 20);
    }
    action.sa_handler = SIG_DFL;
    sigaction(SIGSEGV, &action, NULL);
    stack_t none = {.ss_flags = SS_DISABLE};
    sigaltstack(&none, NULL);
    free(small.ss_sp);
}

static void *works_on(void *unused) {
    for (;;) {
        busy(2);
        pthread_testcancel();
    }
    return unused;
}

static void cancel(double ms) {
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        void *result = NULL;
        pthread_create(&thread, NULL, works_on, NULL);
        busy(ms / 40);
        struct timespec nap = {0, ms / 40 * 1e6};
        nanosleep(&nap, NULL);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        check(result == PTHREAD_CANCELED, "a thread that is cancelled ends as that");
    }
}

static void confined(double ms) {
    busy(ms / 2);
    static const int allowed[] = {SYS_exit, SYS_exit_group, SYS_write, SYS_rt_sigreturn, SYS_clock_gettime};
    enum { COUNT = sizeof allowed / sizeof *allowed };
    struct sock_filter code[COUNT + 3];
    code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < COUNT; i++)
        code[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], COUNT - i, 0);
    code[COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    code[COUNT + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {COUNT + 3, code};
    check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "privileges can be given up");
    check(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0, "system calls can be forbidden");
    busy(ms / 2);
    static const char words[] = "truth busy=1\n";
    check(write(1, words, sizeof words - 1) > 0, "it can still write");
    // Not directly: exit functions run, too.
    exit(0);
}

static void *short_life(void *ms) {
    busy(*(double *)ms);
    return NULL;
}

enum { STORMS = 4, SHORT_LIVES = 4 };
static struct storm {
    pthread_t thread;
    double ms;
    unsigned long processes, threads, sent;
} storms[STORMS];
static unsigned long received;
static void receive(int unused) {
    (void)unused;
    __atomic_fetch_add(&received, 1, __ATOMIC_RELAXED);
}

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

// Real-time signals are queued: each one arrives, however many are pending. Only the length of the queue is limited.
static void sent(struct storm *from, int result) {
    check(result == 0 || result == EAGAIN, "a signal can be sent");
    from->sent += result == 0;
}

static pthread_barrier_t all_there, all_done;
static void *storm_on(void *argument) {
    struct storm *own = argument;
    double each = 1;
    // As long as one of them sends, all can receive.
    pthread_barrier_wait(&all_there);
    for (double end = now_ms() + own->ms; now_ms() < end;) {
        pthread_t threads[SHORT_LIVES];
        for (int i = 0; i < SHORT_LIVES; i++)
            check(pthread_create(&threads[i], NULL, short_life, &each) == 0, "a thread can be made");
        union sigval value = {.sival_int = 1};
        sent(own, sigqueue(getpid(), SIGRTMIN + 3, value) ? errno : 0);
        pid_t child = fork();
        if (child == 0) {
            busy(each);
            pthread_t thread;
            check(pthread_create(&thread, NULL, short_life, &each) == 0, "a child can make a thread");
            pthread_join(thread, NULL);
            _exit(3);
        }
        check(child > 0, "a process can be made");
        for (int i = 0; i < STORMS; i++)
            sent(own, pthread_sigqueue(storms[i].thread, SIGRTMIN + 3, value));
        int status = 0;
        while (waitpid(child, &status, 0) < 0)
            check(errno == EINTR, "a child can be waited for");
        check(WIFEXITED(status) && WEXITSTATUS(status) == 3, "a child ends as it should");
        for (int i = 0; i < SHORT_LIVES; i++)
            pthread_join(threads[i], NULL);
        own->processes += 1;
        own->threads += SHORT_LIVES;
    }
    pthread_barrier_wait(&all_done);
    return NULL;
}

static void storm(double ms) {
    struct sigaction action = {.sa_handler = receive, .sa_flags = SA_RESTART};
    sigaction(SIGRTMIN + 3, &action, NULL);
    pthread_barrier_init(&all_there, NULL, STORMS + 1);
    pthread_barrier_init(&all_done, NULL, STORMS + 1);
    for (int i = 0; i < STORMS; i++) {
        storms[i].ms = ms;
        check(pthread_create(&storms[i].thread, NULL, storm_on, &storms[i]) == 0, "a thread can be made");
    }
    pthread_barrier_wait(&all_there);
    pthread_barrier_wait(&all_done);
    struct storm all = {0};
    for (int i = 0; i < STORMS; i++) {
        pthread_join(storms[i].thread, NULL);
        all.processes += storms[i].processes;
        all.threads += storms[i].threads;
        all.sent += storms[i].sent;
    }
    for (double end = now_ms() + 5000; __atomic_load_n(&received, __ATOMIC_RELAXED) < all.sent && now_ms() < end;)
        usleep(1000);
    printf("processes %lu\nthreads %lu\nsent %lu\nreceived %lu\n", all.processes, all.threads, all.sent, received);
    check(received == all.sent, "each of the program's own signals came once");
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "masked";
    double ms = argc > 2 ? atof(argv[2]) : 300;
    static const struct {
        const char *name;
        void (*run)(double);
    } all[] = {{"masked", masked},     {"handlers", handlers}, {"prof", prof},   {"waiting", waiting},
               {"altstack", altstack}, {"cancel", cancel},     {"storm", storm}, {"confined", confined}};
    int found = 0;
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        int is_all = strcmp(what, "everything") == 0 && all[i].run != confined;
        if (is_all || strcmp(what, all[i].name) == 0) {
            all[i].run(ms);
            found = 1;
        }
    }
    check(found, "there is such a thing to do");
    if (strcmp(what, "storm") == 0 || strcmp(what, "everything") == 0)
        puts("least busy=0.5");
    else
        puts("truth busy=1");
    return 0;
}
