#include "stretto/data/tfrecord.h"

#include <gtest/gtest.h>

#include "stretto/data/containers_testing.h"
#include "stretto/data/data_testing.h"
#include "stretto/data/sample_bytes.h"

namespace stretto::data {
namespace {

std::string one(std::string_view picture, int64_t label) {
  return tf_record(
      example({number_feature("image/class/label", label), bytes_feature("image/encoded", picture),
               bytes_feature("image/class/text", "dog")}));
}

TEST(TfRecord, ChecksumIsThatOfTheStandard) {
  // RFC 3720, B.4: the CRC of 32 zero bytes is 0x8A9136AA, before the mask.
  const std::vector<std::byte> zeros(32);
  constexpr uint32_t kCrc = 0x8A9136AA;
  EXPECT_EQ(masked_crc32c(zeros), (kCrc >> 15 | kCrc << 17) + 0xA282EAD8);
}

TEST(TfRecord, ExamplesAreSamples) {
  const TestFolder folder;
  const std::string file = folder.write(
      "train-00000-of-00002",
      one(tiny_png(), 5) + tf_record(example({bytes_feature("image/encoded", tiny_webp())})) +
          tf_record(example({bytes_feature("image/encoded", "\xFF\xD8\xFFno"),
                             number_feature("image/class/label", 1'000'000, false)})));
  const Dataset dataset = open_dataset(file);
  EXPECT_EQ(dataset.kind(), "tfrecord");
  EXPECT_EQ(names_of(dataset), (Names{"train-00000-of-00002:0.png", "train-00000-of-00002:1.webp",
                                      "train-00000-of-00002:2.jpg"}));
  EXPECT_EQ(labels_of(dataset), (LabelList{5, -1, 1'000'000}));
  std::vector<std::byte> bytes;
  read_sample(dataset, 1, bytes);
  EXPECT_EQ(text_of(bytes), tiny_webp());

  folder.write("train-00001-of-00002", one("odd", 2));
  const Dataset both = open_dataset(folder.path());
  ASSERT_EQ(both.size(), 4);
  EXPECT_EQ(both.name(3), "train-00001-of-00002:0");
  EXPECT_EQ(both.sample(3).container, 1);
  EXPECT_EQ(open_dataset(folder.path("train-{00000..00001}-of-00002")).size(), 4);
}

TEST(TfRecord, ErrorsNameTheRecord) {
  const TestFolder folder;
  const auto error = [&](const std::string& bytes) {
    const std::string file = folder.write("a.tfrecord", bytes);
    const std::string text = error_of<FormatError>([&] { open_dataset(file); });
    EXPECT_TRUE(text.starts_with(file)) << text;
    return text;
  };
  const std::string good = one("picture", 1);
  EXPECT_TRUE(says(error(""), "it has no samples"));
  EXPECT_TRUE(says(error(good + tf_record(example({}))), "record 1: it has no image/encoded"));
  EXPECT_TRUE(says(error(one("", 1)), "record 0: it has no image/encoded"));
  EXPECT_TRUE(says(error(one("x", -2)), "record 0: the label is -2"));
  EXPECT_TRUE(says(error(tf_record("\x0A\xFFgarbage")), "record 0: expected a tf.train.Example"));
  std::string wrong = good;
  wrong[0] ^= 1;
  EXPECT_TRUE(says(error(good + wrong),
                   fmt::format("(byte {}): record 1: expected a TFRecord", good.size())));
  for (size_t size = good.size() + 1; size < 2 * good.size(); ++size) {
    EXPECT_TRUE(says(error((good + good).substr(0, size)), "record 1: "));
  }
  std::string list, value;
  protozero::pbf_writer(list).add_bytes(1, "a");
  protozero::pbf_writer(list).add_bytes(1, "b");
  protozero::pbf_writer(value).add_message(1, list);
  EXPECT_TRUE(says(error(tf_record(example({feature("image/encoded", value)}))),
                   "record 0: several values of image/encoded"));
}

}  // namespace
}  // namespace stretto::data
