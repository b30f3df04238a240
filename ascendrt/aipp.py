"""Parameters of a dynamic AIPP: how pictures become the input of a network.

Owns: the aclmdlAIPP while a block of parameters is made. Must never know how a model is run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ascendrt import _lib
from ascendrt._gen.enums import aclAippInputFormat, aclmdlInputAippType
from ascendrt._lib import call, lib
from ascendrt.tensors import AIPP_TENSOR, TensorSpec

Quad = tuple[float, float, float, float]


@dataclass(frozen=True, kw_only=True)
class Aipp:
    """What a dynamic AIPP does with the pictures of a batch before the network sees them.

    `input_format` is YUV420SP_U8, XRGB8888_U8, RGB888_U8 or YUV400_U8. Sizes are in pixels: `size`
    is (width, height) of a picture, `crop` (left, top, width, height), `padding` (top, bottom,
    left, right). `matrix` has the nine factors of the colour conversion in 1/256, row by row. A
    channel becomes (value - mean - minimum) * var_reci.

    Raises: ValueError for an unknown format or another count of numbers.
    Source: aclmdlSetAIPPInputFormat and the other aclmdlSetAIPP functions.
    """

    input_format: str
    size: tuple[int, int]
    crop: tuple[int, int, int, int] | None = None
    padding: tuple[int, int, int, int] | None = None
    rbuv_swap: bool = False
    ax_swap: bool = False
    matrix: tuple[int, ...] | None = None
    output_bias: tuple[int, int, int] = (0, 0, 0)
    input_bias: tuple[int, int, int] = (0, 0, 0)
    mean: tuple[int, int, int, int] = (0, 0, 0, 0)
    minimum: Quad = (0.0, 0.0, 0.0, 0.0)
    var_reci: Quad = (1.0, 1.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        known = [each.name.removeprefix("ACL_") for each in aclAippInputFormat]
        if self.input_format not in known:
            raise ValueError(f"input_format {self.input_format!r} is none of {known}")
        lengths = {"size": 2, "crop": 4, "padding": 4, "matrix": 9, "output_bias": 3}
        lengths |= {"input_bias": 3, "mean": 4, "minimum": 4, "var_reci": 4}
        for name, length in lengths.items():
            values = getattr(self, name)
            if values is not None and len(values) != length:
                raise ValueError(f"{name} is {values!r}; it has {length} numbers")

    def set_for(self, model_id: int, dataset: Any, index: int, block: TensorSpec) -> None:
        """Write the parameters to a dataset's tensor `index`, which `block` describes."""
        images = _images_of(block)
        handle = lib.aclmdlCreateAIPP(images)
        if not handle:
            raise _lib.failure(_lib.recent_code(), "aclmdlCreateAIPP", batch=images)
        try:
            self._fill(handle, images)
            ids = {"model_id": model_id, "input": index}
            call("aclmdlSetInputAIPP", model_id, dataset, index, handle, ids=ids)
        finally:
            _lib.check_quiet(lib.aclmdlDestroyAIPP(handle), "aclmdlDestroyAIPP")

    def _fill(self, handle: Any, images: int) -> None:
        kind = aclAippInputFormat[f"ACL_{self.input_format}"]
        call("aclmdlSetAIPPInputFormat", handle, kind)
        call("aclmdlSetAIPPSrcImageSize", handle, *self.size)
        call("aclmdlSetAIPPRbuvSwapSwitch", handle, int(self.rbuv_swap))
        call("aclmdlSetAIPPAxSwapSwitch", handle, int(self.ax_swap))
        if self.matrix is not None:
            biases = (*self.output_bias, *self.input_bias)
            call("aclmdlSetAIPPCscParams", handle, 1, *self.matrix, *biases)
        for image in range(images):
            call("aclmdlSetAIPPDtcPixelMean", handle, *self.mean, image)
            call("aclmdlSetAIPPDtcPixelMin", handle, *self.minimum, image)
            call("aclmdlSetAIPPPixelVarReci", handle, *self.var_reci, image)
            if self.crop is not None:
                call("aclmdlSetAIPPCropParams", handle, 1, *self.crop, image)
            if self.padding is not None:
                call("aclmdlSetAIPPPaddingParams", handle, 1, *self.padding, image)


def is_aipp_block(spec: TensorSpec) -> bool:
    """Return whether an input takes the parameters of a dynamic AIPP."""
    return spec.name.startswith(AIPP_TENSOR)


def aipp_index(model_id: int, image: int) -> int | None:
    """Return which input takes the parameters for an image input; None without a dynamic AIPP."""
    kind, index = _lib.new("aclmdlInputAippType *"), _lib.new("size_t *")
    ids = {"model_id": model_id, "input": image}
    call("aclmdlGetAippType", model_id, image, kind, index, ids=ids)
    dynamic = kind[0] == aclmdlInputAippType.ACL_DATA_WITH_DYNAMIC_AIPP
    return int(index[0]) if dynamic else None


def as_bytes(model_id: int, specs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
    """Describe image inputs as the bytes they take; the model tells the network's dims of them."""
    return tuple(
        spec if aipp_index(model_id, index) is None else replace(spec, shape=(spec.size_bytes,))
        for index, spec in enumerate(specs)
    )


def _images_of(block: TensorSpec) -> int:
    """Return for how many images a block of parameters has room."""
    sizes = []
    for images in (1, 2):
        size = _lib.new("size_t *")
        call("aclmdlGetAippDataSize", images, size)
        sizes.append(int(size[0]))
    return 1 + max(block.size_bytes - sizes[0], 0) // (sizes[1] - sizes[0])
