// One pass over a tensor's data: counts, extremes with their places, mean, deviation, and a hash of the bits.
//
// Data is taken in blocks that stay in the first-level cache; each block is read from memory once and then passed over
// by short loops that the compiler turns into vector code. Mean and deviation of a block are computed about a value
// near its mean and joined in double precision (Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm
// for computing sample variances", 1979), so their error is that of summing BLOCK values in 64-byte vectors of the
// block's type, however large the tensor is. The hash follows the accumulation of XXH3 (Yann Collet): products of the
// halves of keyed words; keys depend on the place in the tensor, so blocks can be hashed in any order.
//
// Elements are taken in the order of their addresses (`Walk`): a transposed tensor is read like any other, and shares
// what is found with the tensor it is a view of.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace kernelscope {

constexpr int64_t BLOCK = 4096;

struct Statistics {
  int64_t count = 0, nan = 0, positive_inf = 0, negative_inf = 0, zero = 0, subnormal = 0;
  int64_t first_nan = -1, argmin = -1, argmax = -1;
  double min = std::numeric_limits<double>::infinity(), max = -std::numeric_limits<double>::infinity();
  int64_t min_integer = 0, max_integer = 0;  // exact for integer dtypes
  double mean = 0, m2 = 0;                   // over finite values
  int64_t finite = 0;
  uint64_t hash = 0;
};

inline uint64_t mix(uint64_t x) {  // finaliser of MurmurHash3 (Austin Appleby)
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

constexpr uint64_t GOLDEN = 0x9e3779b97f4a7c15ULL;

// Adds the stripes of a block to the hash's sums; a stripe is WORDS words.
constexpr int WORDS = 16;

inline void add_stripes(const unsigned char* data, int64_t stripes, uint64_t* keys, uint64_t* sums) {
#ifdef __AVX2__  // the compiler does not find the 32-bit multiplication by itself
  __m256i key[WORDS / 4], sum[WORDS / 4];
  for (int i = 0; i < WORDS / 4; ++i) {
    key[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(keys) + i);
    sum[i] = _mm256_setzero_si256();
  }
  const __m256i golden = _mm256_set1_epi64x(static_cast<long long>(GOLDEN));
  for (int64_t stripe = 0; stripe < stripes; ++stripe, data += 8 * WORDS)
    for (int i = 0; i < WORDS / 4; ++i) {
      const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data) + i);
      const __m256i keyed = _mm256_xor_si256(words, key[i]);
      const __m256i product = _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32));
      sum[i] = _mm256_add_epi64(sum[i], _mm256_add_epi64(product, words));
      key[i] = _mm256_add_epi64(key[i], golden);
    }
  for (int i = 0; i < WORDS / 4; ++i) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(keys) + i, key[i]);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums) + i, sum[i]);
  }
#else
  for (int64_t stripe = 0; stripe < stripes; ++stripe, data += 8 * WORDS) {
    uint64_t words[WORDS];
    std::memcpy(words, data, sizeof words);
    for (int i = 0; i < WORDS; ++i) {
      const uint64_t keyed = words[i] ^ keys[i];
      sums[i] += (keyed & 0xffffffffULL) * (keyed >> 32) + words[i];
      keys[i] += GOLDEN;
    }
  }
#endif
}

// Hash of a block's bytes; `block` is its number in the tensor.
inline uint64_t hash_bytes(const unsigned char* data, int64_t bytes, uint64_t block) {
  uint64_t keys[WORDS], sums[WORDS] = {};
  for (int i = 0; i < WORDS; ++i) keys[i] = mix(GOLDEN * (block * WORDS + i + 1));
  const int64_t stripes = bytes / (8 * WORDS);
  add_stripes(data, stripes, keys, sums);
  uint64_t hash = mix(block + 1) ^ static_cast<uint64_t>(bytes);
  for (int i = 0; i < WORDS; ++i) hash = mix(hash ^ sums[i]) + keys[i];
  for (int64_t i = stripes * 8 * WORDS; i < bytes; ++i) hash = mix(hash ^ (data[i] + GOLDEN));
  return hash;
}

