// gaps MS: reads the clock for MS milliseconds, below 40 frames with 40 KB of stack, and prints how long it was interrupted.
//
// A gap of 1 to 200 µs between two reads comes from a short interruption: the kernel's tick, a signal, a sample. Longer gaps are switches to
// other programs and do not count. Prints `worked_ns`, without those, and `paused_ns`.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static long long worked, paused;

static __attribute__((noinline)) void look(long long ns)
{
    for (long long last = now(), next; worked < ns; last = next) {
        next = now();
        long long step = next - last;
        if (step >= 200000)
            continue;
        worked += step;
        if (step >= 1000)
            paused += step;
    }
}

static __attribute__((noinline)) void descend(int frames, long long ns)
{
    volatile char room[1000];
    room[0] = 1;
    if (frames > 0)
        descend(frames - 1, ns);
    else
        look(ns);
    room[999] = 1;
}

int main(int argc, char **argv)
{
    descend(40, (argc > 1 ? atoll(argv[1]) : 2000) * 1000000LL);
    printf("worked_ns %lld\npaused_ns %lld\n", worked, paused);
    return 0;
}
