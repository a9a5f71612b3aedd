/* Calls a tiny function of a shared library in a hot loop, so that many samples fall into the PLT stub.
 *
 * Run: `plt [MS=1000]`; linked with `pltlib.c`.
 *
 * THE KNOWN ANSWER: the time is in tiny_step, in hot_loop and in the stub between them
 * (`tiny_step@plt`, which has no own symbol). The caller of tiny_step and of the stub
 * is always hot_loop, and main calls hot_loop: over 99 % of the time is under hot_loop.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CALLS_PER_MS 340000ull

uint64_t tiny_step(uint64_t x);

__attribute__((noinline, noclone)) uint64_t hot_loop(uint64_t calls) {
    uint64_t x = 1;
    for (; calls > 0; calls--) {
        x = tiny_step(x);
    }
    return x;
}

int main(int argc, char **argv) {
    uint64_t calls = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1000) * CALLS_PER_MS;
    puts(hot_loop(calls) ? "least hot_loop=0.97" : "zero");
    printf("calls %llu\n", (unsigned long long)calls);
}
