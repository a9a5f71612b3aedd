// timed FILE COMMAND...: runs a command and writes the resource usage of it and its descendants to FILE.
//
// One line: CPU time in ns, largest resident set in KB, time of the exit in ns since 1970, CPU time in ns that the
// parent (the recorder) had used by then. Small and without debug information, because recorders see it as the parent
// of the measured program.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 3)
        return 125;
    // Orphaned children are reparented to this process, so that everything is counted.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t child = fork();
    if (child < 0)
        return 125;
    if (child == 0) {
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        _exit(127);
    }
    int code = 125, status;
    struct timespec end = {0}, parent = {0};
    for (pid_t done; (done = wait(&status)) > 0 || errno == EINTR;) {
        if (done != child)
            continue;
        clock_gettime(CLOCK_REALTIME, &end);
        clockid_t clock;
        if (clock_getcpuclockid(getppid(), &clock) == 0)
            clock_gettime(clock, &parent);
        code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    FILE *out = fopen(argv[1], "w");
    if (!out)
        return 125;
    long long seconds = used.ru_utime.tv_sec + used.ru_stime.tv_sec;
    long long microseconds = used.ru_utime.tv_usec + used.ru_stime.tv_usec;
    fprintf(out, "%lld %ld %lld %lld\n", seconds * 1000000000LL + microseconds * 1000LL, used.ru_maxrss,
            end.tv_sec * 1000000000LL + end.tv_nsec, parent.tv_sec * 1000000000LL + parent.tv_nsec);
    return fclose(out) ? 125 : code;
}
