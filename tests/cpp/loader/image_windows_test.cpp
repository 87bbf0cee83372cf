// Windows with an ImageSpec: the plan writes their source frames.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "loader/errors_call.h"
#include "window/windows.h"

namespace robocache::testing {
namespace {

/// Makes the rows of the call's second stream images [2,2], of which the plan writes the frames.
WindowSpec& as_images(LoaderCall& call) {
  WindowSpec& spec = call.by_row().options.spec;
  spec.shape = {2, 2};
  spec.image.emplace();
  spec.image->height = spec.image->width = 8;
  spec.out_dtype = DataType::kBFloat16;
  spec.channels_first = true;
  spec.subtract = spec.multiply = {0.5};
  return spec;
}

TEST(ImageWindows, HaveTheirSourceFrames) {
  LoaderCall call;
  for (std::int64_t i = 0; i < 24; ++i) {
    call.by_row().values.set(i, 1.0 / static_cast<double>(i + 3));
  }
  call.by_row().window_offsets = LoaderCall::numbers({-1, 0});
  call.by_row().fill_spec();
  BatchResult expected(call.problem, 2);
  call.plan().gather(call.indices.data(), 2, expected.outputs().data(), expected.metadata(),
                     call.context);
  as_images(call);
  BatchResult result(call.problem, 2);
  result.windows[1].values = expected.windows[1].values;
  result.windows[1].values.fill_bytes(BatchResult::kGap);
  call.plan().gather(call.indices.data(), 2, result.outputs().data(), result.metadata(),
                     call.context);
  EXPECT_EQ(result.windows[1].values.bytes(), expected.windows[1].values.bytes());
}

TEST(ImageWindows, ShapesOfOutputs) {
  WindowSpec spec;
  spec.shape = {6, 8, 3};
  EXPECT_EQ(output_shape(spec), (std::vector<std::int64_t>{6, 8, 3}));
  spec.channels_first = true;
  EXPECT_EQ(output_shape(spec), (std::vector<std::int64_t>{3, 6, 8}));
  spec.image.emplace();
  EXPECT_EQ(output_shape(spec), (std::vector<std::int64_t>{3, 6, 8}));
  spec.image->crop_height = 2;
  spec.image->crop_width = 4;
  EXPECT_EQ(output_shape(spec), (std::vector<std::int64_t>{3, 2, 4}));
  spec.image->height = 5;
  spec.image->width = 7;
  EXPECT_EQ(output_shape(spec), (std::vector<std::int64_t>{3, 5, 7}));
  spec.shape = {6, 8};
  EXPECT_EQ(output_shape(spec), (std::vector<std::int64_t>{1, 5, 7}));
  spec.channels_first = false;
  EXPECT_EQ(output_shape(spec), (std::vector<std::int64_t>{5, 7}));
  const WindowSpec base = base_window(spec);
  EXPECT_FALSE(base.image.has_value());
  EXPECT_EQ(output_shape(base), (std::vector<std::int64_t>{6, 8}));
}

TEST(ImageWindows, Errors) {
  const std::string json =
      R"({"center":1.0,"crop":null,"filter":"bilinear","mode":"stretch","size":[8,8]})";
  expect_error(
      "ValueError image['action']: expected null for rows that are no images [H,W] or [H,W,C] of "
      "U8, U16, F16 or F32, C at most 4, got " +
          json,
      [](LoaderCall& call) { as_images(call).shape = {4}; });
  expect_error(
      "ValueError image['action']: expected null for rows that are no images [H,W] or [H,W,C] of "
      "U8, U16, F16 or F32, C at most 4, got " +
          json,
      [](LoaderCall& call) { as_images(call).dtype = DataType::kFloat64; });
  expect_error("ValueError image['action'].size: expected [height,width] of 1 to 4096, got [0,8]",
               [](LoaderCall& call) { as_images(call).image->height = 0; });
  expect_error(
      "ValueError image['action'].size: expected [height,width] of 1 to 4096, got [8,4097]",
      [](LoaderCall& call) { as_images(call).image->width = 4097; });
  expect_error("ValueError image['action'].mode: expected a ResizeMode, got 7",
               [](LoaderCall& call) { as_images(call).image->mode = ResizeMode{7}; });
  expect_error("ValueError image['action'].filter: expected a ResizeFilter, got 7",
               [](LoaderCall& call) { as_images(call).image->filter = ResizeFilter{7}; });
  expect_error(
      "ValueError image['action'].crop: expected [top,left,height,width] within an image of [2,2], "
      "got [1,0,2,2]",
      [](LoaderCall& call) {
        ImageSpec& image = *as_images(call).image;
        image.crop_top = 1;
        image.crop_height = image.crop_width = 2;
      });
  expect_error("ValueError image['action'].center: expected a share above 0, at most 1, got nan",
               [](LoaderCall& call) { as_images(call).image->center = std::nan(""); });
  expect_error(
      "TypeError out_dtype['action']: expected U8, F16, BF16, F32 or the type of the rows with "
      "image, got \"F64\"",
      [](LoaderCall& call) { as_images(call).out_dtype = DataType::kFloat64; });
  expect_error(
      "ValueError outside['force']: expected \"hold\", \"zero\" or \"extrapolate\" with image, got "
      "\"nan\"",
      [](LoaderCall& call) {
        WindowSpec& spec = call.by_time().options.spec;
        spec.shape = {2, 2};
        spec.image.emplace();
        spec.outside = Outside::kNan;
      });
  expect_error("ValueError normalization['action'].subtract: expected 1 number, got [1.0,2.0]",
               [](LoaderCall& call) { as_images(call).subtract = {1, 2}; });
  expect_error("ValueError image['action']: expected null for a relative stream, got " + json,
               [](LoaderCall& call) { as_images(call).relative_to = "force"; });
  expect_error(
      "ValueError relative_to['force'].stream: expected a stream without image, got \"action\"",
      [](LoaderCall& call) {
        as_images(call);
        call.by_time().options.spec.relative_to = "action";
      });
  expect_error(
      "ValueError subtract['action']: expected none with image, whose frames the plan does not "
      "scale, got some",
      [](LoaderCall& call) {
        as_images(call);
        call.by_row().subtract = Tensor(DataType::kFloat64, {1});
      });
}

}  // namespace
}  // namespace robocache::testing
