#include "stretto/data/pack.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <stdexcept>

#include "stretto/data/data_testing.h"
#include "stretto/data/pack_format.h"
#include "stretto/data/pack_journal.h"
#include "stretto/data/sample_bytes.h"
#include "stretto/media/decode.h"
#include "stretto/media/jpeg/jpeg_testing.h"

namespace stretto::data {
namespace {

namespace fs = std::filesystem;
using media::jpeg::make_jpeg;
using media::jpeg::TestPicture;

std::string jpeg_text(const TestPicture& picture) { return text_of(make_jpeg(picture)); }

std::map<std::string, std::string> files_of(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    files[fs::relative(entry.path(), folder).string()] = read_file(entry.path());
  }
  return files;
}

media::RgbPicture pixels_of(std::string_view file) {
  return media::decode_rgb(std::as_bytes(std::span(file)));
}

// Every kind of picture, in two classes.
class Pack : public ::testing::Test {
 protected:
  Pack() {
    TestPicture p{.width = 120, .height = 90, .h = 2, .v = 2};
    source.write("a/baseline.jpg", jpeg_text(p));
    p.exif = true;
    source.write("a/exif.jpg", jpeg_text(p));
    p.progressive = true;
    source.write("a/progressive.jpg", jpeg_text(p));
    source.write("a/grey.jpg", jpeg_text({.width = 33, .height = 65, .colour = "grey"}));
    source.write("b/cmyk.jpg", jpeg_text({.width = 40, .height = 30, .colour = "cmyk"}));
    source.write("b/restarts.JPG", jpeg_text({.width = 64, .height = 64, .restart_interval = 3}));
    source.write("b/one.png", tiny_png());
    source.write("b/sub/one.webp", tiny_webp());
    source.write("b/png_named.jpg", tiny_png());
    out = elsewhere.path("out");
  }

  // Small shards, so that there are several.
  PackOptions options(int threads = 1) const {
    PackOptions options;
    options.threads = threads;
    options.shard_bytes = 4500;
    return options;
  }

