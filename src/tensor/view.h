// Views of one and two dimensions: a pointer, extents and a stride; they own nothing.
//
// Extents are named from the outermost inwards; the innermost dimension is contiguous. Views are
// passed by value.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "base/check.h"

namespace baton {

// Consecutive elements. Same as std::span with a signed size; for symmetry with View2.
template <typename T>
class View1 {
 public:
  View1() = default;
  View1(T* data, int64_t size) : data_(data), size_(size) { CHECK_GE(size, 0); }
  // NOLINTNEXTLINE(google-explicit-constructor): a view of T is a view of const T.
  operator View1<const T>() const { return {data_, size_}; }

  T* data() const { return data_; }
  int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](int64_t i) const { return data_[i]; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }
  std::span<T> span() const { return {data_, static_cast<size_t>(size_)}; }

  // The elements [first, first + count). Requires: they lie inside.
  View1 Slice(int64_t first, int64_t count) const {
    CHECK(first >= 0 && count >= 0 && first <= size_ && count <= size_ - first);
    return {data_ + first, count};
  }

 private:
  T* data_ = nullptr;
  int64_t size_ = 0;
};

// Rows of equal length, `stride` elements apart.
template <typename T>
class View2 {
 public:
  View2() = default;
  // Rows without gaps: [rows, cols].
  View2(T* data, int64_t rows, int64_t cols) : View2(data, rows, cols, cols) {}
  // Requires: stride >= cols.
  View2(T* data, int64_t rows, int64_t cols, int64_t stride)
      : data_(data), rows_(rows), cols_(cols), stride_(stride) {
    CHECK_GE(rows, 0);
    CHECK_GE(cols, 0);
    CHECK_GE(stride, cols);
  }
  // NOLINTNEXTLINE(google-explicit-constructor): a view of T is a view of const T.
  operator View2<const T>() const { return {data_, rows_, cols_, stride_}; }

  T* data() const { return data_; }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  int64_t stride() const { return stride_; }
  bool contiguous() const { return stride_ == cols_ || rows_ <= 1; }
  T* row(int64_t r) const { return data_ + r * stride_; }
  View1<T> Row(int64_t r) const { return {row(r), cols_}; }
  T& operator()(int64_t r, int64_t c) const { return data_[r * stride_ + c]; }

  // The rows [first, first + count). Requires: they lie inside.
  View2 Rows(int64_t first, int64_t count) const {
    CHECK(first >= 0 && count >= 0 && first <= rows_ && count <= rows_ - first);
    return {row(first), count, cols_, stride_};
  }
  // The columns [first, first + count) of every row. Requires: they lie inside.
  View2 Cols(int64_t first, int64_t count) const {
    CHECK(first >= 0 && count >= 0 && first <= cols_ && count <= cols_ - first);
    return {data_ + first, rows_, count, stride_};
  }

 private:
  T* data_ = nullptr;
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  int64_t stride_ = 0;
};

}  // namespace baton
