/* Two threads count in neighbouring atomics of one cache line, and not in variables of their own. */
/* planted: atomic-traffic */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static _Atomic long close_by[2] __attribute__((aligned(64)));
static int slow;

static void *count(void *which) {
    long thread = (long)which;
    long own = 0;
    unsigned long state = (unsigned long)thread + 1;
    for (int at = 0; at < 25000000; at++) {
        state = state * 6364136223846793005ul + 1;
        if (slow)
            atomic_fetch_add_explicit(&close_by[thread], (long)(state >> 63), memory_order_relaxed);
        else
            own += (long)(state >> 63);
    }
    close_by[thread] += own;
    return NULL;
}

int main(int words, char **arguments) {
    slow = words > 1 && !strcmp(arguments[1], "slow");
    pthread_t threads[2];
    for (long thread = 0; thread < 2; thread++)
        pthread_create(&threads[thread], NULL, count, (void *)thread);
    for (int thread = 0; thread < 2; thread++)
        pthread_join(threads[thread], NULL);
    printf("%ld\n", close_by[0] + close_by[1]);
}
