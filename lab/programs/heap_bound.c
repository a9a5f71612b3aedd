/* A library that the loader binds to libc itself (RTLD_DEEPBIND), past anything preloaded, in threads that end.
 *
 * Run: `heap_bound [ROUNDS=20]`. The library is in the program's folder as `libheap_bound_library-VARIANT.so` if
 * the program is `heap_bound-VARIANT`.
 *
 * THE KNOWN ANSWER: the numbers that it prints. The library frees blocks of the program, and the program blocks of
 * the library. Every thread leaves freed blocks in libc's cache, which libc releases when the thread ends.
 */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>

#include "heap.h"

typedef void use(struct tally *);
typedef void *swap(void *);

static use *library_uses;
static swap *library_swaps;
static struct tally of_library[2], of_program;

NEVER_INLINED static void *program_allocates(void) { return count_alloc(&of_program, malloc(70), 70); }

static void program_swaps(void) {
    void *taken = library_swaps(count_free(&of_program, program_allocates(), 70));
    free(count_free(of_library, count_alloc(of_library, taken, 80), 80));
}

static void *in_thread(void *unused) {
    newest = 0; /* the C library allocates room for it at its first use */
    library_uses(of_library);
    program_swaps();
    return unused;
}

int main(int argc, char **argv) {
    size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 20;
    char path[PATH_MAX], library[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    char *name = strrchr(path, '/'), *variant = name ? strstr(name, "heap_bound") : NULL;
    if (!variant)
        fail("the program must be called heap_bound-VARIANT");
    *name = 0;
    variant += strlen("heap_bound");
    snprintf(library, sizeof library, "%.2000s/libheap_bound_library%.2000s.so", path, variant);
    void *handle = dlopen(library, RTLD_NOW | RTLD_DEEPBIND);
    library_uses = handle ? (use *)dlsym(handle, "use_library") : NULL;
    library_swaps = handle ? (swap *)dlsym(handle, "swap_block") : NULL;
    if (!library_uses || !library_swaps)
        fail(dlerror());
    for (size_t round = 0; round < rounds; round++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, in_thread, NULL) || pthread_join(thread, NULL))
            fail("no thread");
    }
    claim_site("library_allocates", &of_library[0]);
    claim_site("library_grows", &of_library[1]);
    claim_site("program_allocates", &of_program);
}
