/* Blocks that are mostly never written.
 *
 * Run: `heap_unused`.
 *
 * THE KNOWN ANSWER: the numbers that it prints: bytes that each function requested, and how many of them
 * were never written. Half of the blocks are freed, the others are live until the end. Blocks above 4 MiB
 * are not checked. The program never writes the same byte twice in a row, so that no pattern can hide it.
 */
#include "heap.h"

#define TIMES 10

void *kept[4 * TIMES + 1];
static uint64_t unused[4], asked[5];

static void fill(unsigned char *block, size_t from, size_t to) {
    for (size_t i = from; i < to; i++)
        ((volatile unsigned char *)block)[i] = 1 + i % 7 * 31;
}

static void settle(int kind, int i, unsigned char *block, size_t size, size_t used) {
    unused[kind] += size - used;
    if (i % 2)
        free(hidden(block));
    else
        kept[kind * TIMES + i] = hidden(block);
}

/* Different code, or the compiler would merge the functions. */
#define MAKER(name, number)                                                                                            \
    NEVER_INLINED static unsigned char *name(size_t size) {                                                            \
        unsigned char *block = hidden(malloc(size));                                                                   \
        asked[number] += size;                                                                                         \
        return block;                                                                                                  \
    }
MAKER(large_buffer, 0)
MAKER(never_touched, 1)
MAKER(half_filled, 2)
MAKER(all_filled, 3)
MAKER(beyond_reach, 4)

int main(void) {
    for (int i = 0; i < TIMES; i++) {
        size_t size = 100 + 8 * i;
        unsigned char *block = large_buffer(1 << 20);
        fill(block, 0, 100);
        settle(0, i, block, 1 << 20, 100);
        block = never_touched(size);
        settle(1, i, block, size, 0);
        block = half_filled(2 * size);
        fill(block, 0, size);
        settle(2, i, block, 2 * size, size);
        block = all_filled(size);
        fill(block, 0, size);
        settle(3, i, block, size, size);
    }
    enum { BEYOND = 8 << 20 };
    kept[4 * TIMES] = beyond_reach(BEYOND);
    free(beyond_reach(BEYOND));
    const char *names[] = {"large_buffer", "never_touched", "half_filled", "all_filled"};
    for (int kind = 0; kind < 4; kind++)
        SAY("site %s allocations=%d examined_bytes=%ju unused_bytes=%ju\n", names[kind], TIMES, asked[kind], unused[kind]);
    SAY("site beyond_reach allocations=2 examined_bytes=0 unused_bytes=0 passed_over_blocks=2 passed_over_bytes=%ju\n", asked[4]);
}
