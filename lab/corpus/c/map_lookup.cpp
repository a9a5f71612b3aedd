// Looks names up in a std::map whose order nobody needs.
// planted: btree-search
// also: allocator-heavy, map-growth
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

template <class Map> static long look_up(const Map &map, const std::vector<std::string> &names) {
    long sum = 0;
    for (int round = 0; round < 15; round++)
        for (const auto &name : names)
            if (auto found = map.find(name); found != map.end())
                sum += found->second;
    return sum;
}

int main(int count, char **words) {
    bool slow = count > 1 && !std::strcmp(words[1], "slow");
    std::vector<std::string> names;
    unsigned long state = 7;
    for (int at = 0; at < 60000; at++) {
        state = state * 6364136223846793005ul + 1;
        names.push_back("customer-" + std::to_string(state >> 40));
    }
    long sum;
    if (slow) {
        std::map<std::string, long> map;
        for (const auto &name : names) map[name] = static_cast<long>(name.size());
        sum = look_up(map, names);
    } else {
        std::unordered_map<std::string, long> map;
        for (const auto &name : names) map[name] = static_cast<long>(name.size());
        sum = look_up(map, names);
    }
    std::printf("%ld\n", sum);
}
