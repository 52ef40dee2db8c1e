#include "base/portable_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "base/rng.h"

namespace baton {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kSamples = 100'000;
constexpr double kMaxUlps = 1.0;

// How far value is from the reference, in units of the last place of a double there.
double Ulps(double value, long double reference) {
  const auto rounded = static_cast<double>(reference);
  const double unit = std::nextafter(std::fabs(rounded), kInfinity) - std::fabs(rounded);
  return static_cast<double>(std::fabs(static_cast<long double>(value) - reference) /
                             static_cast<long double>(unit));
}

double EvaluateByName(std::string_view name, double x, double y) {
  if (name == "Exp") return Exp(x);
  if (name == "Exp2") return Exp2(x);
  if (name == "Log") return Log(x);
  if (name == "Log1p") return Log1p(x);
  if (name == "Log2") return Log2(x);
  if (name == "Sin") return Sin(x);
  if (name == "Cos") return Cos(x);
  if (name == "Pow") return Pow(x, y);
  ADD_FAILURE() << name;
  return 0.0;
}

// Computed with 400 bits by mpmath 1.3.0 and rounded once.
struct Golden {
  const char* name;
  double x;
  double y;
  double value;
};
constexpr Golden kGolden[] = {
    {"Exp", 0x1.0000000000000p+0, 0x0.0p+0, 0x1.5bf0a8b145769p+1},
    {"Exp", -0x1.0000000000000p+0, 0x0.0p+0, 0x1.78b56362cef38p-2},
    {"Exp", 0x1.0000000000000p-1, 0x0.0p+0, 0x1.a61298e1e069cp+0},
    {"Exp", 0x1.5e40000000000p+9, 0x0.0p+0, 0x1.8625c7d4f56c2p+1010},
    {"Exp", -0x1.5e40000000000p+9, 0x0.0p+0, 0x1.4ff475c68ca02p-1011},
    {"Exp", 0x1.b7cdfd9d7bdbbp-34, 0x0.0p+0, 0x1.000000006df38p+0},
    {"Exp", 0x1.6000000000000p+6, 0x0.0p+0, 0x1.f1056dc7bf22dp+126},
    {"Exp", 0x1.62e33eff19503p-2, 0x0.0p+0, 0x1.6a099138a089dp+0},
    {"Exp2", 0x1.0000000000000p-1, 0x0.0p+0, 0x1.6a09e667f3bcdp+0},
    {"Exp2", -0x1.0000000000000p-1, 0x0.0p+0, 0x1.6a09e667f3bcdp-1},
    {"Exp2", 0x1.499999999999ap+3, 0x0.0p+0, 0x1.3b2c47bff832cp+10},
    {"Exp2", -0x1.f45999999999ap+9, 0x0.0p+0, 0x1.3b2c47bff827ap-1001},
    {"Exp2", 0x1.4f8b588e368f1p-17, 0x0.0p+0, 0x1.0000744a8c42dp+0},
    {"Log", 0x1.0000000000000p+1, 0x0.0p+0, 0x1.62e42fefa39efp-1},
    {"Log", 0x1.4000000000000p+3, 0x0.0p+0, 0x1.26bb1bbb55516p+1},
    {"Log", 0x1.fffffca501acbp-1, 0x0.0p+0, -0x1.ad7f2b1049b9fp-24},
    {"Log", 0x1.000001ad7f29bp+0, 0x0.0p+0, 0x1.ad7f2847b6492p-24},
    {"Log", 0x1.56e1fc2f8f359p-997, 0x0.0p+0, -0x1.5963447f87fb5p+9},
    {"Log", 0x1.7e43c8800759cp+996, 0x0.0p+0, 0x1.5963447f87fb5p+9},
    {"Log", 0x1.6a0902de00d1bp-1, 0x0.0p+0, -0x1.62e6b3842a25ep-2},
    {"Log", 0x1.6a09e55c0fcb5p+0, 0x0.0p+0, 0x1.62e42cf9ee3ebp-2},
    {"Log1p", 0x1.b7cdfd9d7bdbbp-34, 0x0.0p+0, 0x1.b7cdfd9d1d693p-34},
    {"Log1p", -0x1.0000000000000p-1, 0x0.0p+0, -0x1.62e42fefa39efp-1},
    {"Log1p", 0x1.999999999999ap-2, 0x0.0p+0, 0x1.588c2d9133490p-2},
    {"Log1p", 0x1.2a05f20000000p+33, 0x0.0p+0, 0x1.7069e2aa3184ep+4},
    {"Log1p", -0x1.ffffde7210be9p-1, 0x0.0p+0, -0x1.ba18a998fc064p+3},
    {"Log2", 0x1.8000000000000p+1, 0x0.0p+0, 0x1.95c01a39fbd68p+0},
    {"Log2", 0x1.4000000000000p+3, 0x0.0p+0, 0x1.a934f0979a371p+1},
    {"Log2", 0x1.999999999999ap-4, 0x0.0p+0, -0x1.a934f0979a371p+1},
    {"Log2", 0x1.000001ad7f29bp+0, 0x0.0p+0, 0x1.35d0fea5fccb7p-23},
    {"Sin", 0x1.0000000000000p+0, 0x0.0p+0, 0x1.aed548f090ceep-1},
    {"Sin", 0x1.921fb54442d18p+1, 0x0.0p+0, 0x1.1a62633145c07p-53},
    {"Sin", 0x1.312d000000000p+23, 0x0.0p+0, 0x1.aea414a8a3352p-2},
    {"Sin", 0x1.312cfe0000000p+23, 0x0.0p+0, 0x1.fb38658ea8f8cp-1},
    {"Sin", 0x1.ffff400000000p+16, 0x0.0p+0, -0x1.84fb7bdb2ebebp-1},
    {"Sin", 0x1.6ac5b262ca1ffp+19, 0x0.0p+0, 0x1.7421c6a7e2281p-1},
    {"Sin", 0x1.6300000000000p+8, 0x0.0p+0, -0x1.f9bd0307d1de3p-16},
    {"Sin", 0x1.dcd6500000000p+29, 0x0.0p+0, 0x1.1778cae83c69bp-1},
    {"Cos", 0x1.0000000000000p+0, 0x0.0p+0, 0x1.14a280fb5068cp-1},
    {"Cos", 0x1.921fb54442d18p+0, 0x0.0p+0, 0x1.1a62633145c07p-54},
    {"Cos", 0x1.312d000000000p+23, 0x0.0p+0, -0x1.d085be7a8f4a1p-1},
    {"Cos", 0x1.312cfe0000000p+23, 0x0.0p+0, -0x1.172fbc27daf4ap-3},
    {"Cos", 0x1.ffff400000000p+16, 0x0.0p+0, -0x1.4cebe75ff4ee3p-1},
    {"Cos", 0x1.6300000000000p+8, 0x0.0p+0, -0x1.fffffffc18e4cp-1},
    {"Cos", 0x1.dcd6500000000p+29, 0x0.0p+0, 0x1.acff8c7364234p-1},
    {"Pow", 0x1.3880000000000p+13, -0x1.8000000000000p-5, 0x1.4c7bbfcc7c63cp-1},
    {"Pow", 0x1.e848000000000p+19, -0x1.f800000000000p-1, 0x1.4d1c97f4e952fp-20},
    {"Pow", 0x1.e848000000000p+18, -0x1.f000000000000p-1, 0x1.948360a975f3dp-19},
    {"Pow", 0x1.0000000000000p+1, 0x1.0000000000000p-1, 0x1.6a09e667f3bcdp+0},
    {"Pow", 0x1.999999999999ap-4, 0x1.2c00000000000p+8, 0x1.56e1fc2f8f3bdp-997},
    {"Pow", 0x1.000001ad7f29bp+0, 0x1.dcd6500000000p+29, 0x1.349445c228792p+144},
    {"Pow", 0x1.4000000000000p+3, -0x1.3300000000000p+8, 0x1.1fa182c40c60dp-1020},
};

TEST(PortableMath, AgreesWithMpmath) {
  for (const Golden& g : kGolden) {
    EXPECT_LE(Ulps(EvaluateByName(g.name, g.x, g.y), g.value), 1.0) << g.name << " " << g.x;
  }
}

// A function, its counterpart in 80-bit arithmetic, and an interval.
struct Sweep {
  const char* name;
  double (*function)(double);
  long double (*reference)(long double);
  double low;
  double high;
};

TEST(PortableMath, IsWithinOneUnitOfExtendedPrecision) {
  if (std::numeric_limits<long double>::digits < 64) GTEST_SKIP() << "no extended precision here";
  const Sweep sweeps[] = {
      {"Exp", Exp, std::exp, -708.0, 709.0},     {"Exp", Exp, std::exp, -1.0, 1.0},
      {"Exp2", Exp2, std::exp2, -1021.0, 1023},  {"Exp2", Exp2, std::exp2, -1.0, 1.0},
      {"Log", Log, std::log, 1e-3, 4.0},         {"Log", Log, std::log, 0.9, 1.1},
      {"Log", Log, std::log, 1e-300, 1e300},     {"Log1p", Log1p, std::log1p, -0.999, 2.0},
      {"Log1p", Log1p, std::log1p, -1e-6, 1e-6}, {"Log2", Log2, std::log2, 1e-3, 4.0},
      {"Log2", Log2, std::log2, 0.9, 1.1},       {"Sin", Sin, std::sin, -4.0, 4.0},
      {"Sin", Sin, std::sin, 0.0, 1e7},          {"Sin", Sin, std::sin, 0.0, kMaxAngle},
      {"Cos", Cos, std::cos, -4.0, 4.0},         {"Cos", Cos, std::cos, 0.0, 1e7},
      {"Cos", Cos, std::cos, 0.0, kMaxAngle},
  };
  RandomStream random({.seed = 1, .stream = 0});
  for (const Sweep& sweep : sweeps) {
    double worst = 0.0;
    double worst_x = 0.0;
    for (int i = 0; i < kSamples; ++i) {
      const double x = sweep.low + (sweep.high - sweep.low) * random.NextUniform();
      const double ulps = Ulps(sweep.function(x), sweep.reference(x));
      if (ulps > worst) {
        worst = ulps;
        worst_x = x;
      }
    }
    EXPECT_LE(worst, kMaxUlps) << sweep.name << " at " << worst_x;
  }
}

TEST(PortableMath, PowerIsWithinOneUnitOfExtendedPrecision) {
  if (std::numeric_limits<long double>::digits < 64) GTEST_SKIP() << "no extended precision here";
  RandomStream random({.seed = 2, .stream = 0});
  double worst = 0.0;
  for (int i = 0; i < kSamples; ++i) {
    const double x = Exp(40.0 * random.NextUniform() - 20.0);
    const double y = 60.0 * random.NextUniform() - 30.0;
    worst = std::max(
        worst, Ulps(Pow(x, y), std::pow(static_cast<long double>(x), static_cast<long double>(y))));
  }
  EXPECT_LE(worst, kMaxUlps);
}

// RoPE: frequency base^(-2i/d), angle position · frequency, up to ten million positions.
TEST(PortableMath, AnglesOfRotaryEmbeddingsAreAccurate) {
  for (const double base : {1e4, 5e5, 1e6}) {
    for (int i = 0; i < 64; ++i) {
      const double frequency = Pow(base, -2.0 * i / 128.0);
      for (const double position : {1.0, 8191.0, 131071.0, 9'999'999.0}) {
        const double angle = position * frequency;
        EXPECT_NEAR(Sin(angle), static_cast<double>(std::sin(static_cast<long double>(angle))),
                    1e-15);
        EXPECT_NEAR(Cos(angle), static_cast<double>(std::cos(static_cast<long double>(angle))),
                    1e-15);
      }
    }
  }
}

TEST(PortableMath, ExactWhereItShouldBe) {
  EXPECT_EQ(Exp(0.0), 1.0);
  EXPECT_EQ(Log(1.0), 0.0);
  EXPECT_EQ(Log1p(0.0), 0.0);
  EXPECT_EQ(Sin(0.0), 0.0);
  EXPECT_EQ(Cos(0.0), 1.0);
  for (int n = -1022; n <= 1023; ++n) {
    EXPECT_EQ(Exp2(n), std::ldexp(1.0, n));
    EXPECT_EQ(Log2(std::ldexp(1.0, n)), n);
  }
  EXPECT_EQ(Pow(3.0, 4.0), 81.0);
  EXPECT_EQ(Pow(10.0, 15.0), 1e15);
}

TEST(PortableMath, ManyAtATimeAreTheSameBits) {
  RandomStream random({.seed = 3, .stream = 0});
  for (const size_t size : {0u, 1u, 2u, 3u, 7u, 1000u}) {
    std::vector<double> x(size);
    for (double& value : x) value = -800.0 + 1500.0 * random.NextUniform();
    if (size > 5) {
      x[0] = -kInfinity;
      x[1] = -708.39;
      x[2] = std::nextafter(-708.39, -kInfinity);
      x[3] = 0.0;
    }
    std::vector<double> out(size);
    ExpInto(x, out);
    for (size_t i = 0; i < size; ++i) EXPECT_EQ(out[i], Exp(x[i])) << x[i];
    ExpInto(x, x);
    EXPECT_EQ(x, out);
  }
}

TEST(PortableMath, EdgesOfTheDomain) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (double (*function)(double) : {Exp, Exp2, Log, Log1p, Log2, Sin, Cos}) {
    EXPECT_TRUE(std::isnan(function(nan)));
  }
  EXPECT_EQ(Exp(-kInfinity), 0.0);
  EXPECT_EQ(Exp(-1e300), 0.0);
  EXPECT_EQ(Exp(-708.4), 0.0);
  EXPECT_GT(Exp(-708.38), 0.0);
  EXPECT_EQ(Exp(710.0), kInfinity);
  EXPECT_LT(Exp(709.78), kInfinity);
  EXPECT_LE(Ulps(Exp(0x1.62e42fefa39efp+9), std::exp(0x1.62e42fefa39efp+9L)), 1.0);
  EXPECT_EQ(Exp(std::nextafter(0x1.62e42fefa39efp+9, kInfinity)), kInfinity);
  EXPECT_EQ(Exp(kInfinity), kInfinity);
  EXPECT_EQ(Exp2(1024.0), kInfinity);
  EXPECT_EQ(Exp2(-1022.5), 0.0);
  EXPECT_EQ(Log(0.0), -kInfinity);
  EXPECT_EQ(Log(1e-310), -kInfinity);
  EXPECT_EQ(Log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(Log(-1.0)));
  EXPECT_EQ(Log1p(-1.0), -kInfinity);
  EXPECT_TRUE(std::isnan(Log1p(-1.5)));
  EXPECT_TRUE(std::isnan(Log2(-2.0)));
  EXPECT_EQ(Log2(0.0), -kInfinity);
  EXPECT_TRUE(std::isnan(Sin(2e9)));
  EXPECT_TRUE(std::isnan(Cos(-kInfinity)));
  EXPECT_EQ(Pow(nan, 0.0), 1.0);
  EXPECT_EQ(Pow(0.0, 2.0), 0.0);
  EXPECT_EQ(Pow(0.0, -2.0), kInfinity);
  EXPECT_EQ(Pow(kInfinity, -1.0), 0.0);
  EXPECT_EQ(Pow(2.0, 1e308), kInfinity);
  EXPECT_EQ(Pow(2.0, -1e308), 0.0);
  EXPECT_TRUE(std::isnan(Pow(-2.0, 2.0)));
  EXPECT_TRUE(std::isnan(Pow(2.0, nan)));
}

}  // namespace
}  // namespace baton
