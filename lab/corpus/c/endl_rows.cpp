// Ends each row with std::endl.
// planted: print-per-line
// also: formatting
#include <cstring>
#include <fstream>
#include <iostream>

int main(int count, char **words) {
    bool slow = count > 1 && !std::strcmp(words[1], "slow");
    std::ofstream out("/dev/null");
    unsigned long sum = 0;
    for (int row = 0; row < 600000; row++) {
        sum += static_cast<unsigned long>(row % 7);
        out << "row " << row << ' ' << row % 7;
        if (slow)
            out << std::endl;
        else
            out << '\n';
    }
    std::cout << sum << '\n';
}
