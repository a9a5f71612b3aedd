// Walks a directory-like tree by recursion and sorts names with std::sort.
// planted: nothing
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

struct Entry {
    std::string name;
    long size = 0;
    std::vector<std::unique_ptr<Entry>> children;
};

static std::unique_ptr<Entry> grow(int depth, unsigned &state) {
    auto entry = std::make_unique<Entry>();
    state = state * 1103515245u + 12345u;
    entry->name = "entry" + std::to_string(state >> 8);
    entry->size = static_cast<long>(state >> 20);
    if (depth > 0)
        for (int at = 0; at < 3; at++)
            entry->children.push_back(grow(depth - 1, state));
    return entry;
}

static long size(const Entry &entry) {
    long sum = entry.size;
    for (const auto &child : entry.children)
        sum += size(*child);
    return sum;
}

int main() {
    unsigned state = 1;
    auto root = grow(10, state);
    long sum = 0;
    for (int round = 0; round < 400; round++)
        sum += size(*root);
    std::printf("%ld\n", sum);
}