template <class F>
struct Bits;
template <>
struct Bits<float> {
  using Word = uint32_t;
  using Signed = int32_t;
  static constexpr Word magnitude = 0x7fffffffU, inf = 0x7f800000U, normal = 0x00800000U;
};
template <>
struct Bits<double> {
  using Word = uint64_t;
  using Signed = int64_t;
  static constexpr Word magnitude = 0x7fffffffffffffffULL, inf = 0x7ff0000000000000ULL, normal = 0x0010000000000000ULL;
};

// Joins the moments of `n` finite values with mean `mean` and squared deviations `m2` to `all`.
inline void join_moments(Statistics& all, int64_t n, double mean, double m2) {
  if (n == 0) return;
  const double total = static_cast<double>(all.finite + n);
  const double delta = mean - all.mean;
  all.mean += delta * static_cast<double>(n) / total;
  all.m2 += m2 + delta * delta * static_cast<double>(all.finite) * static_cast<double>(n) / total;
  all.finite += n;
}

// What a first look at a block tells. Most blocks are finite throughout and hold few zeros, and need no more.
template <class F>
struct Glance {
  typename Bits<F>::Signed smallest = std::numeric_limits<typename Bits<F>::Signed>::max();  // magnitude, as an integer
  double sum = 0, squares = 0;  // of the differences from the pivot; not finite where a value is not
  F least, most;
};

template <class F>
Glance<F> glance(const F* values, int64_t n, F pivot) {
  using W = typename Bits<F>::Word;
  using S = typename Bits<F>::Signed;
  constexpr int lanes = 64 / sizeof(F);
  S smallest[lanes];
  F sum[lanes] = {}, squares[lanes] = {}, low[lanes], high[lanes];
  for (int lane = 0; lane < lanes; ++lane) {
    smallest[lane] = std::numeric_limits<S>::max();
    low[lane] = high[lane] = values[0];
  }
  const auto step = [&](int64_t i, int lane) {
    W bits;
    std::memcpy(&bits, values + i, sizeof bits);
    const S absolute = static_cast<S>(bits & Bits<F>::magnitude);
    const F value = values[i], delta = value - pivot;
    smallest[lane] = absolute < smallest[lane] ? absolute : smallest[lane];
    sum[lane] += delta;
    squares[lane] += delta * delta;
    low[lane] = value < low[lane] ? value : low[lane];
    high[lane] = value > high[lane] ? value : high[lane];
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int lane = 0; lane < lanes; ++lane) step(i + lane, lane);
  for (int lane = 0; i < n; ++i, ++lane) step(i, lane);
  Glance<F> all;
  all.least = low[0], all.most = high[0];
  for (int lane = 0; lane < lanes; ++lane) {
    all.smallest = std::min(all.smallest, smallest[lane]);
    all.sum += static_cast<double>(sum[lane]), all.squares += static_cast<double>(squares[lane]);
    all.least = std::min(all.least, low[lane]), all.most = std::max(all.most, high[lane]);
  }
  return all;
}

// Counts what is not an ordinary number; `all.finite` and the moments are not touched.
template <class F>
int64_t count_special(Statistics& all, const F* values, int64_t n, int64_t first, bool count_subnormals) {
  using W = typename Bits<F>::Word;
  using S = typename Bits<F>::Signed;
  S nan = 0, inf = 0, negative = 0, zero = 0, small = 0;
  for (int64_t i = 0; i < n; ++i) {
    W bits;
    std::memcpy(&bits, values + i, sizeof bits);
    const S absolute = static_cast<S>(bits & Bits<F>::magnitude), limit = static_cast<S>(Bits<F>::inf);
    nan += absolute > limit;
    inf += absolute == limit;
    negative += (absolute == limit) & (static_cast<S>(bits) < 0);
    zero += absolute == 0;
    small += absolute < static_cast<S>(Bits<F>::normal);
  }
  all.nan += nan, all.positive_inf += inf - negative, all.negative_inf += negative, all.zero += zero;
  if (count_subnormals) all.subnormal += small - zero;
  if (nan && all.first_nan < 0)
    all.first_nan = first + (std::find_if(values, values + n, [](F value) { return value != value; }) - values);
  return n - nan - inf;
}

