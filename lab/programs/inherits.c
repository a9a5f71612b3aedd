// Says which signals its parent left blocked and ignored, to check that a recorder changes neither.
//
// Run: `inherits [ANYTHING]`; it also appends its line to the file that the variable INHERITS names, and goes on as the
// program that INHERITS_THEN names.
//
// THE KNOWN ANSWER: `NAME: blocked MASK, ignored MASK`, where NAME is the last part of the name it is called by. It is
// the same however it is started.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Signals that the C library reserves: posix_spawn ignores them in the child.
#define RESERVED (3ull << 31)

int main(int argc, char **argv) {
    (void)argc;
    const char *then = getenv("INHERITS_THEN");
    unsigned long long blocked = 0, ignored = 0;
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    while (status && fgets(line, sizeof line, status)) {
        sscanf(line, "SigBlk: %llx", &blocked);
        sscanf(line, "SigIgn: %llx", &ignored);
    }
    const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    snprintf(line, sizeof line, "%s: blocked %llx, ignored %llx\n", name, blocked, ignored & ~RESERVED);
    // What goes on prints its own output only.
    if (!then)
        fputs(line, stdout);
    const char *path = getenv("INHERITS");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file)
        fputs(line, file);
    if (file)
        fclose(file);
    if (then) {
        // A compiler finds its parts by its own name.
        argv[0] = (char *)then;
        execv(then, argv);
        perror(then);
        return 1;
    }
    return 0;
}
