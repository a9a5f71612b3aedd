/* A quicksort by hand: it calls itself, and nothing about it is wasteful. */
/* planted: nothing */
#include <stdio.h>
#include <stdlib.h>

static void sort(int *from, int *to) {
    while (to - from > 1) {
        int pivot = from[(to - from) / 2], *left = from, *right = to - 1;
        while (left <= right) {
            while (*left < pivot) left++;
            while (*right > pivot) right--;
            if (left <= right) {
                int swap = *left;
                *left++ = *right;
                *right-- = swap;
            }
        }
        sort(from, right + 1);
        from = left;
    }
}

int main(void) {
    enum { LENGTH = 1000000 };
    int *values = malloc(LENGTH * sizeof *values);
    unsigned state = 1;
    long sum = 0;
    for (int round = 0; round < 8; round++) {
        for (int at = 0; at < LENGTH; at++) {
            state = state * 1103515245u + 12345u;
            values[at] = (int)(state >> 1);
        }
        sort(values, values + LENGTH);
        sum += values[LENGTH / 2];
    }
    printf("%ld\n", sum);
    free(values);
}
