// Runs a command under a filter of system calls, as containers and sandboxes have it.
//
// Run: refuse [--threads] COMMAND [ARGUMENTS]
//
// THE KNOWN ANSWER: perf_event_open fails with EPERM in the command and its children; everything else is unchanged.
// With --threads, no new thread starts instead: clone3 is unknown, and clone fails as at the limit of processes.

#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define UNLESS(kind, value, skipped) BPF_JUMP(BPF_JMP | kind | BPF_K, value, 0, skipped)
#define FAIL(error) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error)
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

int main(int argc, char **argv) {
    int threads = argc > 1 && strcmp(argv[1], "--threads") == 0;
    char **command = argv + 1 + threads;
    if (argc < 2 + threads) {
        // Without a command there is nothing to run.
        puts("truth refused=1");
        return 0;
    }
    struct sock_filter events[] = {LOAD(nr), UNLESS(BPF_JEQ, SYS_perf_event_open, 1), FAIL(EPERM), ALLOW};
    struct sock_filter clones[] = {
        LOAD(nr),      UNLESS(BPF_JEQ, SYS_clone3, 1),      FAIL(ENOSYS), UNLESS(BPF_JEQ, SYS_clone, 3),
        LOAD(args[0]), UNLESS(BPF_JSET, CLONE_THREAD, 1), FAIL(EAGAIN), ALLOW,
    };
    struct sock_fprog no_events = {sizeof events / sizeof *events, events};
    struct sock_fprog no_threads = {sizeof clones / sizeof *clones, clones};
    struct sock_fprog *filter = threads ? &no_threads : &no_events;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter)) {
        perror("refuse");
        return 1;
    }
    execvp(command[0], command);
    perror(command[0]);
    return 127;
}
