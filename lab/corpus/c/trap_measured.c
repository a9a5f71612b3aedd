/* Measures each of many words once, before the loop over its letters. */
/* planted: nothing */
#include <stdio.h>
#include <string.h>

static unsigned long letters(const char *const *words, int count) {
    unsigned long sum = 0;
    for (int word = 0; word < count; word++) {
        size_t length = strlen(words[word]);
        for (size_t at = 0; at < length; at += 16)
            sum += (unsigned char)words[word][at] + length;
    }
    return sum;
}

int main(void) {
    static char text[64][512];
    const char *words[64];
    for (int word = 0; word < 64; word++) {
        memset(text[word], 'a' + word % 26, 400 + word);
        words[word] = text[word];
    }
    unsigned long sum = 0;
    for (int round = 0; round < 60000; round++)
        sum += letters(words, 64) ^ (unsigned long)round;
    printf("%lu\n", sum);
}
