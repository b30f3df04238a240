// Version files of a CANN installation and the level of the application log.
// Must never: invent a version; a missing file is an error.
#pragma once

#include <string>

#include "gen/abi.h"

namespace ascendrt::core {

// Reads share/info/<package>/version.info below ASCEND_HOME_PATH (driver: below the path named in
// /etc/ascend_install.info). Raises 100000 for an unknown package, 100003 when the variable is
// unset or the file is missing.
void read_package_version(aclCANNPackageName package, aclCANNPackageVersion& version);

// The version text of a package by its folder name below share/info ('-' and '_' are tried for each
// other), of "driver" or of "firmware". Raises 100003 as above.
std::string package_version(const std::string& package);
// The number that orders versions: X.Y.Z weighted, less for alpha, beta and rc. Raises 500000 for a
// text of another form.
int32_t version_number(const std::string& version);

}  // namespace ascendrt::core
