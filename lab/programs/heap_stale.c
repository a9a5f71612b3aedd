/* Loses blocks whose addresses remain in old stack frames: on the part of the
 * stack that is unused at the end, which the functions that end the program reuse.
 *
 * Run: `heap_stale [exit|_exit|quick_exit|return]`.
 *
 * THE KNOWN ANSWER: all 64 blocks of 48 bytes are definitely lost, as memcheck says.
 */
#include "heap.h"

#define BLOCKS 64

static struct tally tally;
static void (*volatile end)(int);

/* Leaves the addresses in many places below its caller's frame. */
NEVER_INLINED static void loses(void) {
    void *volatile places[32 * BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        places[i] = count_alloc(&tally, calloc(1, 48), 48);
    newest = 0;
    for (int i = BLOCKS; i < 32 * BLOCKS; i++)
        places[i] = places[i % BLOCKS];
}

int main(int argc, char **argv) {
    const char *way = argc > 1 ? argv[1] : "exit";
    SAY("heap leaks.definitely.blocks=64 leaks.definitely.bytes=3072\n");
    end = !strcmp(way, "quick_exit") ? quick_exit : !strcmp(way, "_exit") ? _exit : exit;
    int returns = !strcmp(way, "return");
    loses();
    if (returns)
        return 0;
    end(0);
}
