// Qualities and chroma samplings, found in the headers of frames.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "jpeg/frames.h"

namespace robocache::testing {
namespace {

JpegHeader header_of(std::int32_t quality, JpegSampling sampling) {
  FrameOptions options{16, 16, Content::kScene, {}};
  options.encoding.quality = quality;
  options.encoding.sampling = sampling;
  const Bytes file = make_frame(options, 1);
  JpegHeader header;
  EXPECT_EQ(parse_jpeg(file.data(), file.size(), header), JpegStatus::kOk);
  return header;
}

TEST(JpegQuality, EveryQualityIsFound) {
  for (const JpegSampling sampling :
       {JpegSampling::kGray, JpegSampling::k444, JpegSampling::k420}) {
    for (std::int32_t quality = 1; quality <= 100; ++quality) {
      const JpegHeader header = header_of(quality, sampling);
      ASSERT_EQ(header.components, sampling == JpegSampling::kGray ? 1 : 3);
      ASSERT_EQ(find_jpeg_quality(header), quality);
    }
  }
}

TEST(JpegQuality, OtherTablesHaveNone) {
  JpegHeader header = header_of(90, JpegSampling::k420);
  header.quantization[2].steps[63] += 1;
  EXPECT_EQ(find_jpeg_quality(header), 0);
  header = header_of(90, JpegSampling::k420);
  header.quantization[0].steps[0] += 1;
  EXPECT_EQ(find_jpeg_quality(header), 0);
  header = header_of(90, JpegSampling::k420);
  header.quantization[1] = header.quantization[0];  // the table of luma, as some cameras do
  EXPECT_EQ(find_jpeg_quality(header), 0);
  header = header_of(90, JpegSampling::k420);
  header.quantization[0] = header_of(91, JpegSampling::k420).quantization[0];
  EXPECT_EQ(find_jpeg_quality(header), 0);
}

TEST(JpegQuality, SamplingsHaveTheNamesOfTheField) {
  EXPECT_EQ(std::string(name_of(JpegSampling::kGray)), "4:0:0");
  EXPECT_EQ(std::string(name_of(JpegSampling::k444)), "4:4:4");
  EXPECT_EQ(std::string(name_of(JpegSampling::k422)), "4:2:2");
  EXPECT_EQ(std::string(name_of(JpegSampling::k440)), "4:4:0");
  EXPECT_EQ(std::string(name_of(JpegSampling::k420)), "4:2:0");
}

}  // namespace
}  // namespace robocache::testing
