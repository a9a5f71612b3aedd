/* Does N thousand steps of the same work: `work 10000`. */
#include <stdlib.h>

int main(int count, char **words) {
    volatile unsigned state = 1;
    long steps = count > 1 ? atol(words[1]) * 1000 : 0;
    for (long step = 0; step < steps; step++) state = state * 1664525u + 1013904223u;
    return 0;
}
