// Four threads and one lock, or two threads and a barrier, as causal_lock and causal_barrier, with POSIX threads.
//
// Run: causal_pthread lock|barrier [--units N=1000] [--seconds S] [--scale FUNCTION=FACTOR]…; functions: long_section,
// short_section, outside; work_a, work_b.
//
// THE KNOWN ANSWER: lock: a unit is one round of one thread: 0.4 ms of `long_section` with the mutex held, 0.2 ms of `outside` without it,
// 0.1 ms of `short_section` with it. barrier: a unit is a round, as long as `work_a` (2 ms), until that is as short as `work_b` (1 ms).
// Measured by `cargo xtask bench --causal`.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOCK_THREADS = 4, MOST_SCALES = 16 };

static const char *const functions[] = {"long_section", "short_section", "outside", "work_a", "work_b"};
static struct {
    const char *function;
    double factor;
} scales[MOST_SCALES];
static int scale_count;
static uint64_t wanted_units = 1000;
static double wanted_seconds = 1e9;
static struct timespec begin;
static uint64_t units;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
// The last round of `barrier`, as soon as it is known.
static uint64_t last_round = UINT64_MAX;

// The whole loop is at the line where the macro stands.
#define COMPUTE(steps, tag)                                                                                                                    \
    do {                                                                                                                                       \
        uint64_t x = (steps) | 1;                                                                                                              \
        for (uint64_t left = (steps); left > 0; left--) {                                                                                      \
            x ^= x << 13;                                                                                                                      \
            x ^= x >> 7;                                                                                                                       \
            x ^= x << 17;                                                                                                                      \
        }                                                                                                                                      \
        __asm__ volatile("" ::"r"(x), "i"(tag));                                                                                               \
    } while (0)

#define NEVER_INLINED __attribute__((noinline, noclone, noipa))

NEVER_INLINED static void long_section(uint64_t steps) {
    COMPUTE(steps, 1);
}

NEVER_INLINED static void short_section(uint64_t steps) {
    COMPUTE(steps, 2);
}

NEVER_INLINED static void outside(uint64_t steps) {
    COMPUTE(steps, 3);
}

NEVER_INLINED static void work_a(uint64_t steps) {
    COMPUTE(steps, 4);
}

NEVER_INLINED static void work_b(uint64_t steps) {
    COMPUTE(steps, 5);
}

// The memory that a profiler with coz's protocol gives for a counter.
struct counter {
    size_t count;
    size_t unused;
};

// One unit of progress is done. Returns how many are done.
NEVER_INLINED static uint64_t progress_unit(void) {
    static struct counter *counter;
    static int was_sought;
    if (!__atomic_load_n(&was_sought, __ATOMIC_ACQUIRE)) {
        void *symbol = dlsym(RTLD_DEFAULT, "_coz_get_counter");
        struct counter *(*get)(int, const char *);
        memcpy(&get, &symbol, sizeof get);
        __atomic_store_n(&counter, get ? get(1, "unit") : NULL, __ATOMIC_RELAXED);
        __atomic_store_n(&was_sought, 1, __ATOMIC_RELEASE);
    }
    struct counter *found = __atomic_load_n(&counter, __ATOMIC_RELAXED);
    if (found) {
        __atomic_add_fetch(&found->count, 1, __ATOMIC_RELAXED);
    }
    return __atomic_add_fetch(&units, 1, __ATOMIC_RELAXED);
}

static double elapsed(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - begin.tv_sec) + (double)(now.tv_nsec - begin.tv_nsec) / 1e9;
}

static int goes_on(uint64_t done) {
    return done < wanted_units && elapsed() < wanted_seconds;
}

// The work of a function in steps: about `microseconds` of CPU time at 3.6 GHz, times its factor.
static uint64_t work(const char *function, double microseconds) {
    double steps = microseconds * 600;
    for (int i = 0; i < scale_count; i++) {
        if (strcmp(scales[i].function, function) == 0) {
            steps *= scales[i].factor;
        }
    }
    return (uint64_t)steps;
}

