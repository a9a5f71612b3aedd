// Does everything that a program can do with its heap, counts its own calls, and writes the counts of every process to the
// file named by COUNTS: pid, allocations, frees, bytes, live blocks, live bytes. All sizes are 33 more than a multiple of 64.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static _Atomic long allocations, frees, bytes, live, live_bytes;

#define CHECK(x) do { if (!(x)) { dprintf(2, "line %d: %s (errno %d)\n", __LINE__, #x, errno); abort(); } } while (0)

static size_t tagged(unsigned n) { return (size_t)(n % 200) * 64 + 33; }

static void *count_alloc(void *p, size_t n) {
    if (p) { allocations++; bytes += n; live++; live_bytes += n; }
    return p;
}
static void count_free(size_t n) { frees++; live--; live_bytes -= n; }

static void *new_block(size_t n) { void *p = count_alloc(malloc(n), n); CHECK(p); memset(p, 7, n); return p; }
static void end_block(void *p, size_t n) { if (p) count_free(n); free(p); }

static void report(void) {
    char line[200];
    int n = snprintf(line, sizeof line, "%d %ld %ld %ld %ld %ld\n", getpid(), allocations, frees, bytes, live, live_bytes);
    int f = open(getenv("COUNTS"), O_WRONLY | O_APPEND | O_CREAT, 0600);
    CHECK(f >= 0 && write(f, line, n) == n);
    close(f);
}
static void forget(void) { allocations = frees = bytes = live = live_bytes = 0; }

static void aligned(void *p, size_t a) { CHECK(p && (uintptr_t)p % a == 0); }

static void every_function(void) {
    for (size_t a = 8; a <= 65536; a *= 2) {
        void *p = NULL;
        CHECK(posix_memalign(&p, a, 97) == 0); count_alloc(p, 97); aligned(p, a); end_block(p, 97);
        p = count_alloc(aligned_alloc(a, 161), 161); aligned(p, a); end_block(p, 161);
        p = count_alloc(memalign(a, 225), 225); aligned(p, a); end_block(p, 225);
    }
    void *p = count_alloc(valloc(289), 289); aligned(p, 4096); end_block(p, 289);
#ifdef __GLIBC__
    p = count_alloc(pvalloc(353), 353); aligned(p, 4096); end_block(p, 353);
#endif
    unsigned char *c = count_alloc(calloc(3, 11), 33); aligned(c, 16);
    for (int i = 0; i < 33; i++) CHECK(c[i] == 0);
    end_block(c, 33);
    c = count_alloc(realloc(NULL, 33), 33); memset(c, 9, 33);
    for (unsigned n = 1; n < 500; n++) {
        size_t old = tagged(n - 1), size = tagged(n);
        if (size == 33) size += 64 * 200;
        if (old == 33 && n > 1) old += 64 * 200;
        c = realloc(c, size); CHECK(c && c[32] == 9); count_free(old); count_alloc(c, size); aligned(c, 16);
    }
    c = reallocarray(c, 11, 3); CHECK(c && c[32] == 9); count_free(tagged(499)); count_alloc(c, 33);
    CHECK(malloc_usable_size(c) >= 33);
    // glibc frees here, musl returns an empty block.
    void *nothing = realloc(c, 0); count_free(33);
#ifdef __GLIBC__
    CHECK(nothing == NULL);
#endif
    free(nothing);
    free(NULL);

    // Calls that fail do so as libc documents, and change nothing.
    void *untouched = &allocations;
    p = untouched;
    CHECK(posix_memalign(&p, 3, 97) == EINVAL && p == untouched);
    CHECK(posix_memalign(&p, 64, SIZE_MAX - 64) == ENOMEM && p == untouched);
    volatile size_t huge = SIZE_MAX / 2;
    errno = 0; CHECK(malloc(huge + 33) == NULL && errno == ENOMEM);
    errno = 0; CHECK(calloc(huge, 4) == NULL && errno == ENOMEM);
    errno = 0; CHECK(aligned_alloc(64, huge + 33) == NULL && errno == ENOMEM);
    c = new_block(97);
    errno = 0; CHECK(realloc(c, huge + 33) == NULL && errno == ENOMEM && c[96] == 7);
    errno = 0; CHECK(reallocarray(c, huge, 4) == NULL && errno == ENOMEM && c[96] == 7);
    errno = 77; end_block(c, 97); end_block(new_block(161), 161); CHECK(errno == 77);

    // More than 36 bits, if the machine allows it.
    size_t large = ((size_t)1 << 37) + 33;
    p = count_alloc(malloc(large), large);
    if (p) end_block(p, large);
    // Never freed.
    new_block(33 + 64 * 5);
}

#define SLOTS 4096
static _Atomic(uintptr_t) slots[SLOTS];
static _Atomic int rounds = 20000;

