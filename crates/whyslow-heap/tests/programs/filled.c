// Fills blocks like the agent, and overwrites parts of them. Lines as in leaks.c; the last word is the number of unwritten bytes.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *blocks[4];

static void block(int at, size_t size, size_t from, size_t used) {
    unsigned char *bytes = malloc(size);
    for (size_t byte = 0; byte < size; byte++)
        bytes[byte] = ((uint64_t)(byte + 1) * 0x9E3779B97F4A7C15ul >> 56) | 1;
    memset(bytes + from, 0, used);
    blocks[at] = bytes;
    // Four bytes are compared together.
    size_t first = from / 4 * 4, end = (from + used + 3) / 4 * 4;
    size_t left = used ? size - ((end < size ? end : size) - first) : size;
    printf("%lx %zu %zu\n", (unsigned long)bytes, size, left);
}

int main(void) {
    block(0, 100, 0, 10);
    block(1, 3000000, 1048570, 20);
    block(2, 0, 0, 0);
    block(3, 77, 0, 77);
    printf("ready\n");
    fflush(stdout);
    for (;;) pause();
}