// Mean and squared deviations of the finite values of a block, about their own mean.
template <class F>
void exact_moments(const F* values, int64_t n, int64_t finite, double& mean, double& m2) {
  using W = typename Bits<F>::Word;
  const auto ordinary = [](F value) {
    W bits;
    std::memcpy(&bits, &value, sizeof bits);
    return (bits & Bits<F>::magnitude) < Bits<F>::inf;
  };
  constexpr int lanes = 16;
  double sum[lanes] = {}, squares[lanes] = {};
  for (int64_t i = 0; i < n; ++i) sum[i % lanes] += ordinary(values[i]) ? static_cast<double>(values[i]) : 0.0;
  mean = 0, m2 = 0;
  for (double part : sum) mean += part;
  mean /= static_cast<double>(finite);
  for (int64_t i = 0; i < n; ++i) {
    const double delta = ordinary(values[i]) ? static_cast<double>(values[i]) - mean : 0.0;
    squares[i % lanes] += delta * delta;
  }
  for (double part : squares) m2 += part;
}

// A block whose values lie in memory as they are computed with.
template <class F>
struct Values {
  using Value = F;
  const F* data;
  Glance<F> glance(int64_t n, F pivot) const { return kernelscope::glance(data, n, pivot); }
  const F* get(int64_t) { return data; }
};

// A block of bfloat16: the glance reads it as it is, and only a block that needs more is converted.
struct Halves {
  using Value = float;
  const uint16_t* data;
  bool converted = false;
  alignas(64) float values[BLOCK];

  const float* get(int64_t n) {
    if (!converted) {
      uint32_t* words = reinterpret_cast<uint32_t*>(values);
      for (int64_t i = 0; i < n; ++i) words[i] = static_cast<uint32_t>(data[i]) << 16;
      converted = true;
    }
    return values;
  }

  Glance<float> glance(int64_t n, float pivot) {
#if defined(__AVX2__) && defined(__FMA__)
    if (n % 16 == 0) return vector_glance(n, pivot);
#endif
    return kernelscope::glance(get(n), n, pivot);
  }

#if defined(__AVX2__) && defined(__FMA__)
  // Extremes are those of integers of 16 bits that are ordered as the numbers are: for negative ones, all bits but the
  // sign are turned over.
  Glance<float> vector_glance(int64_t n, float pivot) const {
    const __m256i magnitude = _mm256_set1_epi16(0x7fff), upper = _mm256_set1_epi32(static_cast<int>(0xffff0000U));
    const __m256 center = _mm256_set1_ps(pivot);
    __m256i smallest = magnitude, low = magnitude, high = _mm256_set1_epi16(-0x8000);
    __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()}, squares[2] = {sum[0], sum[0]};
    for (int64_t i = 0; i < n; i += 16) {
      const __m256i word = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + i));
      smallest = _mm256_min_epu16(smallest, _mm256_and_si256(word, magnitude));
      const __m256i key = _mm256_xor_si256(word, _mm256_and_si256(_mm256_srai_epi16(word, 15), magnitude));
      low = _mm256_min_epi16(low, key), high = _mm256_max_epi16(high, key);
      const __m256 even = _mm256_sub_ps(_mm256_castsi256_ps(_mm256_slli_epi32(word, 16)), center);
      const __m256 odd = _mm256_sub_ps(_mm256_castsi256_ps(_mm256_and_si256(word, upper)), center);
      sum[0] = _mm256_add_ps(sum[0], even), sum[1] = _mm256_add_ps(sum[1], odd);
      squares[0] = _mm256_fmadd_ps(even, even, squares[0]), squares[1] = _mm256_fmadd_ps(odd, odd, squares[1]);
    }
    alignas(32) float parts[4][8];
    for (int i = 0; i < 2; ++i) _mm256_store_ps(parts[i], sum[i]), _mm256_store_ps(parts[2 + i], squares[i]);
    alignas(32) int16_t keys[3][16];
    const __m256i ordered[3] = {smallest, low, high};
    for (int i = 0; i < 3; ++i) _mm256_store_si256(reinterpret_cast<__m256i*>(keys[i]), ordered[i]);
    Glance<float> all;
    for (int lane = 0; lane < 8; ++lane) {
      all.sum += static_cast<double>(parts[0][lane]) + static_cast<double>(parts[1][lane]);
      all.squares += static_cast<double>(parts[2][lane]) + static_cast<double>(parts[3][lane]);
    }
    const int16_t least = *std::min_element(keys[1], keys[1] + 16), most = *std::max_element(keys[2], keys[2] + 16);
    all.smallest = static_cast<int32_t>(*std::min_element(keys[0], keys[0] + 16)) << 16;
    all.least = from_key(least), all.most = from_key(most);
    return all;
  }

  static float from_key(int16_t key) {
    const uint16_t bits = static_cast<uint16_t>(key < 0 ? key ^ 0x7fff : key);
    const uint32_t word = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &word, sizeof value);
    return value;
  }
