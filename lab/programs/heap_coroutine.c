/* Stacks that the program creates, leaves, and unmaps while walkers remember them.
 *
 * Run: `heap_coroutine [ROUNDS=500]`. A coroutine is started inside another one, continues after the
 * other one's stack is unmapped, and is then entered from main. New stacks get the addresses of old ones.
 *
 * THE KNOWN ANSWER: the numbers that it prints. `in_outer` allocates on stacks of `outer`,
 * `in_inner` on stacks of `inner`. No caller is reported below a coroutine's first function.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <ucontext.h>

#include "heap.h"

#define STACK 65536

static struct tally outer_tally, inner_tally;
static ucontext_t main_context, outer_context, inner_context, *inner_returns_to;
static void *outer_stack, *inner_stack;

static void *new_stack(void) {
    void *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED)
        fail("no stack");
    return stack;
}

NEVER_INLINED static void in_outer(int depth) {
    if (depth > 0) {
        in_outer(depth - 1);
        hidden(NULL);
    } else {
        void *block = count_alloc(&outer_tally, malloc(100), 100);
        free(count_free(&outer_tally, block, 100));
    }
}

NEVER_INLINED static void in_inner(int depth) {
    if (depth > 0) {
        in_inner(depth - 1);
        hidden(NULL);
    } else {
        void *block = count_alloc(&inner_tally, malloc(200), 200);
        free(count_free(&inner_tally, block, 200));
    }
}

static void inner(void) {
    for (;;) {
        in_inner(8);
        swapcontext(&inner_context, inner_returns_to);
    }
}

static void start(ucontext_t *context, void *stack, void (*function)(void)) {
    getcontext(context);
    context->uc_stack.ss_sp = stack;
    context->uc_stack.ss_size = STACK;
    context->uc_link = NULL;
    makecontext(context, function, 0);
}

static void outer(void) {
    in_outer(5);
    inner_stack = new_stack();
    start(&inner_context, inner_stack, inner);
    inner_returns_to = &outer_context;
    swapcontext(&outer_context, &inner_context);
    in_outer(5);
    swapcontext(&outer_context, &main_context);
}

int main(int argc, char **argv) {
    size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 500;
    for (size_t round = 0; round < rounds; round++) {
        outer_stack = new_stack();
        start(&outer_context, outer_stack, outer);
        swapcontext(&main_context, &outer_context);
        munmap(outer_stack, STACK);
        inner_returns_to = &main_context;
        swapcontext(&main_context, &inner_context);
        /* Every other stack is left for the next rounds. */
        if (round % 2)
            munmap(inner_stack, STACK);
        else
            mprotect(inner_stack, STACK, PROT_NONE);
    }
    struct tally all = {0};
    add(&all, &outer_tally);
    add(&all, &inner_tally);
    claim_heap_without_peak(&all);
    claim_site("in_outer", &outer_tally);
    claim_site("in_inner", &inner_tally);
}
