/* A program that holds memory and can be inspected while it runs.
 *
 * Run: `heap_held [calm|busy|forked]`. It allocates blocks, prints what it has and `ready PID`, and waits
 * for a byte on its standard input. Then it frees what it holds, prints what it has now, and exits. With
 * `busy` two more threads replace blocks all the time until the byte arrives: at no point in time is one
 * of their blocks lost. With `forked` a child does all that, while its parent holds its own blocks.
 *
 * THE KNOWN ANSWER: the numbers that it prints, before `ready` for that point in time, after it for the end.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "heap.h"

#define HELD 100
#define HELD_BYTES 1000
#define LOST 10
#define LOST_BYTES 50
#define CHAIN 5
#define SLOTS 64

struct node {
    struct node *next;
    char payload[24];
};

static struct tally tally, holding, losing, chained;
/* Not static, so that they are really written. */
void *held[HELD], *of_the_parent[HELD];

NEVER_INLINED static void hold(void **table) {
    for (size_t i = 0; i < HELD; i++) {
        table[i] = malloc(HELD_BYTES);
        count_alloc(&holding, table[i], HELD_BYTES);
        count_alloc(&tally, table[i], HELD_BYTES);
    }
}

NEVER_INLINED static void let_go(void **table) {
    for (size_t i = 0; i < HELD; i++) {
        count_free(&holding, table[i], HELD_BYTES);
        free(count_free(&tally, table[i], HELD_BYTES));
        table[i] = NULL;
        /* Nothing was allocated since the last one, which is already freed. */
        newest = 0;
    }
}

NEVER_INLINED static void lose(void) {
    for (size_t i = 0; i < LOST; i++) {
        void *block = malloc(LOST_BYTES);
        count_alloc(&losing, block, LOST_BYTES);
        memset(count_alloc(&tally, block, LOST_BYTES), 0, LOST_BYTES);
    }
}

NEVER_INLINED static void lose_chain(void) {
    struct node *head = NULL;
    for (size_t i = 0; i < CHAIN; i++) {
        struct node *node = malloc(sizeof *node);
        count_alloc(&chained, node, sizeof *node);
        count_alloc(&tally, node, sizeof *node);
        memset(node, 0, sizeof *node);
        node->next = head;
        head = node;
    }
    hidden(head);
}

/* Overwrites what the functions above left on the stack and in registers. */
NEVER_INLINED static void forget(void) {
    newest = 0;
    volatile char junk[32768];
    for (size_t i = 0; i < sizeof junk; i++)
        junk[i] = 0;
}

static atomic_int enough, running;

NEVER_INLINED static void replace(void ***table, unsigned step) {
    size_t at = step % SLOTS;
    if (step % 7 == 0) {
        /* The table moves too, with everything that only it points to. */
        void **larger = realloc(*table, (SLOTS + step % 512) * sizeof **table);
        if (larger)
            *table = larger;
    }
    free((*table)[at]);
    (*table)[at] = calloc(1, 16 + step % 200);
}

static void *busy(void *unused) {
    void **table = calloc(SLOTS, sizeof *table);
    unsigned step = 0;
    do {
        replace(&table, step++);
        if (step == SLOTS)
            atomic_fetch_add(&running, 1);
    } while (!atomic_load(&enough));
    for (size_t i = 0; i < SLOTS; i++)
        free(table[i]);
    free(table);
    return unused;
}

static void claim(int whole, int still_held) {
    if (whole)
        claim_heap(&tally);
    claim_site("hold", &holding);
    claim_site("lose", &losing);
    claim_site("lose_chain", &chained);
    SAY("site hold leaks.reachable.blocks=%d leaks.definitely.blocks=0 leaks.possibly.blocks=0\n", still_held);
    SAY("site lose leaks.definitely.blocks=%d leaks.definitely.bytes=%d leaks.reachable.blocks=0\n", LOST, LOST * LOST_BYTES);
    SAY("site lose_chain leaks.definitely.blocks=1 leaks.indirectly.blocks=%d leaks.indirectly.bytes=%zu\n", CHAIN - 1,
        (CHAIN - 1) * sizeof(struct node));
    SAY("site replace leaks.definitely.blocks=0 leaks.indirectly.blocks=0\n");
}

static void holds(int whole) {
    hold(held);
    lose();
    lose_chain();
    forget();
    claim(whole, HELD);
    SAY("ready %d\n", (int)getpid());
    char byte;
    if (read(0, &byte, 1) != 1)
        fail("nobody answers");
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "calm";
    pthread_t threads[2];
    size_t busy_threads = !strcmp(how, "busy") ? 2 : 0;
    for (size_t i = 0; i < busy_threads; i++)
        if (pthread_create(&threads[i], NULL, busy, NULL))
            fail("no thread");
    while (atomic_load(&running) < (int)busy_threads)
        usleep(1000);
    if (!strcmp(how, "forked")) {
        hold(of_the_parent);
        pid_t child = fork();
        if (child < 0)
            fail("no child");
        if (child > 0) {
            waitpid(child, NULL, 0);
            return 0;
        }
        /* The parent's events count, but its live blocks are not the child's. */
        holding.live_blocks = holding.live_bytes = 0;
    }
    holds(!busy_threads && !strcmp(how, "calm"));
    atomic_store(&enough, 1);
    for (size_t i = 0; i < busy_threads; i++)
        pthread_join(threads[i], NULL);
    let_go(held);
    forget();
    if (strcmp(how, "forked"))
        claim(!busy_threads, 0);
    return 0;
}
