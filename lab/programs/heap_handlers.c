/* Sets and queries signal handlers in every possible way, with blocks still allocated.
 *
 * THE KNOWN ANSWER: it prints the same with a recorder: handlers that were not set are the default ones.
 */
#include <signal.h>

#include "heap.h"

static volatile sig_atomic_t came;

static void count(int signal) { came += signal > 0; }

static const char *name(void (*handler)(int)) {
    return handler == SIG_DFL ? "default" : handler == SIG_IGN ? "ignored" : handler == count ? "own" : "another";
}

static void ask(int number, const char *when) {
    struct sigaction now;
    memset(&now, 0x55, sizeof now);
    if (sigaction(number, NULL, &now))
        fail("sigaction");
    SAY("%d %s: %s, flags %d\n", number, when, name(now.sa_handler), now.sa_flags & ~0x04000000);
}

int main(void) {
    static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGABRT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGXCPU, SIGSEGV, SIGPIPE};
    void *volatile held = malloc(100);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int number = numbers[i];
        ask(number, "at first");
        SAY("before: %s\n", name(signal(number, count)));
        ask(number, "set");
        raise(number);
        SAY("before: %s\n", name(signal(number, SIG_DFL)));
        ask(number, "default again");
        struct sigaction own = {.sa_handler = count, .sa_flags = SA_RESTART}, before;
        if (sigaction(number, &own, &before))
            fail("sigaction");
        SAY("before: %s\n", name(before.sa_handler));
        raise(number);
        if (sigaction(number, &before, NULL))
            fail("sigaction");
        ask(number, "put back");
        signal(number, SIG_IGN);
        raise(number);
        ask(number, "ignored");
        signal(number, SIG_DFL);
    }
    SAY("%d came\n", (int)came);
    return held == NULL;
}
