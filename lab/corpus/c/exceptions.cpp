// Parses numbers, and throws for each field that is none.
// planted: panics-as-errors
#include <cstdio>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

static int parse(const std::string &field) {
    int value = 0;
    for (char letter : field) {
        if (letter < '0' || letter > '9')
            throw std::invalid_argument("not a number");
        value = value * 10 + (letter - '0');
    }
    return value;
}

static std::optional<int> try_parse(const std::string &field) {
    int value = 0;
    for (char letter : field) {
        if (letter < '0' || letter > '9')
            return std::nullopt;
        value = value * 10 + (letter - '0');
    }
    return value;
}

int main(int count, char **words) {
    bool slow = count > 1 && !std::strcmp(words[1], "slow");
    std::vector<std::string> fields;
    for (int at = 0; at < 2000; at++)
        fields.push_back(at % 2 ? std::to_string(at) : "n/a");
    long sum = 0, bad = 0;
    for (int round = 0; round < 400; round++)
        for (const auto &field : fields) {
            if (slow) {
                try {
                    sum += parse(field);
                } catch (const std::invalid_argument &) {
                    bad++;
                }
            } else if (auto value = try_parse(field))
                sum += *value;
            else
                bad++;
        }
    std::printf("%ld %ld\n", sum, bad);
}
