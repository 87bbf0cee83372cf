// The table of a WindowSpec's fields, from which JSON, the schema and names in messages derive.
#pragma once

#include <string>
#include <vector>

#include "robocache/window.h"
#include "store/json.h"

namespace robocache {

inline constexpr int kPolicySpecVersion = 2;  // written; version 1 is read too

/// The location of a field in JSON: in the window's object, or in a member of it that may be null.
struct FieldPath {
  const char* group;  // null: the window's object
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
  const char* schema;        // the JSON schema of the field
  const char* description;   // its description in the schema
  bool is_optional = false;  // a window without the field has the default

  const FieldPath& path_in(int version) const { return version == 1 ? version_1 : path; }
};

/// The field with this path in version 2; null if the table has no such path.
const WindowField* find_field(const std::string& path);

/// Reads a window from JSON of a version. Throws StoreError for fields that are missing, unknown or
/// of another type.
WindowSpec read_window(const store::Value& value, int version);

/// Writes a window as JSON of version 2.
store::Json write_window(const WindowSpec& window);

/// The JSON of a field of the table for error messages, shortened.
std::string field_text(const WindowSpec& window, const std::string& path);

/// Throws StoreError for the first member of an object that `known` does not list.
void check_members(const store::Value& value, const std::vector<std::string>& known, int version);

}  // namespace robocache
