// Elementary functions on sixteen lanes: our own polynomials, the same bits on every instruction
// set. No C library, whose variants differ from CPU to CPU.
//
// The coefficients are minimax fits of the relative error, rounded to f32 one at a time with the
// rest refitted; docs/numerics.md lists them with their errors. A NaN lane gives NaN (its payload
// is not promised); lanes do not affect each other.
#pragma once

#include "kernels/f32x16.h"

namespace baton::BATON_ISA {

// Arguments below this give +0 from every exponential: one rule for softmax, rescaling and
// activations. Down to it the result is a normal number, so flushing denormals cannot be seen.
inline constexpr float kExp2Zero = -125.0f;

// 2^n * p(r) with n the integer nearest to y and p(r) close to 2^r. r is y - n plus a correction
// below 2^-16.
BATON_INLINE f32x16 Exp2Scale(f32x16 r, i32x16 n) {
  f32x16 p = Set1(0x1.5cbe5cp-10f);
  p = Fma(p, r, Set1(0x1.3cf408p-7f));
  p = Fma(p, r, Set1(0x1.c6b596p-5f));
  p = Fma(p, r, Set1(0x1.ebf9a4p-3f));
  p = Fma(p, r, Set1(0x1.62e42ap-1f));
  p = Fma(p, r, Set1(1.0f));
  return AsFloat(AddInt(AsInt(p), ShiftLeft<23>(n)));
}

// 2^x for x <= 64, relative error below 2e-7; exact for integers; +0 below kExp2Zero.
// Lanes above 64 are garbage, not a fault.
BATON_INLINE f32x16 Exp2(f32x16 x) {
  const i32x16 n = RoundToInt(x);
  const f32x16 p = Exp2Scale(Sub(x, ToFloat(n)), n);
  return SelectGreater(Set1(kExp2Zero), x, Zero(), p);
}

// e^x, relative error below 3e-7; +0 where x*log2(e) < kExp2Zero, infinity where it is >= 127.5.
BATON_INLINE f32x16 Exp(f32x16 x) {
  // Beyond these bounds the result is 0 or infinity anyway. Min and Max keep a NaN in x.
  const f32x16 c = Min(Set1(100.0f), Max(Set1(-100.0f), x));
  const f32x16 log2e = Set1(0x1.715476p+0f);
  const f32x16 y = Mul(c, log2e);
  // What y lacks: its rounding error, exact by the fma, and the tail of log2(e).
  const f32x16 rest = Fma(c, Set1(0x1.4ae0cp-26f), Fma(c, log2e, Sub(Zero(), y)));
  const i32x16 n = RoundToInt(y);
  const f32x16 p = Exp2Scale(Add(Sub(y, ToFloat(n)), rest), n);
  const f32x16 small = SelectGreater(Set1(kExp2Zero), y, Zero(), p);
  return SelectGreater(y, Set1(127.5f), Set1(__builtin_inff()), small);
}

// x / (1 + e^-x). NaN for minus infinity.
BATON_INLINE f32x16 Silu(f32x16 x) {
  return Div(x, Add(Set1(1.0f), Exp(Sub(Zero(), x))));
}

// 0.5 x (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3), written as x / (1 + e^(-2u)), which
// keeps its relative accuracy in the negative tail.
BATON_INLINE f32x16 GeluTanh(f32x16 x) {
  const f32x16 square = Mul(x, x);
  // -2 sqrt(2/pi) and -2 sqrt(2/pi) * 0.044715
  const f32x16 factor = Fma(square, Set1(-0x1.2444f2p-4f), Set1(-0x1.988454p+0f));
  return Div(x, Add(Set1(1.0f), Exp(Mul(x, factor))));
}

// tanh(x), relative error below 3e-7 everywhere, so also near 0.
BATON_INLINE f32x16 Tanh(f32x16 x) {
  const f32x16 a = Abs(x);
  // |x| <= 0.625: x + x^3 q(x^2).
  const f32x16 z = Mul(x, x);
  f32x16 q = Set1(-0x1.750ce4p-8f);
  q = Fma(q, z, Set1(0x1.51f8cep-6f));
  q = Fma(q, z, Set1(-0x1.b835a4p-5f));
  q = Fma(q, z, Set1(0x1.1106f6p-3f));
  q = Fma(q, z, Set1(-0x1.555532p-2f));
  const f32x16 near = Fma(Mul(x, z), q, x);
  // Otherwise sign(x) (1 - 2 / (e^(2|x|) + 1)).
  const f32x16 magnitude = Sub(Set1(1.0f), Div(Set1(2.0f), Add(Exp(Add(a, a)), Set1(1.0f))));
  const f32x16 far = SelectGreater(Zero(), x, Sub(Zero(), magnitude), magnitude);
  return SelectGreater(a, Set1(0.625f), far, near);
}

}  // namespace baton::BATON_ISA
