// starts COUNT PROGRAM: starts a program COUNT times, one after the other, and prints the time of one start: from the fork to the program's exit.
//
// Prints `decile_ns`, in wall time: nine of ten starts take longer. Other work on the machine only adds time.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int compare(const void *one, const void *other)
{
    long long a = *(const long long *)one, b = *(const long long *)other;
    return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
    int count = argc > 2 ? atoi(argv[1]) : 0;
    long long *times = calloc(count + 1, sizeof *times);
    for (int i = 0; i < count; i++) {
        long long start = now();
        pid_t child = fork();
        if (child == 0) {
            execv(argv[2], argv + 2);
            _exit(127);
        }
        int status = 1;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            return 1;
        times[i] = now() - start;
    }
    qsort(times, count, sizeof *times, compare);
    printf("decile_ns %lld\n", times[count / 10]);
    return 0;
}
