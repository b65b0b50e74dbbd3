// Loads each picture of a dataset once, as an epoch of training would, and says what came.
//
//     load_pictures FOLDER
#include <cinttypes>
#include <cstdio>
#include <exception>

#include "stretto/data.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: load_pictures FOLDER\n");
    return 2;
  }
  try {
    stretto::data::LoaderOptions options;
    options.phases[0].shape = {.height = 64, .width = 64, .batch = 16};
    options.last = stretto::data::Last::kPad;  // no picture is left out
    options.transforms = stretto::media::operators::parse_operators("rand_augment(2, 9)");
    stretto::data::Loader loader(stretto::data::open_dataset(argv[1]), options);

    int64_t pictures = 0, labels = 0;
    double sum = 0;  // of the normalised values
    while (const auto batch = loader.next()) {
      const auto* values = static_cast<const float*>(batch->data);  // [count, 3, 64, 64]
      const int64_t each = 3 * batch->height * batch->width;
      for (int64_t i = 0; i < batch->count; ++i) {
        if (!batch->real[i]) continue;
        ++pictures;
        labels += batch->labels[i];
        for (int64_t k = 0; k < each; ++k) sum += values[i * each + k];
      }
    }
    const double mean = sum / (static_cast<double>(pictures) * 3 * 64 * 64);
    std::printf("%" PRId64 " pictures, labels add up to %" PRId64 ", mean value %.3f\n", pictures,
                labels, mean);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "load_pictures: %s\n", error.what());
    return 1;
  }
}
