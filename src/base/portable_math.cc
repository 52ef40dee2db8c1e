#include "base/portable_math.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/double_double.h"

namespace baton {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kSmallestNormal = std::numeric_limits<double>::min();
constexpr double kSqrt2 = 0x1.6a09e667f3bcdp+0;

// Constants as sums of doubles, each the nearest to what the ones before leave.
constexpr double kHalfPi1 = 0x1.921fb54442d18p+0;
constexpr double kHalfPi2 = 0x1.1a62633145c07p-54;
constexpr double kHalfPi3 = -0x1.f1976b7ed8fbcp-110;
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
constexpr DoubleDouble kLn2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
// ln 2 again, the first part with 42 bits: its product with a whole number below 2^11 is exact.
constexpr double kLn2High = 0x1.62e42fefa3800p-1;
constexpr double kLn2Low = 0x1.ef35793c76730p-45;
constexpr DoubleDouble kOneOverLn2 = {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56};

// 1 / n!, each rounded once: n! is exact in a double up to n = 22.
constexpr std::array<double, 20> InverseFactorials() {
  std::array<double, 20> values = {};
  double factorial = 1.0;
  for (int n = 0; n < 20; ++n) {
    if (n > 0) factorial *= n;
    values[n] = 1.0 / factorial;
  }
  return values;
}
constexpr std::array<double, 20> kInverseFactorial = InverseFactorials();

// 1 / (2 n + 1) in twice the precision.
constexpr std::array<DoubleDouble, 16> InverseOddNumbers() {
  std::array<DoubleDouble, 16> values = {};
  for (int n = 0; n < 16; ++n) {
    const double odd = 2.0 * n + 1.0;
    values[n] = Divide({1.0, 0.0}, {odd, 0.0});
  }
  return values;
}
constexpr std::array<DoubleDouble, 16> kInverseOdd = InverseOddNumbers();

int64_t RoundToInteger(double x) {
  return static_cast<int64_t>(x < 0.0 ? x - 0.5 : x + 0.5);
}

// 2^exponent. Requires: -1022 <= exponent <= 1023.
double PowerOfTwo(int64_t exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// Two numbers that are computed together; each with the operations of one.
constexpr size_t kLanes = 2;
using Lanes = double __attribute__((vector_size(16)));
using LaneBits = uint64_t __attribute__((vector_size(16)));

int64_t BitsOf(double x) {
  return std::bit_cast<int64_t>(x);
}
LaneBits BitsOf(Lanes x) {
  return reinterpret_cast<LaneBits>(x);
}
double FromBits(uint64_t bits) {
  return std::bit_cast<double>(bits);
}
Lanes FromBits(LaneBits bits) {
  return reinterpret_cast<Lanes>(bits);
}

// e^(r + rest) for |r| <= 0.35, by the Taylor series; its terms beyond r^13 are below 2^-57.
template <typename T>
T ExpOfSmall(T r, T rest) {
  T p = r * kInverseFactorial[13] + kInverseFactorial[12];
  for (int n = 11; n >= 2; --n) p = p * r + kInverseFactorial[n];
  return 1.0 + (r + (r * r * p + rest * (1.0 + r)));
}

constexpr double kSmallestExponent = -708.39;
constexpr double kLargestExponent = 0x1.62e42fefa39efp+9;  // the last one below infinity

// e^x by x = k·ln 2 + r. Requires: kSmallestExponent <= x <= kLargestExponent.
template <typename T>
T ExpInRange(T x) {
  // Adding 1.5 · 2^52 rounds to a whole number and leaves it in the low bits.
  constexpr double kRound = 0x1.8p+52;
  const T shifted = x * kOneOverLn2.hi + kRound;
  const T k = shifted - kRound;
  const T high = x - k * kLn2High;
  const T low = k * kLn2Low;
  const T r = high - low;
  const T value = ExpOfSmall(r, (high - r) - low);
  // value is in (0.7, 1.42): adding k to its exponent stays among the normal numbers.
  return FromBits(BitsOf(value) + (BitsOf(shifted) << 52));
}

// e^r · 2^k for |r| <= 0.35.
double ScaledExp(DoubleDouble r, int64_t k) {
  const double value = ExpOfSmall(r.hi, r.lo);
  return k > 1023 ? value * PowerOfTwo(k - 1) * 2.0 : value * PowerOfTwo(k);
}

// Requires: -708.39 <= x.hi <= 709.79.
double ExpOf(DoubleDouble x) {
  const int64_t k = RoundToInteger(x.hi * kOneOverLn2.hi);
  const DoubleDouble k_ln2 = Multiply({static_cast<double>(k), 0.0}, kLn2);
  return ScaledExp(Add(x, {-k_ln2.hi, -k_ln2.lo}), k);
}

// 2 artanh(s) = 2 s (1 + s²/3 + s⁴/5 + …) for s = difference / sum, |s| <= 0.172: the logarithm of
// (sum + difference) / (sum − difference). The terms from s¹² on need no second double.
DoubleDouble LogOfRatio(DoubleDouble difference, DoubleDouble sum) {
  const DoubleDouble s = Divide(difference, sum);
  const DoubleDouble square = Multiply(s, s);
  double tail = kInverseOdd[15].hi;
  for (int n = 14; n >= 6; --n) tail = tail * square.hi + kInverseOdd[n].hi;
  DoubleDouble series = {tail, 0.0};
  for (int n = 5; n >= 0; --n) series = Add(Multiply(series, square), kInverseOdd[n]);
  const DoubleDouble half = Multiply(s, series);
  return {2.0 * half.hi, 2.0 * half.lo};
}

// x = mantissa · 2^exponent with the mantissa in [√½, √2).
struct Parts {
  double mantissa;
  int exponent;
};

// Requires: x is positive, normal and finite.
Parts Split(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);
  if (mantissa >= kSqrt2) {
    mantissa *= 0.5;
    ++exponent;
  }
  return {mantissa, exponent};
}

DoubleDouble LogOfMantissa(double mantissa) {
  return LogOfRatio({mantissa - 1.0, 0.0}, TwoSum(mantissa, 1.0));
}

// Requires: x is positive, normal and finite.
DoubleDouble LogOf(double x) {
  const Parts parts = Split(x);
  return Add(Multiply({static_cast<double>(parts.exponent), 0.0}, kLn2),
             LogOfMantissa(parts.mantissa));
}

// An angle as quarter · π/2 + rest with |rest| <= π/4.
struct Angle {
  DoubleDouble rest;
  int quarter;  // modulo 4
};

// Requires: |x| <= kMaxAngle. x − n·π/2 cancels up to 60 bits; three doubles of π/2 leave enough.
Angle Reduce(double x) {
  const int64_t n = RoundToInteger(x * kTwoOverPi);
  const auto factor = static_cast<double>(n);
  const DoubleDouble first = TwoProduct(factor, kHalfPi1);
  const DoubleDouble second = TwoProduct(factor, kHalfPi2);
  // x and first.hi are close, so their difference is exact.
  const DoubleDouble a = TwoSum(x - first.hi, -first.lo);
  const DoubleDouble b = TwoSum(a.hi, -second.hi);
  const double rest = ((a.lo + b.lo) - second.lo) - factor * kHalfPi3;
  return {FastTwoSum(b.hi, rest), static_cast<int>(n & 3)};
}

// Taylor series about 0; terms beyond x^19 and x^18 are below 2^-63.
double SinOfRest(DoubleDouble r) {
  const double z = r.hi * r.hi;
  double p = -kInverseFactorial[19];
  for (int n = 17; n >= 3; n -= 2) {
    p = p * z + ((n & 2) != 0 ? -kInverseFactorial[n] : kInverseFactorial[n]);
  }
  return r.hi + (r.hi * z * p + r.lo * (1.0 - 0.5 * z));
}

double CosOfRest(DoubleDouble r) {
  const double z = r.hi * r.hi;
  double p = -kInverseFactorial[18];
  for (int n = 16; n >= 4; n -= 2) {
    p = p * z + ((n & 2) != 0 ? -kInverseFactorial[n] : kInverseFactorial[n]);
  }
  const DoubleDouble head = FastTwoSum(1.0, -0.5 * z);
  return head.hi + (head.lo + (z * z * p - r.hi * r.lo));
}

double SinOfAngle(const Angle& angle) {
  const double value = (angle.quarter & 1) != 0 ? CosOfRest(angle.rest) : SinOfRest(angle.rest);
  return (angle.quarter & 2) != 0 ? -value : value;
}

}  // namespace

