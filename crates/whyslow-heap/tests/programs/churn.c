// Starts and ends threads and gets queued signals all the time. At the end it prints how many signals arrived: none may be lost.
// Lines as in leaks.c; the argument "wait" is ignored.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIGNALS = 2000 };
static void *kept;
static atomic_int received, done;

static void handler(int signal) { atomic_fetch_add(&received, 1); }

static void *short_lived(void *unused) {
    void *volatile blocks[16];
    for (int at = 0; at < 16; at++) blocks[at] = calloc(1, 100 + at);
    for (int at = 0; at < 16; at++) free(blocks[at]);
    return 0;
}

static void *sender(void *unused) {
    for (int sent = 0; sent < SIGNALS;) {
        if (sigqueue(getpid(), SIGRTMIN, (union sigval){ 0 }) == 0) sent++;
        usleep(200);
    }
    // Until its input ends, which the test closes after its checks.
    char byte;
    while (read(0, &byte, 1) > 0) {}
    atomic_store(&done, 1);
    return 0;
}

__attribute__((noinline)) static void make(void) {
    char line[64];
    // The size ends before the next header: threads inside malloc have pointers to headers.
    kept = calloc(1, 32);
    void *lost = calloc(1, 32);
    int length = snprintf(line, sizeof line, "%lx 32 R\n%lx 32 D\n", (unsigned long)kept, (unsigned long)lost);
    if (write(1, line, length) != length) _exit(9);
}

__attribute__((noinline)) static void scrub(void) {
    volatile char stale[16384];
    for (size_t at = 0; at < sizeof stale; at++) stale[at] = 0;
}

int main(void) {
    signal(SIGRTMIN, handler);
    make();
    scrub();
    if (write(1, "ready\n", 6) != 6) return 9;
    pthread_t sending;
    if (pthread_create(&sending, 0, sender, 0)) return 9;
    while (!atomic_load(&done)) {
        pthread_t threads[4];
        for (int at = 0; at < 4; at++)
            if (pthread_create(&threads[at], 0, short_lived, 0)) return 9;
        for (int at = 0; at < 4; at++) pthread_join(threads[at], 0);
    }
    for (int tries = 0; tries < 60000 && atomic_load(&received) < SIGNALS; tries++) usleep(1000);
    printf("%d signals\n", atomic_load(&received));
    return 0;
}
