/* Masks digits in lines, and measures the line again for each letter. */
/* planted: strlen-in-loop */
#include <stdio.h>
#include <string.h>

static void mask(char *line) {
    for (size_t at = 0; at < strlen(line); at++)
        if (line[at] >= '0' && line[at] <= '9')
            line[at] = '#';
}

static void mask_measured(char *line) {
    size_t length = strlen(line);
    for (size_t at = 0; at < length; at++)
        if (line[at] >= '0' && line[at] <= '9')
            line[at] = '#';
}

int main(int count, char **words) {
    int slow = count > 1 && !strcmp(words[1], "slow");
    static char line[40001];
    unsigned long sum = 0;
    for (int round = 0; round < 20; round++) {
        for (int at = 0; at < 40000; at++)
            line[at] = (char)('0' + (at * 7 + round) % 60);
        if (slow) mask(line); else mask_measured(line);
        for (int at = 0; at < 40000; at++)
            sum += (unsigned char)line[at];
    }
    printf("%lu\n", sum);
}
