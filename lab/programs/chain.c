/* A chain of C functions. Each does work itself and calls the next.
 *
 * Run: `chain [MS=1000]`.
 *
 * THE KNOWN ANSWER: self time first 20 %, second 30 %, third 50 %; every stack is a part of third < second <
 * first < main that starts with one of the three. The program needs no frame pointers and has none at -O2.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define STEPS_PER_MS 600000ull
#define NEVER_INLINED __attribute__((noinline, noclone))
/* A serial chain: a step costs the same wherever the loop is. */
#define SPIN(steps, x, a, b, c)                                                                                         \
    for (uint64_t left = (steps); left > 0; left--) {                                                                   \
        x ^= x << a;                                                                                                    \
        x ^= x >> b;                                                                                                    \
        x ^= x << c;                                                                                                    \
    }

NEVER_INLINED uint64_t third(uint64_t unit, uint64_t x) {
    volatile uint64_t result; /* A leaf that uses its stack has a frame pointer if the build has those. */
    SPIN(5 * unit, x, 13, 7, 17)
    result = x;
    return result;
}

NEVER_INLINED uint64_t second(uint64_t unit, uint64_t x) {
    SPIN(3 * unit, x, 11, 9, 19)
    return third(unit, x) | 1;
}

NEVER_INLINED uint64_t first(uint64_t unit, uint64_t x) {
    SPIN(2 * unit, x, 12, 25, 27)
    return second(unit, x) | 3;
}

int main(int argc, char **argv) {
    uint64_t left = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1000) * STEPS_PER_MS / 10, x = 1;
    while (left > 0) {
        uint64_t unit = 3000 + x % 4096;
        unit = unit < left ? unit : left;
        x = first(unit, x);
        left -= unit;
    }
    puts(x ? "truth first=0.2 second=0.3 third=0.5" : "zero");
}
