// Allocates blocks in every way that a leak check has to distinguish, and prints a line for each: "address size class what".
// Then waits to be checked (argument "wait"), or exits at the same place (for memcheck).
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
typedef struct node { struct node *next, *other; long pad[2]; } node;

// No stdio: it has its own blocks. The text is wiped, and holds no pointer anyway.
static NOINLINE void say(void *block, size_t size, const char *what) {
    char line[128];
    int length = snprintf(line, sizeof line, "%lx %zu %s\n", (unsigned long)block, size, what);
    if (write(1, line, length) != length) _exit(9);
    memset(line, 0, sizeof line);
}

static NOINLINE void *made(size_t size, const char *what) {
    void *block = malloc(size);
    memset(block, 0, size);
    say(block, size, what);
    return block;
}

// Overwrites the leftovers of earlier calls on the stack.
static NOINLINE void scrub(void) {
    volatile char stale[16384];
    for (size_t at = 0; at < sizeof stale; at++) stale[at] = 0;
}

static NOINLINE node *a_node(const char *what) { return made(sizeof(node), what); }

static void *start, *interior, *table, *after, *zero;
static __thread void *own;
static __thread char much[3000];
static __thread void *own_too;
static uintptr_t hidden;
static pthread_key_t key;

static NOINLINE void chains(void) {
    node *a = a_node("R chain"), *b = a_node("R chain"), *c = a_node("P from a chain");
    start = a; a->next = b; b->next = (node *)&c->pad[0];
    c->next = a_node("P after possible");
    interior = &a_node("P interior")->pad[1];
    zero = made(0, "R of no bytes");
    made(0, "D of no bytes");
    a = a_node("D chain"); a->next = a_node("I chain"); a->next->next = a_node("I chain");
    a->next->next->other = (node *)&a_node("I by its middle")->pad[0];
    a_node("D alone")->other = (node *)0x1234;
}

static NOINLINE void rings(void) {
    node *a = a_node("D ring"), *b = a_node("I ring"), *c = a_node("I ring");
    a->next = b; b->next = c; c->next = a; c->other = c;
    node *first = a_node("D first ring"), *second = a_node("I in it");
    first->next = second; second->next = first;
    a_node("D next to a ring")->next = second;
    node *low = a_node("I taken"), *high = a_node("I taken"), *owner = a_node("D owner of a ring");
    low->next = high; high->next = low; owner->next = low;
    a = a_node("D itself"); a->next = a;
}

static NOINLINE node *tree(int depth, const char *what, const char *below) {
    node *root = a_node(what);
    if (depth > 0) { root->next = tree(depth - 1, below, below); root->other = tree(depth - 1, below, below); }
    return root;
}

static NOINLINE void places(void) {
    table = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ((void **)table)[4000] = a_node("R mapping");
    // Mapped by malloc, and merged with the mappings around it by the kernel.
    void *large = made(300000, "R large");
    ((void **)table)[4001] = large;
    ((void **)large)[20000] = a_node("R from a large one");
    after = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ((void **)after)[10] = a_node("R mapping after");
    large = made(400000, "D large");
    ((void **)large)[30000] = a_node("I from a large one");
    void **shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared[1] = a_node("R shared mapping");
    own = a_node("R thread-local");
    much[0] = 1;
    own_too = a_node("R thread-local");
    pthread_key_create(&key, 0);
    pthread_setspecific(key, a_node("R key"));
    ((node *)start)->other = a_node("R other");
    hidden = ~(uintptr_t)a_node("R register");
    // The allocator's own pointers: freed blocks of many sizes, and the header after the last block.
    void *freed[40];
    for (int at = 0; at < 40; at++) freed[at] = malloc(24 + 40 * at);
    for (int at = 0; at < 40; at++) {
        if (at % 2) free(freed[at]);
        else { say(freed[at], 24 + 40 * at, "D between free ones"); memset(freed[at], 0, 24 + 40 * at); }
    }
    memset(freed, 0, sizeof freed);
    made(1032, "D last");
}

static NOINLINE void deep(int depth) {
    volatile char frame[8192];
    frame[0] = depth;
    node *volatile local = a_node("D dead stack");
    (void)local;
    if (depth > 0) deep(depth - 1);
    frame[1] = 1;
}

static int ready[2];

static NOINLINE void thread_blocks(void) {
    own = tree(2, "R thread's own", "R thread's own");
    pthread_setspecific(key, a_node("R thread's key"));
    tree(3, "D thread's tree", "I thread's tree");
    deep(2);
}

static void *thread(void *unused) {
    (void)unused;
    thread_blocks();
    node *volatile kept = a_node("R thread's stack");
    // Not scrubbed deeper than this: the leftovers of `deep` below are dead.
    char one = 1;
    if (write(ready[1], &one, 1) != 1) _exit(9);
    for (;;) pause();
    return kept;
}

int main(int count, char **arguments) {
    int wait = count > 1 && !strcmp(arguments[1], "wait");
    int threads = count > 2 ? atoi(arguments[2]) : 0;
    chains();
    rings();
    tree(4, "D tree", "I tree");
    places();
    node *volatile local = a_node("R main's stack");
    (void)local;
    scrub();
    deep(3);
    if (pipe(ready)) return 9;
    for (int at = 0; at < threads; at++) {
        pthread_t id;
        char one;
        if (pthread_create(&id, 0, thread, 0) || read(ready[0], &one, 1) != 1) return 9;
    }
    if (write(1, "ready\n", 6) != 6) return 9;
    scrub();
    // The last pointer to one block is only in a register. Memcheck checks after the end, when there are none.
    node *volatile for_memcheck = wait ? 0 : (node *)~hidden;
    (void)for_memcheck;
    long number = wait ? SYS_pause : SYS_exit_group;
    for (;;)
        __asm__ volatile("lea -128(%%rsp), %%rdi\n mov $16, %%ecx\n xor %%eax, %%eax\n rep stosq\n"
                         "mov %1, %%r12\n not %%r12\n mov %0, %%rax\n xor %%edi, %%edi\n syscall\n xor %%r12, %%r12"
                         : : "r"(number), "m"(hidden) : "rax", "rdi", "rcx", "r11", "r12", "memory");
}
