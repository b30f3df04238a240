"""The directions of copies. Must never import numpy."""

from __future__ import annotations

from ascendrt._gen.enums import aclrtMemcpyKind

TO_DEVICE = int(aclrtMemcpyKind.ACL_MEMCPY_HOST_TO_DEVICE)
TO_HOST = int(aclrtMemcpyKind.ACL_MEMCPY_DEVICE_TO_HOST)
ON_DEVICE = int(aclrtMemcpyKind.ACL_MEMCPY_DEVICE_TO_DEVICE)
