/* Grows an array by one element at a time. */
/* planted: allocator-heavy, vec-growth, memory-copies, page-faults */
/* also: allocator-heavy, page-faults */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct list { long *items; size_t length, capacity; };

static void add_slowly(struct list *list, long item) {
    list->items = realloc(list->items, (list->length + 1) * sizeof *list->items);
    list->items[list->length++] = item;
}

static void add(struct list *list, long item) {
    if (list->length == list->capacity) {
        list->capacity = list->capacity ? list->capacity * 2 : 16;
        list->items = realloc(list->items, list->capacity * sizeof *list->items);
    }
    list->items[list->length++] = item;
}

int main(int count, char **words) {
    int slow = count > 1 && !strcmp(words[1], "slow");
    long sum = 0;
    for (int round = 0; round < 200; round++) {
        struct list lists[8] = {{0}};
        for (long item = 0; item < 100000; item++) {
            struct list *list = &lists[item & 7];
            if (slow) add_slowly(list, item); else add(list, item);
        }
        for (int at = 0; at < 8; at++) {
            sum += lists[at].items[lists[at].length / 2];
            free(lists[at].items);
        }
    }
    printf("%ld\n", sum);
}
