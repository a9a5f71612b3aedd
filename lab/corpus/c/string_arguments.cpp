// Passes long strings by value to functions that only read them.
// planted: clone-heavy, allocator-heavy, memory-copies
// also: small-callee
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

__attribute__((noinline)) static bool has_prefix(std::string text, std::string prefix) { return text.compare(0, prefix.size(), prefix) == 0; }
__attribute__((noinline)) static bool has_prefix_view(std::string_view text, std::string_view prefix) {
    return text.substr(0, prefix.size()) == prefix;
}

int main(int count, char **words) {
    bool slow = count > 1 && !std::strcmp(words[1], "slow");
    std::vector<std::string> paths;
    for (int at = 0; at < 1000; at++)
        paths.push_back("/usr/share/doc/package-" + std::to_string(at) + std::string(180, 'x'));
    const std::string prefix = "/usr/share/doc/package-7 and a little more of it";
    long found = 0;
    for (int round = 0; round < 6000; round++)
        for (const auto &path : paths)
            found += slow ? has_prefix(path, prefix) : has_prefix_view(path, prefix);
    std::printf("%ld\n", found);
}
