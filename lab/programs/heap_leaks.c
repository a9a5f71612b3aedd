/* Blocks of every class that a leak check knows.
 *
 * Run: `heap_leaks [main|threads|register]`. With `threads` two more threads still run
 * when the program exits, with `register` one more block is held only by a register.
 *
 * THE KNOWN ANSWER: the classes that it prints, which are those of `valgrind
 * --leak-check=full`. Every block is allocated by a function whose name says its class.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "heap.h"

struct node {
    struct node *left, *right;
    char payload[24];
};

struct classes {
    uint64_t definitely, definitely_bytes, indirectly, indirectly_bytes, possibly, possibly_bytes, reachable, reachable_bytes;
};

static struct tally tally;
static struct classes classes;

#define COUNT(class, size) (classes.class++, classes.class##_bytes += (size))
#define NODE(class) (COUNT(class, sizeof(struct node)), node())

/* Inlined, so that the function which allocates is the one that calls it. */
__attribute__((always_inline)) static inline struct node *node(void) {
    return count_alloc(&tally, calloc(1, sizeof(struct node)), sizeof(struct node));
}

/* Roots: globals with an initial value, globals without one, thread storage. Not static, so that they are really written. */
void *zeroed_root;
void *initialised_root = &initialised_root;
char *interior_root, *one_past_the_end;
struct node *interior_chain;
__thread struct node *thread_root;

NEVER_INLINED static void lost_block(void) {
    for (size_t size = 8; size <= 72; size += 8) {
        memset(count_alloc(&tally, malloc(size), size), 0, size);
        COUNT(definitely, size);
    }
}

NEVER_INLINED static void lost_chain(void) {
    struct node *head = NODE(definitely);
    for (struct node *end = head, *next; end; end = next) {
        next = classes.indirectly < 5 ? NODE(indirectly) : NULL;
        end->left = next;
    }
    hidden(head);
}

/* The head of a lost cycle is definitely lost, its other members indirectly. */
NEVER_INLINED static void lost_cycle(void) {
    struct node *first = NODE(definitely), *second = NODE(indirectly), *third = NODE(indirectly);
    first->left = second;
    second->left = third;
    third->left = first;
    hidden(first);
}

NEVER_INLINED static struct node *lost_tree(int depth) {
    struct node *root = depth == 4 ? NODE(definitely) : NODE(indirectly);
    if (depth > 0) {
        root->left = lost_tree(depth - 1);
        root->right = lost_tree(depth - 1);
    }
    return hidden(root);
}

/* A lost block with a pointer into the middle of another one: the other one is lost indirectly. */
NEVER_INLINED static void lost_with_interior(void) {
    struct node *outer = NODE(definitely), *inner = NODE(indirectly);
    outer->left = (struct node *)&inner->payload[4];
    hidden(outer);
}

/* A pointer past the end of a block does not hold it. */
NEVER_INLINED static void lost_behind(void) {
    size_t size = 40;
    char *block = count_alloc(&tally, calloc(1, size), size);
    COUNT(definitely, size);
    one_past_the_end = block + size;
}

NEVER_INLINED static void held_inside(void) {
    size_t size = 300;
    char *block = count_alloc(&tally, calloc(1, size), size);
    COUNT(possibly, size);
    interior_root = block + 100;
}

/* Blocks that a possibly lost block points to are possibly lost as well. */
NEVER_INLINED static void held_inside_chain(void) {
    struct node *head = NODE(possibly);
    head->left = NODE(possibly);
    head->left->right = NODE(possibly);
    interior_chain = (struct node *)&head->payload[8];
}

NEVER_INLINED static void held_by_globals(void) {
    struct node *head = NODE(reachable);
    head->left = NODE(reachable);
    head->right = NODE(reachable);
    zeroed_root = head;
    size_t size = 100;
    initialised_root = count_alloc(&tally, calloc(1, size), size);
    COUNT(reachable, size);
    thread_root = NODE(reachable);
}

