/* Blurs an image down its columns, column by column. */
/* planted: strided-access */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 3000, HEIGHT = 2000 };

static void blur_columns(const float *from, float *to) {
    for (int x = 0; x < WIDTH; x++)
        for (int y = 1; y < HEIGHT - 1; y++)
            to[y * WIDTH + x] = (from[(y - 1) * WIDTH + x] + from[y * WIDTH + x] + from[(y + 1) * WIDTH + x]) * 0.33f;
}

static void blur_rows(const float *from, float *to) {
    for (int y = 1; y < HEIGHT - 1; y++)
        for (int x = 0; x < WIDTH; x++)
            to[y * WIDTH + x] = (from[(y - 1) * WIDTH + x] + from[y * WIDTH + x] + from[(y + 1) * WIDTH + x]) * 0.33f;
}

int main(int count, char **words) {
    int slow = count > 1 && !strcmp(words[1], "slow");
    float *from = calloc(WIDTH * HEIGHT, sizeof *from), *to = calloc(WIDTH * HEIGHT, sizeof *to);
    for (int at = 0; at < WIDTH * HEIGHT; at++)
        from[at] = (float)(at % 255);
    for (int round = 0; round < 8; round++) {
        if (slow) blur_columns(from, to); else blur_rows(from, to);
        float *swap = from;
        from = to;
        to = swap;
    }
    printf("%f\n", from[WIDTH * 1000 + 7]);
}
