/* A million blocks that are live when the program exits.
 *
 * Run: `heap_blocks [BLOCKS=1000000]`. The blocks form a list of lists; every hundredth block is lost.
 *
 * THE KNOWN ANSWER: the numbers that it prints.
 */
#include "heap.h"

#define SIZE 32

struct block {
    struct block *next, *child;
};

struct block *first;

NEVER_INLINED static struct block *block(struct tally *t) { return count_alloc(t, calloc(1, SIZE), SIZE); }

int main(int argc, char **argv) {
    size_t count = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000, lost = 0;
    struct tally tally = {0};
    struct block *last = first = block(&tally);
    for (size_t i = 1; i < count; i++) {
        struct block *new = block(&tally);
        if (i % 100 == 99) {
            lost++;
        } else if (i % 10) {
            new->next = last->child;
            last->child = new;
        } else {
            last->next = new;
            last = new;
        }
    }
    newest = 0;
    claim_heap(&tally);
    SAY("heap leaks.definitely.blocks=%zu leaks.definitely.bytes=%zu leaks.reachable.blocks=%zu leaks.reachable.bytes=%zu\n",
        lost, lost * SIZE, count - lost, (count - lost) * SIZE);
    last = NULL;
    hidden(last);
    exit(0);
}
