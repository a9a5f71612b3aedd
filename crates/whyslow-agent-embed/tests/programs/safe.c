// An allocator that signal handlers may call: atomics only, nothing is ever freed.
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
static _Atomic(char *) place;
void *malloc(size_t n) {
    if (!place) {
        char *none = NULL, *new = mmap(NULL, 1ul << 36, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        atomic_compare_exchange_strong(&place, &none, new);
    }
    char *p = atomic_fetch_add(&place, (n + 31) / 16 * 16);
    *(size_t *)p = n;
    return p + 16;
}
void free(void *p) { (void)p; }
void *calloc(size_t a, size_t b) { return malloc(a * b); }
void *realloc(void *p, size_t n) {
    void *q = malloc(n);
    if (p) { size_t old = *(size_t *)((char *)p - 16); memcpy(q, p, old < n ? old : n); }
    return q;
}
