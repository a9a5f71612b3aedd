// Passes std::shared_ptr by value to a function that only looks at it.
// planted: arc-traffic
// also: small-callee
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

struct Node { long weight; long level; };

__attribute__((noinline)) static long weigh(std::shared_ptr<Node> node, long by) { return node->weight * by + node->level; }
__attribute__((noinline)) static long weigh_one(const Node &node, long by) { return node.weight * by + node.level; }

int main(int count, char **words) {
    bool slow = count > 1 && !std::strcmp(words[1], "slow");
    // Reference counts are atomic once a program has threads.
    std::thread([] {}).join();
    std::vector<std::shared_ptr<Node>> nodes;
    for (long at = 0; at < 1000; at++)
        nodes.push_back(std::make_shared<Node>(Node{at % 11, at % 3}));
    long sum = 0;
    for (long round = 0; round < 60000; round++)
        for (const auto &node : nodes)
            sum += slow ? weigh(node, round & 3) : weigh_one(*node, round & 3);
    std::printf("%ld\n", sum);
}
