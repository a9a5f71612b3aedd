/* Writes short records with write(2). */
/* planted: unbuffered-writes */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **words) {
    int slow = count > 1 && !strcmp(words[1], "slow");
    char path[] = "/tmp/records-XXXXXX";
    int file = mkstemp(path);
    FILE *buffered = fdopen(file, "w");
    unsigned long state = 1, sum = 0;
    for (int row = 0; row < 500000; row++) {
        char record[16];
        state = state * 6364136223846793005ul + 1442695040888963407ul;
        for (int at = 0; at < 12; at++)
            record[at] = (char)('a' + (state >> (at * 5)) % 26);
        sum += (unsigned char)record[3];
        if (slow) {
            if (write(file, record, 12) != 12) return 1;
        } else if (fwrite(record, 1, 12, buffered) != 12) return 1;
    }
    fclose(buffered);
    unlink(path);
    printf("%lu\n", sum);
}
