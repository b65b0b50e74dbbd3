// What a pack makes of a source that changes between two calls, and of names and files of others.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <span>
#include <stdexcept>

#include "stretto/base/log.h"
#include "stretto/data/containers_testing.h"
#include "stretto/data/data_testing.h"
#include "stretto/data/pack.h"
#include "stretto/data/pack_format.h"
#include "stretto/data/sample_bytes.h"

namespace stretto::data {
namespace {

namespace fs = std::filesystem;

PackOptions stop_after(int64_t count) {
  PackOptions options;
  options.threads = 1;
  options.progress = [=](int64_t done, int64_t) {
    if (done == count) throw std::runtime_error("stop");
  };
  return options;
}

class PackResume : public ::testing::Test {
 protected:
  PackResume() {
    for (const char* name : {"1.png", "2.png", "3.png", "4.png"}) source.write(name, tiny_png());
    out = elsewhere.path("out");
  }

  TestFolder source, elsewhere;
  std::string out;
};

TEST_F(PackResume, TakesWhatIsThereAgain) {
  const Dataset folder = open_dataset(source.path());
  for (const bool skip : {false, true}) {
    for (const bool gone : {false, true}) {
      fs::remove_all(out);
      if (gone) {
        fs::remove(source.path("2.png"));
      } else {
        source.write("2.png", "damaged");
      }
      PackOptions options = stop_after(3);
      options.skip_bad = true;
      EXPECT_THROW(pack(folder, out, options), std::runtime_error);
      source.write("2.png", tiny_png());
      options.progress = nullptr;
      options.skip_bad = skip;
      std::string said;
      const LogCallback before = set_log([&](LogLevel, std::string_view text) { said += text; });
      const PackResult result = pack(folder, out, options);
      set_log(before);
      EXPECT_TRUE(
          says(said, "2.png was left out and can be read now: it and the 1 samples behind"));
      EXPECT_EQ(result.resumed_at, 1);
      EXPECT_EQ(result.samples, 4);
      EXPECT_TRUE(result.left_out.empty());
      EXPECT_TRUE(verify_pack(out).damaged.empty());
    }
  }
}

// Its entries do not say where details are.
TEST_F(PackResume, AnOlderJournalIsNotTaken) {
  const Dataset folder = open_dataset(source.path());
  EXPECT_THROW(pack(folder, out, stop_after(3)), std::runtime_error);
  std::string journal = read_file(out + "/journal");
  journal[8] = 1;  // the version
  const uint64_t checksum = pack_checksum(std::as_bytes(std::span(journal).first(40)));
  std::memcpy(&journal[40], &checksum, sizeof checksum);
  write_file(out + "/journal", journal);
  EXPECT_TRUE(
      says(error_of<FormatError>([&] { pack(folder, out); }), "remove the folder to pack again"));
  journal[8] = 2;
  const uint64_t right = pack_checksum(std::as_bytes(std::span(journal).first(40)));
  std::memcpy(&journal[40], &right, sizeof right);
  write_file(out + "/journal", journal);
  EXPECT_EQ(pack(folder, out).resumed_at, 3);
}

TEST_F(PackResume, AnOutageLeavesNothingOut) {
  fs::create_directory(source.path("more"));
  source.write("more/5.png", tiny_png());
  const Dataset list =
      open_dataset(source.write("l.csv", "path\n1.png\nmore/5.png\nmore/6.png\n4.png\n"));
  PackOptions skip;
  skip.skip_bad = true;
  skip.threads = 1;
  fs::rename(source.path("more"), source.path("away"));  // as when a disk is not mounted
  EXPECT_TRUE(says(error_of<FormatError>([&] { pack(list, out, skip); }),
                   source.path("more/5.png: cannot open: No such file")));
  fs::rename(source.path("away"), source.path("more"));
  const PackResult result = pack(list, out, skip);
  EXPECT_EQ(result.samples, 3);
  ASSERT_EQ(result.left_out.size(), 1);
  EXPECT_EQ(result.left_out[0].name, source.path("more/6.png"));
}

TEST_F(PackResume, AnEmptyFolderLeavesNothingOut) {
  const Dataset folder = open_dataset(source.path());
  PackOptions skip = stop_after(2);
  skip.skip_bad = true;
  EXPECT_THROW(pack(folder, out, skip), std::runtime_error);
  fs::rename(source.path(), elsewhere.path("away"));
  fs::create_directory(source.path());  // as when a disk is not mounted there
  skip.progress = nullptr;
  EXPECT_TRUE(says(error_of<FormatError>([&] { pack(folder, out, skip); }),
                   source.path("3.png: cannot open: No such file")));
  fs::remove(source.path());
  fs::rename(elsewhere.path("away"), source.path());
  const PackResult result = pack(folder, out, skip);
  EXPECT_EQ(result.resumed_at, 2);
  EXPECT_EQ(result.samples, 4);
}

TEST_F(PackResume, LeavesOutWhatCanNeverBeRead) {
  fs::create_symlink("loop.png", source.path("loop.png"));
  const Dataset list = open_dataset(source.write(
      "l.csv", fmt::format("path\n1.png\nloop.png\n{:n>300}.png\n2.png/x.png\n3.png\n", "")));
  PackOptions skip;
  skip.skip_bad = true;
  EXPECT_EQ(pack(list, out, skip).left_out.size(), 3);
  if (::geteuid() == 0) return;  // may read everything
  ::chmod(source.path("3.png").c_str(), 0);
  EXPECT_EQ(pack(list, elsewhere.path("b"), skip).left_out.size(), 4);
  ::chmod(source.path().c_str(), 0);
  EXPECT_TRUE(says(error_of<FormatError>([&] { pack(list, elsewhere.path("c"), skip); }),
                   "Permission denied"));
  ::chmod(source.path().c_str(), 0700);
}

TEST_F(PackResume, AnIndexThatCannotBeWrittenIsResumed) {
  const Dataset folder = open_dataset(source.path());
  PackOptions options;
  options.progress = [&](int64_t done, int64_t count) {
    if (done == count) fs::create_directories(out + "/index/in the way");
  };
  const std::string error = error_of<FormatError>([&] { pack(folder, out, options); });
  EXPECT_TRUE(error.starts_with(out + "/index: cannot create: ")) << error;
  EXPECT_TRUE(says(error, "(what is written is kept: run `stretto pack` again to resume)"));
  fs::remove_all(out + "/index");
  EXPECT_EQ(pack(folder, out).resumed_at, 4);
  EXPECT_TRUE(verify_pack(out).damaged.empty());
}

// As on a full disk: of this many bytes a file may have, the journal needs more than the shard.
TEST_F(PackResume, AJournalThatCannotBeWrittenIsResumed) {
  const Dataset folder = open_dataset(source.path());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 48 + 2 * 72 + 20;
  auto* const handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string error = error_of<FormatError>([&] { pack(folder, out); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_TRUE(error.starts_with(out + "/journal: cannot write: ")) << error;
  EXPECT_TRUE(says(error, "(what is written is kept: run `stretto pack` again to resume)"));
  EXPECT_EQ(pack(folder, out).resumed_at, 2);
  EXPECT_TRUE(verify_pack(out).damaged.empty());
}

TEST_F(PackResume, RemovesWhatAKilledProcessLeftOfAnIndex) {
  const Dataset folder = open_dataset(source.path());
  EXPECT_THROW(pack(folder, out, stop_after(4)), std::runtime_error);
  write_file(out + "/index.123.tmp", "half of it");
  pack(folder, out);
  EXPECT_FALSE(fs::exists(out + "/index.123.tmp"));
}

TEST_F(PackResume, SaysWhenNamesCannotBeUnpacked) {
  std::string said;
  const LogCallback before = set_log([&](LogLevel, std::string_view text) { said += text; });
  pack(open_dataset(elsewhere.write(
           "lists/l.csv", fmt::format("path\n{}\n../lists/2.png\n", source.path("1.png")))),
       out, {.skip_bad = true});
  set_log(before);
  EXPECT_TRUE(
      says(said, fmt::format("l.csv: 2 names lead out of a folder, such as {}: the pack can "
                             "be used, but `stretto unpack` will refuse it",
                             source.path("1.png"))));
}

TEST_F(PackResume, UnpackRefusesTwoPicturesOfOneNameBeforeItWrites) {
  for (const uint64_t second : {uint64_t{5}, uint64_t{6}}) {
    TableBuilder builder;
    for (const uint64_t at : {0, 1, 2}) {
      builder.add(at == 0 ? "a.jpg" : "b.jpg", {.offset = at, .length = 1});
    }
    const std::string bad = elsewhere.path("bad"), files = elsewhere.path("files");
    elsewhere.write("bad/shard-00000.bin", "xyy");
    const auto checksum = [](std::string_view text) {
      return pack_checksum(std::as_bytes(std::span(text)));
    };
    const uint64_t checksums[] = {checksum("x"), checksum("y"), second == 5 ? 5 : checksum("y")};
    const uint64_t shards[] = {3};
    write_pack_index(bad, *std::move(builder).take(), checksums, shards);
    if (second == 5) {
      EXPECT_TRUE(says(error_of<InvalidArgument>([&] { unpack(bad, files); }),
                       "two samples are called \"b.jpg\", and are not the same"));
      EXPECT_FALSE(fs::exists(files));
    } else {
      EXPECT_EQ(unpack(bad, files).files, 2);
    }
  }
}

TEST_F(PackResume, UnpackRefusesTwoPicturesOfOneFile) {
  const std::string files = elsewhere.path("files");
  const auto tar = [&](std::string_view a, std::string_view b) {
    fs::remove_all(out);
    fs::remove_all(files);
    pack(open_dataset(
             elsewhere.write("a.tar", tar_member(a, tiny_png()) + tar_member(b, tiny_webp()))),
         out);
  };
  for (const char* second : {"d//0.png", "d/./0.png"}) {
    tar("d/0.png", second);
    EXPECT_TRUE(says(error_of<InvalidArgument>([&] { unpack(out, files); }),
                     "0.png\", and are not the same"));
    EXPECT_FALSE(fs::exists(files));
  }
  // As where b.webp and B.webp are one file.
  tar("a.png", "b.webp");
  const auto put = [&](std::string_view content) {
    return unpack(out, files, [&](int64_t done, int64_t) {
      if (done == 1) write_file(files + "/a.tar:b.webp", content);
    });
  };
  EXPECT_TRUE(says(error_of<InvalidArgument>([&] { put("another"); }),
                   "a.tar:b.webp has been written for another sample, and is not the same"));
  fs::remove_all(files);
  EXPECT_EQ(put(tiny_webp()).files, 1);
}

TEST_F(PackResume, AMappedIndexIsThatWhichIsRead) {
  pack(open_dataset(source.path()), out);
  const PackIndex read = read_pack_index_file(out + "/index");
  const PackIndex mapped = read_pack_index_file(out + "/index", 1);
  EXPECT_TRUE(
      std::equal(read.bytes.begin(), read.bytes.end(), mapped.bytes.begin(), mapped.bytes.end()));
  const Dataset dataset = open_pack(out);
  fs::resize_file(out + "/index", 10);  // what is read stays
  EXPECT_EQ(names_of(dataset), (Names{"1.png", "2.png", "3.png", "4.png"}));
}

}  // namespace
}  // namespace stretto::data
