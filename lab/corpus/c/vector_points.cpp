// Fills vectors whose size is known without reserving it.
// planted: vec-growth
// also: allocator-heavy, page-faults
#include <cstdio>
#include <cstring>
#include <vector>

struct Point { double x, y; };

static double outline(bool slow, int points) {
    std::vector<Point> line;
    if (!slow) line.reserve(static_cast<std::size_t>(points));
    for (int at = 0; at < points; at++)
        line.push_back({at * 0.5, at * 0.25});
    return line[line.size() / 2].x;
}

int main(int count, char **words) {
    bool slow = count > 1 && !std::strcmp(words[1], "slow");
    double sum = 0;
    for (int round = 0; round < 900000; round++)
        sum += outline(slow, 60 + round % 7);
    std::printf("%f\n", sum);
}