#endif
};

// One block of floating-point values; `first` is the position of its first element in the tensor.
template <class Source>
void add_block(Statistics& all, Source&& source, int64_t n, int64_t first, bool count_subnormals) {
  using F = typename std::decay_t<Source>::Value;
  const F pivot = static_cast<F>(all.mean);
  const Glance<F> seen = source.glance(n, pivot);
  const double elements = static_cast<double>(n);
  F least = seen.least, most = seen.most;
  int64_t finite = n;
  if (!std::isfinite(seen.sum)) {
    const F* values = source.get(n);
    finite = count_special(all, values, n, first, count_subnormals);
    least = std::numeric_limits<F>::infinity(), most = -least;
    for (int64_t i = 0; i < n; ++i) {
      if (!std::isfinite(values[i])) continue;
      least = std::min(least, values[i]), most = std::max(most, values[i]);
    }
  } else if (static_cast<typename Bits<F>::Word>(seen.smallest) < Bits<F>::normal) {
    count_special(all, source.get(n), n, first, count_subnormals);
  }
  all.count += n;
  if (!finite) return;
  // About the pivot where that loses nothing: the mean of the blocks so far is near this block's, most of the time.
  double mean = static_cast<double>(pivot) + seen.sum / elements;
  double m2 = seen.squares - seen.sum * seen.sum / elements;
  if (finite != n || !(seen.sum * seen.sum / elements <= 16 * m2) || !std::isfinite(m2))
    exact_moments(source.get(n), n, finite, mean, m2);
  join_moments(all, finite, mean, m2);
  const auto place = [&](F wanted) {
    const F* values = source.get(n);
    return first + (std::find(values, values + n, wanted) - values);
  };
  if (all.argmin < 0 || static_cast<double>(least) < all.min) all.min = least, all.argmin = place(least);
  if (all.argmax < 0 || static_cast<double>(most) > all.max) all.max = most, all.argmax = place(most);
}

