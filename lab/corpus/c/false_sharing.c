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
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if (!(state & 1))
            continue;
        if (slow)
            atomic_fetch_add_explicit(&close_by[thread], 1, memory_order_relaxed);
        else
            own++;
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
