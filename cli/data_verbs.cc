#include "data_verbs.h"

namespace stretto::cli {

namespace {

constexpr Verb kDataVerbs[] = {
    {"pack", "Put pictures into a few large files that are read and decoded fast",
     "stretto pack photos photos.pack\n"
     "stretto pack train-{000..146}.tar train.pack --errors skip --verify\n"
     "stretto pack --verify train.pack",
     set_up_pack},
    {"unpack", "Write the pictures of a pack as files again", "stretto unpack photos.pack photos",
     set_up_unpack},
    {"data", "Show pictures as a model sees them, or time how they are loaded",
     "stretto data show photos -o page.html\n"
     "stretto data bench photos --step-ms 150",
     set_up_data},
};

}  // namespace

std::span<const Verb> data_verbs() { return kDataVerbs; }

}  // namespace stretto::cli
