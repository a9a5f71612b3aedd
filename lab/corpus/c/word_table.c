/* Counts words in an array that it searches from the start for each word. */
/* planted: search-loop, linear-search */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct word { char text[16]; long count; };
static struct word words_seen[4096];
static int seen;
static int slots[16384];

static struct word *find(const char *text) {
    for (int at = 0; at < seen; at++)
        if (strcmp(words_seen[at].text, text) == 0)
            return &words_seen[at];
    return NULL;
}

static struct word *find_hashed(const char *text, unsigned *slot) {
    unsigned hash = 5381;
    for (const char *letter = text; *letter; letter++)
        hash = hash * 33 + (unsigned char)*letter;
    for (*slot = hash % 16384; slots[*slot]; *slot = (*slot + 1) % 16384)
        if (!strcmp(words_seen[slots[*slot] - 1].text, text))
            return &words_seen[slots[*slot] - 1];
    return NULL;
}

int main(int count, char **arguments) {
    int slow = count > 1 && !strcmp(arguments[1], "slow");
    unsigned state = 1;
    for (int at = 0; at < 200000; at++) {
        char text[16];
        unsigned slot = 0;
        state = state * 1103515245u + 12345u;
        unsigned number = (state >> 12) % 3000;
        for (int letter = 0; letter < 6; letter++, number /= 3)
            text[letter] = (char)('a' + number % 26);
        text[6] = (char)('a' + number % 7);
        text[7] = 0;
        struct word *word = slow ? find(text) : find_hashed(text, &slot);
        if (!word) {
            slots[slot] = seen + 1;
            word = &words_seen[seen++];
            strcpy(word->text, text);
        }
        word->count++;
    }
    long most = 0;
    for (int at = 0; at < seen; at++)
        if (words_seen[at].count > most) most = words_seen[at].count;
    printf("%d %ld\n", seen, most);
}
