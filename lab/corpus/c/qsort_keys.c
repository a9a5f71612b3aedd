/* Sorts records, and writes both keys as text for each comparison. */
/* planted: sort-by-costly-key */
/* also: formatting (of the fast half: digits written one by one make it 1.4 times as fast) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct record { int year, day; char key[24]; };

static void make_key(const struct record *record, char *key) { snprintf(key, 24, "%04d-%03d", record->year, record->day); }

static int by_made_key(const void *one, const void *other) {
    char keys[2][24];
    make_key(one, keys[0]);
    make_key(other, keys[1]);
    return strcmp(keys[0], keys[1]);
}

static int by_key(const void *one, const void *other) {
    return strcmp(((const struct record *)one)->key, ((const struct record *)other)->key);
}

int main(int count, char **words) {
    int slow = count > 1 && !strcmp(words[1], "slow");
    enum { RECORDS = 150000 };
    struct record *records = calloc(RECORDS, sizeof *records);
    unsigned state = 1;
    for (int at = 0; at < RECORDS; at++) {
        state = state * 1103515245u + 12345u;
        records[at].year = (int)(state >> 16) % 2000;
        records[at].day = (int)(state >> 8) % 366;
        make_key(&records[at], records[at].key);
    }
    qsort(records, RECORDS, sizeof *records, slow ? by_made_key : by_key);
    printf("%s %s\n", records[0].key, records[RECORDS / 2].key);
    free(records);
}
