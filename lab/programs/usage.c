// Uses known amounts of what the kernel counts: pages, sleeps, CPU time, bytes.
//
// Run: usage [PAGES=8000] [SLEEPS=100] [MS=200]
//
// THE KNOWN ANSWER: the first thread touches PAGES fresh pages, sleeps SLEEPS times, reads 64 KiB of /dev/zero PAGES / 100 times and
// writes as much to /dev/null. The thread `helper` touches PAGES / 4 fresh pages and sleeps SLEEPS / 2 times. A child process touches
// PAGES / 2 and is waited for. The first thread then works until the process has had MS milliseconds of CPU time. The rest is start-up: a
// few hundred pages, a few sleeps, a few bytes. The totals are printed; `cpu_us` is the process's own clock and its child's at the end.

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void touch(long pages) {
    long size = sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, pages * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    // One fault per page, not one for hundreds of pages.
    madvise(memory, pages * size, MADV_NOHUGEPAGE);
    for (long page = 0; page < pages; page++)
        ((volatile char *)memory)[page * size] = 1;
    munmap(memory, pages * size);
}

static void sleep_often(long times) {
    struct timespec short_time = {0, 200 * 1000};
    for (long time = 0; time < times; time++)
        nanosleep(&short_time, NULL);
}

static long pages, sleeps;

static void *helper(void *unused) {
    pthread_setname_np(pthread_self(), "helper");
    touch(pages / 4);
    sleep_often(sleeps / 2);
    return unused;
}

static long clock_us(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

int main(int argc, char **argv) {
    pages = argc > 1 ? atol(argv[1]) : 8000;
    sleeps = argc > 2 ? atol(argv[2]) : 100;
    long ms = argc > 3 ? atol(argv[3]) : 200;

    pthread_t thread;
    pthread_create(&thread, NULL, helper, NULL);
    pthread_join(thread, NULL);
    pid_t child = fork();
    if (child == 0) {
        touch(pages / 2);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    touch(pages);
    sleep_often(sleeps);

    static char buffer[64 * 1024];
    long blocks = pages / 100, moved = blocks * (long)sizeof buffer;
    int zero = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_WRONLY);
    for (long block = 0; block < blocks; block++)
        if (read(zero, buffer, sizeof buffer) != sizeof buffer || write(null, buffer, sizeof buffer) != sizeof buffer)
            return 1;

    volatile unsigned long work = 0;
    while (clock_us(CLOCK_PROCESS_CPUTIME_ID) < ms * 1000)
        for (int step = 0; step < 1000; step++)
            work += step;

    struct rusage below;
    getrusage(RUSAGE_CHILDREN, &below);
    long below_us = (below.ru_utime.tv_sec + below.ru_stime.tv_sec) * 1000000L + below.ru_utime.tv_usec + below.ru_stime.tv_usec;
    printf("faults %ld\nhelper_faults %ld\nsleeps %ld\nhelper_sleeps %ld\nmoved_bytes %ld\nbelow_us %ld\n", pages + pages / 4 + pages / 2,
           pages / 4, sleeps + sleeps / 2, sleeps / 2, moved, below_us);
    fflush(stdout);
    printf("cpu_us %ld\n", clock_us(CLOCK_PROCESS_CPUTIME_ID) + below_us);
    return 0;
}
