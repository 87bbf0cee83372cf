// Rotations, as quaternions and as matrices, and their action on poses: for every type of number,
// dual ones included, on CPU and CUDA. All formulas use +, -, *, / and square roots only, which
// every IEEE machine rounds alike.
//
// Quaternions and rotation vectors are computed as unit quaternions, matrices and 6D as matrices.
// All zeros represent no rotation in both, and stay zeros.
#pragma once

#include <cstdint>

#include "align/trigonometry.h"
#include "core/target.h"
#include "robocache/transform.h"
#include "transform/dual.h"

namespace robocache::ROBOCACHE_TARGET {

template <typename Number>
struct RotationQuaternion {
  Number x, y, z, w;
};

template <typename Number>
struct RotationMatrix {
  Number m[9];  // row-major
};

// ---- vectors of three --------------------------------------------------------------------------

template <typename Number>
ROBOCACHE_HOST_DEVICE Number dot3(const Number* a, const Number* b) {
  return (a[0] * b[0] + a[1] * b[1]) + a[2] * b[2];
}

/// Computes rotated = R v.
template <typename Number>
ROBOCACHE_HOST_DEVICE void rotate(const RotationMatrix<Number>& r, const Number* v,
                                  Number* rotated) {
  for (int i = 0; i < 3; ++i) rotated[i] = dot3(r.m + 3 * i, v);
}

/// Computes rotated = R^T v: the inverse.
template <typename Number>
ROBOCACHE_HOST_DEVICE void rotate_back(const RotationMatrix<Number>& r, const Number* v,
                                       Number* rotated) {
  for (int i = 0; i < 3; ++i) {
    rotated[i] = (r.m[i] * v[0] + r.m[3 + i] * v[1]) + r.m[6 + i] * v[2];
  }
}

// ---- quaternions and matrices -----------------------------------------------------------------

/// Whether q is the negated one of the two quaternions of a rotation: -`upright(q)`.
template <typename Number>
ROBOCACHE_HOST_DEVICE bool is_flipped(const RotationQuaternion<Number>& q) {
  const Number parts[] = {q.w, q.x, q.y, q.z};
  for (const Number& part : parts) {
    if (!(value_of(part) == 0)) return value_of(part) < 0;
  }
  return false;
}

/// The canonical one of a rotation's two quaternions: w >= 0; if w is 0, the first of x, y, z that
/// is not 0 is positive.
template <typename Number>
ROBOCACHE_HOST_DEVICE RotationQuaternion<Number> upright(const RotationQuaternion<Number>& q) {
  return is_flipped(q) ? RotationQuaternion<Number>{-q.x, -q.y, -q.z, -q.w} : q;
}

template <typename Number>
ROBOCACHE_HOST_DEVICE RotationQuaternion<Number> unit(const RotationQuaternion<Number>& q) {
  const Number square = ((q.x * q.x + q.y * q.y) + q.z * q.z) + q.w * q.w;
  if (value_of(square) == 0) return {Number(0), Number(0), Number(0), Number(0)};
  const Number length = square_root(square);
  return {q.x / length, q.y / length, q.z / length, q.w / length};
}

template <typename Number>
ROBOCACHE_HOST_DEVICE RotationMatrix<Number> matrix_of(const RotationQuaternion<Number>& q) {
  const Number xx = q.x * q.x, yy = q.y * q.y, zz = q.z * q.z, ww = q.w * q.w;
  const Number xy = q.x * q.y, xz = q.x * q.z, yz = q.y * q.z;
  const Number xw = q.x * q.w, yw = q.y * q.w, zw = q.z * q.w;
  const Number two = Number(2);
  return {{((ww + xx) - yy) - zz, two * (xy - zw), two * (xz + yw),  //
           two * (xy + zw), ((ww - xx) + yy) - zz, two * (yz - xw),  //
           two * (xz - yw), two * (yz + xw), ((ww - xx) - yy) + zz}};
}

/// The upright quaternion of a matrix. Each of the four formulas is accurate where its own
/// component of the quaternion is large: the formula of the largest is used. Source: Shepperd,
/// "Quaternion from rotation matrix", Journal of Guidance and Control 1(3), 1978.
template <typename Number>
ROBOCACHE_HOST_DEVICE_CALLED RotationQuaternion<Number> quaternion_of(
    const RotationMatrix<Number>& matrix) {
  const Number* const m = matrix.m;
  const auto a = value_of(m[0]), b = value_of(m[4]), c = value_of(m[8]);
  const auto trace = (a + b) + c;
  const Number one = Number(1);
  if (value_of(dot3(m, m)) == 0) return {Number(0), Number(0), Number(0), Number(0)};
  RotationQuaternion<Number> q;  // scaled by four times its largest component
  if (trace >= a && trace >= b && trace >= c) {
    q = {m[7] - m[5], m[2] - m[6], m[3] - m[1], one + ((m[0] + m[4]) + m[8])};
  } else if (a >= b && a >= c) {
    q = {one + ((m[0] - m[4]) - m[8]), m[1] + m[3], m[2] + m[6], m[7] - m[5]};
  } else if (b >= c) {
    q = {m[1] + m[3], one + ((m[4] - m[0]) - m[8]), m[5] + m[7], m[2] - m[6]};
  } else {
    q = {m[2] + m[6], m[5] + m[7], one + ((m[8] - m[0]) - m[4]), m[3] - m[1]};
  }
  return upright(unit(q));
}

// ---- reading and writing -----------------------------------------------------------------------

/// Whether a form is computed as a matrix; else as a quaternion.
ROBOCACHE_HOST_DEVICE bool is_matrix(RotationForm form) {
  return form == RotationForm::kMatrix || form == RotationForm::k6d;
}

/// The length of the second row's part across the first, relative to the second row, below which
/// the two count as parallel: rounding alone leaves less.
template <typename Compute>
ROBOCACHE_HOST_DEVICE Compute parallel_below() {
  return sizeof(Compute) == 8 ? Compute(0x1p-48) : Compute(0x1p-19);
}

/// A rotation matrix from two rows, by Gram and Schmidt: the first row is normalized, the second
/// too after its part along the first is subtracted, and the third is their cross product.
/// Source: Zhou et al., "On the continuity of rotation representations in neural networks", CVPR
/// 2019; by rows, as in PyTorch3D and diffusion_policy.
template <typename Number>
ROBOCACHE_HOST_DEVICE_CALLED RotationMatrix<Number> matrix_of_rows(const Number* rows) {
  RotationMatrix<Number> r;
  const Number* const second = rows + 3;
  const Number square = dot3(rows, rows);
  Number *const x = r.m, *const y = r.m + 3, *const z = r.m + 6;
  bool is_rotation = !(value_of(square) == 0);
  if (is_rotation) {
    const Number length = square_root(square);
    for (int i = 0; i < 3; ++i) x[i] = rows[i] / length;
    const Number along = dot3(x, second);
    for (int i = 0; i < 3; ++i) y[i] = second[i] - along * x[i];
    const Number across = dot3(y, y);
    const auto least = parallel_below<decltype(value_of(across))>();
    is_rotation = !(value_of(across) <= least * least * value_of(dot3(second, second)));
    if (is_rotation) {
      const Number rest = square_root(across);
      for (int i = 0; i < 3; ++i) y[i] = y[i] / rest;
      z[0] = x[1] * y[2] - x[2] * y[1];
      z[1] = x[2] * y[0] - x[0] * y[2];
      z[2] = x[0] * y[1] - x[1] * y[0];
    }
  }
  if (!is_rotation) {
    for (Number& part : r.m) part = Number(0);
  }
  return r;
}

/// The upright quaternion of a rotation vector. sin(angle / 2) / angle and cos(angle / 2) are
/// computed as series in the angle's square, which avoids a division by a small angle.
template <typename Number>
ROBOCACHE_HOST_DEVICE_CALLED RotationQuaternion<Number> quaternion_of_vector(const Number* v) {
  using Compute = decltype(value_of(v[0]));
  const Compute pi = Compute(3.14159265358979323846);
  const Number square = dot3(v, v);
  const Compute angle = square_root(value_of(square));
  const Number half = Number(0.5), quarter = Number(0.25);
  Number ratio, cosine;
  bool is_half_turn = angle == pi;
  if (angle > pi) {  // minus whole turns; the result may be negative
    const Number whole = square_root(square);
    const Number rest = moved_to(wrap_angle(angle), whole);
    ratio = half * rest * sine_series(quarter * rest * rest) / whole;
    cosine = cosine_series(quarter * rest * rest);
    is_half_turn = value_of(rest) == pi;
  } else {
    ratio = half * sine_series(quarter * square);
    cosine = cosine_series(quarter * square);
  }
  // The exact cosine is not negative; at half a turn it is 0 for every type of number.
  if (is_half_turn || value_of(cosine) < 0) cosine = moved_to(Compute(0), cosine);
  return upright(RotationQuaternion<Number>{ratio * v[0], ratio * v[1], ratio * v[2], cosine});
}

/// A rotation vector of length at most pi. With c = cos(angle / 4) = sqrt((1 + w) / 2), sin(angle /
/// 8) = |v| / (2 c sqrt(2 (1 + c))), and the angle over |v| is a series in its square.
template <typename Number>
ROBOCACHE_HOST_DEVICE_CALLED void vector_of(const RotationQuaternion<Number>& quaternion,
                                            Number* v) {
  const RotationQuaternion<Number> q = upright(quaternion);
  const Number one = Number(1), two = Number(2);
  const Number c = square_root((one + q.w) / two);
  const Number divisor = two * c * square_root(two * (one + c));
  const Number square = (q.x * q.x + q.y * q.y) + q.z * q.z;
  const Number ratio = Number(8) * arcsine_series(square / (divisor * divisor)) / divisor;
  v[0] = ratio * q.x;
  v[1] = ratio * q.y;
  v[2] = ratio * q.z;
}

template <typename Number>
ROBOCACHE_HOST_DEVICE RotationQuaternion<Number> read_quaternion(RotationForm form,
                                                                 const Number* x) {
  switch (form) {
    case RotationForm::kQuaternionXyzw:
      return unit(RotationQuaternion<Number>{x[0], x[1], x[2], x[3]});
    case RotationForm::kQuaternionWxyz:
      return unit(RotationQuaternion<Number>{x[1], x[2], x[3], x[0]});
    case RotationForm::kRotationVector:
      return quaternion_of_vector(x);
    default:
      return quaternion_of(matrix_of_rows(x));
  }
}

template <typename Number>
ROBOCACHE_HOST_DEVICE RotationMatrix<Number> read_matrix(RotationForm form, const Number* x) {
  return is_matrix(form) ? matrix_of_rows(x) : matrix_of(read_quaternion(form, x));
}

/// Writes a form that is computed as a quaternion.
template <typename Number>
ROBOCACHE_HOST_DEVICE void write(const RotationQuaternion<Number>& q, RotationForm form,
                                 Number* out) {
  if (form == RotationForm::kRotationVector) {
    vector_of(q, out);
    return;
  }
  const int first = form == RotationForm::kQuaternionWxyz ? 1 : 0;
  out[first] = q.x;
  out[first + 1] = q.y;
  out[first + 2] = q.z;
  out[first == 0 ? 3 : 0] = q.w;
}

/// Writes a form that is computed as a matrix.
template <typename Number>
ROBOCACHE_HOST_DEVICE void write(const RotationMatrix<Number>& r, RotationForm form, Number* out) {
  const int count = form == RotationForm::kMatrix ? 9 : 6;
  for (int i = 0; i < count; ++i) out[i] = r.m[i];
}

/// Converts a rotation to another form.
template <typename Number>
ROBOCACHE_HOST_DEVICE void convert(const Number* x, RotationForm source, RotationForm target,
                                   Number* out) {
  if (is_matrix(target)) {
    write(read_matrix(source, x), target, out);
  } else {
    write(read_quaternion(source, x), target, out);
  }
}

// ---- poses -------------------------------------------------------------------------------------

/// The product a b: the rotation b, then a.
template <typename Number>
ROBOCACHE_HOST_DEVICE RotationQuaternion<Number> product(const RotationQuaternion<Number>& a,
                                                         const RotationQuaternion<Number>& b) {
  return {((a.w * b.x + a.x * b.w) + a.y * b.z) - a.z * b.y,
          ((a.w * b.y + a.y * b.w) + a.z * b.x) - a.x * b.z,
          ((a.w * b.z + a.z * b.w) + a.x * b.y) - a.y * b.x,
          ((a.w * b.w - a.x * b.x) - a.y * b.y) - a.z * b.z};
}

/// The products a b, and a^T b.
template <typename Number>
ROBOCACHE_HOST_DEVICE RotationMatrix<Number> product(const RotationMatrix<Number>& a,
                                                     const RotationMatrix<Number>& b,
                                                     bool transpose_a) {
  RotationMatrix<Number> c;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      const int first = transpose_a ? i : 3 * i;
      const int step = transpose_a ? 3 : 1;
      c.m[3 * i + j] = (a.m[first] * b.m[j] + a.m[first + step] * b.m[3 + j]) +
                       a.m[first + 2 * step] * b.m[6 + j];
    }
  }
  return c;
}

/// Converts a pose to one relative to the anchor, or back.
template <typename Number>
ROBOCACHE_HOST_DEVICE void convert_one_pose(const Number* pose, const Number* anchor,
                                            RotationForm form, PoseDirection direction,
                                            Number* out) {
  const bool to_relative = direction == PoseDirection::kToRelative;
  RotationMatrix<Number> r;  // the anchor's
  if (is_matrix(form)) {
    r = matrix_of_rows(anchor + 3);
    write(product(r, matrix_of_rows(pose + 3), to_relative), form, out + 3);
  } else {
    RotationQuaternion<Number> q = read_quaternion(form, anchor + 3);
    r = matrix_of(q);
    if (to_relative) q = {-q.x, -q.y, -q.z, q.w};
    q = product(q, read_quaternion(form, pose + 3));
    write(to_relative ? upright(q) : q, form, out + 3);
  }
  if (to_relative) {
    Number between[3];
    for (int i = 0; i < 3; ++i) between[i] = pose[i] - anchor[i];
    rotate_back(r, between, out);
  } else {
    rotate(r, pose, out);
    for (int i = 0; i < 3; ++i) out[i] = out[i] + anchor[i];
  }
}

}  // namespace robocache::ROBOCACHE_TARGET
