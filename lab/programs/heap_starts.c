/* Starts another program in one of many ways, and checks that everything works as it should.
 *
 * Run: `heap_starts [WAY=fails [PROGRAM ARGUMENTS...]]`. The ways are fork, vfork, raw, bare, spawn, spawnp,
 * own, system, popen, replace, thread, folder, file and confined. The last five create no process: the exec is
 * made by a second thread, relative to an open folder, of an open file, and behind a filter that kills a process
 * that opens a socket. `bare` gives the program no environment, and `own` a separate one with three thousand
 * variables. `fails` starts nothing. With a PROGRAM it also fails to start that, and then replaces itself by it.
 *
 * THE KNOWN ANSWER: what the other program claims. The exit code is the other program's. This one allocates ten blocks of 100 bytes
 * itself, and frees four of them. The others are live when it exits, except if it becomes the other program: that frees all of its memory.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "heap.h"

/* musl's compiler has no headers of the kernel. */
#ifdef __GLIBC__
#include <linux/filter.h>
#include <linux/seccomp.h>
#endif

extern char **environ;

NEVER_INLINED static void before_it_starts(struct tally *t) {
    for (int i = 0; i < 10; i++) {
        void *block = count_alloc(t, malloc(100), 100);
        if (i >= 6)
            free(count_free(t, block, 100));
    }
}

static int ended(pid_t child) {
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child)
        fail("no child");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int by_fork(char **command) {
    pid_t child = fork();
    if (child == 0) {
        execve(command[0], command, environ);
        _exit(127);
    }
    return ended(child);
}

static int by_vfork(char **command) {
    pid_t child = vfork();
    if (child == 0) {
        execv(command[0], command);
        _exit(127);
    }
    return ended(child);
}

/* No library function is called. */
static int by_system_call(char **command) {
    pid_t child = fork();
    if (child == 0) {
        long result;
        __asm__ volatile("syscall"
                         : "=a"(result)
                         : "a"(SYS_execve), "D"(command[0]), "S"(command), "d"(environ)
                         : "rcx", "r11", "memory");
        _exit(127);
    }
    return ended(child);
}

static int by_spawn(char **command, int look_for_it) {
    pid_t child;
    int error = (look_for_it ? posix_spawnp : posix_spawn)(&child, command[0], NULL, NULL, command, environ);
    if (error)
        fail(strerror(error));
    return ended(child);
}

static int by_vfork_alone(char **command) {
    pid_t child = vfork();
    if (child == 0) {
        execve(command[0], command, NULL);
        _exit(127);
    }
    return ended(child);
}

static char longest[1 << 20];

static char **too_long(const char *name) {
    static char *arguments[3];
    memset(longest, 'x', sizeof longest - 1);
    arguments[0] = (char *)name;
    arguments[1] = longest;
    return arguments;
}

static void must_be(const char *what, int error) {
    if (errno != error) {
        SAY("%s: errno is %d, but should be %d\n", what, errno, error);
        _exit(1);
    }
}

/* The arguments are unchanged, whether the program starts or not. */
static int with_own_environment(char **command) {
    enum { VARIABLES = 3000 };
    static char texts[VARIABLES][16], *own[VARIABLES + 2], *before[VARIABLES + 2];
    char none[] = "LD_PRELOAD=";
    own[0] = none;
    for (int i = 0; i < VARIABLES; i++) {
        snprintf(texts[i], sizeof texts[i], "V%d=%d", i, i * i % 97);
        own[i + 1] = texts[i];
    }
    memcpy(before, own, sizeof own);
    pid_t child;
    errno = posix_spawn(&child, command[0], NULL, NULL, too_long(command[0]), own);
    must_be("spawning with too long an argument", E2BIG);
    errno = posix_spawn(&child, command[0], NULL, NULL, command, own);
    must_be("spawning", 0);
    int code = ended(child);
    if (memcmp(before, own, sizeof own) || strcmp(none, "LD_PRELOAD="))
        fail("the environment is another one");
    return code;
}

static void line_of(char **command, char *line, size_t room) {
    line[0] = 0;
    for (; *command; command++) {
        strncat(line, *command, room - strlen(line) - 2);
        strcat(line, " ");
    }
}

static int by_shell(char **command) {
    char line[4096];
    line_of(command, line, sizeof line);
    int status = system(line);
    return WEXITSTATUS(status);
}

/* The other program's output comes through here. */
static int by_pipe(char **command) {
    char line[4096];
    line_of(command, line, sizeof line);
    FILE *pipe = popen(line, "r");
    if (!pipe)
        fail("no pipe");
    ssize_t length;
    while ((length = read(fileno(pipe), line, sizeof line)) > 0)
        if (write(1, line, length) != length)
            fail("no output");
    return WEXITSTATUS(pclose(pipe));
}

