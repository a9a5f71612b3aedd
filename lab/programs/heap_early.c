/* Allocations before main and after it: in constructors, exit handlers, destructors, and as threads exit.
 *
 * Run: `heap_early`.
 *
 * THE KNOWN ANSWER: every function in the list below allocates 10 blocks of its own size and frees 7 of them.
 */
#include <pthread.h>

#include "heap.h"

/* Frees all but three of its blocks. Each place has its own function around this. */
__attribute__((always_inline)) static inline void ten_blocks(size_t size) {
    void *blocks[10];
    for (int i = 0; i < 10; i++)
        blocks[i] = hidden(malloc(size));
    for (int i = 0; i < 7; i++)
        free(hidden(blocks[i]));
}

#define PLACES(X)                                                                                                      \
    X(in_preinit, 100) X(in_first_constructor, 200) X(in_constructor, 300) X(in_main, 400) X(in_thread, 500)           \
    X(in_thread_key, 600) X(in_late_thread_key, 700) X(in_thread_destructor, 800) X(in_exit_handler, 900)              \
    X(in_destructor, 1000) X(in_last_destructor, 1100)

#define PLACE(name, size)                                                                                              \
    NEVER_INLINED static void name(void) {                                                                             \
        ten_blocks(size);                                                                                              \
        hidden(NULL);                                                                                                  \
    }
PLACES(PLACE)

#ifdef __GLIBC__
/* Before the constructors of any library. */
static void preinit(int argc, char **argv, char **environment) {
    (void)argc, (void)argv, (void)environment;
    in_preinit();
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit_entry)(int, char **, char **) = preinit;
#define PREINIT 1
#else
#define PREINIT 0
#endif

__attribute__((constructor(101))) static void first_constructor(void) {
    /* For C libraries such as musl that call nothing earlier. */
    if (!PREINIT)
        in_preinit();
    in_first_constructor();
}
__attribute__((constructor)) static void constructor(void) { in_constructor(); }
__attribute__((destructor)) static void destructor(void) { in_destructor(); }
__attribute__((destructor(101))) static void last_destructor(void) { in_last_destructor(); }

static void exit_handler(void) { in_exit_handler(); }

static pthread_key_t key;

/* Called once more, because it sets a new value itself. */
static void key_ends(void *value) {
    if (value == &key) {
        in_thread_key();
        pthread_setspecific(key, &value);
    } else {
        in_late_thread_key();
    }
}

/* How C++ and Rust register destructors of thread storage. */
extern int __cxa_thread_atexit_impl(void (*destructor)(void *), void *object, void *dso) __attribute__((weak));
extern void *__dso_handle;

static void thread_ends(void *unused) {
    (void)unused;
    in_thread_destructor();
}

static void *thread(void *unused) {
    in_thread();
    pthread_setspecific(key, &key);
    if (__cxa_thread_atexit_impl)
        __cxa_thread_atexit_impl(thread_ends, NULL, &__dso_handle);
    else
        thread_ends(NULL);
    return unused;
}

int main(void) {
    in_main();
    atexit(exit_handler);
    pthread_key_create(&key, key_ends);
    pthread_t other;
    if (pthread_create(&other, NULL, thread, NULL))
        fail("no thread");
    pthread_join(other, NULL);
#define CLAIM(name, size)                                                                                              \
    SAY("site %s allocations=10 frees=7 bytes_allocated=%d live_at_exit_blocks=3 live_at_exit_bytes=%d\n", #name,      \
        10 * size, 3 * size);
    PLACES(CLAIM)
}
