// C++ objects that are only reachable by pointers into their middle. Lines as in leaks.c.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <unistd.h>

static void say(void *block, size_t size, const char *what) {
    char line[128];
    int length = snprintf(line, sizeof line, "%lx %zu %s\n", (unsigned long)block, size, what);
    if (write(1, line, length) != length) _exit(9);
}

static const char *next_what;
void *operator new(size_t size) {
    void *block = malloc(size);
    memset(block, 0, size);
    say(block, size, next_what);
    return block;
}
void *operator new[](size_t size) { return operator new(size); }
void operator delete(void *block) noexcept { free(block); }
void operator delete[](void *block) noexcept { free(block); }
void operator delete(void *block, size_t) noexcept { free(block); }
void operator delete[](void *block, size_t) noexcept { free(block); }

struct Counted { long value[3]; ~Counted() { value[0] = 0; } };
struct First { virtual ~First() {} virtual int one() { return 1; } long a; };
struct Second { virtual ~Second() {} virtual int two() { return 2; } long b; };
struct Both : First, Second { long c; };
struct Plain { long a, b, c, d; };

static Counted *array;
static Second *second;
static long *middle;
static char *behind_length;

__attribute__((noinline)) static void make() {
    next_what = "R array of objects";
    array = new Counted[5];
    next_what = "R by its second base";
    second = new Both;
    next_what = "P plain by its middle";
    middle = &(new Plain)->c;
    next_what = "D array";
    new Counted[3];
    next_what = "R after its length";
    auto block = static_cast<unsigned long *>(operator new(8 + 77));
    *block = 77;
    behind_length = reinterpret_cast<char *>(block + 1);
}

__attribute__((noinline)) static void scrub() {
    volatile char stale[16384];
    for (size_t at = 0; at < sizeof stale; at++) stale[at] = 0;
}

int main(int count, char **arguments) {
    make();
    scrub();
    if (write(1, "ready\n", 6) != 6) return 9;
    if (count > 1 && !strcmp(arguments[1], "wait"))
        for (;;) pause();
    _exit(0);
}
