// Numbers of twice the precision of double, as an unevaluated sum hi + lo.
//
// Only additions, multiplications and divisions that round to nearest, no fused operation: the bits
// are the same on every machine and with every compiler that keeps -ffp-contract=off.
// Source: T. J. Dekker, "A floating-point technique for extending the available precision", 1971.
#pragma once

namespace baton {

// hi + lo with |lo| at most half a unit in the last place of hi.
struct DoubleDouble {
  double hi = 0.0;
  double lo = 0.0;
};

// a + b exactly. Requires: |a| >= |b| or a == 0.
constexpr DoubleDouble FastTwoSum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

// a + b exactly.
constexpr DoubleDouble TwoSum(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

// a · b exactly. Requires: no operand beyond 2^995, product neither beyond 2^1020 nor so small that
// its lower half is denormal.
constexpr DoubleDouble TwoProduct(double a, double b) {
  constexpr double kSplit = 134217729.0;  // 2^27 + 1 halves the 53 bits of a number
  const double a_high = kSplit * a - (kSplit * a - a);
  const double a_low = a - a_high;
  const double b_high = kSplit * b - (kSplit * b - b);
  const double b_low = b - b_high;
  const double product = a * b;
  return {product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low};
}

// The sum, to about 2^-104 of it unless the terms cancel.
constexpr DoubleDouble Add(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble sum = TwoSum(a.hi, b.hi);
  return FastTwoSum(sum.hi, sum.lo + (a.lo + b.lo));
}

// The product, to about 2^-102 of it.
constexpr DoubleDouble Multiply(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble product = TwoProduct(a.hi, b.hi);
  return FastTwoSum(product.hi, product.lo + (a.hi * b.lo + a.lo * b.hi));
}

// The quotient, to about 2^-100 of it.
constexpr DoubleDouble Divide(DoubleDouble a, DoubleDouble b) {
  const double quotient = a.hi / b.hi;
  const DoubleDouble product = Multiply({quotient, 0.0}, b);
  const DoubleDouble rest = Add(a, {-product.hi, -product.lo});
  return FastTwoSum(quotient, rest.hi / b.hi);
}

}  // namespace baton
