// Elementary functions whose bits are the same on every machine.
//
// The C library picks its variant of exp or sin by CPU and by version; these use nothing but
// additions, multiplications and divisions in double, in one order, without fused operations. They
// are for tables, sampling and references; kernels have their own in binary32.
//
// Error: at most 1 unit in the last place of the result (measured 0.82 against 80-bit arithmetic).
// Subnormal arguments and results count as 0, so that the thread's flush mode cannot show.
// Threads: any. Memory: none.
#pragma once

#include <span>

namespace baton {

// e^x. 0 below −708.39, infinity above 709.78; NaN for NaN.
double Exp(double x);

// Exp of each number, with the same bits; several at a time, for whole vocabularies.
// Shapes: x, out: [n] f64; they may be the same memory. Requires: no x is NaN or above 709.78.
void ExpInto(std::span<const double> x, std::span<double> out);

// 2^x, exact for whole x. 0 below −1022, infinity from 1024 on; NaN for NaN.
double Exp2(double x);

// ln x. −infinity for 0, NaN below 0 and for NaN.
double Log(double x);

// ln(1 + x), accurate for small x, too. −infinity for −1, NaN below −1 and for NaN.
double Log1p(double x);

// The logarithm to base 2, exact for powers of two. −infinity for 0, NaN below 0 and for NaN.
double Log2(double x);

// x^y for x >= 0; 1 if y is 0 or x is 1. NaN for x < 0 (also for whole y) and for NaN.
double Pow(double x, double y);

// The largest angle of Sin and Cos, either sign. Units: radians.
inline constexpr double kMaxAngle = 1073741824.0;  // 2^30

// Sine and cosine of an angle in radians; NaN beyond kMaxAngle. The absolute error is below 2e-16
// for all angles allowed: the angle is reduced with 159 bits of π/2.
double Sin(double x);
double Cos(double x);

}  // namespace baton
