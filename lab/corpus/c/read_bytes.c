/* Counts lines, and reads the file with read(2) one byte at a time. */
/* planted: unbuffered-reads */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long lines_by_byte(int file) {
    char byte;
    long lines = 0;
    while (read(file, &byte, 1) == 1)
        lines += byte == '\n';
    return lines;
}

static long lines_by_block(int file) {
    static char block[65536];
    long lines = 0;
    for (ssize_t bytes; (bytes = read(file, block, sizeof block)) > 0;)
        for (ssize_t at = 0; at < bytes; at++)
            lines += block[at] == '\n';
    return lines;
}

int main(int count, char **words) {
    int slow = count > 1 && !strcmp(words[1], "slow");
    char path[] = "/tmp/bytes-XXXXXX";
    int file = mkstemp(path);
    FILE *out = fdopen(file, "w");
    for (int line = 0; line < 60000; line++)
        fprintf(out, "line %d of many\n", line);
    fflush(out);
    lseek(file, 0, SEEK_SET);
    printf("%ld\n", slow ? lines_by_byte(file) : lines_by_block(file));
    unlink(path);
}