// One block of integers.
template <class T>
void add_integers(Statistics& all, const T* values, int64_t n, int64_t first) {
  T least = values[0], most = values[0];
  int64_t zeros = 0;
  for (int64_t i = 0; i < n; ++i) least = std::min(least, values[i]);
  for (int64_t i = 0; i < n; ++i) most = std::max(most, values[i]);
  for (int64_t i = 0; i < n; ++i) zeros += values[i] == 0;
  constexpr int lanes = 16;
  double sum[lanes] = {}, squares[lanes] = {};
  const double pivot = all.mean;
  const auto step = [&](int64_t i, int lane) {
    const double delta = static_cast<double>(values[i]) - pivot;
    sum[lane] += delta;
    squares[lane] += delta * delta;
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int lane = 0; lane < lanes; ++lane) step(i + lane, lane);
  for (int lane = 0; i < n; ++i, ++lane) step(i, lane);
  double total = 0, m2 = 0;
  for (int lane = 0; lane < lanes; ++lane) total += sum[lane], m2 += squares[lane];
  const double elements = static_cast<double>(n), shift = total / elements;
  join_moments(all, n, pivot + shift, std::max(0.0, m2 - shift * total));
  all.count += n;
  all.zero += zeros;
  const auto place = [&](T wanted) { return first + (std::find(values, values + n, wanted) - values); };
  if (all.argmin < 0 || static_cast<int64_t>(least) < all.min_integer)
    all.min_integer = static_cast<int64_t>(least), all.argmin = place(least);
  if (all.argmax < 0 || static_cast<int64_t>(most) > all.max_integer)
    all.max_integer = static_cast<int64_t>(most), all.argmax = place(most);
  all.min = static_cast<double>(all.min_integer), all.max = static_cast<double>(all.max_integer);
}

// Joins the statistics of a later part of the tensor to those of an earlier one.
inline void join(Statistics& all, const Statistics& part, bool integers) {
  join_moments(all, part.finite, part.mean, part.m2);
  all.count += part.count, all.nan += part.nan, all.zero += part.zero, all.subnormal += part.subnormal;
  all.positive_inf += part.positive_inf, all.negative_inf += part.negative_inf;
  all.hash += part.hash;
  if (all.first_nan < 0) all.first_nan = part.first_nan;
  const auto less = [&](const Statistics& a, const Statistics& b, bool maximum) {
    if (integers) return maximum ? a.max_integer > b.max_integer : a.min_integer < b.min_integer;
    return maximum ? a.max > b.max : a.min < b.min;
  };
  if (part.argmin >= 0 && (all.argmin < 0 || less(part, all, false)))
    all.min = part.min, all.min_integer = part.min_integer, all.argmin = part.argmin;
  if (part.argmax >= 0 && (all.argmax < 0 || less(part, all, true)))
    all.max = part.max, all.max_integer = part.max_integer, all.argmax = part.argmax;
}

// A tensor's data: sizes and strides in elements of `item` bytes.
struct Layout {
  const unsigned char* data;
  int64_t item;
  std::vector<int64_t> size, stride;
  int64_t numel() const {
    int64_t product = 1;
    for (int64_t extent : size) product *= extent;
    return product;
  }
  bool contiguous() const {
    int64_t expected = 1;
    for (size_t dim = size.size(); dim-- > 0;) {
      if (size[dim] != 1 && stride[dim] != expected) return false;
      expected *= size[dim];
    }
    return true;
  }
};

// Copies elements [first, first + n) in row-major order next to each other.
inline void gather(const Layout& layout, int64_t first, int64_t n, unsigned char* out) {
  const int rank = static_cast<int>(layout.size.size());
  std::vector<int64_t> index(rank);
  int64_t rest = first, offset = 0;
  for (int dim = rank; dim-- > 0;) {
    index[dim] = rest % layout.size[dim];
    rest /= layout.size[dim];
    offset += index[dim] * layout.stride[dim];
  }
  const int last = rank - 1;
  while (n > 0) {
    const int64_t run = std::min(n, layout.size[last] - index[last]);
    const int64_t step = layout.stride[last] * layout.item;
    const unsigned char* source = layout.data + offset * layout.item;
    switch (step == layout.item ? 0 : layout.item) {
      case 0:
        std::memcpy(out, source, run * layout.item);
        break;
      case 4:
        for (int64_t i = 0; i < run; ++i) std::memcpy(out + 4 * i, source + step * i, 4);
        break;
      case 2:
        for (int64_t i = 0; i < run; ++i) std::memcpy(out + 2 * i, source + step * i, 2);
        break;
      default:
        for (int64_t i = 0; i < run; ++i) std::memcpy(out + layout.item * i, source + step * i, layout.item);
    }
    out += run * layout.item;
    n -= run;
    index[last] += run, offset += run * layout.stride[last];
    for (int dim = last; dim > 0 && index[dim] == layout.size[dim]; --dim) {
      offset += layout.stride[dim - 1] - index[dim] * layout.stride[dim];
      index[dim] = 0, ++index[dim - 1];
    }
  }
}

