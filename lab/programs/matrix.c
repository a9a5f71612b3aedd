// Sums a matrix of 2,000 x 2,000 32-bit numbers along and across memory.
//
// Run: matrix [row|column|both|threads|fork|crash|toggle]
//
// THE KNOWN ANSWER, with lines of 64 bytes and a first-level cache of 32 or 48 KiB: by_row misses 250,000 times, once
// per 16 numbers; by_column misses 4,000,000 times, once per number.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIDE = 2000 };
static uint32_t *matrix;

__attribute__((noinline)) uint64_t by_row(void) {
    uint64_t sum = 0;
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++)
            sum += matrix[row * SIDE + column]; // along
    return sum;
}

__attribute__((noinline)) uint64_t by_column(void) {
    uint64_t sum = 0;
    for (int column = 0; column < SIDE; column++)
        for (int row = 0; row < SIDE; row++)
            sum += matrix[row * SIDE + column]; // across
    return sum;
}

static void *thread(void *sum) {
    *(uint64_t *)sum = by_column();
    return NULL;
}

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "both";
    uint64_t sum = 0;
    matrix = aligned_alloc(64, SIDE * SIDE * sizeof(uint32_t));
    for (int at = 0; at < SIDE * SIDE; at++)
        matrix[at] = 1;
    if (!strcmp(how, "threads")) {
        pthread_t other;
        uint64_t across = 0;
        pthread_create(&other, NULL, thread, &across);
        sum = by_row();
        pthread_join(other, NULL);
        sum += across;
    } else if (!strcmp(how, "fork")) {
        pid_t child = fork();
        if (child == 0)
            _exit(by_column() == SIDE * SIDE ? 7 : 1);
        sum = by_row();
        waitpid(child, NULL, 0);
    } else {
        if (strcmp(how, "column"))
            sum += by_row();
        if (strcmp(how, "row"))
            sum += by_column();
        if (!strcmp(how, "crash"))
            abort();
    }
    printf("sum %llu\n", (unsigned long long)sum);
    return 0;
}
