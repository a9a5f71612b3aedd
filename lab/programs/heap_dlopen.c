/* Plug-ins that allocate, are unloaded, and loaded again, also a different one at the same address.
 *
 * Run: `heap_dlopen [ROUNDS=20]`. The plug-ins are in the program's folder as
 * `libheap_plugin_a-VARIANT.so` and `_b` if the program is `heap_dlopen-VARIANT`.
 *
 * THE KNOWN ANSWER: the numbers that it prints. Plug-ins A and B alternate, and both keep a tenth
 * of their blocks. `same_address` is how often a plug-in was loaded where the other one had been.
 */
#include <dlfcn.h>
#include <limits.h>

#include "heap.h"

#define BLOCKS 50

typedef void *entry(size_t);

static struct tally tallies[2];

NEVER_INLINED static void *use(entry *allocate, int which) {
    void *last = NULL;
    for (size_t i = 0; i < BLOCKS; i++) {
        void *block = count_alloc(&tallies[which], allocate(100 + i), 100 + i);
        if (i % 10)
            free(count_free(&tallies[which], block, 100 + i));
        else
            last = block;
    }
    return last;
}

int main(int argc, char **argv) {
    size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 20, same = 0;
    char path[PATH_MAX], library[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    char *name = strrchr(path, '/'), *variant = name ? strstr(name, "heap_dlopen") : NULL;
    if (!variant)
        fail("the program must be called heap_dlopen-VARIANT");
    *name = 0;
    variant += strlen("heap_dlopen");
    void *before = NULL;
    for (size_t round = 0; round < rounds; round++) {
        int which = round % 2;
        snprintf(library, sizeof library, "%.2000s/libheap_plugin_%c%.2000s.so", path, 'a' + which, variant);
        void *plugin = dlopen(library, RTLD_NOW);
        entry *allocate = plugin ? (entry *)dlsym(plugin, "plugin_entry") : NULL;
        if (!allocate)
            fail(dlerror());
        same += (void *)allocate == before;
        before = (void *)allocate;
        use(allocate, which);
        dlclose(plugin);
    }
    claim_site("a_allocates", &tallies[0]);
    claim_site("b_allocates", &tallies[1]);
    SAY("site a_starts allocations=%zu bytes_allocated=%zu live_at_exit_blocks=0\n", (rounds + 1) / 2, (rounds + 1) / 2 * 500);
    SAY("site b_starts allocations=%zu bytes_allocated=%zu live_at_exit_blocks=0\n", rounds / 2, rounds / 2 * 600);
    SAY("same_address %zu\n", same);
}
