// Functions with an allocator's names and first instructions that are hard to move. Each returns a number that depends on its
// arguments, so that a wrongly moved instruction shows.

#include <stdio.h>

long table[4] = {1000, 2000, 3000, 4000};
long helper(long a) { return a + 7; }

__asm__(
    ".text\n"
    ".macro fn name\n .balign 16\n .globl \\name\n .type \\name, @function\n \\name:\n .endm\n"
    ".macro end name\n .size \\name, . - \\name\n .endm\n"

    // A short conditional jump among the first bytes, taken or not.
    "fn mi_malloc\n  test %rdi, %rdi\n  je 1f\n  lea 1(%rdi), %rax\n  ret\n1: mov $55, %eax\n  ret\nend mi_malloc\n"
    // A load relative to the instruction pointer.
    "fn mi_zalloc\n  mov table(%rip), %rax\n  add %rdi, %rax\n  ret\nend mi_zalloc\n"
    // Only a jump elsewhere.
    "fn mi_new\n  jmp helper\nend mi_new\n"
    // A short jump and padding.
    "fn mi_new_nothrow\n  jmp 2f\nend mi_new_nothrow\n .balign 16\n2: lea 9(%rdi), %rax\n  ret\n"
    // A landing pad for indirect jumps.
    "fn mi_malloc_aligned\n  endbr64\n  lea (%rdi,%rsi), %rax\n  ret\nend mi_malloc_aligned\n"
    // A call among the first bytes.
    "fn mi_zalloc_aligned\n  push %rsi\n  call helper\n  pop %rsi\n  add %rsi, %rax\n  ret\nend mi_zalloc_aligned\n"
    // A loop back to the second instruction: it must not be patched.
    "fn mi_malloc_small\n  xor %eax, %eax\n3: inc %rax\n  dec %rdi\n  jne 3b\n  ret\nend mi_malloc_small\n"
    // One byte followed directly by other code: it must not be patched either.
    "fn mi_free_size\n  ret\nend mi_free_size\n .globl other\n .type other, @function\nother:\n  mov $77, %eax\n  ret\nend other\n"
    // Three arguments in other orders than the hooks'.
    "fn mi_heap_malloc_aligned\n  imul $100, %rdi, %rax\n  imul $10, %rsi, %rsi\n  add %rsi, %rax\n  add %rdx, %rax\n  ret\nend mi_heap_malloc_aligned\n"
    "fn mi_heap_realloc\n  imul $100, %rdi, %rax\n  imul $10, %rsi, %rsi\n  add %rsi, %rax\n  add %rdx, %rax\n  ret\nend mi_heap_realloc\n"
    // Products: the function gets one block of the total size, unless the product overflows.
    "fn mi_calloc_aligned\n  mov %rdi, %rax\n  imul %rsi, %rax\n  jo 4f\n  imul $100, %rax, %rax\n  add %rdx, %rax\n  ret\n4: mov $-1, %rax\n  ret\nend mi_calloc_aligned\n"
    "fn mi_heap_calloc\n  mov %rsi, %rax\n  imul %rdx, %rax\n  jo 5f\n  imul $100, %rax, %rax\n  add %rdi, %rax\n  ret\n5: mov $-1, %rax\n  ret\nend mi_heap_calloc\n");

long mi_malloc(long), mi_zalloc(long), mi_new(long), mi_new_nothrow(long), mi_malloc_aligned(long, long),
    mi_zalloc_aligned(long, long), mi_malloc_small(long), other(void), mi_heap_malloc_aligned(long, long, long),
    mi_heap_realloc(long, long, long), mi_calloc_aligned(long, long, long), mi_heap_calloc(long, long, long);
void mi_free_size(long, long);

int main(void) {
    mi_free_size(1, 2);
    printf("%ld %ld %ld %ld %ld ", mi_malloc(0), mi_malloc(20), mi_zalloc(5), mi_new(1), mi_new_nothrow(1));
    printf("%ld %ld %ld %ld ", mi_malloc_aligned(3, 4), mi_zalloc_aligned(3, 4), mi_malloc_small(6), other());
    printf("%ld %ld ", mi_heap_malloc_aligned(1, 2, 3), mi_heap_realloc(4, 5, 6));
    printf("%ld %ld ", mi_calloc_aligned(3, 5, 8), mi_calloc_aligned(1L << 40, 1L << 40, 8));
    printf("%ld %ld\n", mi_heap_calloc(8, 3, 5), mi_heap_calloc(8, 1L << 40, 1L << 40));
    return 0;
}