// A tensor's elements in the order of their addresses: that is how they are read, whatever the order of the dimensions.
class Walk {
 public:
  explicit Walk(const Layout& tensor) : tensor_(tensor), joined_{tensor.data, tensor.item, {}, {}} {
    for (size_t dim = 0; dim < tensor.size.size(); ++dim)
      if (tensor.size[dim] != 1) axes_.push_back(dim);
    const auto outermost = [&](size_t a, size_t b) {  // what is repeated is read whole, again and again
      if ((tensor.stride[a] == 0) != (tensor.stride[b] == 0)) return tensor.stride[a] == 0;
      return tensor.stride[a] > tensor.stride[b];
    };
    std::stable_sort(axes_.begin(), axes_.end(), outermost);
    row_major_ = std::is_sorted(axes_.begin(), axes_.end());
    for (const size_t axis : axes_) {
      const int64_t size = tensor.size[axis], stride = tensor.stride[axis];
      if (!joined_.size.empty() && joined_.stride.back() == size * stride) {
        joined_.size.back() *= size, joined_.stride.back() = stride;
      } else {
        joined_.size.push_back(size), joined_.stride.push_back(stride);
      }
    }
  }

  // The elements in that order; dimensions that follow on each other are one.
  const Layout& layout() const { return joined_; }
  bool row_major() const { return row_major_; }

  // The position in the tensor's row-major order of the element at `position` here; -1 stays.
  int64_t in_row_major(int64_t position) const {
    if (position < 0 || row_major_) return position;
    std::vector<int64_t> scale(tensor_.size.size(), 1);
    for (size_t dim = tensor_.size.size(); dim-- > 1;) scale[dim - 1] = scale[dim] * tensor_.size[dim];
    int64_t found = 0;
    for (size_t i = axes_.size(); i-- > 0;) {
      found += position % tensor_.size[axes_[i]] * scale[axes_[i]];
      position /= tensor_.size[axes_[i]];
    }
    return found;
  }

 private:
  const Layout& tensor_;
  Layout joined_;
  std::vector<size_t> axes_;
  bool row_major_;
};

// Reads a tensor in row-major order, block after block.
class Reader {
 public:
  explicit Reader(const Layout& layout) : layout_(layout), direct_(layout.contiguous()) {}

  // Elements [first, first + n), next to each other; valid until the next call.
  const unsigned char* block(int64_t first, int64_t n) {
    if (direct_) return layout_.data + first * layout_.item;
    gather(layout_, first, n, staged_);
    return staged_;
  }

 private:
  const Layout& layout_;
  bool direct_;
  alignas(64) unsigned char staged_[BLOCK * 8];
};

enum class Kind { f64, f32, f16, bf16, table8, i64, i32, i16, i8, u8, boolean };

// float16 as float.
inline void widen(const uint16_t* halves, int64_t n, float* out) {
  int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves + i))));
#endif
  for (; i < n; ++i) {
    const uint32_t sign = (halves[i] & 0x8000U) << 16, rest = halves[i] & 0x7fffU;
    uint32_t bits;
    if (rest >= 0x7c00U) {
      bits = sign | 0x7f800000U | (rest & 0x3ffU) << 13;
      std::memcpy(out + i, &bits, sizeof bits);
    } else if (rest < 0x0400U) {
      out[i] = (sign ? -1.0F : 1.0F) * static_cast<float>(rest) * 0x1p-24F;
    } else {
      bits = sign | ((rest << 13) + 0x38000000U);
      std::memcpy(out + i, &bits, sizeof bits);
    }
  }
}