double Exp(double x) {
  if (x != x) return x;
  if (x < kSmallestExponent) return 0.0;
  if (x > kLargestExponent) return kInfinity;
  return ExpInRange(x);
}

void ExpInto(std::span<const double> x, std::span<double> out) {
  CHECK_EQ(x.size(), out.size());
  size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes) {
    Lanes lanes;
    std::memcpy(&lanes, x.data() + i, sizeof(lanes));
    const auto in_range = reinterpret_cast<LaneBits>(lanes >= kSmallestExponent);
    const LaneBits bits = BitsOf(ExpInRange(lanes)) & in_range;
    std::memcpy(out.data() + i, &bits, sizeof(bits));
  }
  for (; i < x.size(); ++i) out[i] = Exp(x[i]);
}

double Exp2(double x) {
  if (x != x) return x;
  if (x < -1022.0) return 0.0;
  if (x >= 1024.0) return kInfinity;
  const int64_t k = RoundToInteger(x);
  return ScaledExp(Multiply({x - static_cast<double>(k), 0.0}, kLn2), k);
}

double Log(double x) {
  if (x != x || x < 0.0) return kNaN;
  if (x < kSmallestNormal) return -kInfinity;
  if (x == kInfinity) return x;
  return LogOf(x).hi;
}

double Log1p(double x) {
  if (x != x || x < -1.0) return kNaN;
  if (x == -1.0) return -kInfinity;
  if (x == kInfinity) return x;
  if (x > -0.29 && x < 0.41) {
    // Below this the square is too small to matter and the exact products would underflow.
    if (x > -1e-100 && x < 1e-100) return x;
    return LogOfRatio({x, 0.0}, TwoSum(2.0, x)).hi;
  }
  const DoubleDouble sum = TwoSum(1.0, x);
  return Add(LogOf(sum.hi), {sum.lo / sum.hi, 0.0}).hi;
}

