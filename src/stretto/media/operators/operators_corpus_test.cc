#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/media/operators/operator.h"

namespace stretto::media::operators {
namespace {

// As tests/media/make_operator_golden.py makes it.
std::vector<uint8_t> picture(int64_t width, int64_t height) {
  std::vector<uint8_t> rgb;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < 3; ++c) {
        const int64_t v =
            20 + 3 * x * (c + 1) + 2 * y * (3 - c) + (x * x * 31 + y * 17 * (c + 1)) % 41;
        rgb.push_back(static_cast<uint8_t>(v % 236));
      }
    }
  }
  return rgb;
}

uint64_t fnv1a_of(const std::vector<uint8_t>& data) {
  uint64_t value = 0xCBF29CE484222325;
  for (const uint8_t byte : data) value = (value ^ byte) * 0x100000001B3;
  return value;
}

std::vector<std::string> golden_lines(bool spaces) {
  std::istringstream text(read_file(STRETTO_CORPUS "/../media/operators.txt"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    if (line[0] != '#' && line.starts_with("space ") == spaces) lines.push_back(line);
  }
  return lines;
}

// torchvision converts to floats for gaussian_blur alone; a value halfway between two bytes may be
// rounded the other way. All others are Pillow's bytes.
TEST(Operators, ComputeWhatTorchvisionComputes) {
  std::set<std::string> seen;
  Work work;
  for (const std::string& line : golden_lines(false)) {
    SCOPED_TRACE(line.substr(0, 60));
    std::istringstream words(line);
    std::string name, hash, hex;
    double first, second;
    int64_t width, height;
    words >> name >> first >> second >> width >> height >> hash >> hex;
    ASSERT_TRUE(words);
    std::vector<uint8_t> rgb = picture(width, height);
    apply_steps({{.op = &operator_named(name), .value = {first, second}}},
                {rgb.data(), width, height}, work);
    seen.insert(name);
    const int allowed = name == "gaussian_blur" ? 1 : 0;
    if (hex != "-") {
      ASSERT_EQ(hex.size(), 2 * rgb.size());
      for (size_t i = 0; i < rgb.size(); ++i) {
        ASSERT_LE(std::abs(std::stoi(hex.substr(2 * i, 2), nullptr, 16) - rgb[i]), allowed)
            << "byte " << i;
      }
    }
    if (allowed == 0) {
      EXPECT_EQ(fmt::format("{:016x}", fnv1a_of(rgb)), hash);
    }
  }
  for (const Operator& op : table()) {
    if (op.apply != nullptr && op.name != "hue") {
      EXPECT_TRUE(seen.contains(std::string(op.name))) << op.name;
    }
  }
}

// What the automatic operators of the golden file draw for each bin.
struct Space {
  std::map<std::string, std::vector<double>> magnitudes;
  std::set<std::string> either_sign;
};

Space space_of(const std::string& automatic) {
  Space space;
  for (const std::string& line : golden_lines(true)) {
    std::istringstream words(line);
    std::string word, owner, name;
    int sign;
    words >> word >> owner >> name >> sign;
    if (owner != automatic) continue;
    for (double v; words >> v;) space.magnitudes[name].push_back(v);
    if (sign == 1) space.either_sign.insert(name);
  }
  return space;
}

bool is_factor(std::string_view name) {
  return name == "brightness" || name == "color" || name == "contrast" || name == "sharpness";
}

// Magnitudes in the file have seven digits.
bool is_near(double a, double b) { return std::abs(a - b) < 1e-4; }

TEST(Operators, RandAugmentDrawsTorchvisionsMagnitudes) {
  const Space space = space_of("rand_augment");
  ASSERT_EQ(space.magnitudes.size(), 13);
  for (int bin = 0; bin <= 30; ++bin) {
    const Operators ops = parse_operators(fmt::format("rand_augment(1, {})", bin));
    std::map<std::string, std::set<double>> drawn;
    for (uint64_t sample = 0; sample < 600; ++sample) {
      for (const Step& s : draw_steps(ops, {7, 0, sample}, {224, 200})) {
        drawn[std::string(s.op->name)].insert(s.value[0]);
      }
    }
    ASSERT_EQ(drawn.size(), 13);
    for (const auto& [name, values] : drawn) {
      const double magnitude = space.magnitudes.at(name)[static_cast<size_t>(bin)];
      const double centre = is_factor(name) ? 1 : 0;
      const bool both = space.either_sign.contains(name) && magnitude != 0;
      EXPECT_EQ(values.size(), both ? 2 : 1) << name << " bin " << bin;
      for (const double v : values) {
        EXPECT_PRED2(is_near, std::abs(v - centre), magnitude) << name << " bin " << bin;
      }
    }
  }
}

TEST(Operators, TrivialAugmentWideDrawsTorchvisionsMagnitudes) {
  const Space space = space_of("trivial_augment_wide");
  ASSERT_EQ(space.magnitudes.size(), 13);
  const Operators ops = parse_operators("trivial_augment_wide");
  std::map<std::string, int> times;
  for (uint64_t sample = 0; sample < 14000; ++sample) {
    const Steps steps = draw_steps(ops, {8, 0, sample}, {224, 200});
    ASSERT_LE(steps.size(), 1);
    if (steps.empty()) continue;
    const std::string name(steps[0].op->name);
    ++times[name];
    const double value = std::abs(steps[0].value[0] - (is_factor(name) ? 1 : 0));
    const auto& known = space.magnitudes.at(name);
    EXPECT_TRUE(
        std::any_of(known.begin(), known.end(), [&](double m) { return is_near(m, value); }))
        << name << " " << value;
  }
  ASSERT_EQ(times.size(), 13);
  // 1000 +- 30 of each; seven deviations.
  for (const auto& [name, count] : times) EXPECT_NEAR(count, 1000, 215) << name;
}

TEST(Operators, DrawsDependOnTheirOwnRowOnly) {
  const SampleKey key{3, 4, 5};
  const Size size{64, 48};
  const Steps alone = draw_steps(parse_operators("rotate"), key, size);
  const Steps after = draw_steps(parse_operators("erase(1), brightness, rotate"), key, size);
  ASSERT_EQ(alone.size(), 1);
  ASSERT_EQ(after.size(), 3);
  EXPECT_EQ(alone[0].value, after[2].value);
  const Steps twice = draw_steps(parse_operators("rotate,rotate"), key, size);
  ASSERT_EQ(twice.size(), 2);
  EXPECT_EQ(twice[0].value, alone[0].value);
  EXPECT_NE(twice[0].value, twice[1].value);
  EXPECT_NE(draw_steps(parse_operators("rotate"), {3, 5, 5}, size)[0].value, alone[0].value);
}

TEST(Operators, ChancesAndRangesHold) {
  std::set<uint32_t> streams;
  for (const Operator& op : table()) {
    SCOPED_TRACE(op.name);
    EXPECT_LT(op.stream, 30);
    EXPECT_TRUE(streams.insert(op.stream).second);
    ASSERT_LE(op.parameters.size(), kMostParameters);
    if (op.draw == nullptr) continue;  // of pairs: geometry_test.cc
    int times = 0;
    for (uint64_t sample = 0; sample < 2000; ++sample) {
      const Steps steps = draw_steps(parse_operators(op.name), {1, 2, sample}, {30, 20});
      times += !steps.empty();
      for (const Region& r : erased(steps)) {
        EXPECT_TRUE(r.x0 >= 0 && r.x0 <= r.x1 && r.x1 <= 30 && r.y0 >= 0 && r.y0 <= r.y1 &&
                    r.y1 <= 20);
      }
    }
    double chance = op.name == "trivial_augment_wide" ? 13. / 14 : 1;
    if (op.name == "rand_augment") chance = 1 - 1. / 196;
    for (const Parameter& p : op.parameters) {
      EXPECT_TRUE(p.standard >= p.low && p.standard <= p.high) << p.name;
      if (p.name == "chance") chance = p.standard;
    }
    // erase finds no place in ten tries once in a thousand at the most.
    const double deviation = std::sqrt(2000 * chance * (1 - chance));
    EXPECT_NEAR(times, 2000 * chance, 6 * deviation + 2);
  }
}

TEST(Operators, EveryRowTakesPicturesOfOnePixel) {
  Work work;
  for (const Operator& op : table()) {
    for (const auto& [width, height] : {std::pair<int64_t, int64_t>{1, 1}, {1, 5}, {4, 1}}) {
      for (uint64_t sample = 0; sample < 20; ++sample) {
        std::vector<uint8_t> rgb = picture(width, height);
        apply(parse_operators(op.name), {9, 9, sample}, {rgb.data(), width, height}, work);
      }
    }
  }
  EXPECT_THROW(apply_steps({}, {}, work), InvalidArgument);
}

TEST(Operators, HueKeepsGreyAndTurnsBack) {
  Work work;
  std::vector<uint8_t> grey(3 * 8, 77);
  const Operator* hue = &operator_named("hue");
  apply_steps({{.op = hue, .value = {0.2}}}, {grey.data(), 8, 1}, work);
  for (const uint8_t v : grey) EXPECT_NEAR(v, 77, 1);
  std::vector<uint8_t> colours{100, 110, 120, 130, 120, 110};
  const std::vector<uint8_t> before = colours;
  apply_steps({{.op = hue, .value = {0.1}}}, {colours.data(), 2, 1}, work);
  EXPECT_NE(colours, before);
  apply_steps({{.op = hue, .value = {-0.1}}}, {colours.data(), 2, 1}, work);
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(colours[i], before[i], 2);
}

// Factors that leave the range of bytes nowhere: the steps differ by their roundings alone.
TEST(Operators, ColourStepsAreOneMatrix) {
  std::vector<uint8_t> rgb = picture(24, 20);
  for (uint8_t& v : rgb) v = static_cast<uint8_t>(70 + v / 4);
  const Planes planes = planes_of_rgb(rgb.data(), 24, 20, 3 * 24);
  const auto step = [](const char* name, double value) {
    return Step{.op = &operator_named(name), .value = {value}};
  };
  const Steps steps = {step("brightness", 1.2), step("contrast", 0.7), step("hue", 0.05),
                       step("color", 1.1), step("erase", 0)};
  const auto matrix = colour_matrix_of(steps, planes, {0, 0, 24, 20});
  ASSERT_TRUE(matrix.has_value());
  std::vector<uint8_t> bytes = rgb, fused(rgb.size());
  Work work;
  apply_steps(steps, {bytes.data(), 24, 20}, work);
  FuseScratch scratch;
  const View view{.box = {0, 0, 24, 20}, .width = 24, .height = 20};
  fuse(planes, view, matrix, interleaved_target(fused.data(), DType::kUInt8, 24), scratch,
       usable_isa());
  for (size_t i = 0; i < rgb.size(); ++i) ASSERT_NEAR(fused[i], bytes[i], 4) << i;
  EXPECT_FALSE(colour_matrix_of({step("invert", 0)}, planes, {0, 0, 24, 20}));
}

std::string error_of(std::string_view text) {
  try {
    parse_operators(text);
  } catch (const InvalidArgument& e) {
    return e.what();
  }
  return "no error";
}

TEST(Operators, TextIsReadAndWritten) {
  const Operators ops =
      parse_operators(" rand_augment(2,9), erase( 0.25, max_area = 0.2 ),invert ");
  ASSERT_EQ(ops.size(), 3);
  EXPECT_EQ(operators_text(ops),
            "rand_augment(count=2, magnitude=9, bilinear=0), erase(chance=0.25, min_area=0.02, "
            "max_area=0.2, min_ratio=0.3, max_ratio=3.3), invert(chance=0.5)");
  EXPECT_EQ(operators_text(parse_operators(operators_text(ops))), operators_text(ops));
  EXPECT_TRUE(parse_operators("").empty());
  EXPECT_NE(error_of("sharpen").find("there is no 'sharpen'; there are brightness, "),
            std::string::npos);
  EXPECT_NE(error_of("rotate(angle=3)").find("rotate(degrees=30, bilinear=0, chance=1)"),
            std::string::npos);
  EXPECT_NE(error_of("invert(0.5, 3)").find("too many"), std::string::npos);
  for (const char* text :
       {"rotate(x)", "rotate(-1)", "rotate(nan)", "posterize(1.5)", "rotate(3", "rotate)",
        "rotate,", ",", "rotate(3)(4)", "rotate(3,)", "erase(0.5, 0.4, 0.3)", "gaussian_blur(4)",
        "invert,invert,invert,invert,invert,invert,invert,invert,invert"}) {
    EXPECT_TRUE(error_of(text).starts_with("operators: ")) << text << ": " << error_of(text);
  }
}

}  // namespace
}  // namespace stretto::media::operators
