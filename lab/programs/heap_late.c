/* Libraries with an allocator that are loaded while the program runs, unloaded, and loaded again, while another thread allocates.
 *
 * Run: `heap_late [ROUNDS=40]`. The libraries are in the program's folder as
 * `libheap_late_named-VARIANT.so` and `libheap_late_own-VARIANT.so` if the program is `heap_late-VARIANT`.
 *
 * THE KNOWN ANSWER: the numbers that it prints. A library frees what it keeps when it is unloaded.
 */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "heap.h"

typedef void use(struct tally *);

static atomic_int enough;
static struct tally other;

NEVER_INLINED static void *meanwhile(void *unused) {
    for (size_t i = 0; !enough || i < 1000; i++) {
        size_t size = 1 + i % 100;
        free(count_free(&other, count_alloc(&other, malloc(size), size), size));
    }
    return unused;
}

static void load_and_use(const char *folder, const char *library, const char *variant, struct tally *t) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.2000s/libheap_late_%s%.2000s.so", folder, library, variant);
    void *handle = dlopen(path, RTLD_NOW);
    use *entry = handle ? (use *)dlsym(handle, "use_library") : NULL;
    if (!entry)
        fail(dlerror());
    entry(t);
    dlclose(handle);
}

int main(int argc, char **argv) {
    size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 40;
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    char *name = strrchr(path, '/'), *variant = name ? strstr(name, "heap_late") : NULL;
    if (!variant)
        fail("the program must be called heap_late-VARIANT");
    *name = 0;
    variant += strlen("heap_late");
    pthread_t thread;
    if (pthread_create(&thread, NULL, meanwhile, NULL))
        fail("no thread");
    struct tally named[2] = {0}, own = {0};
    for (size_t round = 0; round < rounds; round++) {
        load_and_use(path, "named", variant, named);
        load_and_use(path, "own", variant, &own);
    }
    enough = 1;
    pthread_join(thread, NULL);
    claim_site("named_uses_mi", &named[0]);
    claim_site("named_uses_je", &named[1]);
    claim_site("own_uses", &own);
    claim_site("meanwhile", &other);
    SAY("site named_starts allocations=%zu bytes_allocated=%zu live_at_exit_blocks=0\n", rounds, rounds * 500);
}
