// One wait of each kind that POSIX threads have, one after the other. The program measures each of them.
//
// Run: pthreads [MS=100]
//
// THE KNOWN ANSWER: the lines `FUNCTION_us N`: the main thread waits N microseconds in FUNCTION: for a mutex, for a lock with one slow writer,
// for a condition, for its turns in a game of ping-pong with 5 ms each, and for the only CPU, which it shares with another busy thread.

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long ms = 100;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static int ready, turn;

static long microseconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void sleep_ms(long time) {
    usleep(time * 1000);
}

static void spin_us(long time) {
    long end = microseconds(CLOCK_MONOTONIC) + time;
    while (microseconds(CLOCK_MONOTONIC) < end) {
    }
}

static void *holds_mutex(void *unused) {
    pthread_mutex_lock(&mutex);
    ready = 1;
    sleep_ms(ms + 5);
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void *writes(void *unused) {
    pthread_rwlock_wrlock(&rwlock);
    ready = 1;
    sleep_ms(ms + 5);
    pthread_rwlock_unlock(&rwlock);
    return unused;
}

static void *signals(void *unused) {
    sleep_ms(ms);
    pthread_mutex_lock(&held);
    ready = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&held);
    return unused;
}

// Waits for its turn, keeps it for 5 ms, and passes it on.
static long play(int me, long rounds) {
    long waited = 0;
    for (long round = 0; round < rounds; round++) {
        long start = microseconds(CLOCK_MONOTONIC);
        pthread_mutex_lock(&held);
        while (turn != me) {
            pthread_cond_wait(&condition, &held);
        }
        pthread_mutex_unlock(&held);
        waited += microseconds(CLOCK_MONOTONIC) - start;
        spin_us(5000);
        pthread_mutex_lock(&held);
        turn = !me;
        pthread_cond_broadcast(&condition);
        pthread_mutex_unlock(&held);
    }
    return waited;
}

static void *plays(void *unused) {
    play(1, ms / 5);
    return unused;
}

static void *is_busy(void *unused) {
    spin_us(ms * 2000);
    return unused;
}

// Starts a thread, and waits without leaving the CPU until that thread holds what it should hold.
static pthread_t start(void *(*function)(void *), int until_ready) {
    pthread_t thread;
    ready = 0;
    pthread_create(&thread, NULL, function, NULL);
    while (until_ready && !*(volatile int *)&ready) {
        spin_us(100);
    }
    return thread;
}

__attribute__((noinline)) static long wait_mutex(void) {
    pthread_t other = start(holds_mutex, 1);
    long begin = microseconds(CLOCK_MONOTONIC);
    pthread_mutex_lock(&mutex);
    long waited = microseconds(CLOCK_MONOTONIC) - begin;
    pthread_mutex_unlock(&mutex);
    pthread_join(other, NULL);
    return waited;
}

__attribute__((noinline)) static long wait_rwlock(void) {
    pthread_t other = start(writes, 1);
    long begin = microseconds(CLOCK_MONOTONIC);
    pthread_rwlock_rdlock(&rwlock);
    long waited = microseconds(CLOCK_MONOTONIC) - begin;
    pthread_rwlock_unlock(&rwlock);
    pthread_join(other, NULL);
    return waited;
}

__attribute__((noinline)) static long wait_condition(void) {
    pthread_t other = start(signals, 0);
    long begin = microseconds(CLOCK_MONOTONIC);
    pthread_mutex_lock(&held);
    while (!ready) {
        pthread_cond_wait(&condition, &held);
    }
    pthread_mutex_unlock(&held);
    long waited = microseconds(CLOCK_MONOTONIC) - begin;
    pthread_join(other, NULL);
    return waited;
}

__attribute__((noinline)) static long wait_pingpong(void) {
    turn = 1;
    pthread_t other = start(plays, 0);
    long waited = play(0, ms / 5);
    pthread_join(other, NULL);
    return waited;
}

// Both threads want one CPU: wall time minus CPU time is spent in the run queue.
__attribute__((noinline)) static long wait_cpu(void) {
    long begin = microseconds(CLOCK_MONOTONIC), used = microseconds(CLOCK_THREAD_CPUTIME_ID);
    spin_us(ms * 2000);
    return microseconds(CLOCK_MONOTONIC) - begin - (microseconds(CLOCK_THREAD_CPUTIME_ID) - used);
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
    printf("wait_mutex_us %ld\n", wait_mutex());
    printf("wait_rwlock_us %ld\n", wait_rwlock());
    printf("wait_condition_us %ld\n", wait_condition());
    printf("wait_pingpong_us %ld\n", wait_pingpong());
    use_one_cpu();
    pthread_t other = start(is_busy, 0);
    printf("wait_cpu_us %ld\n", wait_cpu());
    pthread_join(other, NULL);
    return 0;
}
