#include <algorithm>
#include <cstring>

#include "stretto/base/error.h"
#include "stretto/data/details.h"
#include "stretto/data/in_order.h"
#include "stretto/data/pack.h"
#include "stretto/data/pack_format.h"
#include "stretto/data/restarts.h"
#include "stretto/data/sample_bytes.h"
#include "stretto/media/decode.h"
#include "stretto/media/jpeg/decode.h"

namespace stretto::data {
namespace {

using media::Bytes;

struct CheckedSample {
  std::string name;
  uint64_t bytes = 0;
  bool compared = false;
  std::string problem;  // empty: none
};

void check_sections(const std::string& path, const PackIndex& index) {
  for (int kind = 0; kind < kPackSections; ++kind) {
    const PackSection& section = index.header.sections[kind];
    if (pack_checksum(index.section(static_cast<PackSectionKind>(kind))) == section.checksum) {
      continue;
    }
    throw FormatError(fmt::format("{}/{}", path, kPackIndex), static_cast<int64_t>(section.offset),
                      "damaged: the checksum differs");
  }
}

// Whether both show the same samples of the whole picture.
bool same_planes(const media::Planes& a, const media::Planes& b) {
  if (a.count != b.count || a.colour != b.colour) return false;
  for (int k = 0; k < a.count; ++k) {
    const media::Plane &p = a.plane[k], &q = b.plane[k];
    if (p.full_width != q.full_width || p.full_height != q.full_height || p.step != q.step) {
      return false;
    }
    for (int64_t y = 0; y < p.full_height; ++y) {
      const uint8_t* x = p.data + (y - p.y0) * p.stride - p.x0 * p.step;
      const uint8_t* z = q.data + (y - q.y0) * q.stride - q.x0 * q.step;
      for (int64_t i = 0; i < p.full_width; ++i) {
        if (x[i * p.step] != z[i * q.step]) return false;
      }
    }
  }
  return true;
}

bool same_pixels(Bytes file, const media::jpeg::RestartTable& table,
                 const media::DecodeOptions& options) {
  const media::Region whole{.x0 = 0, .y0 = 0, .x1 = table.width, .y1 = table.height};
  media::Buffer buffer, other, scratch;
  const media::Planes plain = media::jpeg::decode_planes(file, whole, options, buffer);
  return same_planes(plain,
                     media::jpeg::decode_spliced(file, table, whole, options, other, scratch));
}

std::string problem_of(Bytes bytes, const Sample& sample, uint64_t checksum, bool compare,
                       const media::DecodeOptions& options) {
  if (pack_checksum(bytes) != checksum) return "damaged: the checksum differs";
  decode_details(bytes.last(sample.details_bytes));
  const Bytes file = bytes.subspan(sample.restart_bytes,
                                   bytes.size() - sample.restart_bytes - sample.details_bytes);
  const media::PictureInfo info = media::read_info(file);
  if (info.width != sample.width || info.height != sample.height) {
    return fmt::format("the index says {}x{}, the picture is {}x{}", sample.width, sample.height,
                       info.width, info.height);
  }
  if (sample.restart_bytes == 0) return "";
  const media::jpeg::RestartTable table = decode_restarts(bytes.first(sample.restart_bytes), file);
  if (compare && !same_pixels(file, table, options)) {
    return "the restart table leads to other pixels";
  }
  return "";
}

}  // namespace

VerifyResult verify_pack(const std::string& path, const VerifyOptions& options) {
  if (options.pixels_every < 1) {
    throw_invalid("verify_pack: expected pixels_every of at least 1, got {}", options.pixels_every);
  }
  const Dataset dataset = open_pack(path);
  const PackIndex index = read_pack_index(path);
  check_sections(path, index);
  const std::span<const uint64_t> checksums = index.checksums();

  const auto check = [&](int64_t i) {
    CheckedSample result{.name = fmt::format("sample {}", i)};
    try {
      const Sample sample = dataset.sample(i);
      dataset.annotations(i);
      result.name = dataset.name(i);
      std::vector<std::byte> bytes;
      read_sample(dataset, i, bytes);
      const std::vector<std::byte> details = read_details(dataset, i);
      bytes.insert(bytes.end(), details.begin(), details.end());
      const bool compare = sample.restart_bytes > 0 && i % options.pixels_every == 0;
      result.problem =
          problem_of(bytes, sample, checksums[static_cast<size_t>(i)], compare, options.decode);
      result.compared = compare && result.problem.empty();
      result.bytes = bytes.size();
    } catch (const FormatError& e) {
      result.problem = e.what();
    } catch (const Unsupported& e) {
      result.problem = e.what();
    }
    return result;
  };
  VerifyResult result;
  in_order<CheckedSample>(
      0, dataset.size(), options.threads, check, [&](int64_t i, CheckedSample checked) {
        ++result.samples;
        result.bytes += checked.bytes;
        result.compared += checked.compared ? 1 : 0;
        if (!checked.problem.empty()) {
          result.damaged.push_back({std::move(checked.name), std::move(checked.problem)});
        }
        if (options.progress) options.progress(i + 1, dataset.size());
      });
  return result;
}

}  // namespace stretto::data