// Adds the block `[first, first + n)`, whose elements lie next to each other at `data`.
inline void add(Statistics& all, Kind kind, const float* table, const unsigned char* data, int64_t n, int64_t first) {
  alignas(64) float converted[BLOCK];
  switch (kind) {
    case Kind::f64:
      return add_block(all, Values<double>{reinterpret_cast<const double*>(data)}, n, first, true);
    case Kind::f32:
      return add_block(all, Values<float>{reinterpret_cast<const float*>(data)}, n, first, true);
    case Kind::bf16: {
      Halves halves;
      halves.data = reinterpret_cast<const uint16_t*>(data);
      return add_block(all, halves, n, first, true);
    }
    case Kind::f16: {
      const uint16_t* halves = reinterpret_cast<const uint16_t*>(data);
      int64_t subnormal = 0;
      widen(halves, n, converted);
      for (int64_t i = 0; i < n; ++i) {
        const uint16_t absolute = halves[i] & 0x7fff;
        subnormal += (absolute != 0) & (absolute < 0x0400);
      }
      all.subnormal += subnormal;
      return add_block(all, Values<float>{converted}, n, first, false);
    }
    case Kind::table8:
      for (int64_t i = 0; i < n; ++i) converted[i] = table[data[i]];
      for (int64_t i = 0; i < n; ++i) all.subnormal += table[256 + data[i]] != 0;
      return add_block(all, Values<float>{converted}, n, first, false);
    case Kind::i64:
      return add_integers(all, reinterpret_cast<const int64_t*>(data), n, first);
    case Kind::i32:
      return add_integers(all, reinterpret_cast<const int32_t*>(data), n, first);
    case Kind::i16:
      return add_integers(all, reinterpret_cast<const int16_t*>(data), n, first);
    case Kind::i8:
      return add_integers(all, reinterpret_cast<const int8_t*>(data), n, first);
    case Kind::u8:
    case Kind::boolean:
      return add_integers(all, data, n, first);
  }
}

// Statistics of a whole tensor, whose elements are taken in row-major order; `threads` at most.
inline Statistics statistics(const Layout& layout, Kind kind, const float* table, int threads) {
  const int64_t n = layout.numel();
  const int64_t blocks = (n + BLOCK - 1) / BLOCK;
  const bool integers = kind >= Kind::i64;
  const int parts = static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(threads, blocks / 4)));
  std::vector<Statistics> found(parts);
#pragma omp parallel for num_threads(parts) schedule(static, 1) if (parts > 1)
  for (int part = 0; part < parts; ++part) {
    Reader reader(layout);
    Statistics own;
    for (int64_t block = blocks * part / parts; block < blocks * (part + 1) / parts; ++block) {
      const int64_t first = block * BLOCK, length = std::min(BLOCK, n - first);
      const unsigned char* data = reader.block(first, length);
      own.hash += hash_bytes(data, length * layout.item, static_cast<uint64_t>(block));
      add(own, kind, table, data, length, first);
    }
    found[part] = own;
  }
  Statistics all = found[0];
  for (int part = 1; part < parts; ++part) join(all, found[part], integers);
  return all;
}

// The statistics found in the order of a tensor's addresses, with positions in its row-major order.
inline Statistics placed(Statistics found, const Walk& walk, const Layout& tensor, Kind kind, const float* table) {
  if (walk.row_major()) return found;
  found.argmin = walk.in_row_major(found.argmin), found.argmax = walk.in_row_major(found.argmax);
  if (found.nan == 0) return found;
  Reader reader(tensor);  // the first NaN in one order need not be the first in the other
  Statistics searched;
  for (int64_t first = 0; searched.first_nan < 0; first += BLOCK) {
    const int64_t length = std::min(BLOCK, found.count - first);
    add(searched, kind, table, reader.block(first, length), length, first);
  }
  found.first_nan = searched.first_nan;
  return found;
}

}  // namespace kernelscope
