/* The library of `plt`: one function so short that the way into it costs as much as itself.
 *
 * THE KNOWN ANSWER: see plt.c.
 */
#include <stdint.h>

uint64_t tiny_step(uint64_t x) {
    return x + 1;
}