// A block has its size in its first word. Other threads free and resize it.
static void *churn(void *arg) {
    unsigned x = (unsigned)(uintptr_t)arg * 2654435761u + 1;
    for (int i = 0; i < rounds; i++) {
        x ^= x << 13; x ^= x >> 17; x ^= x << 5;
        size_t n = tagged(x >> 8);
        size_t *p = count_alloc(malloc(n), n); CHECK(p); *p = n;
        size_t *q = (size_t *)atomic_exchange(&slots[(x >> 4) % (i % 3 ? SLOTS : 4)], (uintptr_t)p);
        if (!q) continue;
        if (x % 4 == 0) {
            size_t m = tagged(x >> 3), old = *q;
            q = realloc(q, m); CHECK(q); count_free(old); count_alloc(q, m); *q = m;
            q = (size_t *)atomic_exchange(&slots[(x >> 6) % SLOTS], (uintptr_t)q);
            if (!q) continue;
        }
        end_block(q, *q);
    }
    return NULL;
}
static void clear_slots(void) {
    for (int i = 0; i < SLOTS; i++) {
        size_t *p = (size_t *)atomic_exchange(&slots[i], 0);
        if (p) end_block(p, *p);
    }
}
static void run_threads(int n, void *(*body)(void *)) {
    pthread_t threads[n];
    for (int i = 0; i < n; i++) CHECK(pthread_create(&threads[i], NULL, body, (void *)(uintptr_t)(i + 1)) == 0);
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

static void *few(void *arg) {
    for (int i = 0; i < 20; i++) end_block(new_block(tagged(i + (uintptr_t)arg)), tagged(i + (uintptr_t)arg));
    return NULL;
}

static void *one(void *arg) {
    (void)arg;
    end_block(new_block(33 + 64 * 16), 33 + 64 * 16);
    return NULL;
}

static _Atomic int stop;
static void *churn_until(void *arg) {
    (void)arg;
    while (!stop) for (int i = 0; i < 100; i++) end_block(new_block(tagged(i)), tagged(i));
    return NULL;
}

static void forks(void) {
    void *inherited = new_block(tagged(77));
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, churn_until, NULL);
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();
        if (child == 0) {
            forget();
            for (int k = 0; k < 50; k++) end_block(new_block(tagged(k)), tagged(k));
            free(inherited);
            new_block(tagged(i));
            if (i % 4 == 0) run_threads(2, few);
            if (i % 10 == 0) {
                report();
                forget();
                pid_t grandchild = fork();
                if (grandchild == 0) { new_block(tagged(5)); report(); _exit(0); }
                waitpid(grandchild, NULL, 0);
                _exit(0);
            }
            report();
            if (i % 2) exit(0);
            _exit(0);
        }
        CHECK(child > 0);
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    stop = 1;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
}

static _Atomic long handled;
static void handler(int signal) {
    (void)signal;
    void *p = count_alloc(malloc(tagged(3)), tagged(3));
    end_block(p, tagged(3));
    handled++;
}
static void signals(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART | SA_NODEFER};
    sigaction(SIGPROF, &action, NULL);
    struct itimerval every = {{0, 300}, {0, 300}};
    setitimer(ITIMER_PROF, &every, NULL);
    while (handled < 1000) {
        for (int i = 0; i < 100; i++) { void *p = count_alloc(malloc(tagged(9)), tagged(9)); end_block(p, tagged(9)); }
        void *p = count_alloc(malloc(tagged(9)), tagged(9));
        void *q = realloc(p, tagged(80)); count_free(tagged(9)); count_alloc(q, tagged(80));
        end_block(q, tagged(80));
    }
    every = (struct itimerval){{0, 0}, {0, 0}};
    setitimer(ITIMER_PROF, &every, NULL);
}

// A handler that interrupts the agent forks, and returns in both processes.
static volatile sig_atomic_t in_child;

static void forking_handler(int signal) {
    (void)signal;
    int saved = errno, status;
    pid_t child = fork();
    if (child == 0) { in_child = 1; return; }
    CHECK(child > 0);
    while (waitpid(child, &status, 0) < 0) CHECK(errno == EINTR);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    handled++;
    errno = saved;
}

static __attribute__((noinline)) int descend(int left, unsigned ways) {
    volatile char frame[16];
    frame[0] = 0;
    if (left == 0) { free(malloc(40)); return frame[0]; }
    int below = ways & 1 ? descend(left - 1, ways >> 1) : descend(left - 1, ways >> 1) + 1;
    return below + frame[0];
}

static void forks_in_signals(void) {
    struct sigaction action = {.sa_handler = forking_handler, .sa_flags = SA_RESTART};
    sigaction(SIGPROF, &action, NULL);
    struct itimerval every = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_PROF, &every, NULL);
    unsigned ways = 1;
    while (handled < 100 && !in_child) { ways = ways * 1103515245 + 12345; descend(20 + ways % 7, ways >> 7); }
    if (in_child) { for (int i = 0; i < 100; i++) descend(20, i); _exit(0); }
    setitimer(ITIMER_PROF, &(struct itimerval){0}, NULL);
}

