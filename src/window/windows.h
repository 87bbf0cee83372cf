// What the fields of a window imply.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "robocache/window.h"

namespace robocache {

/// The product of a shape's sizes.
std::int64_t elements_of(const std::vector<std::int64_t>& shape);
/// D: the elements of a row.
std::int64_t elements_of(const WindowSpec& window);

/// Whether alignment computes with the window's type; rows of other types are copied as bytes.
bool is_computed(const WindowSpec& window);

bool is_by_row(const WindowSpec& window);

/// The runs of a row's elements, also where one method serves them all.
std::vector<Run> runs_of(const WindowSpec& window);

/// Whether a run of the window has a method. By row, methods have no effect.
bool has_method(const WindowSpec& window, Method method);

/// Whether no offset lies past the anchor, so that a robot can make the window.
bool is_live(const WindowSpec& window);

/// The offset that is farthest back, in ns or rows; 0 where all lie ahead.
std::int64_t earliest_offset(const WindowSpec& window);

}  // namespace robocache
