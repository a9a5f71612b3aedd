/* Two threads count in neighbouring fields of one cache line. */
/* planted: atomic-traffic */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static struct { _Atomic long count; char gap[56]; } apart[2] __attribute__((aligned(64)));
static _Atomic long close_by[2] __attribute__((aligned(64)));
static int slow;

static void *count(void *which) {
    long thread = (long)which;
    _Atomic long *counter = slow ? &close_by[thread] : &apart[thread].count;
    unsigned long state = (unsigned long)thread + 1;
    for (int at = 0; at < 25000000; at++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if (state & 1)
            atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
    }
    return NULL;
}

int main(int words, char **arguments) {
    slow = words > 1 && !strcmp(arguments[1], "slow");
    pthread_t threads[2];
    for (long thread = 0; thread < 2; thread++)
        pthread_create(&threads[thread], NULL, count, (void *)thread);
    for (int thread = 0; thread < 2; thread++)
        pthread_join(threads[thread], NULL);
    printf("%ld\n", close_by[0] + close_by[1] + apart[0].count + apart[1].count);
}
