/* Works on a separate stack, created with makecontext.
 *
 * Run: `coroutine [MS=1000]`.
 *
 * THE KNOWN ANSWER: on_main 25 %, under main; on_own 75 %, and its stacks are complete: on_own < body < the C library's
 * code that a coroutine ends in. The code that entered the coroutine is not its caller: main is not on those stacks.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#define STEPS_PER_MS 600000ull
#define NEVER_INLINED __attribute__((noinline, noclone))
#define SPIN(steps, x, a, b, c)                                                                                         \
    for (uint64_t left = (steps); left > 0; left--) {                                                                   \
        x ^= x << a;                                                                                                    \
        x ^= x >> b;                                                                                                    \
        x ^= x << c;                                                                                                    \
    }

static ucontext_t main_context, own_context;
static char stack[64 << 10];
static uint64_t unit;
static volatile uint64_t result = 1;

NEVER_INLINED static void on_main(void) {
    uint64_t x = result;
    SPIN(unit, x, 13, 7, 17)
    result = x;
}

NEVER_INLINED static void on_own(void) {
    uint64_t x = result;
    SPIN(3 * unit, x, 11, 9, 19)
    result = x;
}

NEVER_INLINED static void body(void) {
    for (;;) {
        on_own();
        swapcontext(&own_context, &main_context);
    }
}

int main(int argc, char **argv) {
    unit = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1000) * STEPS_PER_MS / 40;
    getcontext(&own_context);
    own_context.uc_stack.ss_sp = stack;
    own_context.uc_stack.ss_size = sizeof stack;
    own_context.uc_link = &main_context;
    makecontext(&own_context, body, 0);
    for (int round = 0; round < 10; round++) {
        on_main();
        swapcontext(&main_context, &own_context);
    }
    printf("truth on_main=0.25000 on_own=0.75000\n");
}
