// Boxes beside torchvision's.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <utility>

#include "stretto/base/file.h"
#include "stretto/media/operators/geometry.h"

namespace stretto::media::operators {
namespace {

// tests/media/boxes.txt. torchvision shears by angles: their tangents are the amounts to 1e-15.
TEST(Geometry, BoxesAreTorchvisions) {
  std::istringstream text(read_file(STRETTO_CORPUS "/../media/boxes.txt"));
  int compared = 0, gone = 0;
  for (std::string line; std::getline(text, line);) {
    if (line.empty() || line[0] == '#') continue;
    SCOPED_TRACE(line);
    std::istringstream words(line);
    Geometry g;
    Box box, want;
    std::string name;
    double value;
    words >> g.stored_width >> g.stored_height >> box.x0 >> box.y0 >> box.x1 >> box.y1;
    words >> g.crop.x0 >> g.crop.y0 >> g.crop.x1 >> g.crop.y1 >> g.width >> g.height >> g.flip;
    words >> name >> value >> want.x0 >> want.y0 >> want.x1 >> want.y1;
    ASSERT_TRUE(words);
    const Size size{g.width, g.height};
    if (name != "none") {
      g.moves = {affine_of({{.op = &operator_named(name), .value = {value}}}, size)};
    }
    const auto got = map_box(box, g, {.min_area = 0});
    const bool outside =
        box.x1 <= g.crop.x0 || box.x0 >= g.crop.x1 || box.y1 <= g.crop.y0 || box.y0 >= g.crop.y1;
    if (outside || want.width() * want.height() == 0) {
      EXPECT_FALSE(got);
      ++gone;
      continue;
    }
    ASSERT_TRUE(got);
    ++compared;
    for (const auto& [a, b] : {std::pair{got->x0, want.x0},
                               {got->y0, want.y0},
                               {got->x1, want.x1},
                               {got->y1, want.y1}}) {
      EXPECT_NEAR(a, b, 1e-4);  // torchvision computes some of its moves in float32
    }
  }
  EXPECT_GT(compared, 60);
  EXPECT_GT(gone, 5);
}

}  // namespace
}  // namespace stretto::media::operators
