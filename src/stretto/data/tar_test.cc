#include "stretto/data/tar.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "stretto/base/log.h"
#include "stretto/data/containers_testing.h"
#include "stretto/data/data_testing.h"
#include "stretto/data/sample_bytes.h"

namespace stretto::data {
namespace {

std::string bytes_of(const Dataset& dataset, int64_t index) {
  std::vector<std::byte> bytes;
  read_sample(dataset, index, bytes);
  return text_of(bytes);
}

TEST(Tar, MembersOfOneKeyAreASample) {
  const TestFolder folder;
  const std::string archive = folder.write(
      "a.tar", tar_member("./", "", '5') + tar_member("README", "text") +
                   tar_member("d.v1/0001.jpg", "first") + tar_member("d.v1/0001.cls", " 17\n") +
                   tar_member("d.v1/0001.json", "{\"label\": 3}") +
                   tar_member("d.v1/0002.seg.png", "mask") + tar_member("d.v1/0002.PNG", "second") +
                   tar_member("x", "", '2') + tar_member("0003.json", "{\"label\": 4}") +
                   tar_member("0003.webp", std::string(600, 'w')) + tar_member(".hidden", "h") +
                   tar_member("0004.jpeg", "last") + tar_end());
  const Dataset dataset = open_dataset(archive);
  EXPECT_EQ(dataset.kind(), "tar");
  EXPECT_EQ(names_of(dataset), (Names{"a.tar:d.v1/0001.jpg", "a.tar:d.v1/0002.PNG",
                                      "a.tar:0003.webp", "a.tar:0004.jpeg"}));
  EXPECT_EQ(labels_of(dataset), (LabelList{17, -1, 4, -1}));
  EXPECT_EQ(dataset.path(0), archive);
  EXPECT_EQ(bytes_of(dataset, 0), "first");
  EXPECT_EQ(bytes_of(dataset, 1), "second");
  EXPECT_EQ(bytes_of(dataset, 2), std::string(600, 'w'));
  EXPECT_EQ(bytes_of(dataset, 3), "last");
}

TEST(Tar, FoldersAndPatternsAreReadInOrder) {
  const TestFolder folder;
  for (int i = 0; i < 12; ++i) {
    folder.write(fmt::format("s-{:03}.tar", i),
                 tar_member("k.jpg", fmt::format("{}", i)) +
                     tar_member("k.json", fmt::format("{{\"label\": \"c{}\"}}", i % 3)));
  }
  const Dataset all = open_dataset(folder.path());
  ASSERT_EQ(all.size(), 12);
  EXPECT_EQ(all.class_names(), (Names{"c0", "c1", "c2"}));
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(all.name(i), fmt::format("s-{:03}.tar:k.jpg", i));
    EXPECT_EQ(all.sample(i).label, i % 3);
    EXPECT_EQ(all.sample(i).container, i);
    EXPECT_EQ(bytes_of(all, i), std::to_string(i));
  }
  const Dataset some = open_dataset(folder.path("s-{008..010}.tar"));
  EXPECT_EQ(names_of(some), (Names{"s-008.tar:k.jpg", "s-009.tar:k.jpg", "s-010.tar:k.jpg"}));
  EXPECT_EQ(open_dataset(folder.path("s-0{0..1}{0..1}.tar")).size(), 4);
  EXPECT_TRUE(says(error_of<FormatError>([&] { open_dataset(folder.path("s-{010..012}.tar")); }),
                   folder.path("s-012.tar: cannot open: No such file")));
  EXPECT_TRUE(says(error_of<InvalidArgument>([&] { open_dataset(folder.path("{a..c}.tar")); }),
                   "expected numbers in braces, such as {000..012}, got \"a\""));
  EXPECT_TRUE(says(error_of<InvalidArgument>([&] { open_dataset(folder.path("{3..1}.tar")); }),
                   "expected numbers that rise"));
  EXPECT_TRUE(
      says(error_of<InvalidArgument>([&] { open_dataset(folder.path("{0..9999}{0..9999}.tar")); }),
           "it stands for more than 1000000 files"));
  // With folders of pictures beside them, the archives are not the dataset.
  folder.write("class/1.jpg", "x");
  EXPECT_EQ(open_dataset(folder.path()).kind(), "folder");
}

TEST(Tar, LongNamesOfGnuAndPax) {
  const TestFolder folder;
  const std::string long_name = fmt::format("{:d>150}/{:n>120}.jpg", "", "");
  const std::string record = fmt::format("{} path={}\n", 5 + 5 + long_name.size(), long_name);
  std::string prefixed = tar_member("0.jpg", "prefix");
  prefixed.replace(345, 3, "pre");
  unsigned sum = 0;
  for (size_t i = 0; i < 512; ++i) {
    sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(prefixed[i]);
  }
  prefixed.replace(148, 6, fmt::format("{:06o}", sum));
  const std::string archive = folder.write(
      "a.tar",
      tar_member("././@LongLink", long_name + '\0', 'L') + tar_member("x.jpg", "gnu") +
          tar_member("g", "19 comment=nothing\n", 'g') +
          tar_member("h", fmt::format("{} path={}.png\n14 mtime=12.5\n", 21, "pax/name"), 'x') +
          tar_member("y.jpg", "pax") + prefixed + tar_end());
  const Dataset dataset = open_dataset(archive);
  EXPECT_EQ(names_of(dataset),
            (Names{"a.tar:" + long_name, "a.tar:pax/name.png", "a.tar:pre/0.jpg"}));
  EXPECT_EQ(bytes_of(dataset, 1), "pax");
}

TEST(Tar, OtherFilesArePassedOver) {
  const TestFolder folder;
  const std::string archive = folder.write(
      "a.tar", tar_member("README.txt", "text") + tar_member("classes.json", "[\"cat\", \"dog\"]") +
                   tar_member("meta/info.json", "{\"by\": \"me\"}") +
                   tar_member("large.json", std::string((1 << 20) + 1, ' ')) +
                   tar_member("1.jpg", "first") + tar_member("1.cls", "5") +
                   tar_member("notes.md", "") + tar_end());
  EXPECT_EQ(names_of(open_dataset(archive)), (Names{"a.tar:1.jpg"}));
  EXPECT_EQ(labels_of(open_dataset(archive)), (LabelList{5}));
}

TEST(Tar, ArchivesMayFollowEachOther) {
  const TestFolder folder;
  const std::string a = tar_member("1.jpg", "a"), b = tar_member("2.jpg", "b");
  const std::string zeros(512, '\0');
  for (const std::string& between : {zeros, tar_end(), std::string(10240, '\0')}) {
    const std::string archive = folder.write("a.tar", a + between + b + tar_end());
    EXPECT_EQ(names_of(open_dataset(archive)), (Names{"a.tar:1.jpg", "a.tar:2.jpg"}));
  }
  EXPECT_EQ(open_dataset(folder.write("a.tar", a + tar_end() + std::string(7, '\0'))).size(), 1);
  // A header of which zeros are left is no end.
  std::string damaged = a + b + b;
  damaged.replace(1024, 512, zeros);
  EXPECT_TRUE(
      says(error_of<FormatError>([&] { open_dataset(folder.write("a.tar", damaged)); }),
           "a.tar (byte 1536): expected the header of a tar member: its checksum is wrong"));
  // No sample is of two archives.
  const Dataset twice = open_dataset(folder.write(
      "a.tar", a + tar_end() + tar_member("1.jpg", "b") + tar_member("1.cls", "3") + tar_end()));
  EXPECT_EQ(names_of(twice), (Names{"a.tar:1.jpg", "a.tar:1.jpg"}));
  EXPECT_EQ(labels_of(twice), (LabelList{-1, 3}));
  EXPECT_EQ(bytes_of(twice, 1), "b");
  const std::string apart = a + tar_end() + tar_member("1.cls", "3") + tar_end();
  EXPECT_TRUE(says(error_of<FormatError>([&] { open_dataset(folder.write("a.tar", apart)); }),
                   "sample 1: expected a member 1.jpg"));
}

TEST(Tar, CompressedArchivesAreSaidToBe) {
  const TestFolder folder;
  for (const char* begin : {"\x1F\x8B\x08", "\x28\xB5\x2F\xFD",
                            "\xFD"
                            "7zXZ",
                            "BZh9"}) {
    for (const char* name : {"a.tar", "a.tar.gz", "a.tgz", "a.tar.zst", "a.tar.xz", "a.tar.bz2"}) {
      const std::string archive = folder.write(name, begin + std::string(600, 'x'));
      EXPECT_TRUE(says(error_of<FormatError>([&] { open_dataset(archive); }),
                       std::string(name) + ": the archive is compressed"));
    }
  }
}

TEST(Tar, OtherThingsBehindTheEndAreNotRead) {
  const TestFolder folder;
  const std::string whole = tar_member("1.jpg", "a") + tar_end();
  std::string said;
  const LogCallback before =
      set_log([&](LogLevel, std::string_view text) { said.append(text) += '\n'; });
  for (const std::string& more :
       {std::string("\n"), std::string(600, 'x'), std::string(512, 'x')}) {
    said.clear();
    EXPECT_EQ(open_dataset(folder.write("a.tar", whole + more)).size(), 1);
    EXPECT_TRUE(
        says(said, "a.tar (byte 2048): what follows the archive's end is no archive, and is not"));
  }
  set_log(before);
}

TEST(Tar, NamesOfAPatternBeginBelowItsFolder) {
  const TestFolder folder;
  for (const char* name : {"0/x.tar", "1/x.tar"}) folder.write(name, tar_member("k.jpg", name));
  EXPECT_EQ(names_of(open_dataset(folder.path("{0..1}/x.tar"))),
            (Names{"0/x.tar:k.jpg", "1/x.tar:k.jpg"}));
  EXPECT_EQ(names_of(open_dataset(folder.path("1/x.tar"))), (Names{"x.tar:k.jpg"}));
}

TEST(Tar, ErrorsNameTheMember) {
  const TestFolder folder;
  const auto error = [&](const std::string& bytes) {
    const std::string archive = folder.write("a.tar", bytes);
    const std::string text = error_of<FormatError>([&] { open_dataset(archive); });
    EXPECT_TRUE(text.starts_with(archive)) << text;
    return text;
  };
  const std::string picture = tar_member("1.jpg", "x");
  EXPECT_TRUE(says(error(""), "it has no samples"));
  EXPECT_TRUE(says(error(tar_end()), "it has no samples"));
  EXPECT_TRUE(says(error(picture + tar_member("1.png", "x")),
                   "member 1.png: the sample has a picture already"));
  EXPECT_TRUE(says(error(tar_member("1.jpg", "")), "member 1.jpg: expected a picture"));
  EXPECT_TRUE(says(error(tar_member("1.txt", "x") + picture + tar_member("2.cls", "3")),
                   "sample 2: expected a member 2.jpg"));
  EXPECT_TRUE(says(error(picture + tar_member("2.json", "{\"label\": 3}")),
                   "sample 2: expected a member 2.jpg"));
  for (const char* number : {"", "x", "-1", "1.5", "1 2", "99999999999999999999"}) {
    EXPECT_TRUE(says(error(picture + tar_member("1.cls", number)),
                     "member 1.cls: expected a number of at least 0"));
  }
  EXPECT_TRUE(says(error(picture + tar_member("1.cls", std::string(33, ' '))),
                   "member 1.cls has 33 bytes; expected 32 at most"));
  EXPECT_TRUE(says(error(picture + tar_member("1.json", "[]")), "expected a JSON object"));
  for (const char* label : {"-1", "1.5", "[]", "18446744073709551615"}) {
    EXPECT_TRUE(says(error(picture + tar_member("1.json", fmt::format("{{\"label\": {}}}", label))),
                     "member 1.json: expected a \"label\" that is a name or a number"));
  }
  EXPECT_TRUE(says(error(picture + tar_member("1.json", "{\"label\": \"a\"}") +
                         tar_member("2.jpg", "x") + tar_member("2.cls", "1")),
                   "expected all labels to be names, or all to be numbers"));
  EXPECT_TRUE(says(error(picture.substr(0, 500)), "(byte 0): the archive ends in a header"));
  EXPECT_TRUE(says(error(picture + tar_member("2.jpg", std::string(2000, 'x')).substr(0, 1000)),
                   "(byte 1024): the archive ends in member 2.jpg, which has 2000 bytes"));
  std::string wrong = picture;
  wrong[0] = '2';
  EXPECT_TRUE(says(error(wrong), "(byte 0): expected the header of a tar member"));
  EXPECT_TRUE(says(error(std::string(600, 'x')), "expected the header of a tar member"));
  EXPECT_TRUE(says(error(tar_member("s.jpg", "x", 'S')), "member s.jpg is sparse"));
  for (const char* pax : {"99 path=x\n", "x path=y\n", "8 pathx\n", "12 path=abcd",
                          "14 size=-12345", "11 size=1x\n", "0 a=b\n"}) {
    EXPECT_TRUE(says(error(tar_member("h", pax, 'x') + picture), "the pax header is damaged"))
        << pax;
  }
  EXPECT_TRUE(says(error(tar_member("h", "22 GNU.sparse.major=1\n", 'x') + picture), "sparse"));
  EXPECT_TRUE(says(error(tar_member("h", "29 size=18446744073709551615\n", 'x') + picture),
                   "the archive ends in member 1.jpg"));
  EXPECT_TRUE(says(error(tar_member("l", std::string((1 << 20) + 1, 'x'), 'L')),
                   "an extended header of 1048577 bytes"));
}

}  // namespace
}  // namespace stretto::data
