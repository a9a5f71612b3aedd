/* A C function that ends in a tail call, so that it is not on the stack while its callee runs.
 *
 * Run: `tailcall [MS=1000]`.
 *
 * THE KNOWN ANSWER (optimised builds): before 25 %, after 75 %. `before` ends with a jump to `after`, so stacks
 * of `after` are after < entry < main; `before` is never a caller. An unoptimised build has before between them.
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

NEVER_INLINED uint64_t after(uint64_t unit, uint64_t x) {
    volatile uint64_t result; /* A leaf that uses its stack has a frame pointer if the build has those. */
    SPIN(3 * unit, x, 13, 7, 17)
    result = x;
    return result;
}

NEVER_INLINED uint64_t before(uint64_t unit, uint64_t x) {
    SPIN(unit, x, 11, 9, 19)
    return after(unit, x);
}

NEVER_INLINED uint64_t entry(uint64_t unit, uint64_t x) {
    return before(unit, x) | 1;
}

int main(int argc, char **argv) {
    uint64_t left = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1000) * STEPS_PER_MS / 4, x = 1;
    while (left > 0) {
        uint64_t unit = 3000 + x % 4096;
        unit = unit < left ? unit : left;
        x = entry(unit, x);
        left -= unit;
    }
    puts(x ? "truth before=0.25 after=0.75" : "zero");
}
