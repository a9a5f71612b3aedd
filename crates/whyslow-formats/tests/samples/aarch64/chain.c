/* _start → main → authenticated → framed → plain → untabled → leaf, which is in a library. Each does work of its own.
   Without a C library, the recording needs no other file. */
#ifdef NAME
long NEXT(long rounds);

__attribute__((noinline)) long NAME(long rounds) {
    long sum = rounds;
    for (long at = 0; at < rounds; at++) sum = sum * 31 + (at ^ (sum >> 3));
    return NEXT(rounds) * 3 + sum;
}
#elif defined LEAF
long leaf(long rounds) {
    long sum = rounds;
    for (long at = 0; at < rounds * 2; at++) sum = sum * 33 + (at ^ (sum >> 5));
    return sum;
}
#else
long authenticated(long rounds);
volatile long result;

__asm__(".globl _start\n.type _start, %function\n_start:\n.cfi_startproc\n.cfi_undefined x30\n"
        "mov x29, #0\nmov x30, #0\nbl main\nmov x8, #94\nsvc #0\n.cfi_endproc\n.size _start, .-_start\n");

int main(void) {
    for (int round = 0; round < 2000; round++) result += authenticated(20000);
    return 0;
}
#endif
