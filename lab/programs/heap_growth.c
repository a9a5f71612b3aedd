/* Live memory that remains constant, grows, or rises and falls.
 *
 * Run: `heap_growth flat|linear|sawtooth|unbounded [MS=1500]`.
 *
 * THE KNOWN ANSWER: what the word says, for the whole program and for the function `grows`: flat replaces
 * one of twenty blocks in every step, linear adds 10 KB in every step, sawtooth frees everything eight
 * times, unbounded adds 2.5 % of what it has. The function `steady` is flat in all of them.
 */
#include <time.h>

#include "heap.h"

#define STEPS 300
#define MOST 4096

static struct tally tally;
static char *blocks[MOST];
static size_t sizes[MOST], count;

NEVER_INLINED static void grows(size_t size) {
    if (count == MOST)
        fail("too many blocks");
    blocks[count] = count_alloc(&tally, malloc(size), size);
    memset(blocks[count], 1, size);
    sizes[count++] = size;
}

/* Twenty blocks, one of which is replaced in each step. */
NEVER_INLINED static void steady(size_t step) {
    static char *level[20];
    if (level[step % 20])
        free(count_free(&tally, level[step % 20], 5000));
    level[step % 20] = count_alloc(&tally, malloc(5000), 5000);
}

static void give_back_one(void) {
    count--;
    free(count_free(&tally, blocks[count], sizes[count]));
}

static void give_back(void) {
    while (count > 0)
        give_back_one();
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "linear";
    size_t milliseconds = argc > 2 ? strtoul(argv[2], NULL, 10) : 1500;
    struct timespec pause = {0, milliseconds * 1000000 / STEPS % 1000000000};
    double live = 10000;
    for (size_t step = 0; step < STEPS; step++) {
        steady(step);
        if (!strcmp(how, "flat")) {
            if (count == 20)
                give_back_one();
            grows(10000);
        } else if (!strcmp(how, "linear")) {
            grows(10000);
        } else if (!strcmp(how, "sawtooth")) {
            if (step % (STEPS / 8) == 0)
                give_back();
            grows(10000);
        } else if (!strcmp(how, "unbounded")) {
            double more = live * 0.0251;
            grows(more);
            live += more;
        } else {
            fail("heap_growth flat|linear|sawtooth|unbounded [MS]");
        }
        nanosleep(&pause, NULL);
    }
    claim_heap(&tally);
}
