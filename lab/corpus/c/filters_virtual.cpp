// Applies a filter to each pixel through a virtual function.
// planted: dyn-calls
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

struct Filter {
    virtual ~Filter() = default;
    virtual unsigned apply(unsigned pixel) const = 0;
};
struct Invert : Filter { unsigned apply(unsigned pixel) const override { return 255u - pixel; } };
struct Darken : Filter { unsigned apply(unsigned pixel) const override { return pixel / 2; } };
struct Clip : Filter { unsigned apply(unsigned pixel) const override { return pixel > 200 ? 200 : pixel; } };

__attribute__((noinline)) static void run(const Filter &filter, std::vector<unsigned char> &image) {
    for (auto &pixel : image)
        pixel = static_cast<unsigned char>(filter.apply(pixel));
}

template <class F> __attribute__((noinline)) static void run_static(const F &filter, std::vector<unsigned char> &image) {
    for (auto &pixel : image)
        pixel = static_cast<unsigned char>(filter.F::apply(pixel));
}

int main(int count, char **words) {
    bool slow = count > 1 && !std::strcmp(words[1], "slow");
    std::vector<unsigned char> image(1 << 20);
    for (std::size_t at = 0; at < image.size(); at++) image[at] = static_cast<unsigned char>(at * 7);
    std::vector<std::unique_ptr<Filter>> filters;
    filters.push_back(std::make_unique<Invert>());
    filters.push_back(std::make_unique<Clip>());
    filters.push_back(std::make_unique<Darken>());
    for (int round = 0; round < 80; round++) {
        if (slow) {
            for (const auto &filter : filters) run(*filter, image);
        } else {
            run_static(Invert(), image);
            run_static(Clip(), image);
            run_static(Darken(), image);
        }
    }
    std::printf("%d\n", image[12345]);
}
