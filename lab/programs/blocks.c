// Blocks of the heap of which only a part is used.
//
// Run: blocks
//
// THE KNOWN ANSWER: 1,000 blocks of 96 bytes from make_partly: the first 8 bytes are written once and read 40 times in
// each, the next 80 are written once, the last 8 never touched. 100 blocks of 64 bytes from make_unread are written and
// never read; 10 blocks of 4,096 bytes from make_untouched are never touched.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 1000, READS = 40, WORDS = 12 };
static volatile uint64_t *blocks[BLOCKS];

__attribute__((noinline)) void make_partly(int at) {
    blocks[at] = malloc(WORDS * sizeof(uint64_t));
    for (int word = 0; word < WORDS - 1; word++)
        blocks[at][word] = 1;
}

__attribute__((noinline)) void make_unread(void) {
    volatile uint64_t *block = malloc(64);
    for (int word = 0; word < 8; word++)
        block[word] = 1;
    free((void *)block);
}

__attribute__((noinline)) void make_untouched(void) {
    void *volatile block = malloc(4096);
    free(block);
}

int main(void) {
    uint64_t sum = 0;
    for (int at = 0; at < BLOCKS; at++)
        make_partly(at);
    for (int at = 0; at < BLOCKS; at++)
        for (int read = 0; read < READS; read++)
            sum += blocks[at][0];
    for (int at = 0; at < 100; at++)
        make_unread();
    for (int at = 0; at < 10; at++)
        make_untouched();
    for (int at = 0; at < BLOCKS; at++)
        free((void *)blocks[at]);
    printf("reads %llu\n", (unsigned long long)sum);
    return 0;
}
