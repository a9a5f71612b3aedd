// A fake agent: sends a hello, applies the answer, counts the calls of every hook, and writes the counts to standard error
// when the process exits. One line per called hook: its row, the number of calls, the sum of first arguments.
// It needs no libc, and can be preloaded or injected.

typedef unsigned int u32;
typedef unsigned long u64;
typedef unsigned char u8;

#define TEXT_(number) #number
#define TEXT(number) TEXT_(number)

// ROWS, the number of hooks, EXIT, ORDERLY_EXIT, QUICK_EXIT and VERSION come from the compiler's command line.
enum { PER_GROUP = 16, PRELOADED = 1, INJECTED = 2 };

struct hello { u32 version, entered, pid, reserved; u64 hooks[ROWS], start, end, next[PER_GROUP], library; };
struct welcome { u32 version, pages, reals, patches; };
struct page { u64 at; u32 len, reserved; };
struct real { u32 hook, reserved; u64 address; };
struct patch { u64 address; u32 len, reserved; u8 bytes[16], expected[16]; };

static u64 counts[ROWS], sums[ROWS], reals[ROWS], depth;
static struct hello hello;
static u8 answer[65536] __attribute__((aligned(16)));

extern u8 first_hook[] __attribute__((visibility("hidden")));
extern u8 __ehdr_start[] __attribute__((visibility("hidden")));

static long call(long n, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "=a"(result) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static void number(u64 value, char end) {
    char text[24];
    int at = sizeof text;
    text[--at] = end;
    do text[--at] = '0' + value % 10; while (value /= 10);
    call(1, 2, (long)(text + at), sizeof text - at, 0, 0, 0);
}

// Called by every hook: counts outermost calls, and returns the real function. exit and quick_exit do not count, so that the _exit
// inside them is an outermost call.
__attribute__((used, visibility("hidden"))) u64 enter(u64 row, u64 first) {
    if (row == ORDERLY_EXIT || row == QUICK_EXIT) return reals[row];
    if (depth++ == 0) counts[row]++, sums[row] += first;
    if (row == EXIT)
        for (int i = 0; i < ROWS; i++)
            if (counts[i]) number(i, ' '), number(counts[i], ' '), number(sums[i], '\n');
    return reals[row];
}

__attribute__((used, visibility("hidden"))) void leave(void) { depth--; }

__asm__(
    ".text\n"
    ".balign 16\n"
    ".globl first_hook\n"
    ".hidden first_hook\n"
    "first_hook:\n"
    ".set row, 0\n"
    ".rept " TEXT(ROWS) "\n"
    "  .balign 16\n"
    "  movl $row, %eax\n"
    "  jmp common\n"
    "  .set row, row + 1\n"
    ".endr\n"
    "common:\n"
    "  push %rdi\n  push %rsi\n  push %rdx\n  push %rcx\n  push %r8\n"
    "  mov %rdi, %rsi\n"
    "  mov %eax, %edi\n"
    "  call enter\n"
    "  mov %rax, %r11\n"
    "  pop %r8\n  pop %rcx\n  pop %rdx\n  pop %rsi\n  pop %rdi\n"
    // A real function may overwrite caller-saved registers, so the hook's arguments are lost after it.
    "  sub $8, %rsp\n"
    "  call *%r11\n"
    "  mov %rax, (%rsp)\n"
    "  sub $8, %rsp\n"
    "  sub $8, %rsp\n"
    "  call leave\n"
    "  add $16, %rsp\n"
    "  pop %rax\n"
    "  ret\n");

static void apply(void) {
    struct welcome *welcome = (void *)answer;
    u8 *at = answer + sizeof *welcome;
    for (u32 i = 0; i < welcome->pages; i++) {
        struct page *page = (void *)at;
        at += sizeof *page;
        // MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE
        if (call(9, page->at, page->len, 3, 0x100022, -1, 0) != (long)page->at) call(231, 90, 0, 0, 0, 0, 0);
        for (u32 k = 0; k < page->len; k++) ((u8 *)page->at)[k] = at[k];
        call(10, page->at, page->len, 5, 0, 0, 0);
        at += (page->len + 7) & ~7u;
    }
    for (u32 i = 0; i < welcome->reals; i++, at += sizeof(struct real)) {
        struct real *real = (void *)at;
        reals[real->hook] = real->address;
    }
    for (u32 i = 0; i < welcome->patches; i++, at += sizeof(struct patch)) {
        struct patch *patch = (void *)at;
        u8 *code = (u8 *)patch->address;
        for (u32 k = 0; k < patch->len; k++)
            if (code[k] != patch->expected[k]) call(231, 91, 0, 0, 0, 0, 0);
        u64 page = patch->address & ~4095ul, len = ((patch->address + patch->len + 4095) & ~4095ul) - page;
        call(10, page, len, 7, 0, 0, 0);
        for (u32 k = 0; k < patch->len; k++) code[k] = patch->bytes[k];
        call(10, page, len, 5, 0, 0, 0);
    }
}

static void start(const char *path, u32 entered) {
    struct { unsigned short family; char path[108]; } address = {1, {0}};
    for (int i = 0; path[i]; i++) address.path[i] = path[i];
    hello.version = VERSION;
    hello.entered = entered;
    hello.pid = call(39, 0, 0, 0, 0, 0, 0);
    for (int i = 0; i < ROWS; i++) hello.hooks[i] = (u64)first_hook + 16 * i;
    hello.start = (u64)__ehdr_start;
    hello.end = hello.start + 4096;
    int fd = call(41, 1, 5, 0, 0, 0, 0);
    if (call(42, fd, (long)&address, sizeof address, 0, 0, 0) != 0) call(231, 92, 0, 0, 0, 0, 0);
    call(44, fd, (long)&hello, sizeof hello, 0, 0, 0);
    long got = call(45, fd, (long)answer, sizeof answer, 0, 0, 0);
    call(3, fd, 0, 0, 0, 0, 0);
    if (got >= (long)sizeof(struct welcome)) apply();
}

// Reachable only through a word that is relocated when the agent is laid out.
static void (*volatile starter)(const char *, u32) = start;

__attribute__((visibility("default"))) void whyslow_agent_enter(const char *path, u64 bias, u64 headers, u64 count) {
    // The program headers start with a known type, and the bias is a multiple of the page size.
    if (bias % 4096 || !headers || !count) call(231, 93, 0, 0, 0, 0, 0);
    starter(path, INJECTED);
}

// Not every loader passes the environment to constructors.
static char environment[65536];

__attribute__((constructor)) static void preloaded(void) {
    long fd = call(2, (long)"/proc/self/environ", 0, 0, 0, 0, 0), len = 0, got;
    while ((got = call(0, fd, (long)environment + len, sizeof environment - 1 - len, 0, 0, 0)) > 0) len += got;
    call(3, fd, 0, 0, 0, 0, 0);
    for (char *have = environment; have < environment + len;) {
        const char *name = "WHYSLOW_AGENT_SOCKET=";
        while (*name && *name == *have) name++, have++;
        if (!*name) starter(have, PRELOADED);
        while (*have++);
    }
}
