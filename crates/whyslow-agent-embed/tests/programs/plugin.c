#include <stdlib.h>
void *make(void);
void *make(void) { void *p = malloc(SIZE); __asm__ volatile("" ::: "memory"); return p; }