static void spawns(void) {
    extern char **environ;
    char *arguments[] = {"true", NULL};
    for (int i = 0; i < 10; i++) {
        pid_t child = vfork();
        if (child == 0) { void *p = malloc(100); free(p); execv("/bin/true", arguments); _exit(1); }
        waitpid(child, NULL, 0);
        end_block(new_block(tagged(i)), tagged(i));
        CHECK(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ) == 0);
        waitpid(child, NULL, 0);
    }
    pid_t child = vfork();
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
}

// Two libraries are loaded in turn at the same address. Each allocates its own size.
static void plugins(char **paths) {
    for (int i = 0; i < 40; i++) {
        void *library = dlopen(paths[i % 2], RTLD_NOW);
        CHECK(library);
        void *(*make)(void) = (void *(*)(void))dlsym(library, "make");
        for (int k = 0; k < 3; k++) end_block(count_alloc(make(), i % 2 ? 33 + 64 : 33), i % 2 ? 33 + 64 : 33);
        dlclose(library);
    }
}

int main(int count, char **arguments) {
    const char *what = arguments[1];
    if (!strcmp(what, "functions")) every_function();
    if (!strcmp(what, "threads")) { run_threads(atoi(arguments[2]), churn); clear_slots(); }
    if (!strcmp(what, "many")) for (int i = 0; i < 10; i++) run_threads(100, few);
    if (!strcmp(what, "short")) for (int i = 0; i < 400; i++) run_threads(5, one);
    if (!strcmp(what, "crowd")) { rounds = 20; run_threads(1000, churn); clear_slots(); }
    if (!strcmp(what, "forks")) forks();
    if (!strcmp(what, "signals")) signals();
    if (!strcmp(what, "forks_in_signals")) forks_in_signals();
    if (!strcmp(what, "spawns")) spawns();
    if (!strcmp(what, "plugins")) plugins(arguments + 2);
    if (!strcmp(what, "maps")) {
        char *p = mmap(NULL, 40960, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(p != MAP_FAILED);
        CHECK(munmap(p + 4096, 4096) == 0);
        p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        p = mremap(p, 8192, 1 << 20, MREMAP_MAYMOVE);
        CHECK(p != MAP_FAILED);
        errno = 0;
        CHECK(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
    }
    if (!strcmp(what, "unused")) {
        // The agent fills blocks with odd bytes, so even bytes are never mistaken for them.
        char *p = malloc(33 + 64 * 10); memset(p, 2, 100); free(p);
        p = calloc(1, 33 + 64 * 11); for (int i = 0; i < 33 + 64 * 11; i++) CHECK(p[i] == 0); free(p);
        p = malloc(33 + 64); memset(p, 2, 50);
        void *wall = malloc(33);
        p = realloc(p, 33 + 64 * 2000); memset(p + 1000, 2, 500); free(p);
        free(wall);
    }
    if (!strcmp(what, "moved")) {
        // In a block that moves, every byte belongs to the program, whatever its value.
        for (int value = 0; value < 256; value++) {
            char *p = malloc(33 + 64 * 4); memset(p, value, 33 + 64 * 4);
            void *wall = malloc(33);
            p = realloc(p, 33 + 64 * 100);
            for (int i = 0; i < 33 + 64 * 4; i++) CHECK(p[i] == (char)value);
            free(p); free(wall);
        }
    }
    if (!strcmp(what, "sample")) {
        size_t sizes[] = {33, 33 + 64 * 16, 33 + 64 * 160};
        for (int k = 0; k < 3; k++) for (int i = 0; i < 200000; i++) end_block(new_block(sizes[k]), sizes[k]);
        for (int i = 0; i < 10000; i++) new_block(33 + 64 * 16);
        for (int i = 0; i < 100000; i++) {
            void *p = new_block(33 + 64 * 32);
            void *q = realloc(p, 33 + 64 * 64); count_free(33 + 64 * 32); count_alloc(q, 33 + 64 * 64);
            end_block(q, 33 + 64 * 64);
        }
    }
    if (!strcmp(what, "ends")) {
        for (int i = 0; i < 1000; i++) new_block(tagged(i));
        report();
        const char *how = arguments[2];
        if (!strcmp(how, "exit")) exit(0);
        if (!strcmp(how, "_exit")) _exit(0);
        if (!strcmp(how, "quick_exit")) quick_exit(0);
        if (!strcmp(how, "abort")) abort();
        if (!strcmp(how, "kill")) kill(getpid(), SIGKILL);
        if (!strcmp(how, "segv")) *(volatile int *)8 = 1;
        return 1;
    }
    report();
    (void)count;
    return 0;
}