double Log2(double x) {
  if (x != x || x < 0.0) return kNaN;
  if (x < kSmallestNormal) return -kInfinity;
  if (x == kInfinity) return x;
  const Parts parts = Split(x);
  const DoubleDouble log2 = Multiply(LogOfMantissa(parts.mantissa), kOneOverLn2);
  return Add({static_cast<double>(parts.exponent), 0.0}, log2).hi;
}

double Pow(double x, double y) {
  if (y == 0.0 || x == 1.0) return 1.0;
  if (x != x || y != y || x < 0.0) return kNaN;
  if (x < kSmallestNormal) return y > 0.0 ? 0.0 : kInfinity;
  if (x == kInfinity) return y > 0.0 ? kInfinity : 0.0;
  const DoubleDouble log = LogOf(x);
  const double exponent = log.hi * y;
  if (exponent < -708.39) return 0.0;
  if (exponent > 709.79) return kInfinity;
  // A y this small changes nothing (and its exact product would underflow).
  if (exponent > -1e-30 && exponent < 1e-30) return 1.0;
  return ExpOf(Multiply(log, {y, 0.0}));
}

double Sin(double x) {
  if (!(x >= -kMaxAngle && x <= kMaxAngle)) return kNaN;
  return SinOfAngle(Reduce(x));
}

double Cos(double x) {
  if (!(x >= -kMaxAngle && x <= kMaxAngle)) return kNaN;
  Angle angle = Reduce(x);
  angle.quarter = (angle.quarter + 1) & 3;
  return SinOfAngle(angle);
}

}  // namespace baton
