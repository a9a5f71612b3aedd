// Compiles the same regular expression for each row.
// planted: regex-in-loop
#include <cstdio>
#include <cstring>
#include <regex>
#include <string>
#include <vector>

static bool is_date(const std::string &text) { return std::regex_match(text, std::regex("[0-9]+-[0-9]+-[0-9]+")); }
static bool is_date_of(const std::string &text, const std::regex &date) { return std::regex_match(text, date); }

int main(int count, char **words) {
    bool slow = count > 1 && !std::strcmp(words[1], "slow");
    const std::regex date("[0-9]+-[0-9]+-[0-9]+");
    std::vector<std::string> rows;
    for (int at = 0; at < 6000; at++)
        rows.push_back(at % 2 ? "2024-1-" + std::to_string(at % 28) : "no date");
    long found = 0;
    for (const auto &row : rows)
        found += slow ? is_date(row) : is_date_of(row, date);
    std::printf("%ld\n", found);
}
