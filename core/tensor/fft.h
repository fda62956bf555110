// Fourier transforms. There is no complex dtype: a complex tensor is a real one whose last axis
// holds real and imaginary part, and `axis` counts the axes before that one.
//
//   Expr spectrum = Rfft(signal);                 // [.., n] to [.., n / 2 + 1, 2]
//   Expr again = Irfft(spectrum, {.size = n});
//
// The work is n log n: sizes are split into factors up to 32, larger primes are done by Bluestein's
// convolution. Twiddle factors are computed in float64.
#pragma once

#include <optional>

#include "core/tensor/expr.h"

namespace tensord {

enum class FftNorm { kBackward, kOrtho, kForward };  // which direction has the factor 1 / n
struct FftOptions {
  std::optional<int64_t> size = std::nullopt;  // zeros are appended, or elements cut off
  int64_t axis = -1;
  FftNorm norm = FftNorm::kBackward;
};

// Complex to complex.
Expr Fft(const Expr& x, const FftOptions& options = {});
Expr Ifft(const Expr& x, const FftOptions& options = {});
// Real to the first half of the spectrum, and back; `size` is that of the real side.
Expr Rfft(const Expr& x, const FftOptions& options = {});
Expr Irfft(const Expr& x, const FftOptions& options = {});
// The half of a signal whose spectrum is real to that spectrum, and back.
Expr Hfft(const Expr& x, const FftOptions& options = {});
Expr Ihfft(const Expr& x, const FftOptions& options = {});

struct ShortFft {
  int64_t size;                               // of a frame
  int64_t hop;                                // between frames
  std::optional<Expr> window = std::nullopt;  // [size]; ones if not given
  bool normalized = false;                    // by 1 / sqrt(size)
  bool onesided = true;
};
// Spectra of overlapping frames: [.., n] to [.., frequencies, frames, 2].
Expr Stft(const Expr& x, const ShortFft& options);
// The signal, weighted by windows: the adjoint of the frames, divided by the sum of the squared
// windows; elements begin .. end of it.
Expr Istft(const Expr& x, const ShortFft& options, int64_t begin, std::optional<int64_t> end);

// The frequencies of the elements of a spectrum: 0, 1, .., -2, -1 over n * spacing; for Rfft the
// first half.
Expr FftFreq(Graph& graph, int64_t n, double spacing, DType dtype);
Expr RfftFreq(Graph& graph, int64_t n, double spacing, DType dtype);

}  // namespace tensord