  TestFolder source, elsewhere;
  std::string out;
};

TEST_F(Pack, KeepsNamesLabelsSizesAndPixels) {
  const auto before = files_of(source.path());
  const Dataset folder = open_dataset(source.path());
  const PackResult result = pack(folder, out);
  EXPECT_EQ(result.samples, 9);
  EXPECT_EQ(result.shards, 1);
  EXPECT_EQ(result.resumed_at, 0);
  EXPECT_TRUE(result.left_out.empty());
  EXPECT_EQ(files_of(source.path()), before);

  const Dataset packed = open_dataset(out);
  EXPECT_EQ(packed.kind(), "pack");
  EXPECT_EQ(packed.class_names(), folder.class_names());
  EXPECT_EQ(packed.fingerprint(), folder.fingerprint());
  EXPECT_FALSE(packed.one_file_each());
  ASSERT_EQ(packed.size(), folder.size());
  int tables = 0;
  for (int64_t i = 0; i < packed.size(); ++i) {
    SCOPED_TRACE(packed.name(i));
    const Sample sample = packed.sample(i);
    EXPECT_EQ(packed.name(i), folder.name(i));
    EXPECT_EQ(sample.label, folder.sample(i).label);
    EXPECT_EQ(packed.path(i), shard_path(out, 0));
    std::vector<std::byte> bytes;
    read_sample(packed, i, bytes);
    const std::string picture = text_of(bytes).substr(sample.restart_bytes);
    EXPECT_EQ(picture.size(), sample.length);
    const std::string& original = before.at(folder.name(i));
    const media::RgbPicture a = pixels_of(original), b = pixels_of(picture);
    EXPECT_EQ(a.width, sample.width);
    EXPECT_EQ(a.height, sample.height);
    EXPECT_EQ(a.rgb, b.rgb);
    const media::Bytes file = std::as_bytes(std::span(picture));
    const media::PictureInfo info = media::read_info(file);
    EXPECT_EQ(info.orientation, media::read_info(std::as_bytes(std::span(original))).orientation);
    if (info.format == media::Format::kJpeg) {
      EXPECT_FALSE(info.progressive);
      EXPECT_GT(info.restart_interval, 0);
      ++tables;
    } else {
      EXPECT_EQ(picture, original);
      EXPECT_EQ(sample.restart_bytes, 0);
    }
  }
  EXPECT_EQ(tables, 6);
  EXPECT_FALSE(fs::exists(journal_path(out)));

  const VerifyResult verified = verify_pack(out);
  EXPECT_EQ(verified.samples, 9);
  EXPECT_EQ(verified.compared, 6);
  EXPECT_EQ(verified.bytes, result.bytes);
  EXPECT_TRUE(verified.damaged.empty());
}

TEST_F(Pack, DoesNotDependOnThreads) {
  const Dataset folder = open_dataset(source.path());
  EXPECT_GE(pack(folder, out, options(1)).shards, 3);
  const auto expected = files_of(out);
  for (const auto& [name, content] : expected) {
    EXPECT_TRUE(!name.starts_with("shard") || content.size() <= 4500) << name;
  }
  for (const int threads : {2, 3, 8, 0}) {
    const std::string other = elsewhere.path(fmt::format("threads-{}", threads));
    pack(folder, other, options(threads));
    EXPECT_EQ(files_of(other), expected) << threads << " threads";
  }
}

TEST_F(Pack, UnpackGivesFilesBack) {
  pack(open_dataset(source.path()), out, options());
  const std::string files = elsewhere.path("files/again");
  const UnpackResult result = unpack(out, files);
  EXPECT_EQ(result.files, 9);
  const auto before = files_of(source.path()), after = files_of(files);
  ASSERT_EQ(after.size(), before.size());
  for (const auto& [name, content] : before) {
    EXPECT_EQ(pixels_of(after.at(name)).rgb, pixels_of(content).rgb) << name;
  }
  EXPECT_EQ(after.at("b/one.png"), tiny_png());
  EXPECT_TRUE(says(error_of<InvalidArgument>([&] { unpack(out, files); }),
                   files + ": expected a folder that is empty or does not exist"));
  // What was transcoded once does not change any more.
  const std::string again = elsewhere.path("again");
  pack(open_dataset(files), again, options());
  EXPECT_EQ(files_of(again), files_of(out));
}

TEST_F(Pack, UnpackNeverLeavesItsFolder) {
  for (const char* name : {"../x.jpg", "/tmp/x.jpg", "a/../../x.jpg", "", "..", "a/.."}) {
    TableBuilder builder;
    builder.add("fine.jpg", {.length = 1});
    builder.add(name, {.offset = 1, .length = 1});
    elsewhere.write("bad/shard-00000.bin", "xy");
    const uint64_t checksums[] = {0, 0}, shards[] = {2};
    write_pack_index(elsewhere.path("bad"), *std::move(builder).take(), checksums, shards);
    EXPECT_TRUE(says(
        error_of<InvalidArgument>([&] { unpack(elsewhere.path("bad"), elsewhere.path("to")); }),
        fmt::format("sample 1 is called \"{}\"", name)));
    EXPECT_FALSE(fs::exists(elsewhere.path("to")));
  }
}

TEST_F(Pack, BadFilesEndItOrAreLeftOut) {
  const std::string cut = jpeg_text({.width = 100, .height = 100});
  source.write("a/broken.jpg", cut.substr(0, cut.size() / 2));
  source.write("a/text.png", "no picture");
  fs::create_symlink("nowhere", source.path("b/lost.png"));
  const Dataset folder = open_dataset(source.path());
  for (const int threads : {1, 3}) {
    const std::string error = error_of<FormatError>([&] { pack(folder, out, options(threads)); });
    EXPECT_TRUE(error.starts_with(source.path("a/broken.jpg: JPEG data"))) << error;
  }
  PackOptions skip = options(3);
  skip.skip_bad = true;
  const PackResult result = pack(folder, out, skip);
  EXPECT_EQ(result.resumed_at, 1);  // baseline.jpg
  EXPECT_EQ(result.samples, 9);
  ASSERT_EQ(result.left_out.size(), 3);
  EXPECT_EQ(result.left_out[0].name, source.path("a/broken.jpg"));
  EXPECT_EQ(result.left_out[1].name, source.path("a/text.png"));
  EXPECT_TRUE(says(result.left_out[1].reason, "expected a JPEG, PNG or WebP file"));
  EXPECT_EQ(result.left_out[2].name, source.path("b/lost.png"));
  EXPECT_EQ(result.left_out[2].reason, "cannot open: No such file or directory");
  EXPECT_EQ(open_pack(out).size(), 9);
  EXPECT_TRUE(verify_pack(out).damaged.empty());

  const TestFolder none;
  none.write("1.jpg", "no picture");
  EXPECT_TRUE(says(
      error_of<FormatError>([&] { pack(open_dataset(none.path()), elsewhere.path("x"), skip); }),
      none.path() + ": none of its samples"));
}

TEST_F(Pack, LeavesOutWhatAnInterruptedRunLeftOut) {
  source.write("a/text.png", "no picture");
  const Dataset folder = open_dataset(source.path());
  PackOptions skip = options();
  skip.skip_bad = true;
  PackOptions stop = skip;
  stop.progress = [](int64_t done, int64_t) {
    if (done == 6) throw std::runtime_error("stop");
  };
  EXPECT_THROW(pack(folder, out, stop), std::runtime_error);
  EXPECT_TRUE(says(error_of<FormatError>([&] { pack(folder, out, options()); }),
                   source.path("a/text.png: picture")));
  const PackResult result = pack(folder, out, skip);
  EXPECT_EQ(result.resumed_at, 6);
  ASSERT_EQ(result.left_out.size(), 1);
  EXPECT_EQ(result.left_out[0].name, source.path("a/text.png"));
}

TEST_F(Pack, ResumesBehindAnySampleToTheSameBytes) {
  const Dataset folder = open_dataset(source.path());
  const std::string whole = elsewhere.path("whole");
  pack(folder, whole, options());
  const auto expected = files_of(whole);
  for (int64_t stop = 1; stop <= folder.size(); ++stop) {
    SCOPED_TRACE(stop);
    fs::remove_all(out);
    PackOptions interrupted = options();
    interrupted.progress = [&](int64_t done, int64_t count) {
      EXPECT_EQ(count, folder.size());
      if (done == stop) throw std::runtime_error("stop");
    };
    EXPECT_THROW(pack(folder, out, interrupted), std::runtime_error);
    EXPECT_TRUE(says(error_of<FormatError>([&] { open_dataset(out); }),
                     fmt::format("{}: the pack was interrupted: run `stretto pack SRC {}` again to "
                                 "resume",
                                 out, out)));
    EXPECT_EQ(pack(folder, out, options(2)).resumed_at, stop);
    EXPECT_EQ(files_of(out), expected);
  }
}

// As after a power failure: the files end anywhere.
TEST_F(Pack, ResumesFromFilesThatEndAnywhere) {
  const Dataset folder = open_dataset(source.path());
  const std::string whole = elsewhere.path("whole");
  pack(folder, whole, options());
  const auto expected = files_of(whole);
  PackOptions interrupted = options();
  interrupted.progress = [&](int64_t done, int64_t) {
    if (done == 8) throw std::runtime_error("stop");
  };
  const std::string before = elsewhere.path("before");
  EXPECT_THROW(pack(folder, before, interrupted), std::runtime_error);
  const auto left = files_of(before);
  ASSERT_GE(left.size(), 4);  // several shards

  const auto resume = [&](const char* what, const std::string& name, size_t at) {
    SCOPED_TRACE(fmt::format("{} of {} at {}", what, name, at));
    pack(folder, out, options(2));
    EXPECT_EQ(files_of(out), expected);
  };
  for (const auto& [name, content] : left) {
    const size_t step = name == "journal" ? 61 : 1009;
    for (size_t size = 0; size < content.size(); size += step) {
      fs::remove_all(out);
      fs::copy(before, out);
      fs::resize_file(out + "/" + name, size);
      if (name == "journal" && size < 48) {
        EXPECT_THROW(pack(folder, out, options()), FormatError);
      } else {
        resume("cut", name, size);
      }
    }
    if (name == "journal") continue;
    fs::remove_all(out);
    fs::copy(before, out);
    fs::remove(out + "/" + name);
    resume("removal", name, 0);
  }
  // In the shard that was being written, every byte counts.
  const auto last = std::prev(left.end());
  for (size_t at = 0; at < last->second.size(); at += 997) {
    fs::remove_all(out);
    fs::copy(before, out);
    std::string content = last->second;
    content[at] ^= 1;
    write_file(out + "/" + last->first, content);
    resume("flip", last->first, at);
  }
  const std::string& journal = left.at("journal");
  for (size_t at = 48; at < journal.size(); at += 97) {
    fs::remove_all(out);
    fs::copy(before, out);
    std::string content = journal;
    content[at] ^= 4;
    write_file(out + "/journal", content);
    resume("flip", "journal", at);
  }
}

TEST_F(Pack, ResumesFromAJournalWithoutAHeaderIfNothingElseIsThere) {
  fs::create_directory(out);
  write_file(out + "/journal", "STRP");
  EXPECT_EQ(pack(open_dataset(source.path()), out).samples, 9);
}

TEST_F(Pack, ResumesWhenOnlyTheJournalWasLeftToRemove) {
  const Dataset folder = open_dataset(source.path());
  PackOptions stop = options();
  std::string journal;
  stop.progress = [&](int64_t done, int64_t count) {
    if (done == count) journal = read_file(out + "/journal");
  };
  pack(folder, out, stop);
  const auto expected = files_of(out);
  write_file(out + "/journal", journal);
  EXPECT_THROW(open_dataset(out), FormatError);
  EXPECT_EQ(pack(folder, out, options()).resumed_at, 9);
  EXPECT_EQ(files_of(out), expected);
}

TEST_F(Pack, RefusesFoldersOfOthers) {
  const Dataset folder = open_dataset(source.path());
  for (const std::string& inside :
       {source.path(), source.path("packed"), source.path("a/b/../p")}) {
    EXPECT_TRUE(says(error_of<InvalidArgument>([&] { pack(folder, inside); }),
                     inside + ": it lies in the source " + source.path()));
  }
  fs::create_symlink(source.path("a"), elsewhere.path("link"));
  EXPECT_THROW(pack(folder, elsewhere.path("link/p")), InvalidArgument);
  EXPECT_FALSE(fs::exists(source.path("a/p")));
  elsewhere.write("full/notes.txt", "mine");
  EXPECT_TRUE(says(error_of<InvalidArgument>([&] { pack(folder, elsewhere.path("full")); }),
                   "expected a folder that is empty or does not exist"));
  elsewhere.write("file", "mine");
  EXPECT_TRUE(says(error_of<FormatError>([&] { pack(folder, elsewhere.path("file")); }),
                   "cannot make the folder: File exists"));
  EXPECT_THROW(pack(folder, elsewhere.path("no/parent")), FormatError);
  pack(folder, out);
  EXPECT_TRUE(
      says(error_of<InvalidArgument>([&] { pack(folder, out); }), out + ": it is a finished pack"));

  const std::string begun = elsewhere.path("begun");
  PackOptions stop = options();
  stop.progress = [](int64_t, int64_t) { throw std::runtime_error("stop"); };
  EXPECT_THROW(pack(folder, begun, stop), std::runtime_error);
  source.write("a/more.png", tiny_png());
  EXPECT_TRUE(
      says(error_of<InvalidArgument>([&] { pack(open_dataset(source.path()), begun, options()); }),
           begun + ": it is an interrupted pack of another source"));
  EXPECT_THROW(pack(folder, begun), InvalidArgument);  // other shards

  PackOptions bad;
  bad.shard_bytes = 0;
  EXPECT_THROW(pack(folder, elsewhere.path("x"), bad), InvalidArgument);
  bad = {};
  bad.threads = -1;
  EXPECT_THROW(pack(folder, elsewhere.path("y"), bad), InvalidArgument);
}

TEST_F(Pack, OneProcessAtATime) {
  const Dataset folder = open_dataset(source.path());
  PackOptions outer = options();
  outer.progress = [&](int64_t done, int64_t) {
    if (done != 2) return;
    EXPECT_TRUE(says(error_of<FormatError>([&] { pack(folder, out, options()); }),
                     out + ": another process is packing to this folder"));
  };
  EXPECT_EQ(pack(folder, out, outer).samples, 9);
}

TEST_F(Pack, AFullDiskKeepsWhatIsWritten) {
  const Dataset folder = open_dataset(source.path());
  PackOptions full = options();
  // A shard that is a link to a full device cannot be written.
  fs::create_directory(out);
  write_file(out + "/journal", "");
  full.progress = [&](int64_t, int64_t) {
    std::error_code there;
    fs::create_symlink("/dev/full", shard_path(out, 1), there);
  };
  const std::string error = error_of<FormatError>([&] { pack(folder, out, full); });
  EXPECT_TRUE(says(error, shard_path(out, 1) + ": cannot write: No space left on device"));
  EXPECT_TRUE(says(error, "run `stretto pack` again to resume"));
  EXPECT_GT(fs::file_size(shard_path(out, 0)), 0);
  EXPECT_GT(pack(folder, out, options()).resumed_at, 0);
  EXPECT_TRUE(verify_pack(out).damaged.empty());
}

TEST_F(Pack, VerifyFindsEveryDamagedByte) {
  const PackResult result = pack(open_dataset(source.path()), out);
  const std::string shard = shard_path(out, 0), content = read_file(shard);
  for (size_t at = 0; at < content.size(); at += 997) {
    std::string wrong = content;
    wrong[at] ^= 0x10;
    write_file(shard, wrong);
    const VerifyResult verified = verify_pack(out);
    ASSERT_EQ(verified.damaged.size(), 1) << at;
    EXPECT_EQ(verified.damaged[0].reason, "damaged: the checksum differs");
  }
  write_file(shard, content.substr(1));
  EXPECT_TRUE(
      says(error_of<FormatError>([&] { verify_pack(out); }),
           fmt::format("{}: expected {} bytes, got {}", shard, result.bytes, result.bytes - 1)));
  fs::remove(shard);
  EXPECT_TRUE(says(error_of<FormatError>([&] { open_pack(out); }),
                   shard + ": cannot find the shard: No such file"));
}

TEST_F(Pack, ADamagedIndexIsRefusedOrCannotDoHarm) {
  pack(open_dataset(source.path()), out);
  const std::string path = out + "/index", content = read_file(path);
  for (size_t size = 0; size < content.size(); size += 29) {
    write_file(path, content.substr(0, size));
    EXPECT_ANY_THROW(open_dataset(out)) << size << " bytes";
  }
  for (size_t at = 0; at < content.size(); at += at < 64 ? 1 : 7) {
    std::string wrong = content;
    wrong[at] ^= static_cast<char>(0x80 >> at % 8);
    write_file(path, wrong);
    if (at < sizeof(PackHeader)) {
      EXPECT_ANY_THROW(open_pack(out)) << "byte " << at;
      continue;
    }
    try {
      const Dataset dataset = open_pack(out);
      for (int64_t i = 0; i < dataset.size(); ++i) {
        try {
          dataset.name(i);
          dataset.annotations(i);
          std::vector<std::byte> bytes;
          read_sample(dataset, i, bytes);
        } catch (const FormatError&) {
        }
      }
      verify_pack(out);  // only the padding is in no checksum
      EXPECT_EQ(content[at], 0) << "byte " << at;
    } catch (const FormatError&) {
    }
  }
}

}  // namespace
}  // namespace stretto::data