/* An empty block can be held, too. */
NEVER_INLINED static void held_empty(struct node *holder) {
    holder->left = count_alloc(&tally, malloc(0), 0);
    COUNT(reachable, 0);
}

NEVER_INLINED static struct node *held_by_stack(void) { return NODE(reachable); }

/* Freed blocks keep their contents, which hold nothing. */
NEVER_INLINED static void lost_through_freed(void) {
    struct node *holders[8];
    for (int i = 0; i < 8; i++) {
        holders[i] = node();
        holders[i]->right = NODE(definitely);
    }
    for (int i = 0; i < 8; i++)
        free(count_free(&tally, holders[i], sizeof(struct node)));
}

/* Clears the tally and the unused part of the stack of old values. */
NEVER_INLINED static void forget(void) {
    newest = 0;
    volatile char dead[32768];
    for (size_t i = 0; i < sizeof dead; i++)
        dead[i] = 0;
}

/* Exits with the address of a block only in rbx. */
NEVER_INLINED static void held_by_register(void) {
    struct node *held = count_alloc(&tally, calloc(1, sizeof(struct node)), sizeof(struct node));
    newest = 0;
    __asm__ volatile("mov %0, %%rbx\n\txor %%ecx, %%ecx\n\txor %%edx, %%edx\n\txor %%esi, %%esi\n\txor %%edi, %%edi\n\t"
                     "mov $231, %%eax\n\tsyscall"
                     :
                     : "a"(held)
                     : "rbx", "rcx", "rdx", "rsi", "rdi", "r11", "memory");
}

static atomic_int arrived;

NEVER_INLINED static struct node *held_by_thread(void) {
    struct node *both = NODE(reachable);
    thread_root = NODE(reachable);
    return both;
}

static void *waits(void *unused) {
    struct node *volatile mine = held_by_thread();
    atomic_fetch_add(&arrived, 1);
    while (mine)
        pause();
    return unused;
}

NEVER_INLINED static void all(int threads) {
    lost_block();
    lost_chain();
    lost_cycle();
    lost_tree(4);
    lost_with_interior();
    lost_behind();
    held_inside();
    held_inside_chain();
    held_by_globals();
    lost_through_freed();
    pthread_t thread;
    for (int i = 1; i <= threads; i++) {
        if (pthread_create(&thread, NULL, waits, NULL))
            fail("no thread");
        /* One after the other: they share the tally. */
        while (atomic_load(&arrived) < i)
            sched_yield();
    }
    /* The last block before the end of the heap, of a size that uses the space before its neighbour's size to the last byte. */
    size_t size = 24;
    memset(count_alloc(&tally, malloc(size), size), 0, size);
    COUNT(definitely, size);
}

int main(int argc, char **argv) {
    int threads = argc > 1 && !strcmp(argv[1], "threads") ? 2 : 0;
    all(threads);
    struct node *volatile mine = held_by_stack();
    held_empty(mine);
    int in_register = argc > 1 && !strcmp(argv[1], "register");
    struct tally *t = &tally;
    struct classes *c = &classes;
    if (in_register) {
        t->allocations++, t->live_blocks++, c->reachable++;
        t->bytes += sizeof(struct node), t->live_bytes += sizeof(struct node), c->reachable_bytes += sizeof(struct node);
    }
    claim_heap_without_peak(t);
    SAY("heap leaks.definitely.blocks=%ju leaks.definitely.bytes=%ju leaks.indirectly.blocks=%ju "
        "leaks.indirectly.bytes=%ju leaks.possibly.blocks=%ju leaks.possibly.bytes=%ju leaks.reachable.blocks=%ju "
        "leaks.reachable.bytes=%ju\n",
        c->definitely, c->definitely_bytes, c->indirectly, c->indirectly_bytes, c->possibly, c->possibly_bytes, c->reachable,
        c->reachable_bytes);
    forget();
    if (in_register)
        held_by_register();
    exit(0);
}
