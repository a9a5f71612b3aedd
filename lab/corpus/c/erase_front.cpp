// A queue of messages in a std::vector, taken from the front.
// planted: front-removal
// also: memory-copies
#include <cstdio>
#include <cstring>
#include <deque>
#include <vector>

struct Message { long id, size, kind; };

template <class Queue, class Take> static long drain(Queue &queue, Take take) {
    for (long id = 0; id < 40000; id++) queue.push_back({id, id % 100, id % 3});
    long sum = 0;
    while (!queue.empty()) {
        Message message = queue.front();
        take(queue);
        sum = sum * 31 + message.id + message.size;
    }
    return sum;
}

int main(int count, char **words) {
    bool slow = count > 1 && !std::strcmp(words[1], "slow");
    std::vector<Message> vector;
    std::deque<Message> deque;
    long sum = slow ? drain(vector, [](auto &queue) { queue.erase(queue.begin()); })
                    : drain(deque, [](auto &queue) { queue.pop_front(); });
    std::printf("%ld\n", sum);
}
