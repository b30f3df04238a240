"""The constants and enums of AscendCL: `from ascendrt.constants import ACL_MEMCPY_HOST_TO_DEVICE`.

The module `acl` exports none, as the vendor's. Members of enums are ints, so they go into every
call; the enums themselves are here as well: `aclDataType(0).name`.
"""

from __future__ import annotations

from ascendrt._gen.constants import *  # noqa: F403
from ascendrt._gen.enums import *  # noqa: F403
from ascendrt._gen.members import *  # noqa: F403
