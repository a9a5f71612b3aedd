/* One memory error of each class, in C.
 *
 * Run: `memory_errors CLASS`. `clean` has none, `several` the same error at one line in a loop and from two callers.
 *
 * THE KNOWN ANSWER: the error is at the line marked `at: CLASS`; the block it is about was allocated at the line marked
 * `allocated: CLASS` and freed at `freed: CLASS`. With `fork`, the error is in a forked process, with `thread` in the
 * second thread, with `exec` before the program executes itself as `clean`, with `killed` before SIGKILL ends it.
 * `descriptors` first closes every descriptor and writes into those that are left.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NEVER_INLINED __attribute__((noinline, noclone))

/* The compiler must not see what a pointer points to. */
static void *hidden(void *pointer) {
    __asm__ volatile("" : "+r"(pointer) : : "memory");
    return pointer;
}

static volatile int sink;
static void *volatile kept, *volatile inside;

NEVER_INLINED static void invalid_read(void) {
    volatile int *block = hidden(malloc(40)); /* allocated: invalid-read */
    block[9] = 1;
    sink = block[12]; /* at: invalid-read */
    free((void *)block);
}

NEVER_INLINED static void invalid_write(void) {
    volatile char *block = hidden(calloc(1, 7)); /* allocated: invalid-write */
    block[7] = 1; /* at: invalid-write */
    free((void *)block);
}

NEVER_INLINED static void use_after_free(void) {
    volatile long *block = hidden(calloc(3, sizeof(long))); /* allocated: use-after-free */
    free((void *)block); /* freed: use-after-free */
    block = hidden((void *)block);
    sink = (int)block[1]; /* at: use-after-free */
}

NEVER_INLINED static void invalid_jump(void) {
    void (*volatile function)(void) = (void (*)(void))hidden((void *)8);
    function(); /* at: invalid-jump */
    sink++;
}

NEVER_INLINED static void decision(void) {
    volatile int *block = hidden(malloc(8)); /* allocated: decision */
    if (block[1] == 3) /* at: decision */
        sink++;
    free((void *)block);
}

NEVER_INLINED static void local(void) {
    volatile int numbers[4];
    __asm__ volatile("" : : "r"(numbers) : "memory");
    static volatile int table[16];
    sink = table[numbers[2] & 15]; /* at: local */
}

NEVER_INLINED static void syscall_argument(void) {
    char *block = hidden(malloc(16)); /* allocated: syscall-argument */
    memset(block, 0, 8);
    int file = open("/dev/null", O_WRONLY);
    ssize_t written = write(file, block, 16); /* at: syscall-argument */
    sink = (int)written;
    close(file);
    free(block);
}

NEVER_INLINED static void double_free(void) {
    char *block = hidden(malloc(24)); /* allocated: double-free */
    free(block); /* freed: double-free */
    free(hidden(block)); /* at: double-free */
    sink++;
}

NEVER_INLINED static void invalid_free(void) {
    char *block = hidden(malloc(32)); /* allocated: invalid-free */
    free(hidden(block + 8)); /* at: invalid-free */
    free(block);
}

NEVER_INLINED static void mismatched_free(void) {
    void *library = dlopen("libstdc++.so.6", RTLD_NOW);
    void (*operator_delete)(void *) = library ? (void (*)(void *))dlsym(library, "_ZdlPv") : free;
    operator_delete(hidden(malloc(48))); /* at: mismatched-free */
    sink++;
}

NEVER_INLINED static void overlap(void) {
    /* glibc's memcpy is its memmove, which may overlap; strncpy has the same rule. */
    char *(*volatile copy)(char *, const char *, size_t) = strncpy;
    char *block = hidden(calloc(1, 64));
    memset(block, 'x', 32);
    copy(block + 4, block, 16); /* at: overlap */
    sink = block[5];
    free(block);
}

NEVER_INLINED static void bad_size(void) {
    volatile long size = -3;
    free(hidden(malloc((size_t)size))); /* at: bad-size */
    sink++;
}

NEVER_INLINED static void descriptor_open(void) {
    sink = open("/dev/null", O_RDONLY); /* at: descriptor-open */
}