static void *in_thread(void *command) {
    execvp(((char **)command)[0], command);
    fail("it does not start");
    return NULL;
}

static int by_folder(char **command) {
    char path[4096];
    snprintf(path, sizeof path, "%s", command[0]);
    char *name = strrchr(path, '/');
    if (!name)
        fail("a path with a folder, please");
    *name = 0;
    int folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
#ifdef __GLIBC__
    execveat(folder, name + 1, command, environ, 0);
#else
    syscall(SYS_execveat, folder, name + 1, command, environ, 0);
#endif
    return 127;
}

static int by_file(char **command) {
    fexecve(open(command[0], O_RDONLY | O_CLOEXEC), command, environ);
    return 127;
}

static int confined(char **command) {
#ifdef __GLIBC__
    struct sock_filter kills[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof kills / sizeof kills[0], kills};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        fail("no filter");
#endif
    execv(command[0], command);
    return 127;
}

/* Every failure has its own errno, in the process itself and in a new one. */
static void fails(char **command) {
    char *nothing[] = {"./there-is-no-such-program", NULL}, *folder[] = {"/", NULL};
    pid_t child;
    errno = 0;
    execve(nothing[0], nothing, environ);
    must_be("nothing", ENOENT);
    execvp(folder[0], folder);
    must_be("a folder", EACCES);
    execve(hidden(NULL), nothing, environ);
    must_be("no path", EFAULT);
    fexecve(open("/dev/null", O_RDONLY | O_CLOEXEC), nothing, environ);
    must_be("a device", EACCES);
    errno = posix_spawn(&child, nothing[0], NULL, NULL, nothing, environ);
    must_be("spawning nothing", ENOENT);
    errno = posix_spawnp(&child, nothing[0] + 2, NULL, NULL, nothing, environ);
    must_be("looking for nothing", ENOENT);
    if (!command[0])
        return;
    char *empty[] = {NULL}, **environments[] = {environ, empty, NULL};
    for (int i = 0; i < 3; i++) {
        execve(command[0], too_long(command[0]), environments[i]);
        must_be("too long an argument", E2BIG);
        errno = posix_spawn(&child, command[0], NULL, NULL, too_long(command[0]), environments[i]);
        must_be("spawning with too long an argument", E2BIG);
    }
    char **nonsense = hidden((void *)8), *in_it[] = {"L=1", hidden((void *)8), NULL};
    execve(command[0], command, nonsense);
    must_be("an environment that is not there", EFAULT);
    execve(command[0], command, in_it);
    must_be("an environment with a variable that is not there", EFAULT);
    char status[4096] = {0};
    int file = open("/proc/self/status", O_RDONLY);
    if (read(file, status, sizeof status - 1) < 0 || !strstr(status, "TracerPid:\t0\n"))
        fail("somebody still traces this process");
    close(file);
    execv(command[0], command);
    fail("it does not start");
}

int main(int argc, char **argv) {
    const char *way = argc > 1 ? argv[1] : "fails";
    char *none[] = {NULL}, **command = argc > 2 ? argv + 2 : none;
    struct tally own = {0};
    before_it_starts(&own);
    static const char *const replacing[] = {"fails", "replace", "thread", "folder", "file", "confined"};
    for (size_t i = 0; i < sizeof replacing / sizeof *replacing; i++)
        if (command[0] && !strcmp(way, replacing[i]))
            own.live_blocks = own.live_bytes = 0;
    claim_site("before_it_starts", &own);
    if (!strcmp(way, "fails")) {
        fails(command);
        return 0;
    }
    if (!command[0])
        fail("heap_starts [WAY [PROGRAM ARGUMENTS...]]");
    if (!strcmp(way, "fork"))
        return by_fork(command);
    if (!strcmp(way, "raw"))
        return by_system_call(command);
    if (!strcmp(way, "vfork"))
        return by_vfork(command);
    if (!strcmp(way, "bare"))
        return by_vfork_alone(command);
    if (!strcmp(way, "own"))
        return with_own_environment(command);
    if (!strcmp(way, "spawn"))
        return by_spawn(command, 0);
    if (!strcmp(way, "spawnp"))
        return by_spawn(command, 1);
    if (!strcmp(way, "system"))
        return by_shell(command);
    if (!strcmp(way, "popen"))
        return by_pipe(command);
    if (!strcmp(way, "folder"))
        return by_folder(command);
    if (!strcmp(way, "file"))
        return by_file(command);
    if (!strcmp(way, "confined"))
        return confined(command);
    if (!strcmp(way, "replace"))
        in_thread(command);
    if (!strcmp(way, "thread")) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, in_thread, command))
            fail("no thread");
        pthread_join(thread, NULL);
    }
    fail("this way is not known");
}
