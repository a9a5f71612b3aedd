/* Sums along a linked list whose nodes lie anywhere. */
/* planted: pointer-chase */
/* also: cache-misses */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node { long value; struct node *next; };

static long walk(const struct node *node) {
    long sum = 0;
    for (; node; node = node->next)
        sum += node->value;
    return sum;
}

static long scan(const struct node *nodes, long length) {
    long sum = 0;
    for (long at = 0; at < length; at++)
        sum += nodes[at].value;
    return sum;
}

int main(int count, char **words) {
    int slow = count > 1 && !strcmp(words[1], "slow");
    enum { NODES = 1 << 19 };
    struct node *nodes = calloc(NODES, sizeof *nodes);
    for (long at = 0; at < NODES; at++) {
        nodes[at].value = at;
        nodes[at].next = at + 1 < NODES ? &nodes[((at + 1) * 77777l) % NODES] : NULL;
    }
    /* The nodes in the order of 0, 77777, 2 * 77777, … */
    for (long at = 0; at < NODES; at++)
        nodes[(at * 77777l) % NODES].next = at + 1 < NODES ? &nodes[((at + 1) * 77777l) % NODES] : NULL;
    long sum = 0;
    for (int round = 0; round < 60; round++)
        sum += slow ? walk(nodes) : scan(nodes, NODES);
    printf("%ld\n", sum);
}
