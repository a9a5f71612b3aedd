/* Other threads allocate, free and move blocks while the program exits. Every block is reachable at all times.
 *
 * Run: `heap_busy [list|array]`. `list`: a thread pushes to and pops from a list. `array`: a
 * thread grows an array of blocks and discards it, so that the array is often being moved.
 *
 * THE KNOWN ANSWER: nothing is lost, definitely or otherwise.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "heap.h"

struct node {
    struct node *next;
    char payload[40];
};

static struct node *list;
static struct node **array;
static size_t array_len;
static atomic_ulong turns;

static void *lists(void *unused) {
    for (;;) {
        for (int i = 0; i < 200; i++) {
            struct node *node = calloc(1, sizeof *node);
            node->next = list;
            list = node;
        }
        for (int i = 0; i < 150 || (list && atomic_load(&turns) % 64 == 0); i++) {
            struct node *node = list;
            list = node->next;
            free(node);
        }
        atomic_fetch_add(&turns, 1);
    }
    return unused;
}

static void *arrays(void *unused) {
    for (;;) {
        for (size_t len = 1; len <= 3000; len++) {
            struct node *node = calloc(1, sizeof *node);
            /* The new block is in a register, and realloc holds the array. */
            array = realloc(array, len * sizeof *array);
            array[len - 1] = node;
            array_len = len;
        }
        while (array_len) {
            free(array[--array_len]);
            array[array_len] = NULL;
        }
        free(array);
        array = NULL;
        atomic_fetch_add(&turns, 1);
    }
    return unused;
}

int main(int argc, char **argv) {
    int in_array = argc > 1 && !strcmp(argv[1], "array");
    pthread_t thread;
    if (pthread_create(&thread, NULL, in_array ? arrays : lists, NULL))
        fail("no thread");
    while (atomic_load(&turns) < 20)
        sched_yield();
    SAY("heap leaks.definitely.blocks=0 leaks.indirectly.blocks=0\n");
    exit(0);
}
