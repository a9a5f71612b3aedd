/* Several processes, one after the other, each with the same amount of memory.
 *
 * Run: `heap_series exec|killed|exit`. `exec` executes itself again three times, with all of its memory allocated. `killed`
 * starts four children one after the other, which allocate and are killed. `exit` does the same, but they exit by themselves.
 *
 * THE KNOWN ANSWER: at no time is there more than 16 MiB. With `exec` that is live
 * at exit; with `killed` and `exit` each of the four children has it when it ends.
 */
#include <signal.h>
#include <sys/wait.h>

#include "heap.h"

#define BYTES (16u << 20)
#define CHILDREN 4

static void *volatile held;

NEVER_INLINED static void takes(void) {
    held = malloc(BYTES);
    if (!held)
        fail("no memory");
}

static void child(int is_killed) {
    int ready[2];
    if (pipe(ready))
        fail("no pipe");
    pid_t pid = fork();
    if (pid < 0)
        fail("no child");
    if (pid == 0) {
        takes();
        if (write(ready[1], "!", 1) != 1)
            _exit(1);
        if (is_killed)
            for (;;)
                pause();
        _exit(0);
    }
    char said;
    if (read(ready[0], &said, 1) != 1)
        fail("the child says nothing");
    if (is_killed)
        kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(ready[0]);
    close(ready[1]);
}

int main(int argc, char **argv) {
    const char *way = argc > 1 ? argv[1] : "exec";
    if (strcmp(way, "exec")) {
        for (int i = 0; i < CHILDREN; i++)
            child(!strcmp(way, "killed"));
        SAY("heap peak_bytes=%u live_at_exit_bytes=%u\n", BYTES, CHILDREN * BYTES);
        return 0;
    }
    takes();
    int again = argc > 2 ? atoi(argv[2]) : 3;
    char left[2] = {(char)('0' + again - 1), 0};
    if (again > 0)
        execl(argv[0], argv[0], way, left, (char *)NULL);
    SAY("heap peak_bytes=%u live_at_exit_bytes=%u\n", BYTES, BYTES);
    return 0;
}
