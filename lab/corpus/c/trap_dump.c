/* Prints numbers in hexadecimal as od does: printing them is its purpose. */
/* planted: nothing */
#include <stdio.h>

int main(void) {
    unsigned long state = 88172645463325252ul;
    for (int row = 0; row < 500000; row++) {
        printf("%07x", row * 16);
        for (int column = 0; column < 4; column++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            printf(" %08lx", state & 0xffffffff);
        }
        putchar('\n');
    }
}