// The lengths of rounds differ by up to a quarter, so that no sampling clock falls into step.
static uint64_t in_round(uint64_t steps, uint64_t round) {
    uint64_t mixed = ((round + 1) * 0x9e3779b97f4a7c15) >> 32;
    return steps * (768 + mixed % 513) / 1024;
}

static void *locks(void *number) {
    uint64_t long_steps = work("long_section", 400), short_steps = work("short_section", 100), free_steps = work("outside", 200);
    for (uint64_t round = (uintptr_t)number;; round += LOCK_THREADS) {
        pthread_mutex_lock(&mutex);
        long_section(in_round(long_steps, round));
        pthread_mutex_unlock(&mutex);
        outside(in_round(free_steps, round));
        pthread_mutex_lock(&mutex);
        short_section(in_round(short_steps, round));
        pthread_mutex_unlock(&mutex);
        if (!goes_on(progress_unit())) {
            return NULL;
        }
    }
}

static void *meets_b(void *unused) {
    uint64_t steps = work("work_b", 1000);
    for (uint64_t round = 0;; round++) {
        work_b(in_round(steps, round));
        pthread_barrier_wait(&barrier);
        if (round >= __atomic_load_n(&last_round, __ATOMIC_RELAXED)) {
            return unused;
        }
    }
}

static void *meets_a(void *unused) {
    uint64_t steps = work("work_a", 2000);
    for (uint64_t round = 0;; round++) {
        work_a(in_round(steps, round));
        if (!goes_on(round + 1)) {
            __atomic_store_n(&last_round, round, __ATOMIC_RELAXED);
        }
        pthread_barrier_wait(&barrier);
        progress_unit();
        if (round >= __atomic_load_n(&last_round, __ATOMIC_RELAXED)) {
            return unused;
        }
    }
}

static void fail(const char *why, const char *what) {
    fprintf(stderr, "%s: %s\n", why, what);
    exit(2);
}

static void add_scale(char *text) {
    char *factor = strchr(text, '=');
    if (!factor || scale_count == MOST_SCALES) {
        fail("not FUNCTION=FACTOR, or too many", text);
    }
    *factor = 0;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (strcmp(functions[i], text) == 0) {
            scales[scale_count].function = text;
            scales[scale_count++].factor = atof(factor + 1);
            return;
        }
    }
    fail("no such function", text);
}

int main(int count, char **arguments) {
    if (count < 2 || count % 2) {
        fail("usage", "causal_pthread lock|barrier [--units N] [--seconds S] [--scale FUNCTION=FACTOR]");
    }
    for (int i = 2; i < count; i += 2) {
        if (strcmp(arguments[i], "--units") == 0) {
            wanted_units = strtoull(arguments[i + 1], NULL, 10);
        } else if (strcmp(arguments[i], "--seconds") == 0) {
            wanted_units = UINT64_MAX;
            wanted_seconds = atof(arguments[i + 1]);
        } else if (strcmp(arguments[i], "--scale") == 0) {
            add_scale(arguments[i + 1]);
        } else {
            fail("no such option", arguments[i]);
        }
    }
    int has_lock = strcmp(arguments[1], "lock") == 0;
    if (!has_lock && strcmp(arguments[1], "barrier") != 0) {
        fail("neither lock nor barrier", arguments[1]);
    }
    pthread_barrier_init(&barrier, NULL, 2);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    pthread_t threads[LOCK_THREADS];
    int thread_count = has_lock ? LOCK_THREADS : 2;
    for (int i = 0; i < thread_count; i++) {
        void *(*body)(void *) = has_lock ? locks : i == 0 ? meets_a : meets_b;
        pthread_create(&threads[i], NULL, body, (void *)(uintptr_t)i);
    }
    for (int i = 0; i < thread_count; i++) {
        pthread_join(threads[i], NULL);
    }
    double seconds = elapsed();
    printf("units %llu\n", (unsigned long long)units);
    printf("ns_per_unit %.0f\n", seconds * 1e9 / (double)units);
    printf("units_per_second %.2f\n", (double)units / seconds);
    return 0;
}
