// Two threads that wake each other through pipes as fast as they can: every read waits. Both are bound to one CPU. Across CPUs they are
// much slower, and any program that keeps the other CPU busy would make them faster.
#define _GNU_SOURCE
// Run: switches ROUNDS [PAUSE_US]: PAUSE_US of work between two rounds lowers the rate. Prints how long it took.
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int there[2], back[2];
static long rounds, pause_us;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void *answer(void *unused) {
    char byte;
    for (long i = 0; i < rounds; i++) {
        if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1) exit(1);
    }
    return unused;
}

int main(int argc, char **argv) {
    rounds = argc > 1 ? atol(argv[1]) : 100000;
    pause_us = argc > 2 ? atol(argv[2]) : 0;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof one, &one)) return 1;
    if (pipe(there) || pipe(back)) return 1;
    pthread_t other;
    pthread_create(&other, NULL, answer, NULL);
    uint64_t start = now_ns();
    char byte = 'x';
    for (long i = 0; i < rounds; i++) {
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) return 1;
        for (uint64_t until = now_ns() + pause_us * 1000; pause_us && now_ns() < until;) {
        }
    }
    printf("took_ns %llu\n", (unsigned long long)(now_ns() - start));
    pthread_join(other, NULL);
    return 0;
}
