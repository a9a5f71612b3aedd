/* A forked process continues to work on its parent's blocks.
 *
 * Run: `heap_inherited`. The parent builds a list of LINKS links and loses a block. Its child attaches a
 * block to each link, frees one link's name, moves another, loses two blocks, and forks its own child,
 * which attaches blocks to blocks of both and loses one. The parent frees its list in the meantime.
 *
 * THE KNOWN ANSWER: a block is lost in the process that allocated it, or in none: `lost_by_parent`
 * 1, `lost_by_child` 2, `lost_by_grandchild` 1; `hung_by_child` and `hung_by_grandchild` none.
 */
#include <sys/wait.h>

#include "heap.h"

#define LINKS 100

struct link {
    struct link *next;
    char *name;
    void **hung;
};

static struct link *list;

NEVER_INLINED static void makes_list(void) {
    for (int i = 0; i < LINKS; i++) {
        struct link *link = malloc(sizeof *link);
        *link = (struct link){list, malloc(20 + i), NULL};
        list = link;
    }
}

NEVER_INLINED static void lost_by_parent(void) { hidden(malloc(50)); }

NEVER_INLINED static void lost_by_child(void) {
    hidden(malloc(33));
    hidden(malloc(34));
}

NEVER_INLINED static void lost_by_grandchild(void) { hidden(malloc(35)); }

NEVER_INLINED static void hung_by_child(void) {
    for (struct link *link = list; link; link = link->next)
        link->hung = calloc(2, sizeof *link->hung);
}

NEVER_INLINED static void hung_by_grandchild(void) {
    for (struct link *link = list; link; link = link->next)
        link->hung[1] = malloc(70);
}

/* Overwrites old values on the stack. */
NEVER_INLINED static void wipes_stack(void) {
    char room[16384];
    memset(hidden(room), 0, sizeof room);
}

static void wait_for(pid_t child) {
    int status;
    if (waitpid(child, &status, 0) != child || status)
        fail("a child failed");
}

static void child(void) {
    hung_by_child();
    free(list->name);
    list->name = NULL;
    list->next->name = realloc(list->next->name, 5000);
    lost_by_child();
    pid_t grandchild = fork();
    if (grandchild == 0) {
        hung_by_grandchild();
        lost_by_grandchild();
        wipes_stack();
        exit(0);
    }
    wait_for(grandchild);
    wipes_stack();
    exit(0);
}

int main(void) {
    makes_list();
    lost_by_parent();
    int freed[2];
    if (pipe(freed))
        fail("no pipe");
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        /* The parent frees its blocks before this process does anything. */
        if (read(freed[0], &byte, 1) != 1)
            fail("nothing from the parent");
        child();
    }
    while (list) {
        struct link *next = list->next;
        free(list->name);
        free(list);
        list = next;
    }
    if (write(freed[1], "", 1) != 1)
        fail("no word to the child");
    wait_for(pid);
    wipes_stack();
}