NEVER_INLINED static void leak_definite(void) {
    char *block = hidden(malloc(72)); /* at: leak-definite */
    block[0] = 1;
}

NEVER_INLINED static void leak_indirect(void) {
    void **block = hidden(malloc(sizeof(void *))); /* allocated: leak-indirect */
    *block = hidden(malloc(33)); /* at: leak-indirect */
    hidden(block);
}

NEVER_INLINED static void leak_possible(void) {
    inside = (char *)hidden(malloc(50)) + 10; /* at: leak-possible */
}

NEVER_INLINED static void leak_reachable(void) {
    kept = hidden(malloc(60)); /* at: leak-reachable */
}

NEVER_INLINED static void crash(void) {
    *(volatile int *)hidden(NULL) = 1; /* at: crash */
}

NEVER_INLINED static void aborts(void) {
    abort(); /* at: aborts */
}

NEVER_INLINED static void several_reads(volatile char *block) {
    for (int at = 10; at < 15; at++) sink += block[at]; /* at: several */
}

NEVER_INLINED static void first_caller(volatile char *block) {
    several_reads(block);
    sink++;
}

NEVER_INLINED static void second_caller(volatile char *block) {
    several_reads(block);
    sink++;
}

NEVER_INLINED static void several(void) {
    volatile char *block = hidden(calloc(1, 10)); /* allocated: several */
    first_caller(block);
    second_caller(block);
    free((void *)block);
}

static void *in_thread(void *argument) {
    pthread_setname_np(pthread_self(), "reader");
    invalid_read();
    return argument;
}

static void clean(void) {
    char *block = hidden(strdup("clean"));
    int file = open("/dev/null", O_WRONLY);
    ssize_t written = write(file, block, strlen(block));
    sink = (int)written;
    close(file);
    free(block);
}

static void close_all(void) {
    signal(SIGPIPE, SIG_IGN);
    for (int descriptor = 3; descriptor < 70000; descriptor++) {
        ssize_t written = write(descriptor, "<error><kind>InvalidRead</kind><what>mixed</what></error>", 56);
        sink = (int)written;
        close(descriptor);
    }
}

int main(int count, char **words) {
    const char *class = count > 1 ? words[1] : "clean";
    struct { const char *name; void (*run)(void); } classes[] = {
        {"clean", clean}, {"invalid-read", invalid_read}, {"invalid-write", invalid_write},
        {"use-after-free", use_after_free}, {"invalid-jump", invalid_jump}, {"decision", decision}, {"local", local},
        {"syscall-argument", syscall_argument}, {"double-free", double_free}, {"invalid-free", invalid_free},
        {"mismatched-free", mismatched_free}, {"overlap", overlap}, {"bad-size", bad_size},
        {"descriptor-open", descriptor_open}, {"leak-definite", leak_definite}, {"leak-indirect", leak_indirect},
        {"leak-possible", leak_possible}, {"leak-reachable", leak_reachable}, {"crash", crash}, {"aborts", aborts},
        {"several", several},
    };
    puts(class);
    fflush(stdout);
    if (!strcmp(class, "thread")) {
        pthread_t thread;
        pthread_create(&thread, NULL, in_thread, NULL);
        pthread_join(thread, NULL);
    } else if (!strcmp(class, "fork")) {
        /* All at once: their reports must not mix. */
        for (int child = 0; child < 4; child++)
            if (!fork()) {
                invalid_read();
                double_free();
                _exit(0);
            }
        while (wait(NULL) > 0);
    } else if (!strcmp(class, "exec")) {
        invalid_read();
        execl(words[0], words[0], "clean", NULL);
    } else if (!strcmp(class, "killed")) {
        invalid_read();
        /* From outside: Valgrind ends a process that kills itself with a whole report. */
        if (!fork()) {
            kill(getppid(), SIGKILL);
            _exit(0);
        }
        pause();
    } else if (!strcmp(class, "descriptors")) {
        close_all();
        invalid_read();
    }
    for (size_t at = 0; at < sizeof(classes) / sizeof(*classes); at++)
        if (!strcmp(class, classes[at].name))
            classes[at].run();
    return 0;
}
