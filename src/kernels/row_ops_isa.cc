// Row operations, compiled once per instruction set.
#include <cstdint>

#include "kernels/f32x16.h"
#include "kernels/math.inl.h"
#include "kernels/row_kernel_ops.h"
#include "kernels/unroll.h"

namespace baton::BATON_ISA {
namespace {

// Lanes of the vector at i that lie below n.
BATON_INLINE int LanesLeft(int64_t n, int64_t i) {
  const int64_t left = n - i;
  return left < kLanes ? static_cast<int>(left) : kLanes;
}

// Four accumulators of 16 lanes: vector i goes to accumulator i mod 4, then (0 + 1) + (2 + 3),
// then the tree of ReduceAdd.
void RmsNormRow(const float* in, const float* weight, int64_t width, float eps, float* out) {
  constexpr int kSums = 4;
  f32x16 sum[kSums] = {Zero(), Zero(), Zero(), Zero()};
  int64_t i = 0;
  for (; i + kSums * kLanes <= width; i += kSums * kLanes) {
    BATON_UNROLL
    for (int s = 0; s < kSums; ++s) {
      const f32x16 x = Load(in + i + s * kLanes);
      sum[s] = Fma(x, x, sum[s]);
    }
  }
  BATON_UNROLL
  for (int s = 0; s < kSums; ++s) {
    const int64_t left = width - i - s * kLanes;
    if (left <= 0) break;
    const f32x16 x = LoadPartial(in + i + s * kLanes, LanesLeft(width, i + s * kLanes));
    sum[s] = Fma(x, x, sum[s]);
  }
  const float total = ReduceAdd(Add(Add(sum[0], sum[1]), Add(sum[2], sum[3])));
  const float mean = total / static_cast<float>(width);
  const f32x16 inverse = Set1(1.0f / __builtin_sqrtf(mean + eps));
  for (i = 0; i + kLanes <= width; i += kLanes) {
    Store(out + i, Mul(Mul(Load(in + i), inverse), Load(weight + i)));
  }
  if (i < width) {
    const int n = LanesLeft(width, i);
    const f32x16 x = Mul(Mul(LoadPartial(in + i, n), inverse), LoadPartial(weight + i, n));
    StorePartial(out + i, x, n);
  }
}

// out[i] = op(a[i], b[i]).
template <typename Op>
BATON_INLINE void ForEachPair(const float* a, const float* b, int64_t n, float* out, Op op) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store(out + i, op(Load(a + i), Load(b + i)));
  if (i == n) return;
  const int rest = LanesLeft(n, i);
  StorePartial(out + i, op(LoadPartial(a + i, rest), LoadPartial(b + i, rest)), rest);
}

void AddRow(const float* a, const float* b, int64_t n, float* out) {
  ForEachPair(a, b, n, out, [](f32x16 x, f32x16 y) { return Add(x, y); });
}

void ScaleRow(const float* in, float factor, int64_t n, float* out) {
  const f32x16 f = Set1(factor);
  ForEachPair(in, in, n, out, [f](f32x16 x, f32x16) { return Mul(x, f); });
}

void GatedSiluRow(const float* gate, const float* up, int64_t n, float* out) {
  ForEachPair(gate, up, n, out, [](f32x16 g, f32x16 u) { return Mul(Silu(g), u); });
}

void GatedGeluRow(const float* gate, const float* up, int64_t n, float* out) {
  ForEachPair(gate, up, n, out, [](f32x16 g, f32x16 u) { return Mul(GeluTanh(g), u); });
}

void SoftCapRow(const float* in, float cap, int64_t n, float* out) {
  const f32x16 c = Set1(cap);
  ForEachPair(in, in, n, out, [c](f32x16 x, f32x16) { return Mul(Tanh(Div(x, c)), c); });
}

// x * cosine + partner * sine: the product with the sine rounds first, then one fma.
BATON_INLINE f32x16 Turn(f32x16 x, f32x16 partner, f32x16 cosine, f32x16 sine) {
  return Fma(x, cosine, Mul(partner, sine));
}

void RotateHalves(const float* cos_sin, int rotary_dim, float* x) {
  const int half = rotary_dim / 2;
  const float* cosine = cos_sin;
  const float* sine = cos_sin + rotary_dim;
  for (int i = 0; i < half; i += kLanes) {
    const int n = LanesLeft(half, i);
    const f32x16 a = LoadPartial(x + i, n);
    const f32x16 b = LoadPartial(x + half + i, n);
    StorePartial(x + i, Turn(a, b, LoadPartial(cosine + i, n), LoadPartial(sine + i, n)), n);
    StorePartial(x + half + i,
                 Turn(b, a, LoadPartial(cosine + half + i, n), LoadPartial(sine + half + i, n)), n);
  }
}

// Lanes 2i and 2i + 1 change places.
BATON_INLINE f32x16 SwapNeighbours(f32x16 a) {
#if defined(BATON_ISA_AVX512)
  return {_mm512_permute_ps(a.v, 0xb1)};
#elif defined(BATON_ISA_AVX2)
  return {_mm256_permute_ps(a.lo, 0xb1), _mm256_permute_ps(a.hi, 0xb1)};
#else
  f32x16 r;
  for (int i = 0; i < kLanes; ++i) r.v[i] = a.v[i ^ 1];
  return r;
#endif
}

void RotatePairs(const float* cos_sin, int rotary_dim, float* x) {
  const float* cosine = cos_sin;
  const float* sine = cos_sin + rotary_dim;
  for (int i = 0; i < rotary_dim; i += kLanes) {
    const int n = LanesLeft(rotary_dim, i);
    const f32x16 a = LoadPartial(x + i, n);
    StorePartial(
        x + i, Turn(a, SwapNeighbours(a), LoadPartial(cosine + i, n), LoadPartial(sine + i, n)), n);
  }
}

}  // namespace

extern const RowKernelOps kRowKernelOps = {.rms_norm = RmsNormRow,
                                           .add = AddRow,
                                           .scale = ScaleRow,
                                           .gated_silu = GatedSiluRow,
                                           .gated_gelu = GatedGeluRow,
                                           .soft_cap = SoftCapRow,
                                           .rotate_halves = RotateHalves,
                                           .rotate_pairs = RotatePairs};

}  // namespace baton::BATON_ISA
