// The table of a WindowSpec's fields, and what is made by it: JSON, the schema, names in messages.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "robocache/window.h"
#include "store/json.h"

namespace robocache {

inline constexpr int kPolicySpecVersion = 2;  // version 1 is read, too

/// Where JSON has a field: in the window's object, or in a member of it that may be null.
struct FieldPath {
  const char* group;  // null: the window's own object
  const char* name;   // null: this version has no such field

  /// "relative_to.columns".
  std::string text() const { return (group == nullptr ? "" : std::string(group) + ".") + name; }
};

/// A field of a window. Its default is that of `WindowSpec`.
struct WindowField {
  FieldPath path;       // in version 2
  FieldPath version_1;  // and in version 1
  void (*read)(const store::Value& value, WindowSpec* window);
  store::Json (*write)(const WindowSpec& window);
  const char* schema;       // what JSON may hold, as a JSON schema has it
  const char* description;  // of the schema

  const FieldPath& path_in(int version) const { return version == 1 ? version_1 : path; }
};

/// The field that version 2 calls so. The path is one of the table.
const WindowField& window_field(const std::string& path);

/// A window in JSON of a version. Throws StoreError for fields that are missing, unknown or of
/// another kind.
WindowSpec read_window(const store::Value& value, int version);

/// A window in JSON of version 2.
store::Json write_window(const WindowSpec& window);

/// The JSON of a field as messages have it.
std::string field_text(const WindowSpec& window, const std::string& path);

/// Throws StoreError for the first member of an object that is none of these.
void check_members(const store::Value& value, const std::vector<std::string>& known, int version);

}  // namespace robocache
