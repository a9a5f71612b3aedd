// A million blocks of 32 bytes: a chain through 990,000 of them, in address order or shuffled (argument "mixed"); the rest
// are lost. Lines as in leaks.c.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 1000000, LOST_EVERY = 100 };
typedef struct node { struct node *next; long pad[3]; } node;
static node *first;
static unsigned order[BLOCKS];
static char text[1 << 16];

static void make(int mixed) {
    node **all = malloc(BLOCKS * sizeof *all);
    for (unsigned at = 0; at < BLOCKS; at++) {
        all[at] = calloc(1, sizeof(node));
        int lost = at % LOST_EVERY == 0;
        printf("%lx %zu %s\n", (unsigned long)all[at], sizeof(node), lost ? "D" : "R");
        order[at] = at;
    }
    unsigned long state = 1;
    for (unsigned at = BLOCKS - 1; mixed && at > 0; at--) {
        state = state * 6364136223846793005ul + 1442695040888963407ul;
        unsigned other = (state >> 33) % (at + 1), kept = order[at];
        order[at] = order[other];
        order[other] = kept;
    }
    for (unsigned at = 0; at < BLOCKS; at++) {
        if (order[at] % LOST_EVERY == 0) continue;
        all[order[at]]->next = first;
        first = all[order[at]];
    }
    free(all);
}

int main(int count, char **arguments) {
    setvbuf(stdout, text, _IOFBF, sizeof text);
    make(count > 2 && !strcmp(arguments[2], "mixed"));
    printf("ready\n");
    fflush(stdout);
    if (count > 1 && !strcmp(arguments[1], "wait"))
        for (;;) pause();
    _exit(0);
}
