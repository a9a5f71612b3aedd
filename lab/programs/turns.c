// Two threads alternate on one CPU: each computes for 3 ms, sleeps until 2 ms later, and then finds the CPU busy.
//
// Run: turns [MS=300]
//
// THE KNOWN ANSWER: the main thread's `slept_us N`, the sleep that it requested, and `queued_us N`: the
// remaining wall time minus CPU time. Then it only lacked a CPU, most of it after its sleep was over.

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

static long ms = 300;

static long nanoseconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000 + now.tv_nsec;
}

static void compute(long ns) {
    long end = nanoseconds(CLOCK_THREAD_CPUTIME_ID) + ns;
    while (nanoseconds(CLOCK_THREAD_CPUTIME_ID) < end) {
    }
}

// The sleep that it requested, in nanoseconds.
static long take_turns(void) {
    long slept = 0, end = nanoseconds(CLOCK_MONOTONIC) + ms * 1000000;
    prctl(PR_SET_TIMERSLACK, 1);
    while (nanoseconds(CLOCK_MONOTONIC) < end) {
        compute(3000000);
        long now = nanoseconds(CLOCK_MONOTONIC), until = now + 2000000;
        struct timespec at = { until / 1000000000, until % 1000000000 };
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
        slept += until - now;
    }
    return slept;
}

static void *other(void *unused) {
    take_turns();
    return unused;
}

// Restricts the process to one of its CPUs.
static void use_one_cpu(void) {
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &all)) {
            CPU_SET(cpu, &one);
            break;
        }
    }
    sched_setaffinity(0, sizeof one, &one);
}

int main(int count, char **arguments) {
    if (count > 1) {
        ms = atol(arguments[1]);
    }
    use_one_cpu();
    pthread_t thread;
    pthread_create(&thread, NULL, other, NULL);
    long begin = nanoseconds(CLOCK_MONOTONIC), used = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    long slept = take_turns();
    long passed = nanoseconds(CLOCK_MONOTONIC) - begin;
    long computed = nanoseconds(CLOCK_THREAD_CPUTIME_ID) - used;
    printf("slept_us %ld\nqueued_us %ld\n", slept / 1000, (passed - computed - slept) / 1000);
    return 0;
}
