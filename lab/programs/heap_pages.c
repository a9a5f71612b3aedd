/* A heap of its own, in mapped pages that point to blocks, of which only a part is unmapped at the end.
 *
 * Run: `heap_pages [system|up]`. Eight pages are mapped one by one; `old` allocates the blocks of the first four,
 * `new` those of the last four. At the end the program unmaps the four with the lowest addresses, as ruby 3.1 does
 * with its pages. By default the kernel maps from the top down, so these are the new ones. With `up` the program
 * executes itself with a layout from the bottom up, which is also what Valgrind has: then they are the old ones.
 *
 * THE KNOWN ANSWER: what the mapped pages point to is reachable, and the rest is lost. So the sums are the same in both
 * layouts, and the functions are not.
 */
#include <sys/mman.h>
#include <sys/personality.h>

#include "heap.h"

enum { PAGES = 8, BLOCKS = 100, SIZE = 48, PAGE_BYTES = 16384 };

struct site {
    const char *name;
    struct tally tally;
    uint64_t lost, reachable;
};

/* The only pointers to the pages are complements: pages are roots in themselves. */
static uintptr_t pages[PAGES];
static struct site sites[2] = {{.name = "old"}, {.name = "new"}};

NEVER_INLINED static void *old(void) { return count_alloc(&sites[0].tally, calloc(1, SIZE), SIZE); }
NEVER_INLINED static void *new(void) { return count_alloc(&sites[1].tally, calloc(1, SIZE), SIZE); }

NEVER_INLINED static void fill(int page) {
    void **words = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (words == MAP_FAILED)
        fail("no memory");
    for (int i = 0; i < BLOCKS; i++)
        words[i] = page < PAGES / 2 ? old() : new();
    pages[page] = ~(uintptr_t)words;
}

static int is_low(int page) {
    int lower = 0;
    for (int i = 0; i < PAGES; i++)
        lower += ~pages[i] < ~pages[page];
    return lower < PAGES / 2;
}

NEVER_INLINED static void unmap_low(void) {
    for (int i = 0; i < PAGES; i++) {
        struct site *site = &sites[i >= PAGES / 2];
        if (is_low(i)) {
            site->lost += BLOCKS;
            munmap((void *)~pages[i], PAGE_BYTES);
        } else {
            site->reachable += BLOCKS;
        }
    }
}

NEVER_INLINED static void forget(void) {
    newest = 0;
    volatile char dead[32768];
    for (size_t i = 0; i < sizeof dead; i++)
        dead[i] = 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "up")) {
        if (personality(ADDR_COMPAT_LAYOUT) == -1)
            fail("no other layout");
        execl("/proc/self/exe", argv[0], NULL);
        fail("no exec");
    }
    for (int i = 0; i < PAGES; i++)
        fill(i);
    unmap_low();
    struct tally sum = {0};
    uint64_t lost = 0, reachable = 0;
    for (int i = 0; i < 2; i++) {
        struct site *site = &sites[i];
        add(&sum, &site->tally);
        lost += site->lost;
        reachable += site->reachable;
        SAY("site %s " TALLY " leaks.definitely.blocks=%ju leaks.reachable.blocks=%ju\n", site->name, TALLIED(&site->tally),
            site->lost, site->reachable);
    }
    claim_heap_without_peak(&sum);
    SAY("heap leaks.definitely.blocks=%ju leaks.definitely.bytes=%ju leaks.reachable.blocks=%ju leaks.reachable.bytes=%ju\n",
        lost, lost * SIZE, reachable, reachable * SIZE);
    forget();
    exit(0);
}
